"""The front: who stands out by several measures at once, and who cannot be told apart yet."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from page_reader import Reader

from seedbed.errors import SeedbedError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.pareto_front import Front, front
from seedbed.evaluation.scorecard import Scorecard
from seedbed.reports import markdown, page
from seedbed.reports.page import ReportPage
from seedbed.reports.pareto_front import figures, sections

HOSTILE = '"><script>alert("x")</script>|# **bold**'


def card(letter: str, good: float, cost: float, took: float, *, size: int = 100, **more: Any) -> Scorecard:
    """A playbook that passes so often, costs about so much and takes about so long, with a second metric of length."""
    chance, playbook = random.Random(letter), f"b2:{letter * 64}"
    known = {f"t{n}": Task(f"t{n}", {"n": n}) for n in range(size)}
    cells = []
    for n, task in enumerate(known):
        spread = chance.uniform(0.8, 1.2)
        about: dict[str, Any] = {"playbook": playbook, "task": task, "replicate": 0, "run": f"{letter}{task}"}
        about |= {"key": task, "latency_seconds": took * spread}
        passed = float(n < good * size)
        cells.append(Cell(**about, metric="exact_match", value=passed, cost_usd=cost * spread))
        # Its own judge makes this cell dearer than the run was.
        cells.append(Cell(**about, metric="length", value=50.0 * spread, cost_usd=cost * spread + 1))
    return Scorecard(playbook, "exact_match", cells, known, frozenset({"length"}), **more)


def four() -> Front:
    cards = {
        "good": card("a", 0.9, 0.04, 4.0),
        "cheap": card("b", 0.4, 0.01, 4.0),
        "bad": card("c", 0.1, 0.09, 9.0),
        "like good": card("d", 0.88, 0.041, 4.1),
    }
    return front({name: _without_length(each) for name, each in cards.items()})


def _without_length(scores: Scorecard) -> Scorecard:
    cells = [cell for cell in scores.cells if cell.metric != "length"]
    return Scorecard(scores.playbook, scores.metric, cells, scores.tasks)


def test_only_who_is_surely_beaten_is_off_the_front() -> None:
    found = four()
    assert found.names == ["good", "cheap", "like good"]
    assert found.standings["bad"].dominated_by == ("good", "cheap", "like good")


def test_cost_and_time_of_runs_count_without_being_asked_for() -> None:
    found = four()
    assert dict(found.better) == {"exact_match": "higher", "cost_usd": "lower", "latency_seconds": "lower"}
    assert found.measured["good"]["cost_usd"].mean == pytest.approx(0.04, rel=0.05)
    assert found.measured["good"]["latency_seconds"].n == 100


def test_what_judges_cost_is_no_cost_of_the_runs() -> None:
    found = front({"a": card("a", 0.9, 0.04, 4.0), "b": card("b", 0.4, 0.01, 4.0)})
    assert found.measured["a"]["cost_usd"].high < 0.05
    assert found.better["length"] == "lower"


def test_few_tasks_leave_everybody_on_the_front() -> None:
    found = front({"a": card("a", 1.0, 0.04, 4.0, size=3), "b": card("b", 0.3, 0.09, 9.0, size=3)})
    assert found.names == ["a", "b"]
    assert found.standings["b"].rank == 1


def test_who_has_no_score_is_neither_beaten_nor_ranked() -> None:
    nothing = card("b", 0.4, 0.01, 4.0)
    cells = [Cell(**{**_told(cell), "value": None}) for cell in nothing.cells]
    found = front(
        {"a": card("a", 0.9, 0.04, 4.0), "b": Scorecard(nothing.playbook, "exact_match", cells, nothing.tasks)}
    )
    assert found.names == ["a", "b"]
    assert (found.standings["b"].rank, found.unscored) == (None, {"a": 0, "b": 200})
    assert "no score" in to_markdown(found)
    assert "no score" in to_html(found)


def to_markdown(of: Front) -> str:
    return markdown.to_markdown(ReportPage(title="Front", subtitle="", parts=sections(of)))


def to_html(of: Front) -> str:
    return page.to_html(ReportPage(title="Front", subtitle="", parts=sections(of)))


def _told(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in Cell.__slots__}


def test_playbooks_must_have_been_measured_alike() -> None:
    a = card("a", 0.9, 0.04, 4.0)
    with pytest.raises(SeedbedError, match="found 1; expected at least two"):
        front({"a": a})
    with pytest.raises(SeedbedError, match="b: found other tasks than those of a"):
        front({"a": a, "b": card("b", 0.9, 0.04, 4.0, size=90)})
    with pytest.raises(SeedbedError, match=r"b: found metrics .*; expected .*length"):
        front({"a": a, "b": _without_length(card("b", 0.9, 0.04, 4.0))})


def test_the_document_is_json_and_says_who_beats_whom() -> None:
    document = json.loads(json.dumps(four().document(), allow_nan=False))
    assert document["front"] == ["good", "cheap", "like good"]
    (bad,) = (each for each in document["playbooks"] if not each["on_front"])
    assert (bad["name"], bad["dominated_by"]) == ("bad", ["good", "cheap", "like good"])
    assert bad["measures"]["exact_match"]["mean"] == 0.1


def test_the_table_has_a_row_for_each_with_arrows_to_where_it_is_better() -> None:
    text = to_markdown(four())
    assert "exact\\_match ↑ | cost\\_usd ↓ | latency\\_seconds ↓" in text
    assert "| bad | □ beaten | 0.1 (" in text
    assert "| good | ● front | 0.9 (" in text


def test_the_first_measure_is_drawn_against_each_of_the_others() -> None:
    drawn = figures(four())
    assert list(drawn) == ["cost_usd", "latency_seconds"]
    for figure in drawn.values():
        assert (figure.marks.count("<circle"), figure.marks.count("<rect")) == (3, 1)
        assert figure.__html__() in to_html(four())


def test_hostile_names_stay_names() -> None:
    found = front({HOSTILE: card("a", 0.9, 0.04, 4.0), "b": card("b", 0.4, 0.01, 4.0)})
    assert "script" not in {tag for tag, _ in Reader(to_html(found)).tags}
    assert "<script>" not in to_markdown(found)
