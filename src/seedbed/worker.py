"""What evaluations and replays have done by other processes: in chunks, each with a slice of the budget."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from seedbed.errors import BudgetSpent, QuotaSpent, RunError
from seedbed.evaluation.cells import Cell, Cells
from seedbed.evaluation.dataset import Task
from seedbed.evaluation.evaluate import Bench, Elsewhere, Item, all_cells, seed_of
from seedbed.evaluation.metrics import Metric
from seedbed.parallel import Executor, in_chunks, in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Missed
from seedbed.stage.ledger import Ledger
from seedbed.storage.store import Json

if TYPE_CHECKING:
    from seedbed.experiments.replay import Others

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
            _places[name] = self.open(pickle.loads(self.told))  # noqa: S301 - from whoever started this worker
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
        cells = await all_cells(playbook, chunk.items, pickle.loads(chunk.metrics), bench, ledger)  # noqa: S301 - as above
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

        async def done(items: Sequence[Item], money: Slice) -> Outcome[list[Sequence[Cell]]]:
            chunk = replace(whole, items=tuple(items), max_cost_usd=money.usd, max_tokens=money.tokens)
            outcome: Outcome[Cells] = await executor.do(evaluated, chunk)
            rows = _rows(outcome.results, len(metrics))
            return Outcome(rows, outcome.spent_usd, outcome.spent_tokens, outcome.short, outcome.seconds)

        def unpaid(row: Sequence[Cell]) -> bool:
            return any(cell.value is None for cell in row)

        async with aclosing(_paid(executor, plan, done, unpaid, ledger)) as rows:
            async for row in rows:
                yield row

    return cells


def _rows(cells: Cells, metrics: int) -> list[Sequence[Cell]]:
    every = list(cells)
    return [every[start : start + metrics] for start in range(0, len(every), metrics)]


async def _paid(
    executor: Executor,
    plan: Sequence[Asked],
    done: Callable[[Sequence[Asked], Slice], Awaitable[Outcome[list[Result]]]],
    unpaid: Callable[[Result], bool],
    ledger: Ledger,
) -> AsyncGenerator[Result, None]:
    """The results of a plan in its order, a chunk at a time, each done with a slice of what the ledger has.

    What may have been `unpaid` because its slice was short is done again with all that is left.
    """
    workers = await executor.ready()
    purse = Purse.of(ledger, shares=2 * workers)

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


Asking = tuple[Playbook, Task]
"""A past run, and the playbook to replay it under."""


@dataclass(frozen=True, kw_only=True)
class ReplayChunk(Chunk):
    """Past runs to replay, each under one of the playbooks, by its number."""

    playbooks: tuple[Json, ...] = ()
    items: tuple[tuple[int, Task], ...] = ()


async def replayed(chunk: ReplayChunk) -> Outcome[list[RunError | None]]:
    """Replay past runs, in a worker, and say what went wrong with each."""
    began = time.perf_counter()
    bench, ledger = chunk.place().bench, chunk.ledger()
    playbooks = [Playbook.from_document(each) for each in chunk.playbooks]

    async def one(item: tuple[int, Task]) -> RunError | None:
        number, task = item
        if ledger.is_short:
            return BudgetSpent("the money for these replays was spent")
        own = Ledger(kept=0.0, within=ledger)
        try:
            await bench.perform("", playbooks[number], task, seed_of(task, 0), own)
        except QuotaSpent:
            raise  # which is no fault of the recording
        except RunError as wrong:
            return wrong if type(wrong) is Missed else RunError(str(wrong))
        return None

    async with bench.present(), aclosing(in_order(chunk.items, one, at_once=chunk.at_once)) as coming:
        wrong = [each async for each in coming]
    return Outcome(wrong, ledger.spent_usd, ledger.spent_tokens, ledger.refused, time.perf_counter() - began)


def replays_elsewhere(executor: Executor, open_place: Open, tell: Callable[[], object], at_once: int) -> Others:
    """Have past runs replayed by the workers of an executor, each in a place of replays it opens by what it is told."""

    async def replays(plan: Sequence[Asking], ledger: Ledger) -> AsyncGenerator[RunError | None, None]:
        if not plan:
            return
        whole = ReplayChunk(open=open_place, told=executor.packed(tell(), "workspace"), at_once=at_once)

        async def done(items: Sequence[Asking], money: Slice) -> Outcome[list[RunError | None]]:
            known = {playbook.digest: playbook.document() for playbook, _ in items}
            numbers = {name: number for number, name in enumerate(known)}
            asked = tuple((numbers[playbook.digest], task) for playbook, task in items)
            chunk = replace(whole, playbooks=tuple(known.values()), items=asked)
            chunk = replace(chunk, max_cost_usd=money.usd, max_tokens=money.tokens)
            outcome: Outcome[list[RunError | None]] = await executor.do(replayed, chunk)
            return outcome

        def unpaid(wrong: RunError | None) -> bool:
            return wrong is not None and not isinstance(wrong, Missed)

        async with aclosing(_paid(executor, plan, done, unpaid, ledger)) as coming:
            async for wrong in coming:
                yield wrong

    return replays


# Money


@dataclass
class Slice:
    """US dollars and tokens that one chunk may spend, None of what nobody limits; and what it
    has `spent` of both, once that is known."""

    usd: float | None
    tokens: int | None
    spent: tuple[float, int] | None = None

    @property
    def most(self) -> tuple[float, int]:
        return self.usd or 0.0, self.tokens or 0


class Purse:
    """What a ledger has for chunks that are paid for at once: each holds a slice until it is known what it spent.

    What became of the slice of a worker that was lost nobody knows, so it counts as spent.
    """

    def __init__(self, shares: int) -> None:
        self.is_empty = False
        self._shares = shares
        self._held: list[Slice] = []
        self._settled = asyncio.Condition()

    @classmethod
    def of(cls, ledger: Ledger, *, shares: int) -> Purse:
        """The one purse of a ledger: whoever else pays by it at the same time takes slices of the same money."""
        if ledger not in _purses:
            _purses[ledger] = cls(shares)
        return _purses[ledger]

    @asynccontextmanager
    async def slice(self, ledger: Ledger, *, alone: bool = False) -> AsyncIterator[Slice]:
        """A share of what is left; or all of it, as soon as nobody else holds any."""
        if ledger.limit_usd is None and ledger.limit_tokens is None:
            taken = Slice(None, None)
            yield taken
            ledger.spend(*(taken.spent or taken.most))
            return
        async with self._settled:
            await self._settled.wait_for(lambda: len(self._held) < (1 if alone else self._shares))
            taken = self._cut(ledger, 1 if alone else self._shares - len(self._held))
            self._held.append(taken)
        try:
            yield taken
        finally:
            self._held = [each for each in self._held if each is not taken]
            ledger.spend(*(taken.most if taken.spent is None else taken.spent))
            async with self._settled:
                self._settled.notify_all()

    def _cut(self, ledger: Ledger, shares: int) -> Slice:
        def share(limit: float | None, spent: float, held: float) -> float | None:
            if limit is None:
                return None
            return 0.0 if self.is_empty else max(0.0, limit - spent - held) / shares

        usd = share(ledger.limit_usd, ledger.spent_usd, sum(each.usd or 0.0 for each in self._held))
        tokens = share(ledger.limit_tokens, ledger.spent_tokens, sum(each.tokens or 0 for each in self._held))
        return Slice(usd, None if tokens is None else int(tokens))


_purses: WeakKeyDictionary[Ledger, Purse] = WeakKeyDictionary()
