"""Shared work: one piece of work for all callers that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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


class SharedByName(Generic[T]):
    """Pieces of work by name: of one name there is one under way at a time."""

    def __init__(self) -> None:
        self._under_way: dict[str, SharedWork[T]] = {}

    async def result(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of what is under way by that name, or else of this work."""
        if (shared := self._under_way.get(name)) is None:
            shared = self._under_way[name] = SharedWork(work())
        try:
            return await shared.result()
        finally:
            if not shared.waiting:
                self._under_way.pop(name, None)
