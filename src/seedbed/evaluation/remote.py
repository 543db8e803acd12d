"""What evaluations and replays have done by other processes: in chunks, each with a slice of the budget."""

from __future__ import annotations

import pickle
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from seedbed.evaluation.cells import Cell, Cells
from seedbed.evaluation.evaluate import Bench, Elsewhere, Item, all_cells
from seedbed.evaluation.metrics.metric import Metric
from seedbed.parallel import Executor, in_chunks
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.ledger import Ledger
from seedbed.spending.shares import BudgetShare, BudgetShares
from seedbed.storage.store import Json

if TYPE_CHECKING:
    pass

Asked = TypeVar("Asked")
Result = TypeVar("Result")
Results = TypeVar("Results", covariant=True)


class Place(Protocol):
    """Where a worker evaluates or replays: a workspace of its own."""

    @property
    def bench(self) -> Bench: ...


Open = Callable[[Any], Place]
"""Opens a place by what it was told: a function of a module, which every worker can import."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Work for a worker: all that it has to know. `told` is for `open`."""

    open: Open
    told: bytes
    at_once: int
    max_cost_usd: float | None = None
    max_tokens: int | None = None

    def place(self) -> Place:
        name = (f"{self.open.__module__}.{self.open.__qualname__}", self.told)
        if name not in _places:
            _places[name] = self.open(pickle.loads(self.told))
        return _places[name]

    def ledger(self) -> Ledger:
        limits = self.max_cost_usd, self.max_tokens
        ledger = Ledger(*limits, kept=0.0)
        if any(limit is not None and limit <= 0 for limit in limits):
            ledger.refuse()
        return ledger


_places: dict[tuple[str, bytes], Place] = {}
"""The workspaces that this process has opened. They stay open until it ends."""


@dataclass(frozen=True)
class Outcome(Generic[Results]):
    """The results of a chunk, in its order; what they cost, whether its slice was short, and how long they took."""

    results: Results
    spent_usd: float
    spent_tokens: int
    short: bool
    seconds: float


# Cells


@dataclass(frozen=True, kw_only=True)
class CellChunk(Chunk):
    """Cells to pay for; `metrics` are pickled."""

    playbook: Json
    metrics: bytes
    timeout_seconds: float | None
    items: tuple[Item, ...] = ()


async def evaluated(chunk: CellChunk) -> Outcome[Cells]:
    """Pay for the cells of a chunk, in a worker."""
    began = time.perf_counter()
    bench = chunk.place().bench
    bench = replace(bench, at_once=chunk.at_once, timeout_seconds=chunk.timeout_seconds, elsewhere=None)
    playbook, ledger = Playbook.from_document(chunk.playbook), chunk.ledger()
    async with bench.present():
        cells = await all_cells(playbook, chunk.items, pickle.loads(chunk.metrics), bench, ledger)
    return Outcome(cells, ledger.spent_usd, ledger.spent_tokens, ledger.refused, time.perf_counter() - began)


def elsewhere(executor: Executor, open_place: Open, tell: Callable[[], object]) -> Elsewhere:
    """Have cells paid for by the workers of an executor, each in a place it opens by what it is told."""

    async def cells(
        playbook: Playbook, plan: Sequence[Item], metrics: Sequence[Metric], bench: Bench, ledger: Ledger
    ) -> AsyncGenerator[Sequence[Cell], None]:
        if not plan:
            return
        whole = CellChunk(
            open=open_place,
            told=executor.packed(tell(), "workspace"),
            playbook=playbook.document(),
            metrics=executor.packed(list(metrics), "metrics"),
            at_once=bench.at_once,
            timeout_seconds=bench.timeout_seconds,
        )

        async def done(items: Sequence[Item], money: BudgetShare) -> Outcome[list[Sequence[Cell]]]:
            chunk = replace(whole, items=tuple(items), max_cost_usd=money.usd, max_tokens=money.tokens)
            outcome: Outcome[Cells] = await executor.do(evaluated, chunk)
            rows = _rows(outcome.results, len(metrics))
            return Outcome(rows, outcome.spent_usd, outcome.spent_tokens, outcome.short, outcome.seconds)

        def unpaid(row: Sequence[Cell]) -> bool:
            return any(cell.value is None for cell in row)

        async with aclosing(paid(executor, plan, done, unpaid, ledger)) as rows:
            async for row in rows:
                yield row

    return cells


def _rows(cells: Cells, metrics: int) -> list[Sequence[Cell]]:
    every = list(cells)
    return [every[start : start + metrics] for start in range(0, len(every), metrics)]


async def paid(
    executor: Executor,
    plan: Sequence[Asked],
    done: Callable[[Sequence[Asked], BudgetShare], Awaitable[Outcome[list[Result]]]],
    unpaid: Callable[[Result], bool],
    ledger: Ledger,
) -> AsyncGenerator[Result, None]:
    """The results of a plan in its order, a chunk at a time, each done with a slice of what the ledger has.

    What may have been `unpaid` because its slice was short is done again with all that is left.
    """
    workers = await executor.ready()
    purse = BudgetShares.of(ledger, shares=2 * workers)

    async def some(items: Sequence[Asked], *, alone: bool = False) -> Outcome[list[Result]]:
        async with purse.slice(ledger, alone=alone) as slice_:
            outcome = await done(items, slice_)
            slice_.spent = outcome.spent_usd, outcome.spent_tokens
        return outcome

    async def paid(items: Sequence[Asked]) -> tuple[Sequence[Result], float]:
        outcome = await some(items)
        results = outcome.results
        if outcome.short and not purse.is_empty:  # of its slice, which says nothing of the whole
            again = [place for place, result in enumerate(results) if unpaid(result)]
            second = await some([items[place] for place in again], alone=True)
            if second.short:
                purse.is_empty = True
                ledger.refuse()
            for place, result in zip(again, second.results, strict=True):
                results[place] = result
        return results, outcome.seconds

    async with aclosing(in_chunks(plan, paid, workers=workers)) as results:
        async for result in results:
            yield result


# Replays


# Money
