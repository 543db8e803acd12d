"""Scorecards as people see them."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from seedbed.cli.views import scorecard as cards
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.scorecard import Scorecard
from seedbed.reports.scorecard import Report

A, B = (f"b2:{letter * 64}" for letter in "ab")


def printed(renderable: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=120, highlight=False).print(renderable)
    return file.getvalue()


def cell(task: str, value: float | None, metric: str = "exact_match", **more: Any) -> Cell:
    about: dict[str, Any] = {"run": f"{task}0123456789", "latency_seconds": 2.0, "cost_usd": 0.25, **more}
    return Cell(key=f"{task} {metric}", playbook=A, task=task, replicate=0, metric=metric, value=value, **about)


def test_a_scorecard_tells_the_commonest_wrong_answers_and_what_was_not_scored() -> None:
    wrong = [cell(str(number), 0.0, reason="expected good", answer="[b]bad[/b]") for number in range(3)]
    card = Scorecard(A, "exact_match", (*wrong, cell("x", 1.0, reused=True), cell("y", None, reason="timeout")))
    shown = printed(cards.card_view(card))
    assert "0.250" in shown
    assert "4 scored, 1 reused, $1.00" in shown
    assert "1: timeout (1)" in shown
    assert "“[b]bad[/b]”" in shown
    assert "p50 2.00 s, p95 2.00 s, p99 2.00 s" in shown


def test_the_worst_answers_lead_to_their_runs() -> None:
    card = Scorecard(A, "exact_match", (cell("a", 1.0), cell("b", 0.0, answer="\x1b[31mno")))
    shown = printed(cards.card_view(card))
    assert "seedbed runs show b012345678" in shown
    assert "seedbed runs show a012345678" not in shown
    assert "\x1b" not in shown


def test_each_metric_has_its_line_and_each_tag_too() -> None:
    tasks = {name: Task(name, {}, None, (tag,)) for name, tag in (("a", "long"), ("b", "short"))}
    cells = [cell("a", 1.0), cell("b", 0.0), cell("a", 5.0, "length"), cell("b", 7.0, "length")]
    shown = printed(cards.card_view(Scorecard(A, "exact_match", cells, tasks, frozenset({"length"}))))
    assert "length" in shown
    assert "lower is better" in shown
    assert [line.split()[0] for line in shown.splitlines() if line.startswith(("long", "short"))] == ["long", "short"]
    assert "7.000" in next(line for line in shown.splitlines() if line.startswith("short"))


def test_many_tags_are_cut_to_the_commonest() -> None:
    tasks = {str(n): Task(str(n), {}, None, ("all", f"tag{n:02}")) for n in range(40)}
    shown = printed(cards.card_view(Scorecard(A, "exact_match", [cell(name, 1.0) for name in tasks], tasks)))
    assert "… and 26 more" in shown
    assert "all" in shown


def test_several_stand_side_by_side_and_none_is_called_better() -> None:
    one = Scorecard(A, "exact_match", [cell("a", 1.0), cell("a", 3.0, "length")])
    other = Scorecard(B, "exact_match", [cell("a", None, reason="lost"), cell("a", None, "length")])
    shown = printed(cards.report_view(Report({"one.yaml": one, "other [b]": other})))
    lines = shown.splitlines()
    assert [line.split()[0] for line in lines if "exact_match" in line] == ["one.yaml", "other"]
    assert "1, 0 not" in shown
    assert "no score" in shown
    assert "seedbed compare A B" in shown
    assert "do not say which playbook is better" in shown
