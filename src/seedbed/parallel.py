"""Do many things at once, with a bound, and take the results in the order they were asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


async def in_order(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], *, at_once: int
) -> AsyncIterator[Result]:
    """The results of `work` in the order of `items`, with at most `at_once` under way.

    Leaving the loop early, or an error in it, cancels what is still under way.
    """
    waiting = iter(items)
    running: deque[asyncio.Future[Result]] = deque()

    def start() -> None:
        for item in waiting:
            running.append(asyncio.ensure_future(work(item)))
            if len(running) >= at_once:
                return

    try:
        start()
        while running:
            result = await running[0]
            running.popleft()
            yield result
            start()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
