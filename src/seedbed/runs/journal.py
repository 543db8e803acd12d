"""Journal: facts of many runs become durable together."""

from __future__ import annotations

import asyncio

from seedbed.errors import StoreError
from seedbed.runs.worker_presence import new_worker
from seedbed.storage.store import Fact, Query, Store

_Waiting = tuple[Fact, "asyncio.Future[bool]"]


class Journal:
    """Whoever awaits `add` goes on when the fact is durable, and is told whether it is the one that was kept: of two
    facts with one key it is the first.

    Facts that come within one turn of the event loop are one transaction: a thousand runs at a time wait for the disk
    as often as one does. A fact that a store refuses fails alone.
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
            if entry in self._waiting:  # then it is not written, and need not be
                self._waiting.remove(entry)
            raise

    def _write(self) -> None:
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            added = self.store.append(fact for fact, _ in batch)
        except StoreError as wrong:
            if len(batch) == 1:
                _settle(batch[0][1], wrong)
            else:
                self._one_by_one(batch)
        except Exception as wrong:  # noqa: BLE001 - whoever waits must hear of it
            for _, done in batch:
                _settle(done, wrong)
        else:
            for fact, done in batch:
                _settle(done, kept=added == len(batch) or self._is_kept(fact))

    def _one_by_one(self, batch: list[_Waiting]) -> None:
        for fact, done in batch:
            try:
                added = self.store.append([fact])
            except Exception as wrong:  # noqa: BLE001 - whoever waits must hear of it
                _settle(done, wrong)
            else:
                _settle(done, kept=bool(added))

    def _is_kept(self, fact: Fact) -> bool:
        known = self.store.facts(Query(kind=fact.kind, key=fact.key))
        return any((each.at, each.body) == (fact.at, fact.body) for each in known)


def _settle(done: asyncio.Future[bool], wrong: Exception | None = None, *, kept: bool = True) -> None:
    if done.cancelled():
        return
    if wrong is None:
        done.set_result(kept)
    else:
        done.set_exception(wrong)
