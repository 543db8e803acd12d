from __future__ import annotations

from typing import Any

import pytest
from search_samples import START, playbook, portfolio, right, tasks

from seedbed.errors import DatasetError, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evolution.allocation import Uniform
from seedbed.evolution.evaluators import FunctionEvaluator, Measure
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import Plan, split_tasks
from seedbed.spending.account import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import digest

FORTY = tasks(40, "t")


def ids(of: Dataset) -> set[str]:
    return {task.id for task in of}


def test_a_quarter_confirms_and_a_third_of_the_rest_is_read() -> None:
    plan = Plan.of(START, FORTY, portfolio())
    assert [len(part) for part in (plan.confirm, plan.reflect, plan.select)] == [10, 10, 20]
    assert ids(plan.confirm) | ids(plan.reflect) | ids(plan.select) == ids(FORTY)


def test_for_one_that_reads_nothing_no_task_is_kept_to_be_read() -> None:
    plan = Plan.of(START, FORTY, BestOf([playbook("Sort.")]))
    assert [len(part) for part in (plan.confirm, plan.reflect, plan.select)] == [10, 0, 30]


def test_with_other_tasks_that_confirm_all_of_these_decide_or_are_read() -> None:
    others = tasks(7, "c")
    plan = Plan.of(START, FORTY, BestOf([]), confirm=others)
    assert (ids(plan.confirm), ids(plan.select)) == (ids(others), ids(FORTY))


def test_the_same_seed_parts_the_tasks_in_the_same_way_and_another_does_not() -> None:
    one, same, other = (split_tasks(FORTY, seed) for seed in (1, 1, 2))
    assert one == same
    assert ids(one.only(split="confirm")) != ids(other.only(split="confirm"))


def test_splits_that_have_names_stay_as_they_are() -> None:
    first, rest = FORTY.split(0.5, 3)
    named = FORTY.with_splits({"select": first, "confirm": rest})
    plan = Plan.of(START, named, portfolio())
    assert (ids(plan.select), ids(plan.confirm), len(plan.reflect)) == (ids(first), ids(rest), 0)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_of_very_few_tasks_there_is_still_one_that_decides(size: int) -> None:
    plan = Plan.of(START, tasks(size, "t"), portfolio())
    assert len(plan.select) >= 1
    assert len(plan.select) + len(plan.reflect) + len(plan.confirm) == size


@pytest.mark.parametrize("one", ["reflect", "select", "confirm"])
@pytest.mark.parametrize("other", ["reflect", "select", "confirm"])
def test_no_task_is_in_two_parts(one: str, other: str) -> None:
    given: dict[str, Any] = {"select": tasks(3, "s"), one: tasks(3, "same"), other: tasks(3, "same")}
    if one == other:
        Plan(start=START, optimizer=BestOf([]), **given)
        return
    with pytest.raises(DatasetError, match=r"same1.*expected in one") as wrong:
        Plan(start=START, optimizer=BestOf([]), **given)
    assert len(wrong.value.problems) == 3


def test_tasks_that_decide_there_must_be() -> None:
    with pytest.raises(DatasetError, match="no select tasks"):
        Plan(start=START, optimizer=BestOf([]), select=Dataset(()))


def test_patience_is_at_least_one_step() -> None:
    with pytest.raises(SettingsError, match="patience"):
        Plan(start=START, optimizer=BestOf([]), select=FORTY, patience=0)


def test_whatever_might_change_a_search_names_another() -> None:
    arena = FunctionEvaluator(right, MemoryStore(), "ann")
    about: dict[str, Any] = {"start": START, "select": FORTY, "optimizer": BestOf([])}
    others: list[dict[str, Any]] = [
        {},
        {"start": playbook("Sort.")},
        {"select": tasks(39, "t")},
        {"reflect": tasks(2, "r")},
        {"confirm": tasks(2, "r")},
        {"optimizer": BestOf([playbook("x")])},
        {"budget": Budget(runs=9)},
        {"budget": Budget(usd=9)},
        {"allocation": Uniform()},
        {"seed": 1},
        {"patience": 3},
        {"enough": 0.9},
    ]
    names = [digest("search", Plan(**{**about, **each}).content(arena)) for each in others]
    names.append(
        digest("search", Plan(**about).content(FunctionEvaluator(right, MemoryStore(), "ann", [Measure("other")])))
    )
    assert len({*names}) == len(names)
    assert digest("search", Plan(**about).content(arena)) == names[0]
