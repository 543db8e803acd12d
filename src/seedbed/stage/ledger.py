"""Ledger: what a run may spend, reserved before each call and settled after it, so that it never spends more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from seedbed.errors import BudgetSpent

LEAST_TOKENS = 16
"""An answer of fewer tokens is not worth asking for."""

USUAL_TOKENS = 4_096
"""The longest answer paid for where nobody said how long it may be."""


@dataclass(slots=True)
class Reservation:
    """Money held for one call: `max_tokens` is how long its answer may be, `spent_usd` what it did cost."""

    max_tokens: int | None
    spent_usd: float = 0.0


class Ledger:
    """Money of one run and of everything it opens: what is under way counts as spent until it is settled.

    `kept` is the share that only the last step may touch, so that every run comes to a conclusion.
    """

    def __init__(self, limit_usd: float | None = None, *, kept: float = 0.2) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        self.refused = False
        self._kept_usd = kept * (limit_usd or 0.0)
        self._reserved_usd = 0.0
        self._settled = asyncio.Event()

    @asynccontextmanager
    async def reserved(
        self, prompt_tokens: int, prices: tuple[float, float], wanted: int | None, *, last: bool = False
    ) -> AsyncIterator[Reservation]:
        """Hold the most that a call can cost until it is over. `prompt_tokens` is the most the prompt can have.

        The answer may be shorter than wanted if that is all there is money for. If others hold what is missing, wait
        for what they leave. Raises BudgetSpent if not even a short answer can be paid.
        """
        if self.limit_usd is None:
            reservation, most = Reservation(wanted), 0.0
        else:
            read, written = (price / 1_000_000 for price in prices)
            least = prompt_tokens * read + LEAST_TOKENS * written
            left = await self._left(least, 0.0 if last else self._kept_usd)
            affordable = int((left - prompt_tokens * read) / written * (1 - 1e-9)) if written else USUAL_TOKENS
            reservation = Reservation(min(wanted or USUAL_TOKENS, affordable))
            most = prompt_tokens * read + (reservation.max_tokens or 0) * written
        self._reserved_usd += most
        try:
            yield reservation
        finally:
            self._reserved_usd -= most
            self.spend(reservation.spent_usd)

    def spend(self, usd: float) -> None:
        """Count what was paid, and let those look again who wait for money."""
        self.spent_usd += usd
        self._settled.set()

    async def _left(self, least_usd: float, kept_usd: float) -> float:
        assert self.limit_usd is not None
        while True:
            free = self.limit_usd - self.spent_usd - kept_usd
            left = free - self._reserved_usd
            if left >= least_usd:
                return left
            if free < least_usd or not self._reserved_usd:
                self.refused = True
                raise BudgetSpent(
                    f"found ${max(left, 0):.4f} left of ${self.limit_usd:.2f}; expected enough for another answer. "
                    "Raise the limit, or ask for less"
                )
            self._settled.clear()
            await self._settled.wait()


def most_tokens(text: str) -> int:
    """More tokens than a text can have: a tokenizer makes at most one of each byte, and a few for who speaks."""
    return len(text.encode()) + 16
