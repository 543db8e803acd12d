"""SharedWork: one piece of work for all callers that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedWork(Generic[T]):
    """One piece of work for all callers that wait for it. It is cancelled when none is left."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = asyncio.ensure_future(work)
        self.waiting = 0

    async def result(self) -> T:
        self.waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self.waiting -= 1
            if not self.waiting and not self._task.done():
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
