from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loop_samples import ORACLE, Doorkeeper, agent, bench, count, numbers, settle, until_stored

from seedbed.errors import BudgetSpent, DatasetError, PlaybookError, QuotaSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import seed_of
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch, Metric, Score
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.evaluation.scorecard import Scorecard
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.run import Run
from seedbed.stats.estimates import exact_rate
from seedbed.stats.scores import score_interval
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

HALF = agent("[0-4]")
TEN = numbers(10)


@dataclass(frozen=True)
class Length:
    """How long the output is: any metric of a user's own."""

    name: str = "length"

    @property
    def identity(self) -> dict[str, Any]:
        return {"metric": "length", "version": 1}

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(float(len(str(run.output))))


# Cells


async def test_each_task_is_scored_in_the_order_of_the_dataset() -> None:
    card = await evaluate(HALF, TEN, ExactMatch(), bench(MemoryStore()))
    assert (card.playbook, card.metric) == (HALF.digest, "exact_match")
    assert [(cell.task, cell.value) for cell in card.cells] == [(f"t{n}", float(n < 5)) for n in range(10)]
    assert card.cells[7].answer == "hm"
    assert card.cells[7].reason == "expected 7"


async def test_a_cell_is_a_fact_that_leads_to_its_run() -> None:
    store = MemoryStore()
    (cell,) = (await evaluate(HALF, numbers(1), ExactMatch(), bench(store))).cells
    (fact,) = store.facts(Query(kind="cell"))
    assert (fact.key, fact.subject, fact.by, fact.value) == (cell.key, HALF.digest, "ada", 1.0)
    run = recall(store, fact.body["run"])
    assert (run.playbook, run.inputs, run.output) == (HALF.digest, {"n": 0}, "0")
    assert run.cost_usd == fact.body["cost_usd"] == cell.cost_usd == 1.0


async def test_a_cell_is_paid_once() -> None:
    store = MemoryStore()
    first = await evaluate(HALF, TEN, ExactMatch(), bench(store))
    again = await evaluate(HALF, TEN, ExactMatch(), bench(store))
    assert count(store, "run") == count(store, "cell") == 10
    assert (first.cost_usd, again.cost_usd) == (10.0, 0.0)
    assert {cell.reused for cell in first.cells} == {False}
    assert {cell.reused for cell in again.cells} == {True}
    assert [(cell.task, cell.value, cell.answer, cell.reason, cell.run) for cell in again.cells] == [
        (cell.task, cell.value, cell.answer, cell.reason, cell.run) for cell in first.cells
    ]


async def test_a_larger_dataset_pays_only_for_what_is_new() -> None:
    store = MemoryStore()
    await evaluate(HALF, numbers(4, first=3), ExactMatch(), bench(store))
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store))
    assert [cell.task for cell in card.cells if cell.reused] == ["t3", "t4", "t5", "t6"]
    assert count(store, "run") == 10


@pytest.mark.parametrize(
    "otherwise",
    [
        lambda store: evaluate(agent("[0-3]"), TEN, ExactMatch(), bench(store)),
        lambda store: evaluate(HALF, TEN, ExactMatch(), bench(store, identity="oracle 2")),
        lambda store: evaluate(
            HALF, [Task(t.id, {"n": t.inputs["n"], "x": 1}, "x") for t in TEN], ExactMatch(), bench(store)
        ),
    ],
    ids=["playbook", "model", "task"],
)
async def test_what_was_scored_otherwise_is_not_reused(otherwise: Callable[[MemoryStore], Any]) -> None:
    store = MemoryStore()
    await evaluate(HALF, TEN, ExactMatch(), bench(store))
    card = await otherwise(store)
    assert not any(cell.reused for cell in card.cells)
    assert count(store, "cell") == 20


async def test_another_metric_is_scored_on_the_runs_that_were_paid_for_the_first() -> None:
    store = MemoryStore()
    await evaluate(HALF, TEN, ExactMatch(), bench(store))
    card = await evaluate(HALF, TEN, [Length(), ExactMatch()], bench(store))
    assert (count(store, "run"), count(store, "cell")) == (10, 20)
    assert {cell.reused for cell in card.cells} == {True}
    assert card.cost_usd == 0
    assert [cell.value for cell in card.cells if cell.metric == "length"] == [1.0] * 5 + [2.0] * 5


async def test_of_two_evaluations_at_the_same_time_one_truth_is_kept() -> None:
    store = MemoryStore()
    one, other = await asyncio.gather(*(evaluate(HALF, TEN, ExactMatch(), bench(store)) for _ in range(2)))
    assert count(store, "cell") == count(store, "run") == 10
    assert [cell.run for cell in one.cells] == [cell.run for cell in other.cells]


# Replicates


async def test_replicates_of_a_task_have_different_seeds_which_are_the_same_for_every_playbook() -> None:
    heard: dict[str, list[int]] = {}

    async def on_event(playbook: Playbook, task: Task, seed: int) -> None:
        heard.setdefault(playbook.digest, []).append(seed)

    for each in (HALF, agent(".*")):
        await evaluate(each, TEN, ExactMatch(), bench(MemoryStore(), on_event), replicates=3)
    one, other = heard.values()
    assert len(set(one)) == 30
    assert one == other == [seed_of(task, replicate) for task in TEN for replicate in range(3)]


async def test_more_replicates_reuse_the_first_ones() -> None:
    store = MemoryStore()
    await evaluate(HALF, TEN, ExactMatch(), bench(store))
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store), replicates=3)
    assert [cell.replicate for cell in card.cells] == [0, 1, 2] * 10
    assert [cell.reused for cell in card.cells] == [True, False, False] * 10


# What could not be scored

PATCHY = {"use": "scripted", "args": {"replies": {"[0-7]": "hm"}}}


async def test_a_failed_run_is_no_zero_and_says_why() -> None:
    store = MemoryStore()
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store, oracle=PATCHY))
    failed = [cell for cell in card.cells if cell.value is None]
    assert [cell.task for cell in failed] == ["t8", "t9"]
    assert 'the script has no reply: found the prompt "8"' in failed[0].reason
    assert len(card.scored) == count(store, "cell") == 8
    assert (card.interval.mean, card.interval.n) == (5 / 8, 8)


async def test_a_failed_run_is_tried_again_the_next_time() -> None:
    store = MemoryStore()
    await evaluate(HALF, TEN, ExactMatch(), bench(store, oracle=PATCHY))
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store))
    assert [cell.task for cell in card.cells if not cell.reused] == ["t8", "t9"]
    assert len(card.scored) == 10


async def test_a_task_without_an_answer_is_no_zero_and_says_why() -> None:
    store = MemoryStore()
    tasks = Dataset((Task("known", {"n": 1}, "1"), Task("open", {"n": 2})))
    card = await evaluate(HALF, tasks, ExactMatch(), bench(store))
    assert [(cell.value, cell.reason) for cell in card.cells] == [(1.0, ""), (None, "the task has no expected answer")]
    assert card.interval.n == count(store, "cell") == 1


async def test_a_playbook_that_nobody_can_perform_is_an_error_and_no_score() -> None:
    lost = Playbook.from_document({"program": "no_such_module:handle"})
    with pytest.raises(PlaybookError, match="no_such_module"):
        await evaluate(lost, TEN, ExactMatch(), bench(MemoryStore()))


# Order and bound


@pytest.mark.parametrize(
    "choose", [max, min, random.Random(5).choice], ids=["the latest first", "the earliest first", "any"]
)
async def test_cells_keep_the_order_of_the_dataset_whatever_order_they_finish_in(choose: Any) -> None:
    door = Doorkeeper()
    seen: list[str] = []
    work = asyncio.ensure_future(
        evaluate(
            HALF, TEN, ExactMatch(), bench(MemoryStore(), door, at_once=4), watch=lambda cell: seen.append(cell.task)
        )
    )
    while not work.done():
        await door.let_go_on(choose)
    assert seen == [cell.task for cell in work.result().cells] == [task.id for task in TEN]
    assert door.most == 4


async def test_the_watcher_is_told_each_cell_once_known_or_new() -> None:
    store = MemoryStore()
    await evaluate(HALF, numbers(3), ExactMatch(), bench(store))
    told: list[Cell] = []
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store), watch=told.append)
    assert told == list(card.cells)
    assert [cell.reused for cell in told] == [True] * 3 + [False] * 7


# Interruptions


async def test_a_spent_budget_ends_the_evaluation_and_what_was_paid_stays() -> None:
    store = MemoryStore()
    left = iter(range(6))

    async def pay(playbook: Playbook, task: Task, seed: int) -> None:
        if next(left, None) is None:
            raise QuotaSpent("no more than 6 runs")

    with pytest.raises(BudgetSpent, match="no more than 6"):
        await evaluate(HALF, TEN, ExactMatch(), bench(store, pay, at_once=4))
    assert count(store, "cell") == count(store, "run") == 6
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store))
    assert [cell.reused for cell in card.cells] == [True] * 6 + [False] * 4


async def test_a_cancelled_evaluation_leaves_nothing_under_way_and_goes_on_where_it_was() -> None:
    store = MemoryStore()
    door = Doorkeeper()
    work = asyncio.ensure_future(evaluate(HALF, TEN, ExactMatch(), bench(store, door, at_once=4)))
    for _ in range(2):
        await door.let_go_on(max)  # those behind the first: paid for, though not yet their turn
    await until_stored(store, "cell", 2)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert door.waiting == {}
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert count(store, "cell") == 2
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store))
    assert sum(cell.reused for cell in card.cells) == 2
    assert count(store, "run") == 10


INTERRUPTED = """
import asyncio, sys
from loop_samples import agent, bench, numbers
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.storage import open_store

async def stall(playbook, task, seed):
    if task.inputs["n"] >= 6:
        if task.id == "t7":  # with two at once, all before t6 are done by now
            print("stalled", flush=True)
        await asyncio.get_running_loop().create_future()

store = open_store(sys.argv[1])
hold = stall if sys.argv[2] == "stall" else None
asyncio.run(evaluate(agent("[0-4]"), numbers(10), ExactMatch(), bench(store, hold, at_once=2)))
"""


def in_another_process(url: str, how: str) -> subprocess.Popen[str]:
    folder = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", INTERRUPTED, url, how]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": folder}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("how", ["whole", "stall"])
async def test_what_another_process_paid_is_reused_even_if_it_was_interrupted(how: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'seedbed.db'}"
    with in_another_process(url, how) as process:
        if how == "stall":
            assert process.stdout
            assert process.stdout.readline() == "stalled\n"
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert (process.returncode == 0) is (how == "whole"), errors
    store = open_store(url)
    paid = count(store, "cell")
    assert paid == (10 if how == "whole" else 6)
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store))
    assert [cell.reused for cell in card.cells] == [n < paid for n in range(10)]
    assert [cell.value for cell in card.cells] == [float(n < 5) for n in range(10)]
    assert count(store, "cell") == 10
    store.close()


async def test_a_watcher_that_fails_ends_the_evaluation_with_its_own_error() -> None:
    def watch(cell: Cell) -> None:
        raise LookupError("the watcher's own")

    store = MemoryStore()
    door = Doorkeeper()
    work = asyncio.ensure_future(evaluate(HALF, TEN, ExactMatch(), bench(store, door, at_once=4), watch=watch))
    await door.let_go_on(min)
    with pytest.raises(LookupError):
        await work
    await settle()
    assert door.waiting == {}
    assert count(store, "cell") == 1


# Scorecards


def scored(*values: float | None, replicates: int = 1) -> Scorecard:
    return Scorecard(
        "b2:0",
        "m",
        tuple(
            Cell(
                key=str(place),
                playbook="b2:0",
                task=f"t{place // replicates}",
                replicate=place % replicates,
                metric="m",
                value=value,
            )
            for place, value in enumerate(values)
        ),
    )


def test_a_pass_rate_has_the_interval_of_a_rate_even_if_all_tasks_agree() -> None:
    assert scored(1, 0, 1, 1).interval == exact_rate(3, 4)
    assert scored(1, 1, 1, 1).interval == exact_rate(4, 4)
    assert scored(1, 1, 1, 1).interval.low < 0.7


def test_graded_scores_have_the_interval_of_a_mean() -> None:
    assert scored(0.2, 0.4, 0.9).interval == score_interval([0.2, 0.4, 0.9])


def test_replicates_are_averaged_within_their_task_as_they_are_no_further_tasks() -> None:
    card = scored(1, 1, 0, 1, 0, 0, replicates=2)
    assert card.interval == score_interval([1.0, 0.5, 0.0])
    assert card.interval.n == 3


def test_unscored_cells_take_no_part_in_the_interval() -> None:
    assert scored(1, None, 0, None).interval == exact_rate(1, 2)
    assert scored(1, None, 0, 0, replicates=2).interval == exact_rate(1, 2)


def test_nothing_scored_is_no_score() -> None:
    interval = scored(None, None).interval
    assert interval.n == 0
    assert interval.mean != interval.mean
    assert (interval.low, interval.high) == (0.0, 1.0)


async def test_the_cost_of_a_scorecard_is_what_was_paid_for_it() -> None:
    store = MemoryStore()
    await evaluate(HALF, numbers(4), ExactMatch(), bench(store))
    card = await evaluate(HALF, TEN, ExactMatch(), bench(store, oracle=ORACLE))
    assert card.cost_usd == 6.0


# Expected answers


@pytest.mark.parametrize(
    "metric",
    [
        ExactMatch(),
        parse_metric("f1"),
        parse_metric("regex"),
        parse_metric("weighted(f1=1)"),
        parse_metric("calibration"),
    ],
    ids=lambda metric: metric.name,
)
async def test_tasks_without_any_expected_answer_are_refused_before_anything_is_paid(metric: Metric) -> None:
    store = MemoryStore()
    tasks = [Task(f"t{n}", {"n": n}) for n in range(3)]
    with pytest.raises(DatasetError) as caught:
        await evaluate(agent(".*"), tasks, metric, bench(store))
    for part in ("3 tasks without `expected`", f"{metric.name} needs it", "--expected FIELD"):
        assert part in str(caught.value)
    assert store.kinds() == {}


@pytest.mark.parametrize("written", ["finished", "length", "regex(pattern='.')"])
async def test_a_metric_that_needs_no_expected_answer_scores_such_tasks(written: str) -> None:
    card = await evaluate(agent(".*"), [Task("t", {"n": 1})], parse_metric(written), bench(MemoryStore()))
    assert card.interval.n == 1


async def test_where_some_tasks_have_an_expected_answer_the_others_are_unscored() -> None:
    tasks = [Task("t0", {"n": 0}, "0"), Task("t1", {"n": 1})]
    card = await evaluate(agent(".*"), tasks, ExactMatch(), bench(MemoryStore()))
    assert (card.interval.n, card.reasons) == (1, {"the task has no expected answer": 1})
