"""evaluate(): a playbook over tasks gives a Scorecard; what was paid before is reused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime

from seedbed.errors import BudgetSpent, RunError
from seedbed.evaluation.cells import Cell, Cells, Names, Naming, performed, recorded
from seedbed.evaluation.dataset import Task
from seedbed.evaluation.metrics import Metric, Score
from seedbed.evaluation.scorecard import Scorecard, scorecard
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.run import Run
from seedbed.stage.ledger import Ledger
from seedbed.storage.store import Json, Store, digest

Item = tuple[Task, int]
"""A task, and which of its replicates."""

Perform = Callable[[str, Playbook, Task, int, Ledger], Awaitable[Run]]
"""Gives the run of that id: performed now with that seed and money, or by whoever was quicker."""


Elsewhere = Callable[
    [Playbook, Sequence[Item], Sequence[Metric], "Bench", float | None], AsyncGenerator[Sequence[Cell], None]
]
"""Pays for cells in other processes, and gives those of each item in order; all of it within the money."""


@dataclass(frozen=True)
class Bench:
    """Where evaluations happen: who performs, where cells are kept, and how many run at once.

    `identity` says what the models behind a playbook are, so that a cell is reused only while they stay. `present` is
    a block in which others are told that we are at work. With `elsewhere` others perform.
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
    not last for: `max_cost_usd` is never exceeded. A spent quota ends the evaluation with BudgetSpent.
    """
    chosen = list(metrics) if isinstance(metrics, Sequence) else [metrics]
    todo = list(tasks)
    plan = [(task, replicate) for task in todo for replicate in range(replicates)]
    done = Cells(playbook.digest)
    ledger = Ledger(max_cost_usd, kept=0.0)
    async with bench.present(), aclosing(cells_in_order(playbook, plan, chosen, bench, ledger)) as results:
        async for cells in results:
            for cell in cells:
                done.append(cell)
            if watch:
                watch(cells[0])
    return scorecard(playbook.digest, chosen, done, todo)


async def cells_in_order(
    playbook: Playbook, plan: Sequence[Item], metrics: Sequence[Metric], bench: Bench, ledger: Ledger
) -> AsyncGenerator[Sequence[Cell], None]:
    """The cells of each item of the plan, one for each metric, in its order: known ones, or by running."""
    work = _Work(playbook, metrics, bench, ledger)
    await asyncio.to_thread(work.look_up, plan)  # the store may have very many of them
    known = [work.known(item) for item in plan]
    rest = [item for item, cells in zip(plan, known, strict=True) if cells is None]
    coming: AsyncGenerator[Sequence[Cell], None]
    if bench.elsewhere:
        coming = bench.elsewhere(playbook, rest, metrics, bench, ledger.limit_usd)
    else:
        coming = in_order(rest, work.pay, at_once=bench.at_once)
    async with aclosing(coming):
        for number, cells in enumerate(known):
            yield await anext(coming) if cells is None else cells
            if number % A_BREATH == 0:
                await asyncio.sleep(0)


def cells_of(
    playbook: Playbook, plan: Sequence[Item], metrics: Sequence[Metric], bench: Bench, ledger: Ledger | None = None
) -> Callable[[Item], Awaitable[Sequence[Cell]]]:
    """A function that gives the cells of a (task, replicate), one for each metric: known ones, or by running."""
    work = _Work(playbook, metrics, bench, ledger or Ledger())
    work.look_up(plan)

    async def cells_at(item: Item) -> Sequence[Cell]:
        return work.known(item) or await work.pay(item)

    return cells_at


class _Work:
    """What an evaluation knows, and how it pays for the rest."""

    def __init__(self, playbook: Playbook, metrics: Sequence[Metric], bench: Bench, ledger: Ledger) -> None:
        self._playbook = playbook
        self._metrics = metrics
        self._bench = bench
        self._ledger = ledger
        self._naming = Naming(playbook.digest, bench.identity(playbook), metrics)
        self._names: dict[tuple[str, int], Names] = {}
        self._known: dict[str, Cell] = {}
        self._performed: set[str] = set()

    def look_up(self, plan: Sequence[Item]) -> None:
        """Find the cells of a plan that were paid before."""
        self._names = {(task.id, replicate): self._naming(task, replicate) for task, replicate in plan}
        keys = {key for names in self._names.values() for key in names.cells}
        self._known = recorded(self._bench.store, self._playbook.digest, keys)
        left = {names.run for names in self._names.values() if any(key not in self._known for key in names.cells)}
        self._performed = performed(self._bench.store, self._playbook.digest, left)

    def known(self, item: Item) -> Sequence[Cell] | None:
        """Its cells, if all of them are known."""
        cells = [self._known.get(key) for key in self._names[item[0].id, item[1]].cells] if self._known else [None]
        return None if None in cells else cells  # type: ignore[return-value]

    async def pay(self, item: Item) -> Sequence[Cell]:
        """Its cells: those that are known, and the others by running."""
        names = self._names[item[0].id, item[1]]
        cells = {key: self._known.get(key) for key in names.cells}
        missing = {key: metric for key, metric in zip(names.cells, self._metrics, strict=True) if not cells[key]}
        before = names.run in self._performed
        paid = await _pay(names.run, self._playbook, *item, missing, self._bench, self._ledger, reused=before)
        cells |= {cell.key: cell for cell in paid}
        return [cell for cell in cells.values() if cell]


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
        known = recorded(bench.store, playbook.digest, [each.key for each in scored])
        cells = [known.get(each.key, each) for each in cells]
    return cells


async def _performed(
    run: str, playbook: Playbook, task: Task, replicate: int, bench: Bench, ledger: Ledger
) -> Run | str:
    """The run, or why there is none that can be scored."""
    if ledger.refused:
        return "the money for this evaluation was spent"
    own = Ledger(kept=0.0, within=ledger)  # one that was refused money says nothing of the others
    try:
        async with asyncio.timeout(bench.timeout_seconds):
            done = await bench.perform(run, playbook, task, seed_of(task, replicate), own)
    except BudgetSpent as spent:
        if not own.refused:
            raise  # it is the quota's, and no fault of the playbook's
        return str(spent)
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
    "cells_in_order",
    "cells_of",
    "evaluate",
    "seed_of",
]
