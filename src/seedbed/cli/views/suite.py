"""How the results of a suite look."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType

from seedbed.cli import output
from seedbed.cli.output import Column, line, when
from seedbed.cli.views.scorecard import spent_line
from seedbed.evaluation.suite import SuiteChange, SuiteScore
from seedbed.reports.numbers import counted, gain_text, interval_text
from seedbed.reports.scorecard import Report
from seedbed.workspace.nouns.scorecards import SuiteResult

COLUMNS = (
    Column("dataset", lambda each: each.dataset),
    Column("playbook", lambda each: each.name, flexible=True),
    Column("metric", lambda each: each.metric),
    Column(
        "mean", lambda each: line((interval_text(each.card.interval), "bold red" if each.missed else "")), number=True
    ),
    Column("tasks", lambda each: each.card.interval.n, 1, True),
    Column("change", lambda each: _changed(each.change), number=True),
)


def report_of(measured: SuiteResult, accept: bool) -> Report:
    """The scorecards of a suite, with what became worse or misses its threshold as notes."""
    notes = tuple(_notes(measured.results, accept))
    return Report(dict(measured.cards), title=f"Suite {measured.suite}", notes=notes)


def _notes(results: Iterable[SuiteScore], accept: bool) -> Iterable[str]:
    for result in results:
        what = f"{result.dataset}, {result.name}, {result.metric}"
        if result.change and result.change.regressed and not accept:
            yield f"regression: {what}: {_change(result.change)} since {when(result.change.at)}"
        if result.missed:
            yield f"threshold: {what}: {interval_text(result.card.interval)} is {result.missed}"


def _change(change: SuiteChange) -> str:
    interval = change.difference
    return f"{gain_text(interval)} on {counted(interval.n, 'task')}" if interval.n else "no task in common"


def _changed(change: SuiteChange | None) -> RenderableType:
    """The change in a table: how much, and on how many tasks."""
    if change is None:
        return line(("first time", "dim"))
    interval = change.difference
    if interval.n and interval.mean == 0:
        return line(("none", "dim"))
    text = f"{interval.mean:+.3f} on {interval.n}" if interval.n else "no task in common"
    return line((text, "bold red" if change.regressed else ""))


def view(measured: SuiteResult, report: Report) -> RenderableType:
    """One table, and below it what has become worse or misses its threshold."""
    notes = [line(("✗ ", "bold red"), note) for note in report.notes]
    return Group(output.listing(COLUMNS, measured.results), spent_line(report.cards.values()), *notes)
