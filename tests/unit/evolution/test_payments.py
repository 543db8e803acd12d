"""The till of a search: every round is reserved before its first run, and none is paid twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from loop_samples import agent, bench, count
from pool_samples import book
from search_samples import tasks

from seedbed.errors import BudgetSpent
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import TaskReplicate
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import ExactMatch, Score
from seedbed.evolution.evaluators import FunctionEvaluator, PlaybookTasks, RunEvaluator
from seedbed.evolution.payments import Payments
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.account import Account
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

NAME = "b2:" + "5" * 64
TASKS = tasks(6, "t")
ITEMS: list[TaskReplicate] = [(task, 0) for task in TASKS]
BOTH = Budget(runs=18, usd=5.0)


def work(*books: int, items: Sequence[TaskReplicate] = ITEMS) -> list[PlaybookTasks]:
    return [(book(number), items) for number in books]


class World:
    """A scoring function that remembers what it was asked."""

    def __init__(self, *, dies_after: int | None = None, usd: float = 0.0, fails: Callable[[str], bool] | None = None):
        self.asked: list[tuple[str, str, int]] = []
        self._dies_after, self._usd, self._fails = dies_after, usd, fails

    async def __call__(self, playbook: Playbook, task: Task, replicate: int) -> Score:
        await asyncio.sleep(0)
        self.asked.append((playbook.digest, task.id, replicate))
        if self._dies_after is not None and len(self.asked) > self._dies_after:
            raise asyncio.CancelledError
        if self._fails and self._fails(task.id):
            raise ValueError("broken")
        return Score(float(task.id != "t0"), cost_usd=self._usd)


def till(store: Any, world: Any, budget: Budget, name: str = NAME, **more: Any) -> Payments:
    return Payments(name, FunctionEvaluator(world, store, "ann", at_once=2, **more), Account(budget))


def values(cells: Sequence[Cell]) -> list[tuple[str, str, float | None]]:
    return [(cell.playbook, cell.task, cell.value) for cell in cells]


async def test_a_round_is_a_fact_before_its_first_run() -> None:
    store = MemoryStore()
    seen: list[list[int]] = []

    async def looks(playbook: Playbook, task: Task, replicate: int) -> float:
        seen.append([fact.body["runs"] for fact in store.facts(Query(kind="round", subject=NAME))])
        return 1.0

    its = till(store, looks, Budget(runs=100))
    await its.pay(work(0, 1))
    await its.pay(work(2))
    assert seen == [[12]] * 12 + [[12, 6]] * 6
    assert its.account.runs == 18


async def test_there_is_room_for_the_same_first_tasks_of_each() -> None:
    world = World()
    its = till(MemoryStore(), world, Budget(runs=11))
    cells = await its.pay(work(0, 1, 2))
    assert [(cell.playbook, cell.task) for cell in cells] == [
        (book(number).digest, f"t{place}") for number in range(3) for place in range(3)
    ]
    assert (len(world.asked), its.account.runs, its.room) == (9, 9, 2)
    with pytest.raises(BudgetSpent, match="found too few runs left of 11 runs; expected one for each candidate"):
        await its.pay(work(0, 1, 2))
    assert len(world.asked) == 9


async def test_what_is_kept_for_later_is_not_spent_now() -> None:
    its = till(MemoryStore(), World(), Budget(runs=10))
    its.reserved = 4
    assert len(await its.pay(work(0))) == 6
    assert its.is_empty(0)
    with pytest.raises(BudgetSpent):
        await its.pay(work(1))
    its.reserved = 0
    assert not its.is_empty(0)
    assert len(await its.pay(work(1))) == 4


async def test_what_was_paid_in_this_search_is_neither_paid_nor_told_again() -> None:
    world = World()
    its = till(MemoryStore(), world, Budget(runs=100))
    await its.pay(work(0, items=ITEMS[:2]))
    assert [cell.task for cell in await its.pay(work(0))] == ["t2", "t3", "t4", "t5"]
    assert await its.pay(work(0)) == []
    assert its.account.runs == len(world.asked) == 6


async def test_what_was_known_before_the_search_is_free() -> None:
    store, world = MemoryStore(), World(usd=0.1)
    await till(store, World(usd=0.1), Budget(), name="b2:other").pay(work(0))
    for _ in range(2):
        its = till(store, world, Budget(runs=6))
        assert len(await its.pay(work(0, 1))) == 12
        assert (its.account.runs, len(world.asked)) == (6, 6)
        assert its.account.spent["usd"] == pytest.approx(0.6)


async def test_what_is_fresh_is_not_looked_up() -> None:
    store, world = MemoryStore(), World()
    its = till(store, world, Budget(runs=6))
    its.fresh = {book(0).digest}
    assert len(await its.pay(work(0))) == 6


@pytest.mark.parametrize("calls", range(12))
async def test_a_life_that_ended_in_a_round_is_counted_as_it_was(calls: int) -> None:
    store, first = MemoryStore(), World(dies_after=calls)
    with pytest.raises(asyncio.CancelledError):
        await till(store, first, Budget(runs=15)).pay(work(0, 1))
    world = World()
    again = till(store, world, Budget(runs=15))
    cells = await again.pay(work(0, 1))
    whole = till(MemoryStore(), World(), Budget(runs=15))
    assert values(cells) == values(await whole.pay(work(0, 1)))
    assert again.account.spent["runs"] == whole.account.spent["runs"] == 12
    assert len(world.asked) <= 12 - max(0, calls - 1)  # at most what was under way is asked again


async def test_that_there_was_no_room_is_remembered_whatever_is_known_later() -> None:
    """Else a search that is taken up again would find room for what it was refused, and come to another end."""
    store = MemoryStore()
    first = till(store, World(), Budget(runs=7))
    await first.pay(work(0))
    with pytest.raises(BudgetSpent):
        await first.pay(work(1, 2))
    await till(store, World(), Budget(), name="b2:other").pay(work(1, 2))
    again = till(store, World(), Budget(runs=7))
    await again.pay(work(0))
    with pytest.raises(BudgetSpent):
        await again.pay(work(1, 2))
    assert again.account.runs == 6


async def test_what_others_paid_meanwhile_does_not_become_free_when_it_is_taken_up_again() -> None:
    store = MemoryStore()
    with pytest.raises(asyncio.CancelledError):
        await till(store, World(dies_after=2), Budget(runs=9)).pay(work(0))
    await till(store, World(), Budget(), name="b2:other").pay(work(0))
    again = till(store, World(), Budget(runs=9))
    await again.pay(work(0))
    assert again.account.runs == 6


async def test_two_who_do_the_same_search_at_once_count_the_same() -> None:
    """The second begins when the first has paid a part of the round, or all of it, but looked at the store before."""
    store = MemoryStore()
    one, other = (till(store, World(), Budget(runs=20)) for _ in range(2))
    for wanted in (work(0, 1), work(2), work(0, 1, 2)):
        assert values(await one.pay(wanted)) == values(await other.pay(wanted))
        assert one.account.runs == other.account.runs
    assert one.account.runs == 18


async def test_two_who_do_it_in_step_count_the_same() -> None:
    store = MemoryStore()
    both = [till(store, World(), Budget(runs=20)) for _ in range(2)]
    told = await asyncio.gather(*(each.pay(work(0, 1)) for each in both))
    assert values(told[0]) == values(told[1])
    assert [each.account.runs for each in both] == [12, 12]
    assert count(store, "round") == 1
    assert count(store, "cell") == 12


# What failed


async def test_what_failed_is_told_without_a_value_and_stays_failed() -> None:
    store, sometimes = MemoryStore(), World(fails=lambda task: task in ("t1", "t4"))
    first = await till(store, sometimes, Budget(runs=9)).pay(work(0))
    assert [cell.task for cell in first if cell.value is None] == ["t1", "t4"]
    healthy = World()
    again = till(store, healthy, Budget(runs=9))
    assert values(await again.pay(work(0))) == values(first)
    assert (healthy.asked, again.account.runs) == ([], 6)


async def test_what_failed_before_a_kill_is_not_tried_again_either() -> None:
    store = MemoryStore()
    with pytest.raises(asyncio.CancelledError):
        await till(store, World(dies_after=4, fails=lambda task: task in ("t0", "t1")), Budget(runs=9)).pay(work(0))
    healthy = World()
    cells = await till(store, healthy, Budget(runs=9)).pay(work(0))
    assert [cell.task for cell in cells if cell.value is None] == ["t0", "t1"]
    assert not {"t0", "t1"} & {task for _, task, _ in healthy.asked}


async def test_another_search_tries_again_what_failed_in_this_one() -> None:
    store = MemoryStore()
    await till(store, World(fails=lambda task: True), Budget()).pay(work(0))
    cells = await till(store, World(), Budget(), name="b2:other").pay(work(0))
    assert all(cell.value is not None for cell in cells)


# Money


async def test_money_is_counted_and_no_more_is_launched_than_it_would_pay() -> None:
    world = World(usd=0.1)
    its = till(MemoryStore(), world, Budget(usd=1.0))
    await its.pay(work(0))
    assert its.account.spent["usd"] == pytest.approx(0.6)
    assert (its.account.highest_usd, its.room) == (pytest.approx(0.1), 4)
    assert len(await its.pay(work(1, 2))) == 4
    assert its.is_empty(0)
    assert its.account.spent["usd"] == pytest.approx(1.0)


@pytest.mark.parametrize("calls", [0, 3, 6, 8, 10, 14, 17])
async def test_money_of_an_earlier_life_is_spent(calls: int) -> None:
    async def searched(its: Payments) -> list[Cell]:
        cells = await its.pay(work(0))
        its.reserved = 8
        cells += await its.pay(work(1, 2))  # for the first two tasks of which there is room
        its.reserved = 0
        return cells + await its.pay(work(1, 2))

    whole = till(MemoryStore(), World(usd=0.1), BOTH)
    expected = await searched(whole)
    store = MemoryStore()
    with pytest.raises(asyncio.CancelledError):
        await searched(till(store, World(usd=0.1, dies_after=calls), BOTH))
    again = till(store, World(usd=0.1), BOTH)
    assert values(await searched(again)) == values(expected)
    assert again.account.spent["usd"] == pytest.approx(whole.account.spent["usd"])
    third = till(store, World(usd=0.1), BOTH)
    await searched(third)
    assert third.account.spent["usd"] == pytest.approx(whole.account.spent["usd"])


async def test_a_run_that_helps_is_reserved_and_under_its_name_paid_once() -> None:
    store = MemoryStore()
    spent = []
    for _ in range(2):
        its = Payments(NAME, RunEvaluator(bench(store), [ExactMatch()]), Account(Budget(runs=3)))
        one = await its.perform("propose/0", agent("x"), {"n": 1})
        other = await its.perform("propose/1", agent("x"), {"n": 1})
        assert one.id != other.id
        spent.append(its.account.spent)
    assert spent[0]["usd"] == spent[1]["usd"] == pytest.approx(2.0)
    assert spent[1]["runs"] == 2
    assert count(store, "run") == 2
    await its.perform("propose/2", agent("x"), {"n": 1})
    with pytest.raises(BudgetSpent, match="found no run left of 3 runs; expected one for propose/3"):
        await its.perform("propose/3", agent("x"), {"n": 1})
    assert count(store, "run") == 3


async def test_when_the_money_runs_out_nothing_of_the_round_counts_and_that_is_remembered() -> None:
    """Every answer is a dollar; the first round wants six."""
    store, begun = MemoryStore(), []
    asked = [(agent("x"), [(Task(f"n{n}", {"n": n}, "1"), 0) for n in range(6)])]

    async def listen(playbook: Playbook, task: Task, seed: int) -> None:
        begun.append(task.id)

    for _ in range(2):
        its = Payments(NAME, RunEvaluator(bench(store, listen, at_once=2), [ExactMatch()]), Account(Budget(usd=20.0)))
        with pytest.raises(BudgetSpent, match="the money of this search was spent"):
            await its.pay(asked)
        assert its.is_empty(0)
        assert 0 < its.account.ledger.spent_usd <= 20.0
        assert 0 < len(begun) <= 6  # in the second life none
    assert count(store, "lapse") == 0
    paid = sum(turn.body["cost_usd"] for turn in store.facts(Query(kind="turn")))
    assert paid <= 20.0


# Time


async def test_time_goes_on_where_the_search_was_left_and_steps_that_were_taken_had_theirs() -> None:
    store, at = MemoryStore(), [datetime(2026, 1, 1, tzinfo=UTC)]

    def opened() -> Payments:
        return till(store, World(), Budget(seconds=60), clock=lambda: at[0])

    first = opened()
    for number in range(3):
        assert not first.is_empty(number)
        at[0] += timedelta(seconds=25)
        first.is_empty(number + 1)
        store.append([first.fact("step", number, {"step": number, **first.account.spent})])
    assert first.is_empty(3)  # 75 seconds
    at[0] += timedelta(days=1)
    again = opened()
    assert [again.is_empty(number) for number in range(4)] == [False, False, False, True]
