"""What can be said of runs, and which runs are scored."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pattern_samples import run, scored

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.registry import by_name
from seedbed.experiments.patterns.traits import RunCondition, ScoredRun, conditions, gather_runs
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Decision, Failure
from seedbed.runs.run_start import RunStart
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, digest

A, B = "b2:" + "a" * 64, "b2:" + "b" * 64
DAY = datetime(2026, 1, 1, tzinfo=UTC)
EXACT, F1 = by_name("exact_match"), by_name("f1")


def one(task: Task | None = None, **more: Any) -> ScoredRun:
    return ScoredRun(run("r", {"text": "Pay the invoice"}, **more), 1.0, task or Task("t", {"text": "Pay the invoice"}))


def test_words_and_pairs_of_words_of_inputs_are_known_whatever_their_case() -> None:
    for word in ("pay", "invoice", "the invoice"):
        assert RunCondition("input", "is", word).holds(one())
    assert not RunCondition("input", "is", "pay invoice").holds(one())


def test_what_went_wrong_in_a_run_is_known() -> None:
    failure = Failure(step="draft", role="writer", error="down", cost_usd=0.0)
    told = one(tool_error=True, turns=2, failures=(failure,), status="failed", output=None, latency_seconds=3.0)
    decided = Decision(point="route", action="ask", because="", propensity=None, confidence=0.2)
    sure = one(decisions=(decided,))
    for condition in (
        RunCondition("tool error", "is", "search"),
        RunCondition("unanswered", "is", "draft"),
        RunCondition("failed at", "is", "draft"),
        RunCondition("status", "is", "failed"),
        RunCondition("latency_seconds", "above", 2.0),
    ):
        assert condition.holds(told)
        assert not condition.holds(sure)
    assert RunCondition("decision", "is", "ask at route").holds(sure)
    assert RunCondition("confidence", "up to", 0.2).holds(sure)


def test_of_what_is_not_known_neither_more_nor_less_holds() -> None:
    assert not RunCondition("confidence", "up to", 0.5).holds(one())
    assert not RunCondition("confidence", "above", 0.5).holds(one())


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (RunCondition("input", "is", 'a "b"'), r'whose input mentions "a \"b\""'),
        (RunCondition("turns", "above", 3.0), "with more than 3 turns"),
        (RunCondition("cost_usd", "up to", 0.0125), "that cost at most 0.0125 USD"),
        (RunCondition("failed at", "is", "draft"), 'that ended without an answer at the step "draft"'),
    ],
)
def test_a_condition_is_told_in_words(condition: RunCondition, told: str) -> None:
    assert str(condition) == told


def test_every_condition_holds_of_some_runs_and_not_of_others() -> None:
    runs = scored(1, 60)
    found = conditions(runs)
    assert {each.trait for each in found} >= {"input", "tag", "tool error", "turns", "latency_seconds"}
    for each in found:
        assert 0 < sum(map(each.holds, runs)) < len(runs), each
    assert len({*found}) == len(found)


def test_what_the_score_is_made_of_explains_nothing() -> None:
    runs = [replace(each, score=each.run.latency_seconds * 1000) for each in scored(1, 40)]
    assert "latency_seconds" not in {each.trait for each in conditions(runs)}
    assert "turns" in {each.trait for each in conditions(runs)}


def test_answers_that_are_always_right_or_always_wrong_explain_nothing() -> None:
    plain = scored(1, 40)
    said = [replace(each, run=replace(each.run, output="paid" if each.score else "unknown")) for each in plain]
    assert not {each.trait for each in conditions(said)} & {"answer", "output_length"}
    other = [replace(each, score=1 - each.score) if place % 5 == 0 else each for place, each in enumerate(said)]
    assert {each.trait for each in conditions(other)} >= {"answer", "output_length"}


async def recorded(store: MemoryStore, number: int, status: str, playbook: str = A, **more: Any) -> str:
    name, inputs = f"{number:032x}", {"text": f"number {number % 10}"}
    recorder = Recorder(Journal(store), RunStart(playbook, inputs, seed=0, models={}, **more), by="ada", run=name)
    await recorder.start()
    await recorder.end(status, output="yes" if status == "completed" else None)  # type: ignore[arg-type]
    return name


def score(store: MemoryStore, run: str, value: float, metric: Any = EXACT, playbook: str = A, task: str = "t") -> None:
    key = f"{run}/{digest('metric', metric.identity)[3:19]}/{task}"
    body = {"task": task, "replicate": 0, "metric": metric.name, "run": run}
    store.append([Fact(kind="cell", key=key, subject=playbook, at=DAY, by="ada", body=body, value=value)])


async def test_runs_are_scored_by_the_metric_asked_for_and_failures_count_as_told() -> None:
    store = MemoryStore()
    for number in (1, 2):
        score(store, await recorded(store, number, "completed"), float(number == 1))
    score(store, await recorded(store, 3, "completed"), 1.0, F1)
    failed = await recorded(store, 11, "failed")  # at the inputs of 1
    await recorded(store, 14, "failed")  # at inputs that nobody scored
    await recorded(store, 12, "failed", parent="0" * 32)
    score(store, await recorded(store, 5, "completed", B), 1.0, playbook=B)
    found = gather_runs(store, EXACT, playbook=A, failure_counts_as=0.25)
    told = {each.run.id: (each.score, each.failed) for each in found.scored}
    assert told == {f"{1:032x}": (1.0, False), f"{2:032x}": (0.0, False), failed: (0.25, True)}
    assert len(gather_runs(store, EXACT).scored) == 4
    assert len(gather_runs(store, F1, playbook=A).scored) == 1


async def test_what_kept_datasets_know_of_tasks_is_known_here() -> None:
    store = MemoryStore()
    tasks = [Task(f"t{n}", {"text": f"number {n}"}, tags=("even",) * (n % 2 == 0), source="s") for n in (1, 2, 3)]
    store.put("dataset", Dataset(tuple(tasks)).content())
    store.put("dataset", Dataset((Task("other", {"text": "number 7"}),)).content())
    score(store, await recorded(store, 2, "completed"), 1.0)
    await recorded(store, 3, "failed")  # at a task of the same dataset
    await recorded(store, 7, "failed")  # at one of another, which was never scored
    first, second = gather_runs(store, EXACT).scored
    assert first.task == tasks[1]
    assert first.unit == second.unit == "source s"
    assert second.failed
    assert gather_runs(store, EXACT, tasks=tasks[:1]).scored == ()


async def test_failures_have_no_score_where_scores_are_not_rates() -> None:
    store = MemoryStore()
    score(store, await recorded(store, 1, "completed"), 37.5)
    await recorded(store, 11, "failed")
    found = gather_runs(store, EXACT)
    assert [each.score for each in found.scored] == [37.5]
    assert found.left_out == 1


async def test_users_may_say_how_good_runs_were() -> None:
    store = MemoryStore()
    name = await recorded(store, 1, "failed")
    for key, value in (("a", 0.5), ("b", 1.0)):
        store.append([Fact(kind="outcome", key=key, subject=name, at=DAY, by="ada", value=value)])
    (told,) = gather_runs(store, None).scored
    assert told.score == 0.75
    assert not told.failed
