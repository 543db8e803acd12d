"""What an evaluation has done by other processes: chunks of its cells, and slices of its money."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from seedbed.evaluation.cells import Cell, Cells
from seedbed.evaluation.evaluate import Bench, Elsewhere, Item, all_cells
from seedbed.evaluation.metrics import Metric
from seedbed.parallel import Executor, in_chunks
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.ledger import Ledger
from seedbed.storage.store import Json


class Place(Protocol):
    """Where a worker evaluates: a workspace of its own."""

    @property
    def bench(self) -> Bench: ...


Open = Callable[[Any], Place]
"""Opens a place by what it was told: a function of a module, which every worker can import."""


@dataclass(frozen=True)
class Chunk:
    """Cells to pay for: all that a worker has to know. `told` is for `open`; `metrics` are pickled."""

    open: Open
    told: bytes
    playbook: Json
    metrics: bytes
    items: tuple[Item, ...]
    at_once: int
    timeout_seconds: float | None
    max_cost_usd: float | None


@dataclass(frozen=True)
class Outcome:
    """The cells of a chunk, in its order; what they cost, whether the money was short, and how long they took."""

    cells: Cells
    spent_usd: float
    short: bool
    seconds: float


_places: dict[tuple[str, bytes], Place] = {}
"""The workspaces that this process has opened. They stay open until it ends."""


async def evaluated(chunk: Chunk) -> Outcome:
    """Pay for the cells of a chunk, in a worker."""
    began = time.perf_counter()
    name = (f"{chunk.open.__module__}.{chunk.open.__qualname__}", chunk.told)
    if name not in _places:
        _places[name] = chunk.open(pickle.loads(chunk.told))
    bench = replace(_places[name].bench, at_once=chunk.at_once, timeout_seconds=chunk.timeout_seconds, elsewhere=None)
    playbook = Playbook.from_document(chunk.playbook)
    ledger = Ledger(chunk.max_cost_usd, kept=0.0)
    if chunk.max_cost_usd is not None and chunk.max_cost_usd <= 0:
        ledger.refuse()
    async with bench.present():
        cells = await all_cells(playbook, chunk.items, pickle.loads(chunk.metrics), bench, ledger)
    return Outcome(cells, ledger.spent_usd, ledger.refused, time.perf_counter() - began)


def elsewhere(executor: Executor, open_place: Open, tell: Callable[[], object]) -> Elsewhere:
    """Have cells paid for by the workers of an executor, each in a place it opens by what it is told."""

    async def cells(
        playbook: Playbook, plan: Sequence[Item], metrics: Sequence[Metric], bench: Bench, ledger: Ledger
    ) -> AsyncGenerator[Sequence[Cell], None]:
        if not plan:
            return
        whole = Chunk(
            open=open_place,
            told=executor.packed(tell(), "workspace"),
            playbook=playbook.document(),
            metrics=executor.packed(list(metrics), "metrics"),
            items=(),
            at_once=bench.at_once,
            timeout_seconds=bench.timeout_seconds,
            max_cost_usd=None,
        )
        workers = await executor.ready()
        purse = Purse(ledger, shares=2 * workers)

        async def some(items: Sequence[Item], *, alone: bool = False) -> Outcome:
            async with purse.slice(alone=alone) as slice_:
                chunk = replace(whole, items=tuple(items), max_cost_usd=slice_.usd)
                outcome: Outcome = await executor.do(evaluated, chunk)
                slice_.spent_usd = outcome.spent_usd
            return outcome

        async def paid(items: Sequence[Item]) -> tuple[Sequence[Sequence[Cell]], float]:
            outcome = await some(items)
            rows = _rows(outcome.cells, len(metrics))
            if outcome.short and not purse.is_empty:  # of its slice, which says nothing of the whole
                again = [place for place, row in enumerate(rows) if any(cell.value is None for cell in row)]
                second = await some([items[place] for place in again], alone=True)
                if second.short:
                    purse.is_empty = True
                for place, row in zip(again, _rows(second.cells, len(metrics)), strict=True):
                    rows[place] = row
            return rows, outcome.seconds

        async with aclosing(in_chunks(plan, paid, workers=workers)) as results:
            async for row in results:
                yield row

    return cells


def _rows(cells: Cells, metrics: int) -> list[Sequence[Cell]]:
    every = list(cells)
    return [every[start : start + metrics] for start in range(0, len(every), metrics)]


@dataclass
class Slice:
    """Money that one chunk may spend, None if nobody limits it; and what it did spend, once that is known."""

    usd: float | None
    spent_usd: float | None = None


class Purse:
    """Money of a ledger for chunks that are paid for at once: each holds a slice until it is known what it spent.

    What became of the slice of a worker that was lost nobody knows, so it counts as spent.
    """

    def __init__(self, ledger: Ledger, *, shares: int) -> None:
        self.is_empty = False
        self._ledger = ledger
        self._left = ledger.limit_usd
        self._shares = shares
        self._holders = 0
        self._settled = asyncio.Condition()

    @asynccontextmanager
    async def slice(self, *, alone: bool = False) -> AsyncIterator[Slice]:
        """A share of what is left; or all of it, as soon as nobody else holds any."""
        if self._left is None:
            taken = Slice(None)
            yield taken
            self._ledger.spend(taken.spent_usd or 0.0)
            return
        async with self._settled:
            await self._settled.wait_for(lambda: self._holders < (1 if alone else self._shares))
            shares = 1 if alone else self._shares - self._holders
            taken = Slice(0.0 if self.is_empty else self._left / shares)
            self._left -= taken.usd or 0.0
            self._holders += 1
        try:
            yield taken
        finally:
            spent = taken.usd if taken.spent_usd is None else taken.spent_usd
            self._left += max(0.0, (taken.usd or 0.0) - (spent or 0.0))
            self._holders -= 1
            self._ledger.spend(spent or 0.0)
            async with self._settled:
                self._settled.notify_all()
