"""Arena: where a search pays for cells. Benched: by runs on a bench."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from seedbed.errors import NotFound
from seedbed.evaluation.cells import Asked, Cell, Naming, recorded, run_of
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.evaluate import Bench, Item, cells_of, seed_of
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.metrics.metric import Metric
from seedbed.parallel import in_order
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.recorder import recall
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Digest, Json, Store

Work: TypeAlias = tuple[Playbook, Sequence[Item]]
Spot: TypeAlias = tuple[Digest, str, int]
"""A playbook at a task, and which of its replicates."""
Paid: TypeAlias = dict[Spot, Sequence[Cell]]
"""The cells of each spot, one for each metric."""
Fails: TypeAlias = Callable[[Sequence[Cell]], None]
"""Is told cells of which some have no value, the moment that is known."""


class Evaluator(Protocol):
    """Pays for cells, each a fact the moment it is paid."""

    @property
    def store(self) -> Store: ...

    @property
    def metrics(self) -> Sequence[Metric]: ...

    @property
    def asked(self) -> Asked: ...

    @property
    def by(self) -> str: ...

    @property
    def clock(self) -> Callable[[], datetime]: ...

    def identity(self, playbook: Playbook) -> Json:
        """What is behind a playbook: its cells are known only while that stays."""

    def present(self) -> AbstractAsyncContextManager[None]:
        """A block in which others are told that we are at work."""

    async def pay(self, work: Sequence[Work], ledger: Ledger, failed: Fails) -> Paid:
        """The cells of all work, of which none is known; one whose run failed has no value, and `failed` is told."""

    async def perform(self, run: str, playbook: Playbook, inputs: Mapping[str, Any], ledger: Ledger) -> Run:
        """The run of that name: recorded, or performed now."""


def known(arena: Evaluator, work: Iterable[Work], lapses: FailedRuns | None = None) -> Paid:
    """The cells that were paid before, where all of a spot were; with those that failed for good."""
    found: Paid = {}
    for playbook, items in work:
        naming = naming_of(arena, playbook)
        names = {(playbook.digest, task.id, replicate): naming(task, replicate).cells for task, replicate in items}
        keys = [key for cells in names.values() for key in cells]
        cells = {cell.key: cell for cell in recorded(arena.store, playbook.digest, keys)}
        if lapses:
            cells |= {key: lapses[key] for key in keys if key in lapses}
        found |= {spot: [cells[key] for key in own] for spot, own in names.items() if all(key in cells for key in own)}
    return found


def naming_of(arena: Evaluator, playbook: Playbook) -> Naming:
    identities = [metric.identity for metric in arena.metrics]
    return Naming(playbook.digest, arena.identity(playbook), identities, arena.asked)


@dataclass(frozen=True)
class RunEvaluator:
    """Cells are paid for by runs on a bench: in this loop, in other processes, or on a cluster."""

    bench: Bench
    metrics: Sequence[Metric]
    asked: Asked = field(default_factory=Asked)

    @property
    def store(self) -> Store:
        return self.bench.store

    @property
    def by(self) -> str:
        return self.bench.by

    @property
    def clock(self) -> Callable[[], datetime]:
        return self.bench.clock

    def identity(self, playbook: Playbook) -> Json:
        return self.bench.identity(playbook)

    def present(self) -> AbstractAsyncContextManager[None]:
        return self.bench.present()

    async def perform(self, run: str, playbook: Playbook, inputs: Mapping[str, Any], ledger: Ledger) -> Run:
        Library(self.store, self.by).keep(playbook, because="helps with a search")
        task = Task(run, inputs)
        return await self.bench.perform(run, playbook, task, seed_of(task, 0), ledger)

    async def pay(self, work: Sequence[Work], ledger: Ledger, failed: Fails) -> Paid:
        paid: Paid = {}

        def add(playbook: Playbook, item: Item, cells: Sequence[Cell]) -> None:
            if any(cell.value is None for cell in cells):
                cells = self._with_costs(cells)
                failed(cells)
            paid[_spot(playbook, item)] = cells

        if elsewhere := self.bench.elsewhere:

            async def all_of(playbook: Playbook, items: Sequence[Item]) -> None:
                async with aclosing(elsewhere(playbook, items, self.metrics, self.bench, ledger)) as rows:
                    for item in items:
                        add(playbook, item, await anext(rows))

            await _together(all_of(*each) for each in work)
            return paid
        pays = await asyncio.to_thread(
            lambda: [cells_of(each, items, self.metrics, self.bench, ledger) for each, items in work]
        )
        # Task by task, so that all candidates get on together and none has to wait for the last.
        turns = [(place, number) for number, (_, items) in enumerate(work) for place in range(len(items))]
        turns.sort()

        async def one(turn: tuple[int, int]) -> None:
            place, number = turn
            playbook, items = work[number]
            add(playbook, items[place], await pays[number](items[place]))

        async with aclosing(in_order(turns, one, at_once=self.bench.at_once)) as coming:
            async for _ in coming:
                pass
        return paid

    def _with_costs(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """With what a run did cost that failed, which its cells do not know."""
        if any(cell.run for cell in cells):
            return cells
        with suppress(NotFound):
            run = recall(self.store, run_of(cells[0].key))
            usd, tokens = run.cost_usd, run.tokens
            return [replace(cell, cost_usd=cell.cost_usd + usd, tokens=cell.tokens + tokens) for cell in cells]
        return cells


def cost_of(cells: Sequence[Cell]) -> tuple[float, int]:
    """What a run and its scores did cost, in US dollars and tokens. Each cell has that of the run, and its own."""
    if len(cells) == 1:
        return cells[0].cost_usd, cells[0].tokens
    usd, tokens = min(cell.cost_usd for cell in cells), min(cell.tokens for cell in cells)
    return usd + sum(cell.cost_usd - usd for cell in cells), tokens + sum(cell.tokens - tokens for cell in cells)


def _spot(playbook: Playbook, item: Item) -> Spot:
    return playbook.digest, item[0].id, item[1]


async def _together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """All at the same time; if one fails the others are ended, so that nothing is spent that nobody waits for."""
    doing = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*doing)
    finally:
        for each in doing:
            each.cancel()
        await asyncio.gather(*doing, return_exceptions=True)
