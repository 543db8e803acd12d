"""Reports: the same numbers in every form, and hostile texts that stay texts."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.scorecard import Scorecard
from seedbed.reports.scorecard import Report, to_csv, to_document, to_json, to_markdown
from seedbed.stats.estimates import exact_rate

A, B = (f"b2:{letter * 64}" for letter in "ab")
HOSTILE = '=1+1|<script>alert("x")</script>\n# Heading **bold** [link](http://x) `code`'


def card(playbook: str = A, hostile: str = "hm") -> Scorecard:
    tasks = {n: Task(n, {"n": n}, "yes" if n < "c" else "no", (f"tag {n}",)) for n in "abcd"}
    values = {"a": 1.0, "b": 0.0, "c": 1.0, "d": None}
    cells = []
    for n, value in values.items():
        more: dict[str, Any] = {"answer": hostile, "reason": hostile, "run": f"{n}{playbook[3:20]}", "cost_usd": 0.5}
        about = {"key": n, "playbook": playbook, "task": n, "replicate": 0}
        cells.append(Cell(**about, metric="exact_match", value=value, latency_seconds=2.0, **more))
        cells.append(Cell(**about, metric="length", value=7.0, latency_seconds=2.0, **more))
    return Scorecard(playbook, "exact_match", cells, tasks, frozenset({"length"}))


ONE = Report({"plain": card()}, "b2:data")
TWO = Report({"plain": card(), "other": card(B)}, "b2:data")


def test_the_document_tells_each_metric_each_part_and_the_worst() -> None:
    document = to_document(ONE)
    interval = exact_rate(2, 3)
    assert (document["mean"], document["low"], document["tasks"]) == (interval.mean, interval.low, 3)
    assert (document["unscored"], document["cost_usd"], document["worth_usd"]) == (1, 2.0, 2.0)
    assert document["metrics"]["length"]["mean"] == 7.0
    assert document["metrics"]["length"]["better"] == "lower"
    assert document["metrics"]["exact_match"]["reasons"] == {"hm": 1}
    assert document["strata"]["expected"]["yes"]["exact_match"]["mean"] == 0.5
    assert [each["task"] for each in document["worst"]] == ["b"]
    assert document["latency_seconds"] == {"p50": 2.0, "p95": 2.0, "p99": 2.0}
    assert len(document["cells"]) == 8


def test_json_has_no_numbers_that_json_does_not_know() -> None:
    nothing = Report({"plain": Scorecard(A, "f1", ())})
    document = json.loads(to_json(nothing), parse_constant=lambda name: f"not JSON: {name}")
    assert (document["mean"], document["tasks"], document["latency_seconds"]["p50"]) == (None, 0, None)


def test_several_playbooks_are_several_cards() -> None:
    document = json.loads(to_json(TWO))
    assert [(each["name"], each["playbook"]) for each in document["cards"]] == [("plain", A), ("other", B)]
    assert document["dataset"] == "b2:data"


def test_csv_has_a_row_for_each_cell_of_each_playbook() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(TWO))))
    assert len(rows) == 16
    assert {row["name"] for row in rows} == {"plain", "other"}
    assert [row["value"] for row in rows if row["name"] == "plain" and row["metric"] == "exact_match"] == [
        *("1.0", "0.0", "1.0", "")
    ]
    assert rows[0]["tags"] == "tag a"


def test_a_spreadsheet_takes_no_answer_for_a_formula() -> None:
    for sign in "=+-@\t\r":
        rows = list(csv.DictReader(io.StringIO(to_csv(Report({"plain": card(hostile=f"{sign}cmd")})), newline="")))
        assert {row["answer"] for row in rows} == {f"'{sign}cmd"}


def test_markdown_shows_scores_parts_the_worst_and_what_was_not_scored() -> None:
    text = to_markdown(ONE)
    assert "| plain | exact\\_match | 0.667 | 0.094 to 0.992 | 3 | 1 | 2.0000 | 2.00 | 2.00 | 2.00 |" in text
    assert "## By tag" in text
    assert "| yes | 0.500 (0.013 to 0.987) | 7.000 (7.000 to 7.000) | 2 |" in text
    assert "| exact\\_match | hm | 1 |" in text
    assert "seedbed runs show baaaaaaaaa" in text
    assert "compare" not in text


def test_side_by_side_claims_nothing() -> None:
    assert "seedbed compare A B" in to_markdown(TWO)


def test_notes_stand_below_the_scores() -> None:
    assert "- worse than before" in to_markdown(Report(ONE.cards, notes=("worse than before",)))


def test_a_hostile_answer_does_not_leave_its_cell() -> None:
    text = to_markdown(Report({HOSTILE: card(hostile=HOSTILE)}))
    assert "<script>" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.count("|") - line.count("\\|") in (4, 5, 7, 11), line
        else:
            assert not line.startswith("# Heading")
