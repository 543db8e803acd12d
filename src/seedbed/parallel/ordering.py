"""Results in the order of the items: one by one, or in chunks that suit other processes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TypeVar

from seedbed.errors import RunError, shown
from seedbed.parallel.worker_pool import WorkerLost

_log = logging.getLogger("seedbed")

Item = TypeVar("Item")
Result = TypeVar("Result")

TRIES = 4
"""A chunk fails when this many workers were lost with it."""

AHEAD = 2
"""Chunks that a worker has at the same time, so that it stays busy while it waits for the slowest items of one."""

WINDOW = 4
"""Chunks for each worker that may be running or waiting for an earlier one to end."""

CHUNK_SECONDS = 1.5
"""How long a chunk should take: much longer than its transfer, and short enough to lose with a worker."""

FIRST, MOST = 8, 2_000
"""How many items the first chunks have, and the most that any has."""


async def in_order(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], *, at_once: int
) -> AsyncGenerator[Result, None]:
    """The results of `work` in the order of `items`, with at most `at_once` running.

    An error in the work, closing the generator or cancelling its reader cancels everything that is still running, and
    waits until it has stopped. Wrap it in `contextlib.aclosing` if you may leave the loop early.
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
            # Without the shield, one that is slow to stop would let the others go on after a cancellation.
            result = running[0].result() if running[0].done() else await asyncio.shield(running[0])
            running.popleft()
            yield result
            start()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def in_chunks(
    items: Sequence[Item],
    work: Callable[[Sequence[Item]], Awaitable[tuple[Sequence[Result], float]]],
    *,
    workers: int,
) -> AsyncGenerator[Result, None]:
    """The results of `work` in the order of `items`; it gets a chunk of them at a time, about as many as take a second.

    `work` returns the results of a chunk and the seconds they took. A chunk whose worker was lost is tried again, and
    raises RunError if that happens every time.
    """
    size = _ChunkSize(workers)
    room = asyncio.Semaphore(AHEAD * workers)

    async def done(chunk: Sequence[Item]) -> Sequence[Result]:
        async with room:
            for left in reversed(range(TRIES)):
                try:
                    results, seconds = await work(chunk)
                except WorkerLost as lost:
                    _log.warning("%s: its worker was lost, %s; %d tries left", _span(chunk), lost, left)
                    if not left:
                        raise RunError(
                            f"{_span(chunk)}: found that {TRIES} workers were lost with it, the last one as {lost}; "
                            "expected one to come back. What is in it may end the process: try it in this loop"
                        ) from lost
                else:
                    size.learn(len(chunk), seconds)
                    return results
        raise AssertionError("unreachable")

    async with aclosing(in_order(size.cut(items), done, at_once=WINDOW * workers)) as chunks:
        async for results in chunks:
            for result in results:
                yield result


class _ChunkSize:
    """How large the next chunk is: as many items as fill its time, and fewer towards the end."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._size = float(FIRST)

    def learn(self, items: int, seconds: float) -> None:
        wanted = CHUNK_SECONDS * items / max(seconds, 1e-6)
        self._size = min(max(wanted, self._size / 4, 1.0), self._size * 4, MOST)  # one odd chunk changes little

    def cut(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        done = 0
        while done < len(items):
            share = -(-(len(items) - done) // (AHEAD * self._workers))
            size = min(round(self._size), share)
            yield items[done : done + size]
            done += size


def _span(chunk: Sequence[object]) -> str:
    ends = [shown(each, 40) for each in (chunk[0], chunk[-1])]
    return f"a chunk of {len(chunk)}, {' to '.join(dict.fromkeys(ends))}"
