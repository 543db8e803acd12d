"""Results in the order of what was asked for: one by one, or in chunks that suit other processes."""

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
"""So many workers may be lost with the same chunk before it is given up."""

AHEAD = 2
"""Chunks that a worker has at the same time, so that it is busy while the slowest of one are still under way."""

WINDOW = 4
"""Chunks for each worker that may be under way or wait for an earlier one to end."""

CHUNK_SECONDS = 1.5
"""How long a chunk should take: long against its way there and back, short against what a lost worker costs."""

FIRST, MOST = 8, 2_000
"""How many items are in the first chunks, and how many at most."""


async def in_order(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], *, at_once: int
) -> AsyncGenerator[Result, None]:
    """The results of `work` in the order of `items`, with at most `at_once` under way.

    An error in the work, closing the generator or cancelling who reads it cancels all that is still under way, at once,
    and waits until it has stopped.
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
            # Unshielded, one that is slow to stop would keep the others going after a cancellation.
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
    """The results of `work` in the order of `items`, of which it gets some at a time, about as many as take a second.

    It gives their results, and how many seconds they took. Chunks whose worker was lost are tried again. Raises
    RunError for one that loses its worker time after time.
    """
    pace = _Pace(workers)
    room = asyncio.Semaphore(AHEAD * workers)

    async def done(chunk: Sequence[Item]) -> Sequence[Result]:
        async with room:
            for left in reversed(range(TRIES)):
                try:
                    results, seconds = await work(chunk)
                except WorkerLost as lost:
                    _log.warning("%s: its worker was lost, %s; %d more may be", _span(chunk), lost, left)
                    if not left:
                        raise RunError(
                            f"{_span(chunk)}: found that {TRIES} workers were lost with it, the last one as {lost}; "
                            "expected one to come back. What is in it may end the process: try it in this loop"
                        ) from lost
                else:
                    pace.learn(len(chunk), seconds)
                    return results
        raise AssertionError("unreachable")

    async with aclosing(in_order(pace.cut(items), done, at_once=WINDOW * workers)) as chunks:
        async for results in chunks:
            for result in results:
                yield result


class _Pace:
    """How large the next chunk is: as many items as fill its time, and fewer when the last ones are shared out."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._size = float(FIRST)

    def learn(self, items: int, seconds: float) -> None:
        wanted = CHUNK_SECONDS * items / max(seconds, 1e-6)
        self._size = min(max(wanted, self._size / 4, 1.0), self._size * 4, MOST)  # one odd chunk is no rule

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
