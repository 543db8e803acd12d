from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loop_samples import Doorkeeper, agent, bench, count, numbers, until_stored

from seedbed.errors import BudgetSpent, DatasetError, QuotaSpent, SeedbedError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch, Score
from seedbed.experiments.compare import compare, run_experiment
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.options import Comparing
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

FORTY = numbers(40)
ALL, NONE, SOME = agent(".*"), agent("x"), agent("[0-4]|1.")


def registered(store: Any) -> list[Experiment]:
    return [Experiment.from_content(content.body) for content in store.contents("experiment")]


# Findings


async def test_a_candidate_that_knows_more_is_superior_and_the_tasks_are_not_all_needed() -> None:
    store = MemoryStore()
    verdict = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store))
    assert verdict.finding == "superior"
    assert (verdict.control, verdict.candidate, verdict.dataset) == (NONE.digest, ALL.digest, FORTY.digest)
    assert (verdict.control_mean, verdict.candidate_mean, verdict.difference) == (0.0, 1.0, 1.0)
    assert verdict.wins == verdict.tasks < verdict.at_most == 40
    assert verdict.p is not None
    assert verdict.p <= verdict.alpha == 0.05
    # Those that were under way when the answer came are not paid for in full, and the rest not at all.
    assert 2 * verdict.tasks <= count(store, "run") <= 2 * verdict.tasks + 8


async def test_a_candidate_that_knows_less_is_inferior() -> None:
    verdict = await run_experiment(ALL, NONE, FORTY, ExactMatch(), bench(MemoryStore()))
    assert verdict.finding == "inferior"
    assert verdict.losses == verdict.tasks < 40
    assert verdict.difference == -1.0


async def test_too_small_a_difference_is_inconclusive_after_all_tasks() -> None:
    verdict = await run_experiment(agent(".*[0-8]"), ALL, numbers(20), ExactMatch(), bench(MemoryStore()))
    assert (verdict.finding, verdict.tasks, verdict.wins, verdict.losses) == ("inconclusive", 20, 2, 0)
    assert verdict.p is not None
    assert verdict.p > 0.05


async def test_a_playbook_against_itself_is_a_tie_on_every_task_and_paid_once() -> None:
    store = MemoryStore()
    verdict = await run_experiment(SOME, SOME, FORTY, ExactMatch(), bench(store))
    assert (verdict.finding, verdict.ties, verdict.difference) == ("inconclusive", 40, 0.0)
    assert count(store, "run") == 40


async def test_a_stricter_error_rate_asks_for_more_tasks() -> None:
    store = MemoryStore()
    loose = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store), Comparing(alpha=0.2))
    strict = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store), Comparing(alpha=0.001))
    assert loose.tasks < strict.tasks
    assert (loose.alpha, strict.alpha) == (0.2, 0.001)
    assert strict.p is not None
    assert strict.p <= 0.001


async def test_a_run_that_fails_counts_as_the_experiment_says() -> None:
    """Leaving out the tasks at which one arm fails would favour the arm that fails."""
    store = MemoryStore()
    patchy = {"use": "scripted", "args": {"replies": {"[0-3]$": "hm"}}}
    verdict = await run_experiment(NONE, ALL, numbers(20), ExactMatch(), bench(store, oracle=patchy))
    (plan,) = registered(store)
    assert plan.failure_counts_as == 0.0
    for name, sign in zip(plan.order, verdict.outcomes, strict=False):
        assert sign == ("+" if name[-1] in "0123" else "=")


# Registered first


async def test_everything_is_registered_before_the_first_run() -> None:
    store = MemoryStore()
    known: list[list[Experiment]] = []

    async def look(playbook: Playbook, task: Task, seed: int) -> None:
        known.append(registered(store))

    verdict = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store, look))
    (plan,) = known[0]
    assert plan.digest == verdict.experiment
    assert set(plan.order) == {task.id for task in FORTY}
    assert Dataset.from_content(store.get(plan.dataset)) == FORTY


async def test_tasks_are_begun_in_the_registered_order_with_the_same_seed_in_both_arms() -> None:
    store = MemoryStore()
    begun: list[str] = []
    seeds: dict[str, set[int]] = {}

    async def on_event(playbook: Playbook, task: Task, seed: int) -> None:
        begun.append(task.id)
        seeds.setdefault(task.id, set()).add(seed)

    await run_experiment(SOME, agent("[0-5]|1."), numbers(20), ExactMatch(), bench(store, on_event))
    (plan,) = registered(store)
    assert begun == [name for name in plan.order for _ in range(2)]
    assert {len(each) for each in seeds.values()} == {1}
    assert len(set.union(*seeds.values())) == 20


@pytest.mark.parametrize("choose", [max, min, random.Random(3).choice], ids=["max", "min", "any"])
async def test_answers_are_read_in_the_registered_order_even_if_later_ones_come_first(choose: Any) -> None:
    """What finishes first is not a fair sample: reading as it comes would break the error rate."""
    store = MemoryStore()
    door = Doorkeeper()
    told: list[Answer] = []
    work = asyncio.ensure_future(
        run_experiment(
            SOME, agent("[3-9]|1."), numbers(20), ExactMatch(), bench(store, door, at_once=6), watch=told.append
        )
    )
    while not work.done():
        await door.let_go_on(choose)
    verdict = work.result()
    (plan,) = registered(store)
    signs = {f"t{n}": "-" if n < 3 else "+" if 5 <= n < 10 else "=" for n in range(20)}
    assert verdict.outcomes == "".join(signs[name] for name in plan.order)
    assert [answer.n for answer in told] == list(range(1, 21))
    assert told[-1].verdict == verdict.finding
    assert door.most <= 6


async def test_one_run_at_a_time_is_enough() -> None:
    door = Doorkeeper()
    work = asyncio.ensure_future(run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(MemoryStore(), door, at_once=1)))
    while not work.done():
        await door.let_go_on(min)
    assert work.result().finding == "superior"
    assert door.most == 1


# Once


async def test_a_verdict_stands_and_is_not_paid_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'seedbed.db'}"
    store = open_store(url)
    verdict = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store))
    runs = count(store, "run")
    store.close()
    again = open_store(url)
    told: list[Answer] = []
    assert await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(again), watch=told.append) == verdict
    assert (count(again, "run"), count(again, "verdict"), told) == (runs, 1, [])
    again.close()


async def test_what_an_evaluation_paid_is_not_paid_again() -> None:
    store = MemoryStore()
    for playbook in (NONE, ALL):
        await evaluate(playbook, FORTY, ExactMatch(), bench(store))
    verdict = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store))
    assert verdict.finding == "superior"
    assert count(store, "run") == 80


@pytest.mark.parametrize(
    "otherwise", [{"seed": 1}, {"alpha": 0.01}, {"tasks": numbers(39)}], ids=["order", "alpha", "dataset"]
)
async def test_another_order_error_rate_or_dataset_is_another_experiment(otherwise: dict[str, Any]) -> None:
    store = MemoryStore()
    first = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store))
    given = dict(otherwise)
    other = await run_experiment(NONE, ALL, given.pop("tasks", FORTY), ExactMatch(), bench(store), Comparing(**given))
    assert other.experiment != first.experiment
    assert count(store, "verdict") == len(registered(store)) == 2


async def test_another_model_behind_the_same_name_is_another_experiment() -> None:
    store = MemoryStore()
    first = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store))
    other = await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store, identity="oracle 2"))
    assert other.experiment != first.experiment


# Interrupted


async def test_an_interrupted_comparison_goes_on_as_the_same_experiment_and_pays_nothing_twice() -> None:
    store = MemoryStore()
    door = Doorkeeper()
    work = asyncio.ensure_future(run_experiment(SOME, ALL, FORTY, ExactMatch(), bench(store, door)))
    for _ in range(5):
        await door.let_go_on(max)
    await until_stored(store, "cell", 5)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert door.waiting == {}
    assert count(store, "cell") == 5
    assert count(store, "verdict") == 0
    interrupted = registered(store)
    verdict = await run_experiment(SOME, ALL, FORTY, ExactMatch(), bench(store))
    assert [plan.digest for plan in interrupted] == [plan.digest for plan in registered(store)] == [verdict.experiment]
    paid = Counter((fact.subject, fact.body["inputs"]["n"]) for fact in store.facts(Query(kind="run")))
    assert set(paid.values()) == {1}
    straight = await run_experiment(SOME, ALL, FORTY, ExactMatch(), bench(MemoryStore()))
    assert verdict == replace(straight, evidence=verdict.evidence)  # which also tells when each was paid


async def test_a_spent_budget_ends_a_comparison_without_a_verdict_and_what_was_paid_stays() -> None:
    store = MemoryStore()
    left = iter(range(9))

    async def pay(playbook: Playbook, task: Task, seed: int) -> None:
        if next(left, None) is None:
            raise QuotaSpent("no more than 9 runs")

    with pytest.raises(BudgetSpent):
        await run_experiment(SOME, ALL, FORTY, ExactMatch(), bench(store, pay))
    assert count(store, "verdict") == 0
    assert count(store, "cell") == 9
    await run_experiment(SOME, ALL, FORTY, ExactMatch(), bench(store))
    paid = Counter((fact.subject, fact.body["inputs"]["n"]) for fact in store.facts(Query(kind="run")))
    assert set(paid.values()) == {1}


# Refused


async def test_no_tasks_is_an_error() -> None:
    with pytest.raises(DatasetError, match="tasks: found none; expected at least one"):
        await run_experiment(NONE, ALL, Dataset(()), ExactMatch(), bench(MemoryStore()))


async def test_an_error_rate_that_promises_nothing_is_refused_before_anything_is_paid() -> None:
    store = MemoryStore()
    with pytest.raises(SeedbedError, match=r"alpha: found 0\.7"):
        await run_experiment(NONE, ALL, FORTY, ExactMatch(), bench(store), Comparing(alpha=0.7))
    assert store.kinds() == {}


@pytest.mark.usefixtures("sighted")
async def test_graded_scores_are_refused_by_a_rule_for_passes_and_failures() -> None:
    class Graded(ExactMatch):
        async def __call__(self, run: Run, task: Task) -> Score:
            return Score(0.3 if run.playbook == ALL.digest else 0.2)

    with pytest.raises(SeedbedError, match="as this rule is for scores of 0 or 1"):
        await run_experiment(NONE, ALL, FORTY, Graded(), bench(MemoryStore()))


async def test_tasks_without_any_expected_answer_are_refused_before_anything_is_paid() -> None:
    store = MemoryStore()
    tasks = Dataset(tuple(Task(f"t{n}", {"n": n}) for n in range(10)))
    with pytest.raises(DatasetError, match="10 tasks without `expected`; expected some with it: exact_match needs it"):
        await compare(NONE, ALL, tasks, ExactMatch(), bench(store))
    assert store.kinds() == {}
