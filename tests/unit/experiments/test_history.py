"""Past runs as tasks: which ones, of which stratum, and what they stand for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from seedbed.errors import DatasetError, SeedbedError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.replay.history import PastRun, draw_history, find_past_runs, recording_of
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run_start import RunStart
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact

A, B = "b2:" + "a" * 64, "b2:" + "b" * 64
DAY = datetime(2026, 1, 1, tzinfo=UTC)


async def store() -> MemoryStore:
    """Six runs on six days: of two playbooks, one that failed, one that another opened, one that was interrupted."""
    made = MemoryStore()
    journal = Journal(made)
    plan: list[tuple[str, str, dict[str, Any]]] = [
        (A, "completed", {}),
        (B, "completed", {}),
        (A, "failed", {}),
        (A, "completed", {"parent": "0" * 32}),
        (A, "", {}),
        (A, "completed", {}),
    ]
    for day, (playbook, status, more) in enumerate(plan):
        at = DAY + timedelta(days=day)
        recorder = Recorder(
            journal,
            RunStart(playbook, {"n": day}, seed=day, models={}, **more),
            by="ada",
            run=f"{day:032x}",
            clock=lambda at=at: at,
        )
        await recorder.start()
        if status:
            await recorder.end(status, output=day)  # type: ignore[arg-type]
    for day, value in ((0, 1.0), (0, 0.0), (5, 1.0)):
        body = {"task": "t", "replicate": 0, "metric": "f1", "run": f"{day:032x}"}
        key = f"{day}/{value}"
        made.append([Fact(kind="cell", key=key, subject=A, at=DAY, by="ada", body=body, value=value)])
    return made


def days(past: list[PastRun]) -> list[int]:
    return [each.inputs["n"] for each in past]


async def test_live_runs_that_have_ended_are_chosen_by_playbook_time_status_and_score() -> None:
    kept = await store()
    assert days(find_past_runs(kept)) == [0, 1, 2, 5]
    assert days(find_past_runs(kept, playbook=A)) == [0, 2, 5]
    assert days(find_past_runs(kept, since=DAY + timedelta(days=1), until=DAY + timedelta(days=5))) == [1, 2]
    assert days(find_past_runs(kept, statuses=["failed"])) == [2]
    assert days(find_past_runs(kept, metric="f1", scores=(0.6, None))) == [5]
    assert days(find_past_runs(kept, metric="f1", scores=(None, 0.6))) == [0]
    assert [each.score for each in find_past_runs(kept, metric="f1")] == [0.5, None, None, 1.0]
    assert days(find_past_runs(kept, metric="other", scores=(0.0, None))) == []


def past(n: int, **changes: Any) -> PastRun:
    made = PastRun(
        run=f"{n:032x}",
        playbook=A,
        inputs={"n": n},
        seed=n,
        started=DAY + timedelta(days=n),
        status="completed",
        output=n,
        error="",
        tokens=n,
        turns=1,
        score=None,
    )
    return replace(made, **changes)


def test_strata_are_thirds_of_difficulty_halves_of_age_and_outcomes() -> None:
    runs = [past(n) for n in range(6)]
    runs[0], runs[1], runs[2] = (
        replace(runs[0], status="failed"),
        replace(runs[1], score=0.2),
        replace(runs[2], score=0.5),
    )
    assert draw_history(runs).strata == (
        "easy, old, failed",
        "easy, old, poor",
        "medium, old, good",
        "medium, recent, completed",
        "hard, recent, completed",
        "hard, recent, completed",
    )
    assert draw_history(runs).tasks.tasks[0].tags == ("easy", "old", "failed")
    assert set(draw_history(runs, by=["age"]).strata) == {"old", "recent"}
    assert set(draw_history(runs, by=[]).strata) == {""}


def test_difficulty_may_be_measured_otherwise() -> None:
    runs = [past(n) for n in range(3)]
    assert draw_history(runs, by=["difficulty"], difficulty=lambda run: -run.tokens).strata == (
        "hard",
        "medium",
        "easy",
    )


def test_runs_that_are_equally_hard_are_in_the_same_stratum() -> None:
    assert len({*draw_history([past(n, tokens=5) for n in range(9)], by=["difficulty"]).strata}) == 1


def test_the_same_seed_draws_the_same_runs_each_standing_for_its_stratum() -> None:
    runs = [past(n, status="failed" if n % 10 == 0 else "completed") for n in range(100)]
    drawn = draw_history(runs, 20, seed=1, by=["outcome"])
    assert drawn == draw_history(runs, 20, seed=1, by=["outcome"])
    assert drawn.past != draw_history(runs, 20, seed=2, by=["outcome"]).past
    assert drawn.sizes == {"failed": 10, "completed": 90}
    assert sum(drawn.weights) == pytest.approx(100)
    assert [each.run for each in drawn.past] == [recording_of(task) for task in drawn.tasks]


def test_more_is_drawn_where_scores_vary_more() -> None:
    runs = [past(n, score=1.0 if n < 50 else float(n % 2)) for n in range(100)]
    strata = [task.tags[0] for task in draw_history(runs, 20, by=["age"], allocation="neyman").tasks]
    assert (strata.count("old"), strata.count("recent")) == (2, 18)


def test_the_mean_of_a_sample_is_that_of_the_population_by_its_weights() -> None:
    runs = [past(n, status="failed" if n < 10 else "completed") for n in range(100)]
    drawn = draw_history(runs, 20, by=["outcome"], allocation="neyman")
    values = {task.id: float("failed" in task.tags) for task in drawn.tasks}
    assert drawn.mean(values).mean == pytest.approx(0.1)
    values.popitem()
    with pytest.raises(DatasetError, match="none for 1 of 20"):
        drawn.mean(values)


def test_what_was_expected_is_known_from_tasks_with_the_same_inputs() -> None:
    tasks = draw_history([past(1), past(2)], by=[], known=[Task("x", {"n": 2}, "two")]).tasks
    assert [task.expected for task in tasks] == [None, "two"]


def test_runs_on_the_same_inputs_share_a_source() -> None:
    tasks = draw_history([past(1), past(2, inputs={"n": 1}), past(3)], by=[]).tasks.tasks
    assert tasks[0].source == tasks[1].source != ""
    assert tasks[2].source == ""


def test_what_cannot_be_drawn_is_told() -> None:
    with pytest.raises(DatasetError, match="runs: found none"):
        draw_history([])
    with pytest.raises(SeedbedError, match="one of each stratum"):
        draw_history([past(n) for n in range(60)], 2)
    with pytest.raises(DatasetError, match="by: found"):
        draw_history([past(1)], by=["colour"])  # type: ignore[list-item]
    with pytest.raises(DatasetError, match="found no recording"):
        recording_of(Task("x", {}))
