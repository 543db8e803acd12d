"""The timeline of a run: rows in the order in which steps began, and bars at their places."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from seedbed.reports.run import RunView, to_html, to_json, to_markdown
from seedbed.reports.timeline import MOST_ROWS, TimelineRow, timeline, timeline_figure, timeline_section
from seedbed.runs.history import recall
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Call, Child, Decision, Run, Turn
from seedbed.runs.run_start import RunStart
from seedbed.storage.memory import MemoryStore

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
PLAYBOOK = "b2:" + "1" * 64


def between(start: float, end: float) -> dict[str, datetime]:
    return {"started": ZERO + timedelta(seconds=start), "ended": ZERO + timedelta(seconds=end)}


def turn(step: str, start: float, end: float, latency: float) -> Turn:
    return Turn(
        step=step,
        role="writer",
        model="fast",
        messages=(("user", "Why?"),),
        text="Because.",
        prompt_tokens=1,
        completion_tokens=1,
        cost_usd=0.0,
        latency_seconds=latency,
        finish_reason="stop",
        seed=7,
        **between(start, end),  # type: ignore[arg-type]
    )


def call(start: float, end: float, latency: float) -> Call:
    return Call(
        tool="look",
        arguments={},
        result=1,
        error="",
        changes=False,
        latency_seconds=latency,
        started=between(start, end)["started"],
        ended=between(start, end)["ended"],
    )


def run(**more: Any) -> Run:
    fields: dict[str, Any] = {
        "id": "0123456789abcdef",
        "playbook": PLAYBOOK,
        "inputs": {},
        "seed": 7,
        "started": ZERO,
        "status": "completed",
        "output": "",
        "error": "",
        "turns": (),
        "tokens": 1,
        "cost_usd": 0.0,
        "latency_seconds": 9.0,
        "models": {},
    }
    return Run(**fields | more)


ASKED = Decision(point="confirm mail", action="yes", because="rule", answered="by ada", **between(5, 8))
PLAIN = Decision(point="way", action="left", because="x", **between(4, 4))
PARALLEL = run(turns=(turn("b", 0.5, 2.5, 1.5), turn("a", 0.25, 3.25, 3.0)), calls=(call(3.5, 4, 0.5),))
WHOLE = replace(PARALLEL, decisions=(ASKED, PLAIN))


def test_steps_stand_in_the_order_in_which_they_began_whatever_they_are() -> None:
    rows = timeline(WHOLE)
    assert [(row.kind, row.name) for row in rows] == [
        ("turn", "a"),
        ("turn", "b"),
        ("call", "look"),
        ("decision", "way"),
        ("decision", "confirm mail"),
    ]
    assert [(row.at_seconds, row.seconds) for row in rows[:3]] == [(0.25, 3.0), (0.5, 2.0), (3.5, 0.5)]


def test_waiting_is_apart_from_work_and_all_of_a_persons_answer_is_waiting() -> None:
    waited = {row.name: row.waited_seconds for row in timeline(WHOLE)}
    assert waited == {"a": 0.0, "b": 0.5, "look": 0.0, "way": 0.0, "confirm mail": 3.0}


def test_a_replayed_answer_that_took_longer_once_has_not_waited_less_than_nothing() -> None:
    (row,) = timeline(run(turns=(turn("a", 0, 0.001, 3.0),)))
    assert row.waited_seconds == 0.0


def test_steps_of_older_recordings_have_no_rows() -> None:
    old = replace(turn("a", 0, 1, 1), started=None, ended=None)
    assert timeline(run(turns=(old,))) == []
    assert timeline_section([]) == []


def test_what_a_recording_answered_before_the_run_began_has_no_row() -> None:
    replay = replace(PARALLEL, started=ZERO + timedelta(seconds=1))
    assert [row.kind for row in timeline(replay)] == ["call"]


async def test_the_steps_of_a_run_that_was_opened_stand_below_the_step_that_opened_it() -> None:
    store = MemoryStore()
    clock = iter(ZERO + timedelta(seconds=second) for second in range(99))

    async def record(name: str, parent: str = "") -> Recorder:
        start = RunStart(PLAYBOOK, {}, 7, {}, parent)
        recorder = Recorder(Journal(store), start, by="ada", run=name, clock=lambda: next(clock))
        await recorder.start()
        return recorder

    async def decided() -> dict[str, Any]:
        return Decision(point="way", action="left", because="x").body()

    async def inner(name: str) -> Run:
        below = await record(name, top.id)
        await below.record("decision", "within", "x", decided)
        return await below.end("completed")

    top = await record("t")
    await top.record_child("part", {}, inner)
    await top.record("decision", "after", "x", decided)
    await top.end("completed")
    rows = timeline(recall(store, "t"), store)
    assert [(row.depth, row.kind) for row in rows] == [(0, "child"), (1, "decision"), (0, "decision")]
    assert rows[0].started <= rows[1].started < rows[1].ended <= rows[0].ended
    assert [row.depth for row in timeline(recall(store, "t"))] == [0, 0]


def bars(rows: list[TimelineRow]) -> list[tuple[str, float, float]]:
    figure = timeline_figure(rows)
    assert figure is not None
    picture = ElementTree.fromstring(figure.__html__())
    drawn = [
        (each.get("class", ""), float(each.get("x", 0)), float(each.get("width", 0))) for each in picture.iter("rect")
    ]
    return [(kind, start, start + wide) for kind, start, wide in drawn]


def test_the_picture_has_a_bar_where_each_step_was_and_a_pale_one_where_it_waited() -> None:
    a, waited, b, look = bars(timeline(PARALLEL))
    assert [a[0], waited[0], b[0], look[0]] == ["s1", "whole", "s1", "s2"]
    assert b[1] == waited[2]
    assert b[1] < a[2]  # at the same time
    assert a[1] < waited[1] < look[1]
    assert (a[2] - a[1]) / (b[2] - waited[1]) == pytest.approx(1.5, rel=0.01)
    assert a[2] < look[1]


def test_a_long_run_shows_its_first_steps_and_says_how_many_there_are() -> None:
    rows = timeline(run(calls=tuple(call(n, n + 1, 1) for n in range(MOST_ROWS + 5))))
    assert len(bars(rows)) == MOST_ROWS + 5
    (part,) = timeline_section(rows)
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 5} steps" in str(part)


def test_the_report_of_a_run_has_its_timeline_and_times() -> None:
    view = RunView(WHOLE, timeline=timeline(WHOLE))
    assert "When each step happened" in to_html(view)
    assert "| b | 0.50 s | 2.00 s | 0.50 s |" in to_markdown(view)
    assert '"started": "2026-01-01T00:00:03.500000+00:00"' in to_json(view)


def test_a_run_that_was_opened_is_a_line() -> None:
    child = Child(run="c", step="part", status="completed", output=1, error="", tokens=0, cost_usd=0, **between(1, 2))
    (row,) = timeline(run(children=(child,)))
    assert (row.kind, row.name, row.waited_seconds) == ("child", "part", 0.0)
    assert bars([row])[0][0] == "s4"
