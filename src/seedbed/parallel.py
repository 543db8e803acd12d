"""Do many things at once, with a bound, and take the results in the order they were asked for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


async def in_order(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], *, at_once: int
) -> AsyncGenerator[Result, None]:
    """The results of `work` in the order of `items`, with at most `at_once` under way.

    An error in the work, or closing the generator, cancels what is still under way and waits until it has stopped.
    Who may leave the loop early closes it with `contextlib.aclosing`: a mere `break` does so only some time later.
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
