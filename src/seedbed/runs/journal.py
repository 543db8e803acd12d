"""Journal: stores the facts of many runs together."""

from __future__ import annotations

import asyncio

from seedbed.errors import StoreError
from seedbed.runs.worker_presence import new_worker
from seedbed.storage.store import Fact, Query, Store

_Waiting = tuple[Fact, "asyncio.Future[bool]"]


class Journal:
    """`add` returns when a fact is stored, with whether it is the one that counts: of two with one key, the first does.

    Facts that arrive within one round of the event loop are one transaction: a thousand runs at a time wait for the
    disk as often as one does. If the store refuses a fact, only that one fails.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.worker = new_worker()
        self._waiting: list[_Waiting] = []

    async def add(self, fact: Fact) -> bool:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._write)
        entry = (fact, done)
        self._waiting.append(entry)
        try:
            return await done
        except asyncio.CancelledError:
            if entry in self._waiting:  # it is not written yet, and need not be
                self._waiting.remove(entry)
            raise

    def _write(self) -> None:
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            added = self.store.append(fact for fact, _ in batch)
        except StoreError as error:
            if len(batch) == 1:
                _settle(batch[0][1], error)
            else:
                self._write_one_by_one(batch)
        except Exception as error:  # noqa: BLE001 - the callers of add raise it
            for _, done in batch:
                _settle(done, error)
        else:
            for fact, done in batch:
                _settle(done, stored=added == len(batch) or self._is_stored(fact))

    def _write_one_by_one(self, batch: list[_Waiting]) -> None:
        for fact, done in batch:
            try:
                added = self.store.append([fact])
            except Exception as error:  # noqa: BLE001 - the caller of add raises it
                _settle(done, error)
            else:
                _settle(done, stored=bool(added))

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
