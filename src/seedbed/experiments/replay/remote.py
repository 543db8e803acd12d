"""Past runs replayed by other processes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seedbed.errors import BudgetSpent, QuotaSpent, RunError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.evaluate import seed_of
from seedbed.parallel import Executor, in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Missed
from seedbed.spending.ledger import Ledger
from seedbed.storage.store import Json

if TYPE_CHECKING:
    from seedbed.experiments.replay.replay import Others

from seedbed.evaluation.remote import Chunk, Open, Outcome, paid
from seedbed.spending.shares import BudgetShare

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

        async def done(items: Sequence[Asking], money: BudgetShare) -> Outcome[list[RunError | None]]:
            known = {playbook.digest: playbook.document() for playbook, _ in items}
            numbers = {name: number for number, name in enumerate(known)}
            asked = tuple((numbers[playbook.digest], task) for playbook, task in items)
            chunk = replace(whole, playbooks=tuple(known.values()), items=asked)
            chunk = replace(chunk, max_cost_usd=money.usd, max_tokens=money.tokens)
            outcome: Outcome[list[RunError | None]] = await executor.do(replayed, chunk)
            return outcome

        def unpaid(wrong: RunError | None) -> bool:
            return wrong is not None and not isinstance(wrong, Missed)

        async with aclosing(paid(executor, plan, done, unpaid, ledger)) as coming:
            async for wrong in coming:
                yield wrong

    return replays
