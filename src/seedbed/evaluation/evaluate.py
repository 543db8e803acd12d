"""evaluate(): a playbook over tasks gives a Scorecard; what was paid before is reused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count, product
from typing import overload

from seedbed.errors import QuotaSpent, RunError
from seedbed.evaluation.cells import Cell, Cells, Naming, performed, recorded, run_of
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.judges.judge import JudgeContext, sitting
from seedbed.evaluation.metrics.metric import Metric, Score
from seedbed.evaluation.scorecard import Scorecard, scorecard
from seedbed.parallel import in_order
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Json, Store, digest

Item = tuple[Task, int]
"""A task, and which of its replicates."""

Perform = Callable[[str, Playbook, Task, int, Ledger], Awaitable[Run]]
"""Gives the run of that id: performed now with that seed and money, or by whoever was quicker."""


Elsewhere = Callable[
    [Playbook, Sequence[Item], Sequence[Metric], "Bench", Ledger], AsyncGenerator[Sequence[Cell], None]
]
"""Pays for cells in other processes, and gives those of each item in order; all of it from the ledger."""


@dataclass(frozen=True)
class Bench:
    """Where evaluations happen: who performs, where cells are kept, and how many run at once.

    `identity` says what the models behind a playbook are, so that a cell is reused only while they stay. `present` is
    a block in which others are told that we are at work. With `elsewhere` others perform. Where runs are not live,
    `live` is the bench that judges are asked on.
    """

    store: Store
    perform: Perform
    identity: Callable[[Playbook], Json]
    by: str
    at_once: int = 8
    timeout_seconds: float | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    present: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    elsewhere: Elsewhere | None = None
    live: Bench | None = None
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "journal", Journal(self.store))


Watcher = Callable[[Cell], None]

A_BREATH = 500
"""After so many known cells others get their turn."""


async def evaluate(
    playbook: Playbook,
    tasks: Iterable[Task],
    metrics: Metric | Sequence[Metric],
    bench: Bench,
    *,
    replicates: int = 1,
    max_cost_usd: float | None = None,
    watch: Watcher | None = None,
) -> Scorecard:
    """Score a playbook, by the first metric above all. Each cell is a fact the moment it is paid; known ones are free.

    A run that fails leaves its cells without a value, to be tried again next time, and so does one that the money does
    not last for: `max_cost_usd` is never exceeded. A spent quota ends the evaluation with QuotaSpent.
    """
    chosen = list(metrics) if isinstance(metrics, Sequence) else [metrics]
    todo = list(tasks)
    plan = _Plan(todo, replicates)
    ledger = Ledger(max_cost_usd, kept=0.0)
    async with bench.present():
        cells = await all_cells(playbook, plan, chosen, bench, ledger, watch)
    return scorecard(playbook.digest, chosen, cells, todo, paid_usd=ledger.spent_usd)


class _Plan(Sequence[Item]):
    """All replicates of all tasks. Items are made when asked for: very many at once slow the garbage collector down."""

    def __init__(self, tasks: Sequence[Task], replicates: int) -> None:
        self._tasks, self._replicates = tasks, replicates

    def __len__(self) -> int:
        return len(self._tasks) * self._replicates

    @overload
    def __getitem__(self, number: int) -> Item: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Item]: ...
    def __getitem__(self, number: int | slice) -> Item | Sequence[Item]:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        return self._tasks[number // self._replicates], number % self._replicates

    def __iter__(self) -> Iterator[Item]:
        return product(self._tasks, range(self._replicates))


async def all_cells(
    playbook: Playbook,
    plan: Sequence[Item],
    metrics: Sequence[Metric],
    bench: Bench,
    ledger: Ledger,
    watch: Watcher | None = None,
) -> Cells:
    """The cells of each item of the plan, one for each metric, in its order: known ones, or by running."""
    work = _Work(playbook, plan, metrics, bench, ledger)
    unknown = await asyncio.to_thread(work.look_up)  # the store may have very many of them
    coming: AsyncGenerator[Sequence[Cell], None]
    if bench.elsewhere:
        coming = bench.elsewhere(playbook, [plan[number] for number in unknown], metrics, bench, ledger)
    else:
        coming = in_order(unknown, work.pay, at_once=bench.at_once)
    async with aclosing(coming):
        left = {*unknown}
        for number in range(len(plan)) if watch else unknown:
            if number in left:
                work.add(number, await anext(coming))
            if watch:
                watch(work.first(number))
            if number % A_BREATH == 0:
                await asyncio.sleep(0)
    return await asyncio.to_thread(work.in_order)


def cells_of(
    playbook: Playbook, plan: Sequence[Item], metrics: Sequence[Metric], bench: Bench, ledger: Ledger | None = None
) -> Callable[[Item], Awaitable[Sequence[Cell]]]:
    """A function that gives the cells of a (task, replicate), one for each metric: known ones, or by running."""
    work = _Work(playbook, plan, metrics, bench, ledger or Ledger())
    work.look_up()
    numbers = {(task.id, replicate): number for number, (task, replicate) in enumerate(plan)}
    return lambda item: work.pay(numbers[item[0].id, item[1]])


class _Work:
    """What an evaluation knows of the items of a plan, each by its number, and how it pays for the rest."""

    def __init__(
        self, playbook: Playbook, plan: Sequence[Item], metrics: Sequence[Metric], bench: Bench, ledger: Ledger
    ) -> None:
        self._playbook = playbook
        self._plan = plan
        self._metrics = metrics
        self._bench = bench
        self._ledger = ledger
        self._court = _court(bench, ledger)
        self._keys: list[str] = []
        self._cells = Cells(playbook.digest)
        self._places: list[int | None] = []  # of the cells that the keys name
        self._performed: set[str] = set()

    def look_up(self) -> list[int]:
        """Find what was paid before, and say of which items some is missing."""
        models = self._bench.identity(self._playbook)
        naming = Naming(self._playbook.digest, models, [metric.identity for metric in self._metrics])
        self._keys = [key for item in self._plan for key in naming(*item).cells]
        places: dict[str, int | None] = dict.fromkeys(self._keys)
        self._cells = recorded(self._bench.store, self._playbook.digest, places)
        places.update(zip(self._cells.texts("key"), count()))
        self._places = [places[key] for key in self._keys]
        if None not in self._places:
            return []
        unknown = [number for number in range(len(self._plan)) if None in self._places[self._of(number)]]
        runs = {run_of(self._keys[number * len(self._metrics)]) for number in unknown}
        self._performed = performed(self._bench.store, self._playbook.digest, runs)
        return unknown

    async def pay(self, number: int) -> Sequence[Cell]:
        """Its cells: those that are known, and the others by running."""
        keys, places = self._keys[self._of(number)], self._places[self._of(number)]
        cells = {key: self._cells[place] for key, place in zip(keys, places, strict=True) if place is not None}
        missing = {key: metric for key, metric in zip(keys, self._metrics, strict=True) if key not in cells}
        if missing:
            run, item = run_of(keys[0]), self._plan[number]
            before = run in self._performed
            with sitting(self._court):
                paid = await _pay(run, self._playbook, *item, missing, self._bench, self._ledger, reused=before)
            cells |= {cell.key: cell for cell in paid}
        return [cells[key] for key in keys]

    def add(self, number: int, cells: Sequence[Cell]) -> None:
        """The cells of an item, now that they are paid."""
        self._places[self._of(number)] = range(len(self._cells), len(self._cells) + len(cells))
        for cell in cells:
            self._cells.append(cell)

    def first(self, number: int) -> Cell:
        place = self._places[number * len(self._metrics)]
        assert place is not None
        return self._cells[place]

    def in_order(self) -> Cells:
        """All cells, in the order of the plan."""
        return self._cells.take(place for place in self._places if place is not None)

    def _of(self, number: int) -> slice:
        return slice(number * len(self._metrics), (number + 1) * len(self._metrics))


def _court(bench: Bench, ledger: Ledger) -> JudgeContext:
    """Where judges sit during an evaluation: their runs are performed and paid for like those they judge."""
    bench = bench.live or bench

    async def once(run: str, playbook: Playbook, inputs: Json, seed: int, money: Ledger) -> Run:
        Library(bench.store, bench.by).keep(playbook, because="judge")
        return await bench.perform(run, playbook, Task(run, inputs), seed, money)

    return JudgeContext(once, bench.identity, ledger)


def seed_of(task: Task, replicate: int) -> int:
    """The seed of a task's replicate: the same for every playbook, so that comparisons are paired."""
    return int(digest("seed", [dict(task.inputs), replicate])[3:11], 16)


async def _pay(
    run: str,
    playbook: Playbook,
    task: Task,
    replicate: int,
    metrics: Mapping[str, Metric],
    bench: Bench,
    ledger: Ledger,
    *,
    reused: bool,
) -> list[Cell]:
    """The cells of one run, one for each metric, by their keys; `reused` says whether it was paid before."""

    def cell(key: str, score: Score, done: Run | None = None) -> Cell:
        return Cell(
            key=key,
            playbook=playbook.digest,
            task=task.id,
            replicate=replicate,
            metric=metrics[key].name,
            value=score.value,
            reason=score.reason,
            answer=score.answer,
            run=done.id if done else "",
            cost_usd=(done.cost_usd if done else 0.0) + score.cost_usd,
            tokens=(done.tokens if done else 0) + score.tokens,
            latency_seconds=done.latency_seconds if done else 0.0,
            reused=reused,
        )

    done = await _performed(run, playbook, task, replicate, bench, ledger)
    if isinstance(done, str):
        return [cell(key, Score(None, done)) for key in metrics]
    cells = [cell(key, await metric(done, task), done) for key, metric in metrics.items()]
    scored = [each for each in cells if each.value is not None]
    adding = [bench.journal.add(each.fact(bench.clock(), bench.by)) for each in scored]
    kept = await asyncio.gather(*adding) if len(adding) > 1 else [await each for each in adding]
    if not all(kept):  # somebody was quicker, and there is one truth
        known = {each.key: each for each in recorded(bench.store, playbook.digest, [each.key for each in scored])}
        cells = [known.get(each.key, each) for each in cells]
    return cells


async def _performed(
    run: str, playbook: Playbook, task: Task, replicate: int, bench: Bench, ledger: Ledger
) -> Run | str:
    """The run, or why there is none that can be scored."""
    if ledger.is_short:
        return "the money for this evaluation was spent"
    own = Ledger(kept=0.0, within=ledger)  # one that was refused money says nothing of the others
    try:
        async with asyncio.timeout(bench.timeout_seconds):
            done = await bench.perform(run, playbook, task, seed_of(task, replicate), own)
    except QuotaSpent:
        raise  # which is no fault of the playbook's
    except RunError as wrong:
        return str(wrong)
    except TimeoutError:
        return f"it took longer than {bench.timeout_seconds:g} s"
    return done if done.status == "completed" else f"its run was not completed: {done.status}"


__all__ = [
    "Bench",
    "Cell",
    "Elsewhere",
    "Item",
    "Scorecard",
    "Watcher",
    "all_cells",
    "cells_of",
    "evaluate",
    "seed_of",
]
