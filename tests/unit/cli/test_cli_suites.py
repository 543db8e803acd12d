"""Results of suites as people see them."""

from __future__ import annotations

import io
import math
from datetime import UTC, datetime

from rich.console import Console

from seedbed.cli.views import suite as suites
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.scorecard import Scorecard
from seedbed.evaluation.suite import SuiteChange, SuiteScore
from seedbed.reports.scorecard import Report
from seedbed.stats.estimates import Interval
from seedbed.workspace.nouns.scorecards import SuiteResult

P = f"b2:{'a' * 64}"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CARD = Scorecard(P, "f1", [Cell(key="k", playbook=P, task="t", replicate=0, metric="f1", value=1.0, reused=True)])


def result(change: SuiteChange | None, missed: str = "", name: str = "plain") -> SuiteScore:
    return SuiteScore("first", name, "mail", "b2:data", CARD, change, missed)


def changed(mean: float, low: float, high: float, n: int = 20, regressed: bool = False) -> SuiteChange:
    return SuiteChange(Interval(mean, low, high, 0.95, n), P, NOON, regressed)


def printed(*results: SuiteScore) -> str:
    measured = SuiteResult("first", list(results), {"mail · plain": CARD})
    report = Report({"mail · plain": CARD}, notes=("look [b]here[/b]",))
    file = io.StringIO()
    Console(file=file, width=160, highlight=False).print(suites.view(measured, report))
    return file.getvalue()


def test_a_table_says_what_changed_since_the_last_time() -> None:
    shown = printed(
        result(None, name="new"),
        result(changed(0.0, 0.0, 0.0), name="same"),
        result(changed(-0.25, -0.4, -0.1, regressed=True), name="worse"),
        result(changed(math.nan, -math.inf, math.inf, 0), name="other"),
    )
    told = {line.split()[1]: line for line in shown.splitlines() if line.startswith("mail")}
    assert told["new"].endswith("first time")
    assert told["same"].endswith("none")
    assert told["worse"].endswith("-0.250 on 20")
    assert told["other"].endswith("no task in common")
    assert "✗ look [b]here[/b]" in shown
    assert "1 cell reused" in shown


def test_notes_name_regressions_unless_accepted_and_thresholds_always() -> None:
    found = [result(changed(-0.25, -0.4, -0.1, regressed=True)), result(changed(-0.5, -1.0, 0.1), "below 1.5")]
    regression, threshold = suites._notes(found, accept=False)
    assert regression.startswith("regression: mail, plain, f1: -0.250 [-0.400, -0.100] on 20 tasks since 2026-11-15")
    assert threshold == "threshold: mail, plain, f1: 1.000 [0.025, 1.000] is below 1.5"
    assert list(suites._notes(found, accept=True)) == [threshold]


def test_the_document_has_the_change_or_none() -> None:
    document = SuiteResult("first", [result(None), result(changed(0.5, 0.25, 0.75))], {}).document()
    first, second = document["results"]
    assert first["change"] is None
    assert (second["change"]["mean"], second["change"]["regressed"], second["change"]["at"]) == (0.5, False, NOON)
