"""Remote replays: past runs that other processes replay."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from seedbed.errors import BudgetSpent, QuotaSpent, RunError
from seedbed.evaluation.context import EvaluationContext, seed_of
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.remote import Chunk, ChunkResult, OpenWorkspace, RemoteWorkers, chunk_result, pay_in_chunks
from seedbed.experiments.replay.replay import RemoteReplays, replay_context
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Missed, ReplayMode
from seedbed.spending.ledger import Ledger, Reservation
from seedbed.stage.program import expect_importable
from seedbed.storage.store import Json

PlaybookTask = tuple[Playbook, Task]
"""A past run as a task, and the playbook to replay it under."""


@dataclass(frozen=True)
class ReplayWorkspace:
    """The workspace of a worker, in which only what the mode of replay allows is live."""

    context: EvaluationContext


@dataclass(frozen=True)
class OpenForReplays:
    """Opens a worker's workspace for replays; workers get it pickled."""

    open: OpenWorkspace
    mode: ReplayMode

    def __call__(self, description: Any) -> ReplayWorkspace:
        return ReplayWorkspace(replay_context(self.open(description).context, self.mode))


def replay_workers(workers: RemoteWorkers, mode: ReplayMode) -> RemoteWorkers:
    """The same workers, each with a workspace for replays."""
    return replace(workers, open=OpenForReplays(workers.open, mode))


@dataclass(frozen=True, kw_only=True)
class ReplayChunk(Chunk):
    """Past runs to replay, each under one of the playbooks, by its number."""

    playbooks: tuple[Json, ...] = ()
    items: tuple[tuple[int, Task], ...] = ()


async def replay_chunk(chunk: ReplayChunk) -> ChunkResult[list[RunError | None]]:
    """Replay past runs, in a worker; the result of each is its error, if any."""
    began = time.perf_counter()
    context = chunk.context()
    playbooks = [Playbook.from_document(each) for each in chunk.playbooks]

    async def replay(item: tuple[int, Task]) -> RunError | None:
        number, task = item
        if context.ledger.is_short:
            return BudgetSpent("the money for these replays was spent")
        own = Ledger(last_share=0.0, within=context.ledger)
        try:
            await context.perform("", playbooks[number], task, seed_of(task, 0), own)
        except QuotaSpent:
            raise  # this says nothing about the recording
        except RunError as wrong:
            return wrong if type(wrong) is Missed else RunError(str(wrong))
        return None

    with chunk.bounded():
        async with context.present(), aclosing(in_order(chunk.items, replay, at_once=chunk.at_once)) as coming:
            errors = [each async for each in coming]
    return chunk_result(errors, context.ledger, began)


def remote_replays(workers: RemoteWorkers, at_once: int) -> RemoteReplays:
    """Replays by workers that have workspaces for it."""

    async def replays(plan: Sequence[PlaybookTask], ledger: Ledger) -> AsyncGenerator[RunError | None, None]:
        if not plan:
            return
        for playbook in {playbook for playbook, _ in plan}:
            expect_importable(playbook)
        whole = ReplayChunk(open=workers.open, workspace=workers.description(), at_once=at_once)

        async def replay(items: Sequence[PlaybookTask], money: Reservation) -> ChunkResult[list[RunError | None]]:
            known = {playbook.digest: playbook.document() for playbook, _ in items}
            numbers = {name: number for number, name in enumerate(known)}
            numbered = tuple((numbers[playbook.digest], task) for playbook, task in items)
            chunk = replace(whole, playbooks=tuple(known.values()), items=numbered)
            chunk = replace(chunk, max_cost_usd=money.most_usd, max_tokens=money.most_tokens)
            done: ChunkResult[list[RunError | None]] = await workers.executor.do(replay_chunk, chunk)
            return done

        def may_be_unpaid(wrong: RunError | None) -> bool:
            return wrong is not None and not isinstance(wrong, Missed)

        async with aclosing(pay_in_chunks(workers.executor, plan, replay, may_be_unpaid, ledger)) as coming:
            async for wrong in coming:
                yield wrong

    return replays
