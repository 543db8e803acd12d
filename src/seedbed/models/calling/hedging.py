"""Hedging: send a second request when the answer to the first is slow; the first answer counts.

A card with `hedge: 0.95` does so for the slowest twentieth of its answers. Both requests are paid for, so it is off by
default.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

ENOUGH = 20
"""How many answers are needed to tell which are slow."""

LATEST = 200
"""How many of the latest answers count: a provider is not as fast at noon as at night."""

Result = TypeVar("Result")


class Latencies:
    """How long a model took for its latest answers. Only the first request of a call counts.

    A first request that was overtaken counts with the time until then, and the second one, which overtook it, does not:
    without the slow ones, ever faster answers would count as slow.
    """

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=LATEST)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def quantile(self, share: float) -> float | None:
        """The time within which this share of the answers arrived; None while there are too few to tell."""
        if len(self._seconds) < ENOUGH:
            return None
        return sorted(self._seconds)[min(int(share * len(self._seconds)), len(self._seconds) - 1)]


async def first_answer(
    first: Awaitable[Result],
    second: Callable[[], Awaitable[Result | None]],
    is_answer: Callable[[Result | None], bool],
    *,
    after_seconds: float,
) -> tuple[Result, list[Result | None]]:
    """The first result that is an answer, or that of the first try if none is; and any result of the other try.

    The second try begins when the first has taken `after_seconds`; it returns None if it could not be made. A try that
    has not ended is cancelled, and has stopped when this returns or raises.
    """
    tries: list[asyncio.Future[Any]] = [asyncio.ensure_future(first)]
    winner = tries[0]
    try:
        await asyncio.wait(tries, timeout=after_seconds)
        if not tries[0].done():
            tries.append(asyncio.ensure_future(second()))
        left = set(tries)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            if answers := [each for each in tries if each in done and is_answer(each.result())]:
                winner = answers[0]
                break
    finally:
        for each in tries:
            each.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
    others = [each for each in tries if each is not winner and not each.cancelled() and not each.exception()]
    return winner.result(), [each.result() for each in others]
