"""Ledger: what a run may spend, reserved before each call and settled after it, so that it never spends more."""

from __future__ import annotations

import asyncio
import math
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
    """Money held for one call: `max_tokens` is how long its answer may be, `spent_usd` what it did cost.

    `most_usd` is what it can cost, None where nobody limits that.
    """

    max_tokens: int | None
    most_usd: float | None = None
    spent_usd: float = 0.0


class Ledger:
    """Money of one run and of everything it opens: what is under way counts as spent until it is settled.

    `kept` is the share that only the last step may touch, so that every run comes to a conclusion. A ledger within
    another holds its own limit, and that of the one it is `within`.
    """

    def __init__(self, limit_usd: float | None = None, *, kept: float = 0.2, within: Ledger | None = None) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        self.refused = False
        self._kept_usd = kept * (limit_usd or 0.0)
        self._held: list[float] = []  # for calls under way; a running sum would not come back to nothing
        self._settled = asyncio.Event()
        self._all: tuple[Ledger, ...] = (self, *(within._all if within else ()))

    @property
    def is_limited(self) -> bool:
        return any(each.limit_usd is not None for each in self._all)

    @property
    def is_short(self) -> bool:
        """Whether there was no money for something, and it is this ledger that has a limit.

        A step that may not cost as much as it wants refuses, too, and says nothing of the others.
        """
        return self.limit_usd is not None and self.refused

    def left_usd(self, *, last: bool = False, held: bool = False) -> float:
        """What another call may cost now; or, with all that is `held`, if calls under way turn out to cost nothing."""
        return max(0.0, min(each._free_usd(last) - (0.0 if held else sum(each._held)) for each in self._all))

    @asynccontextmanager
    async def reserved(
        self,
        prompt_tokens: int,
        prices: tuple[float, float],
        wanted: int | None,
        *,
        last: bool = False,
        spare: bool = False,
    ) -> AsyncIterator[Reservation]:
        """Hold the most that a call can cost until it is over. `prompt_tokens` is the most the prompt can have.

        The answer may be shorter than wanted if that is all there is money for. If others hold what is missing, wait
        for what they leave. Raises BudgetSpent if not even a short answer can be paid. What is only done with money to
        `spare` is neither waited for nor cut short, and is no refusal.
        """
        if self.is_limited:
            read, written = (price / 1_000_000 for price in prices)
            wanted = wanted or USUAL_TOKENS
            least = wanted if spare else min(LEAST_TOKENS, wanted)
            left = await self._left(prompt_tokens * read + least * written, last, spare)
            affordable = int((left - prompt_tokens * read) / written * (1 - 1e-9)) if written else wanted
            tokens = min(wanted, max(least, affordable))
            most = prompt_tokens * read + tokens * written
            reservation = Reservation(tokens, most)
        else:
            reservation, most = Reservation(wanted), 0.0
        for each in self._all:
            each._held.append(most)
        try:
            yield reservation
        finally:
            for each in self._all:
                each._held.remove(most)
            self.spend(reservation.spent_usd)

    def spend(self, usd: float) -> None:
        """Count what was paid, and let those look again who wait for money."""
        for each in self._all:
            each.spent_usd += usd
            each._settled.set()

    def refuse(self) -> None:
        """Remember that there was no money for something."""
        for each in self._all:
            each.refused = True

    async def settled(self) -> None:
        """Wait until something was paid."""
        self._settled.clear()
        await self._settled.wait()

    def _free_usd(self, last: bool) -> float:
        """What is not spent, also if it is held by calls under way."""
        return math.inf if self.limit_usd is None else self.limit_usd - self.spent_usd - (not last) * self._kept_usd

    async def _left(self, least_usd: float, last: bool, spare: bool) -> float:
        while (left := self.left_usd(last=last)) < least_usd:
            short = next(each for each in self._all if each._free_usd(last) - sum(each._held) < least_usd)
            if spare or short._free_usd(last) < least_usd:
                if not spare:
                    self.refuse()
                found = f"found {dollars(left)} left of {dollars(short.limit_usd or 0.0)}"
                raise BudgetSpent(f"{found}; expected enough for another answer. Raise the limit, or ask for less")
            await short.settled()
        return left


def dollars(usd: float) -> str:
    """An amount with as many digits as it takes to tell it from nothing."""
    digits = 2 - math.floor(math.log10(usd)) if 0 < usd < 0.1 else 2
    return f"${usd:.{digits}f}"


def most_tokens(text: str) -> int:
    """More tokens than a text can have: a tokenizer makes at most one of each byte, and a few for who speaks."""
    return len(text.encode()) + 16
