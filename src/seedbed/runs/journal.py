"""Journal: stores the facts of many runs together."""

from __future__ import annotations

import asyncio

from seedbed.errors import StoreError
from seedbed.runs.worker_presence import new_worker
from seedbed.storage.store import Fact, Query, Store

_PendingFact = tuple[Fact, "asyncio.Future[bool]"]


class Journal:
    """`add` returns when a fact is stored, with whether it counts: of two with one key, the first does.

    Facts that arrive within one round of the event loop are one transaction, so that a thousand runs at a time wait for
    the disk no more often than one does. If the store refuses a fact, only that one fails.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.worker = new_worker()
        self._pending: list[_PendingFact] = []

    async def add(self, fact: Fact) -> bool:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        if not self._pending:
            loop.call_soon(self._write_pending)
        entry = (fact, done)
        self._pending.append(entry)
        try:
            return await done
        except asyncio.CancelledError:
            if entry in self._pending:  # it is not written yet, and need not be
                self._pending.remove(entry)
            raise

    def _write_pending(self) -> None:
        batch, self._pending = self._pending, []
        if batch:
            self._write(batch)

    def _write(self, batch: list[_PendingFact]) -> None:
        try:
            added = self.store.append(fact for fact, _ in batch)
        except Exception as error:  # noqa: BLE001 - the callers of add raise it
            if isinstance(error, StoreError) and len(batch) > 1:
                for entry in batch:
                    self._write([entry])
            else:
                for _, done in batch:
                    _settle(done, error)
        else:
            for fact, done in batch:
                _settle(done, stored=added == len(batch) or self._is_stored(fact))

    def _is_stored(self, fact: Fact) -> bool:
        known = self.store.facts(Query(kind=fact.kind, key=fact.key))
        return any((each.at, each.body) == (fact.at, fact.body) for each in known)


def _settle(done: asyncio.Future[bool], error: Exception | None = None, *, stored: bool = True) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(stored)
    else:
        done.set_exception(error)
