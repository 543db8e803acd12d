"""Journal: stores the facts of many runs together, off the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from seedbed.errors import StoreError, StoreUnavailable
from seedbed.runs.worker_presence import new_worker
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, Store
from seedbed.telemetry import StoreFailed, emit

_PendingFact = tuple[Fact, "asyncio.Future[bool]"]
_Outcome = bool | Exception
"""Whether a fact counts, or why it could not be stored."""

AT_ONCE = 4
"""How many of those who wait go on in one round of the event loop."""


class Journal:
    """`add` returns when a fact is stored, with whether it counts: of two with one key, the first does.

    One thread writes, so that a slow disk or a lost database holds up nothing but the facts themselves. All facts that
    arrive while it writes are its next transaction: a thousand runs at a time wait for the disk no more often than one
    does. If the store refuses a fact, only that one fails. Whoever is cancelled waits until its fact is stored.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.worker = new_worker()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: list[_PendingFact] = []
        self._stored: deque[tuple[asyncio.Future[bool], _Outcome]] = deque()
        """Those who may go on, and with what."""
        self._writing: Future[list[_Outcome]] = Future()
        self._writing.set_result([])
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="seedbed-journal")

    async def add(self, fact: Fact) -> bool:
        if type(self.store) is MemoryStore:  # it takes no longer than handing the fact to the thread would
            added = self.store.append([fact]) == 1 or self._is_stored(fact)
            await asyncio.sleep(0)
            return added
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        if loop is not self._loop:  # what another loop left behind, it can no longer wait for
            self._loop, self._pending, busy = loop, [], False
            self._stored.clear()
        else:
            busy = bool(self._pending) or not self._writing.done()
        if not busy:
            loop.call_soon(self._write_pending, loop)
        self._pending.append((fact, done))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:  # what happened is stored all the same: it may have been paid for
            await asyncio.wait([done])
            done.exception()  # nobody else asks for it
            raise
        except StoreError as lost:
            emit(StoreFailed(kind=fact.kind, error=type(lost).__name__))
            raise

    def _write_pending(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._pending = self._pending, []
        if not batch:
            return
        self._writing = self._thread.submit(self._write, [fact for fact, _ in batch])

        def settle(written: Future[list[_Outcome]]) -> None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._settle, loop, batch, written.result())

        self._writing.add_done_callback(settle)

    def _settle(
        self, loop: asyncio.AbstractEventLoop, batch: Sequence[_PendingFact], outcomes: Sequence[_Outcome]
    ) -> None:
        idle = not self._stored
        self._stored.extend((done, outcome) for (_, done), outcome in zip(batch, outcomes, strict=True))
        if self._pending and self._writing.done():
            self._write_pending(loop)
        if idle:
            self._let_go_on(loop)

    def _let_go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let a few of those go on who wait, in each round of the loop, so that it never stands still for long."""
        for _ in range(min(AT_ONCE, len(self._stored))):
            done, outcome = self._stored.popleft()
            if isinstance(outcome, Exception):
                done.set_exception(outcome)
            else:
                done.set_result(outcome)
        if self._stored:
            loop.call_soon(self._let_go_on, loop)

    def _write(self, facts: Sequence[Fact]) -> list[_Outcome]:
        try:
            added = self.store.append(facts)
        except Exception as error:  # noqa: BLE001 - the callers of add raise it
            refused = isinstance(error, StoreError) and not isinstance(error, StoreUnavailable)
            if refused and len(facts) > 1:
                return [outcome for fact in facts for outcome in self._write([fact])]
            return [error] * len(facts)
        return [added == len(facts) or self._is_stored(fact) for fact in facts]

    def _is_stored(self, fact: Fact) -> bool:
        known = self.store.facts(Query(kind=fact.kind, key=fact.key))
        return any((each.at, each.body) == (fact.at, fact.body) for each in known)
