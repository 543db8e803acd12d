"""Journal: facts of many runs become durable together."""

from __future__ import annotations

import asyncio

from seedbed.errors import StoreError
from seedbed.storage.store import Fact, Store


class Journal:
    """Whoever awaits `add` goes on when the fact is durable.

    Facts that come within one turn of the event loop are one transaction: a thousand runs at a time wait for the disk
    as often as one does. A fact that a store refuses fails alone.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: list[tuple[Fact, asyncio.Future[None]]] = []

    async def add(self, fact: Fact) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._write)
        self._waiting.append((fact, done))
        await done

    def _write(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            self.store.append(fact for fact, _ in batch)
        except StoreError as wrong:
            if len(batch) == 1:
                _settle(batch[0][1], wrong)
            else:
                self._one_by_one(batch)
        except Exception as wrong:  # noqa: BLE001 - whoever waits must hear of it
            for _, done in batch:
                _settle(done, wrong)
        else:
            for _, done in batch:
                _settle(done)

    def _one_by_one(self, batch: list[tuple[Fact, asyncio.Future[None]]]) -> None:
        for fact, done in batch:
            try:
                self.store.append([fact])
            except Exception as wrong:  # noqa: BLE001 - whoever waits must hear of it
                _settle(done, wrong)
            else:
                _settle(done)


def _settle(done: asyncio.Future[None], wrong: Exception | None = None) -> None:
    if done.cancelled():
        return
    if wrong is None:
        done.set_result(None)
    else:
        done.set_exception(wrong)
