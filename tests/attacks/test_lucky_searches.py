"""Searches whose best is luck: chosen on a handful of tasks, or not better on any others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seedbed import Dataset, ExactMatch, Playbook, Task
from seedbed.evaluation.cells import Cell
from seedbed.evolution.allocation import Pooling
from seedbed.evolution.confirmation import CHOOSING, Confirmation, confirm
from seedbed.evolution.evaluators import FunctionEvaluator
from seedbed.evolution.evolve import evolve
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS, Plan
from seedbed.evolution.searches import Evolution
from seedbed.playbooks.library import Library
from seedbed.spending.budget import Budget
from seedbed.stats.estimates import Interval
from seedbed.storage.memory import MemoryStore


def book(name: str) -> Playbook:
    return Playbook.from_document({"roles": {"agent": {"model": "any", "system": name}}})


def tasks(count: int, name: str, source: int = 0) -> Dataset:
    """Tasks with inputs of their own; with `source`, so many of them share one."""
    made = (Task(f"{name}{n}", {"q": f"{name} {n}"}) for n in range(count))
    return Dataset(tuple(replace(task, source=f"s{n // source}") if source else task for n, task in enumerate(made)))


START, LUCKY, SOLID = book("start"), book("lucky"), book("solid")


async def searched(score, *candidates: Playbook, **given) -> Evolution:
    fields = {"select": tasks(40, "s"), "confirm": tasks(40, "c"), "budget": Budget(runs=2000), **given}
    plan = Plan(start=START, optimizer=BestOf(candidates), **fields)
    store = MemoryStore()
    return await evolve(plan, FunctionEvaluator(score, store, "eve"), Library(store, "eve"), because="luck")


def always(playbook: Playbook, task: Task, replicate: int) -> float:
    return float(playbook == SOLID)


async def test_a_real_gain_on_enough_tasks_is_confirmed() -> None:
    found = await searched(always, SOLID)
    assert (found.best, found.units, found.is_confirmed, found.unconfirmed) == (SOLID.digest, 40, True, "")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"select": tasks(CHOOSING - 1, "s")}, "The best was chosen on 19 tasks; that takes at least 20."),
        ({"select": tasks(40, "s", source=4)}, "The best was chosen on 10 tasks; that takes at least 20."),
        ({"confirm": NO_TASKS}, "No new tasks have confirmed it."),
        ({"confirm": tasks(9, "c")}, "9 new tasks are too few to confirm a gain; that takes at least 10."),
        ({"confirm": tasks(40, "c", source=5)}, "8 new tasks are too few to confirm a gain; that takes at least 10."),
    ],
)
async def test_however_large_it_looks_on_few_tasks_a_gain_is_not_confirmed(given: dict[str, Dataset], why: str) -> None:
    found = await searched(always, SOLID, **given)
    assert found.best == SOLID.digest
    assert not found.is_confirmed
    assert found.unconfirmed.startswith(why)


async def test_rows_that_repeat_one_question_are_one_task() -> None:
    same = Dataset(tuple(Task(f"s{n}", {"q": f"Why {n % 12}?" + " " * (n // 12)}) for n in range(40)))
    found = await searched(always, SOLID, select=same)
    assert found.units == 12
    assert not found.is_confirmed


async def test_a_gain_of_nothing_is_no_gain() -> None:
    """It is better where it is chosen, and exactly as good elsewhere."""

    def score(playbook: Playbook, task: Task, replicate: int) -> float:
        return float(playbook == SOLID and task.id.startswith("s"))

    found = await searched(score, SOLID)
    assert found.improved
    assert found.unconfirmed == "On new tasks it gains nothing."


class OneTask(Pooling):
    """Tries every candidate but the last on one task only, and all tasks for that one."""

    def race(self, offered, pool, room):
        yield [(0, [(task, 0) for task in pool.select])]
        yield [(place, [(task, 0) for task in pool.select[: 40 if place == offered[-1] else 1]]) for place in offered]

    def finals(self, pool):
        return iter(())

    def best(self, pool):
        return 1  # whatever it scored, the first one is lucky


async def test_one_lucky_task_never_beats_a_candidate_that_was_tried_on_enough() -> None:
    def score(playbook: Playbook, task: Task, replicate: int) -> float:
        return {START: 0.0, LUCKY: 1.0, SOLID: float(int(task.id[1:]) % 2)}[playbook]

    few = 40 + 1 + 40 + 3 * 40  # nothing is left to try the lucky one any further
    found = await searched(score, LUCKY, SOLID, budget=Budget(runs=few), allocation=OneTask())
    assert (found.best, found.units) == (SOLID.digest, 40)


async def test_while_there_is_money_the_lucky_one_is_tried_on_more_tasks() -> None:
    def score(playbook: Playbook, task: Task, replicate: int) -> float:
        return {START: 0.0, LUCKY: 1.0, SOLID: float(int(task.id[1:]) % 2)}[playbook]

    found = await searched(score, LUCKY, SOLID, allocation=OneTask())
    assert (found.best, found.units) == (LUCKY.digest, CHOOSING)


async def test_runs_that_leave_no_score_do_not_keep_a_search_from_ending() -> None:
    def score(playbook: Playbook, task: Task, replicate: int) -> float:
        if playbook == LUCKY and task.id != "s0":
            raise ZeroDivisionError
        return float(playbook == SOLID)

    found = await searched(score, LUCKY, SOLID, allocation=OneTask())
    assert found.ended


def confirmed(rng: np.random.Generator, count: int, differs: float) -> Confirmation:
    """The confirmation of a candidate that is as good as the start: where they differ, each is right half the time."""
    before = rng.random(count) < 0.5
    after = np.where(rng.random(count) < differs, rng.random(count) < 0.5, before)

    def cells(playbook: str, values: np.ndarray) -> list[Cell]:
        about = {"replicate": 0, "metric": "m", "playbook": playbook}
        return [Cell(key=f"{n}", task=f"c{n}", value=float(value), **about) for n, value in enumerate(values)]

    return confirm({"a": cells("a", before), "b": cells("b", after)}, tasks(count, "c"), "a", "b", None, ExactMatch())


@pytest.mark.parametrize(("count", "differs"), [(10, 1.0), (10, 0.5), (40, 0.3)])
def test_of_candidates_that_are_no_better_hardly_any_is_confirmed(count: int, differs: float) -> None:
    rng = np.random.default_rng(14)
    wrong = sum(not confirmed(rng, count, differs).doubt for _ in range(400))
    assert wrong <= 0.05 * 400


def test_a_confirmation_of_before_that_did_not_count_units_counts_its_tasks() -> None:
    level = Interval(0.5, 0.4, 0.6, 0.95, 20)
    old = Confirmation(20, level, level, Interval(0.2, 0.1, 0.3, 0.95, 20)).body()
    del old["units"]
    assert Confirmation.from_body(old).doubt == ""
