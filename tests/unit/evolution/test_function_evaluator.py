from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from pool_samples import LENGTH, SCORE, book
from search_samples import START, tasks

from seedbed.errors import SeedbedError, SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.context import TaskReplicate
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Score
from seedbed.evolution.evaluators import FunctionEvaluator, Measure, PaidCells, ScoringFunction, known_cells
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.ledger import Ledger
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

TASKS = tasks(5, "t")
ITEMS: list[TaskReplicate] = [(task, replicate) for task in TASKS for replicate in range(2)]
WORK = [(book(0), ITEMS), (book(1), ITEMS)]


def by_number(playbook: Playbook, task: Task, replicate: int) -> float:
    return float(int(task.id[1:]) + 10 * replicate)


async def later(playbook: Playbook, task: Task, replicate: int) -> float:
    await asyncio.sleep(0)
    return by_number(playbook, task, replicate)


class Later:
    """A function with a memory, as people write it."""

    async def __call__(self, playbook: Playbook, task: Task, replicate: int) -> float:
        return by_number(playbook, task, replicate)


class Pays:
    """Pays for work, and keeps what it was told has failed and the money."""

    def __init__(self, score: ScoringFunction, store: Any = None, **more: Any) -> None:
        self.store = store if store is not None else MemoryStore()
        self.arena = FunctionEvaluator(score, self.store, "ann", **more)
        self.failed: list[Cell] = []
        self.ledger = Ledger()

    async def __call__(self, work: Any = WORK) -> PaidCells:
        return await self.arena.pay(work, self.ledger, self.see)

    def see(self, runs: Iterable[Sequence[Cell]]) -> None:
        self.failed += (cell for cells in runs for cell in cells if cell.value is None)

    @property
    def kept(self) -> int:
        return sum(1 for _ in self.store.facts(Query(kind="cell")))


@pytest.mark.parametrize("score", [by_number, later, Later(), lambda *given: int(by_number(*given))])
async def test_every_spot_is_scored_and_kept_for_whoever_asks_again(score: ScoringFunction) -> None:
    pays = Pays(score)
    paid = await pays()
    assert {spot: [cell.value for cell in cells] for spot, cells in paid.items()} == {
        (playbook.digest, task.id, replicate): [by_number(playbook, task, replicate)]
        for playbook, items in WORK
        for task, replicate in items
    }
    assert pays.kept == 20
    assert {spot: [cell.value for cell in cells] for spot, cells in known_cells(pays.arena, WORK).items()} == {
        spot: [cell.value for cell in cells] for spot, cells in paid.items()
    }
    assert pays.failed == []


def half_failing(playbook: Playbook, task: Task, replicate: int) -> float:
    if replicate:
        raise ZeroDivisionError("no luck")
    return 1.0


async def half_failing_later(playbook: Playbook, task: Task, replicate: int) -> float:
    return half_failing(playbook, task, replicate)


@pytest.mark.parametrize("score", [half_failing, half_failing_later])
async def test_what_raises_has_failed_and_is_told_at_once_but_is_no_score(score: ScoringFunction) -> None:
    pays = Pays(score)
    paid = await pays()
    failed = [cells[0] for cells in paid.values() if cells[0].value is None]
    assert len(failed) == 10
    assert {cell.reason for cell in failed} == {"ZeroDivisionError: no luck"}
    assert {cell.key for cell in pays.failed if cell.value is None} == {cell.key for cell in failed}
    assert pays.kept == 10


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), None])
async def test_what_is_no_number_has_failed(value: Any) -> None:
    async def async_value(*given: Any) -> Any:
        return value

    for score in (lambda *given: value, async_value):
        paid = await Pays(score)()
        assert {cells[0].value for cells in paid.values()} == {None}


async def test_several_metrics_are_scored_at_once_each_by_its_name() -> None:
    pays = Pays(lambda *given: (0.5, Score(9.0, "long")), metrics=[SCORE, LENGTH])
    (cells, *_) = (await pays()).values()
    assert [(cell.metric, cell.value, cell.reason) for cell in cells] == [("score", 0.5, ""), ("length", 9.0, "long")]
    assert pays.kept == 40


async def test_too_few_scores_are_a_mistake_of_the_function_and_not_of_the_playbook() -> None:
    async def one(*given: Any) -> float:
        return 1.0

    for score in (one, lambda *given: 1.0, lambda *given: [1.0, 2.0, 3.0]):
        with pytest.raises(SettingsError, match=r"scoring function.*expected 2, one for each metric"):
            await Pays(score, metrics=[SCORE, LENGTH])()


async def test_of_an_async_function_each_cell_is_kept_the_moment_it_is_scored() -> None:
    store, kept = MemoryStore(), []

    async def looks(playbook: Playbook, task: Task, replicate: int) -> float:
        kept.append(sum(1 for _ in store.facts(Query(kind="cell"))))
        return 1.0

    await Pays(looks, store, at_once=1)()
    assert kept == list(range(20))


async def test_no_more_are_scored_at_once_than_it_may() -> None:
    now, most = 0, 0

    async def counts(playbook: Playbook, task: Task, replicate: int) -> float:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return 1.0

    await Pays(counts, at_once=3)()
    assert most == 3


@pytest.mark.parametrize("waits", [False, True])
async def test_if_somebody_was_quicker_their_scores_count(waits: bool) -> None:
    """Of two that score the same, by chance differently, one truth is kept, and both are told that."""
    store = MemoryStore()
    first = await Pays(lambda *given: 1.0, store)([(book(0), ITEMS[:4])])

    async def zero(*given: Any) -> float:
        return 0.0

    second = await Pays(zero if waits else lambda *given: 0.0, store)()
    for spot, cells in second.items():
        assert [cell.value for cell in cells] == [1.0 if spot in first else 0.0]
    assert sum(1 for _ in store.facts(Query(kind="cell"))) == 20


@pytest.mark.parametrize("waits", [False, True])
async def test_if_somebody_was_quicker_with_one_of_two_scores_that_one_counts(waits: bool) -> None:
    store = MemoryStore()
    await Pays(lambda *given: (1.0, Score(None, "too dear")), store, metrics=[SCORE, LENGTH])()

    async def both(*given: Any) -> tuple[float, float]:
        return 0.0, 7.0

    paid = await Pays(both if waits else lambda *given: (0.0, 7.0), store, metrics=[SCORE, LENGTH])()
    assert {tuple(cell.value for cell in cells) for cells in paid.values()} == {(1.0, 7.0)}


@pytest.mark.parametrize("waits", [False, True])
async def test_what_scores_cost_is_counted(waits: bool) -> None:
    async def priced(*given: Any) -> Score:
        return Score(1.0, cost_usd=0.25)

    pays = Pays(priced if waits else lambda *given: Score(1.0, cost_usd=0.25))
    await pays()
    assert pays.ledger.spent_usd == pytest.approx(5.0)


async def test_another_version_of_a_measure_shares_no_score_with_it() -> None:
    pays = Pays(by_number)
    await pays()
    newer = FunctionEvaluator(by_number, pays.store, "ann", [Measure(version=2)])
    assert known_cells(newer, WORK) == {}
    assert len(known_cells(FunctionEvaluator(by_number, pays.store, "bob"), WORK)) == 20


async def test_it_performs_nothing() -> None:
    arena = Pays(by_number).arena
    with pytest.raises(SettingsError, match="expected one that needs none"):
        await arena.perform("r", START, {}, Ledger())
    with pytest.raises(SeedbedError, match="expected its scores from the function"):
        await Measure()(None, Task("t", {}))  # type: ignore[arg-type]
