"""Ask a second time when an answer is slow to come: the first answer counts, the other request is called off.

A card with `hedge: 0.95` wants this for the slowest twentieth of its answers. Both requests are paid for, so nobody
gets it unasked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["ENOUGH", "Latencies", "first_answer"]

ENOUGH = 20
"""How many answers it takes to say what is slow."""

LATEST = 200
"""So many of the latest ones are remembered: a provider is not as fast at noon as at night."""

Outcome = TypeVar("Outcome")


class Latencies:
    """How long a model took for its latest answers, to requests that were the first for their question.

    One that was beaten is noted with the time until then, and the second one, which beat it, is not: if the slow ones
    were left out, ever faster ones would be taken for slow.
    """

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=LATEST)

    def note(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def quantile(self, share: float) -> float | None:
        """The time within which this share of the answers came; None while there are too few to tell."""
        if len(self._seconds) < ENOUGH:
            return None
        return sorted(self._seconds)[min(int(share * len(self._seconds)), len(self._seconds) - 1)]


async def first_answer(
    first: Awaitable[Outcome],
    second: Callable[[], Awaitable[Outcome | None]],
    is_answer: Callable[[Outcome | None], bool],
    *,
    after_seconds: float,
) -> tuple[Outcome, list[Outcome | None]]:
    """The first of two outcomes that is an answer, or that of the first try; and those of the other that came as well.

    The second try begins when the first has taken so long; None says that it could not be made. Whoever has not ended
    is cancelled, and has stopped, when this returns or raises.
    """
    tries: list[asyncio.Future[Any]] = [asyncio.ensure_future(first)]
    chosen = tries[0]
    try:
        await asyncio.wait(tries, timeout=after_seconds)
        if not tries[0].done():
            tries.append(asyncio.ensure_future(second()))
        left = set(tries)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            if answers := [each for each in tries if each in done and is_answer(each.result())]:
                chosen = answers[0]
                break
    finally:
        for each in tries:
            each.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
    others = [each for each in tries if each is not chosen and not each.cancelled() and not each.exception()]
    return chosen.result(), [each.result() for each in others]
