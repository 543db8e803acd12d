"""Evaluations sent to other processes: in chunks, each with a share of the budget."""

from __future__ import annotations

import pickle
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from seedbed.evaluation.cells import Cell, Cells
from seedbed.evaluation.context import EvaluationContext, TaskReplicate
from seedbed.evaluation.evaluate import all_cells
from seedbed.evaluation.metrics.metric import Metric
from seedbed.parallel import Executor, in_chunks
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.ledger import Ledger, Reservation
from seedbed.stage.bounds import bounds, under
from seedbed.stage.program import expect_importable
from seedbed.storage.store import Json

T = TypeVar("T")
ResultT = TypeVar("ResultT")


class WorkerWorkspace(Protocol):
    """The workspace that a worker opens for itself."""

    @property
    def context(self) -> EvaluationContext: ...


OpenWorkspace = Callable[[Any], WorkerWorkspace]
"""Opens a workspace from its description. Every worker must be able to import it."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Work for one worker, with everything it needs to know. `workspace` is the pickled description for `open`."""

    open: OpenWorkspace
    workspace: bytes
    at_once: int
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    above: tuple[Json, ...] = field(default_factory=lambda: tuple(each.document() for each in bounds().playbooks))
    """Playbooks whose rules hold for all of the work."""

    def bounded(self) -> AbstractContextManager[None]:
        """A block in which those rules hold."""
        return under(*map(Playbook.from_document, self.above))

    def context(self) -> EvaluationContext:
        """That of the worker's workspace, which stays open until the worker ends."""
        name = pickle.dumps(self.open), self.workspace
        if name not in _workspaces:
            _workspaces[name] = self.open(pickle.loads(self.workspace))  # noqa: S301 - written by the process that started this worker
        return replace(_workspaces[name].context, ledger=self._ledger(), at_once=self.at_once)

    def _ledger(self) -> Ledger:
        limits = self.max_cost_usd, self.max_tokens
        ledger = Ledger(*limits, last_share=0.0)
        if any(limit is not None and limit <= 0 for limit in limits):
            ledger.refuse()
        return ledger


_workspaces: dict[tuple[bytes, bytes], WorkerWorkspace] = {}
"""The workspaces that this process has opened."""


@dataclass(frozen=True)
class ChunkResult(Generic[T]):
    """The results of a chunk, in its order; what they cost, whether its share was too small, and how long it took."""

    results: T
    spent_usd: float
    spent_tokens: int
    short: bool
    seconds: float
    unpriced: int = 0


def chunk_result(results: T, ledger: Ledger, began: float) -> ChunkResult[T]:
    """The result of a chunk that a worker began then, by `time.perf_counter`."""
    seconds = time.perf_counter() - began
    return ChunkResult(results, ledger.spent_usd, ledger.spent_tokens, ledger.refused, seconds, ledger.unpriced)


@dataclass(frozen=True, kw_only=True)
class CellChunk(Chunk):
    """Cells to pay for; `metrics` are pickled."""

    playbook: Json
    metrics: bytes
    timeout_seconds: float | None
    tries: int
    items: tuple[TaskReplicate, ...] = ()


async def evaluate_chunk(chunk: CellChunk) -> ChunkResult[Cells]:
    """Pay for the cells of a chunk, in a worker."""
    began = time.perf_counter()
    context = replace(chunk.context(), timeout_seconds=chunk.timeout_seconds, tries=chunk.tries, remote=None)
    playbook = Playbook.from_document(chunk.playbook)
    metrics = pickle.loads(chunk.metrics)  # noqa: S301 - written by the process that started this worker
    with chunk.bounded():
        async with context.present():
            cells = await all_cells(playbook, chunk.items, metrics, context)
    return chunk_result(cells, context.ledger, began)


@dataclass(frozen=True)
class RemoteWorkers:
    """The workers of an executor, each of which opens a workspace of its own.

    `describe` returns what `open` is called with there; it is pickled.
    """

    executor: Executor
    open: OpenWorkspace
    describe: Callable[[], object]

    def description(self) -> bytes:
        return self.executor.packed(self.describe(), "workspace")

    async def cells(
        self, playbook: Playbook, plan: Sequence[TaskReplicate], metrics: Sequence[Metric], context: EvaluationContext
    ) -> AsyncGenerator[Sequence[Cell], None]:
        """The cells of each task replicate in order; all are paid from the ledger of the context."""
        if not plan:
            return
        expect_importable(playbook)
        whole = CellChunk(
            open=self.open,
            workspace=self.description(),
            playbook=playbook.document(),
            metrics=self.executor.packed(list(metrics), "metrics"),
            at_once=context.at_once,
            timeout_seconds=context.timeout_seconds,
            tries=context.tries,
        )

        async def evaluate(items: Sequence[TaskReplicate], money: Reservation) -> ChunkResult[list[Sequence[Cell]]]:
            chunk = replace(whole, items=tuple(items), max_cost_usd=money.most_usd, max_tokens=money.most_tokens)
            done: ChunkResult[Cells] = await self.executor.do(evaluate_chunk, chunk)
            cells, size = list(done.results), len(metrics)
            rows: list[Sequence[Cell]] = [cells[start : start + size] for start in range(0, len(cells), size)]
            return replace(cast("ChunkResult[Any]", done), results=rows)

        def lacks_score(row: Sequence[Cell]) -> bool:
            return any(cell.value is None for cell in row)

        async with aclosing(pay_in_chunks(self.executor, plan, evaluate, lacks_score, context.ledger)) as rows:
            async for row in rows:
                yield row


async def pay_in_chunks(
    executor: Executor,
    plan: Sequence[T],
    work: Callable[[Sequence[T], Reservation], Awaitable[ChunkResult[list[ResultT]]]],
    may_be_unpaid: Callable[[ResultT], bool],
    ledger: Ledger,
) -> AsyncGenerator[ResultT, None]:
    """The results of a plan in its order, a chunk at a time; each chunk gets a share of what the ledger has.

    Results that `may_be_unpaid`, because a share was too small, are computed again with everything that is left.
    """
    workers = await executor.ready()

    async def do(items: Sequence[T], *, alone: bool = False) -> ChunkResult[list[ResultT]]:
        async with ledger.share(2 * workers, alone=alone) as share:
            done = await work(items, share)
            share.spent_usd, share.spent_tokens, share.unpriced = done.spent_usd, done.spent_tokens, done.unpriced
        return done

    async def pay(items: Sequence[T]) -> tuple[Sequence[ResultT], float]:
        first = await do(items)
        results = first.results
        if first.short and not ledger.is_exhausted:  # its share was too small, not the whole budget
            again = [place for place, result in enumerate(results) if may_be_unpaid(result)]
            second = await do([items[place] for place in again], alone=True)
            if second.short:
                ledger.exhaust()
            for place, result in zip(again, second.results, strict=True):
                results[place] = result
        return results, first.seconds

    async with aclosing(in_chunks(plan, pay, workers=workers)) as results:
        async for result in results:
            yield result
