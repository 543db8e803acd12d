"""Admission control: lets runs begin as fast as the event loop can serve them."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from contextvars import ContextVar

ROUND_SECONDS = 0.02
"""How long one round of the event loop may take while more runs are admitted."""

PER_ROUND = 4
"""How many runs are admitted in one round: beginning is work too."""

CROWD = 16
"""From this many runs on, a full round of Python's garbage collector would delay some of them."""


class AdmissionControl:
    """A run waits while the event loop is behind. Runs are admitted in the order in which they arrived.

    Runs that wait for slow models leave the loop free, so that thousands can be under way at the same time; runs that
    keep it busy are admitted a few at a time, so that nothing in the process waits long.

    While many runs are under way, the garbage collector ignores older objects: visiting everything that a process has
    loaded takes a tenth of a second, during which the loop serves nothing.

    At most `limit` runs are inside at a time. A run that code inside another one performs needs no place of its own: it
    would wait for ever for that of the other.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._taken = 0
        self._leaving: deque[asyncio.Future[None]] = deque()
        self._nested: ContextVar[int] = ContextVar("nested", default=0)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._inside = 0
        self._looked = 0.0
        self._froze = False

    async def __aenter__(self) -> None:
        while self._limit and self._taken >= self._limit and not self._nested.get():
            place = asyncio.get_running_loop().create_future()
            self._leaving.append(place)
            await place
        self._taken += 1
        try:
            if self._inside:
                await self._turn()
        except BaseException:
            self._free_place()
            raise
        self._inside += 1
        self._nested.set(self._nested.get() + 1)
        if self._inside == CROWD and not gc.get_freeze_count():  # unless other code froze it
            gc.freeze()
            self._froze = True

    async def __aexit__(self, *_: object) -> None:
        self._inside -= 1
        self._nested.set(self._nested.get() - 1)
        self._free_place()
        if self._froze and not self._inside:
            gc.unfreeze()
            self._froze = False

    def _free_place(self) -> None:
        self._taken -= 1
        while self._leaving:
            place = self._leaving.popleft()
            if not place.done():  # it may have been cancelled
                place.set_result(None)
                break

    async def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if all(each.done() for each in self._waiting):  # also those of a loop that has ended
            self._looked = time.perf_counter()
            loop.call_soon(self._admit, loop)
        self._waiting.append(turn)
        await turn

    def _admit(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called once in every round of the loop while runs wait."""
        now = time.perf_counter()
        room = PER_ROUND if now - self._looked < ROUND_SECONDS else 0
        self._looked = now
        while self._waiting and (room or self._waiting[0].done()):
            turn = self._waiting.popleft()
            if not turn.done():  # it may have been cancelled
                turn.set_result(None)
                room -= 1
        if self._waiting:
            loop.call_soon(self._admit, loop)
