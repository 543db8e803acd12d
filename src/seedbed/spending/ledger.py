"""Ledger: the money and tokens a run may spend, reserved before each call and settled after it, never exceeded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from seedbed.errors import BudgetSpent

LEAST_TOKENS = 16
"""An answer of fewer tokens is not worth asking for."""

USUAL_TOKENS = 4_096
"""The longest answer paid for where nobody said how long it may be."""


@dataclass(slots=True)
class Reservation:
    """What is held for one call: `max_tokens` is how long its answer may be, `spent_…` what it did take.

    `most_…` is what it can take, None where nobody limits that.
    """

    max_tokens: int | None
    most_usd: float | None = None
    most_tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0


class Ledger:
    """Money and tokens of one run and of everything it opens: what is under way counts as spent until it is settled.

    `kept` is the share that only the last step may touch, so that every run comes to a conclusion. A ledger within
    another holds its own limits, and those of the one it is `within`.
    """

    def __init__(
        self,
        limit_usd: float | None = None,
        limit_tokens: int | None = None,
        *,
        kept: float = 0.2,
        within: Ledger | None = None,
    ) -> None:
        self.limit_usd, self.limit_tokens = limit_usd, limit_tokens
        self.refused = False
        self._pots = _Pot(limit_usd, kept, dollars), _Pot(limit_tokens, kept, _in_tokens)
        self._settled = asyncio.Event()
        self._all: tuple[Ledger, ...] = (self, *(within._all if within else ()))

    @property
    def spent_usd(self) -> float:
        return self._pots[0].spent

    @property
    def spent_tokens(self) -> int:
        return int(self._pots[1].spent)

    @property
    def is_limited(self) -> bool:
        return any(each.limit_usd is not None or each.limit_tokens is not None for each in self._all)

    @property
    def needs_prices(self) -> bool:
        """Whether there is a limit in money, which nobody can hold who does not know what a call costs."""
        return any(each.limit_usd is not None for each in self._all)

    @property
    def is_short(self) -> bool:
        """Whether there was too little left for something, and it is this ledger that has a limit.

        A step that may not cost as much as it wants refuses, too, and says nothing of the others.
        """
        return self.refused and any(pot.limit is not None for pot in self._pots)

    def left_usd(self, *, last: bool = False, held: bool = False) -> float:
        """What another call may cost now; or, with all that is `held`, if calls under way turn out to cost nothing."""
        return self._left(0, last, held)

    def left_tokens(self) -> float:
        """How many tokens another call may take now."""
        return self._left(1)

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
        """Hold the most that a call can take until it is over. `prompt_tokens` is the most the prompt can have.

        The answer may be shorter than wanted if that is all that is left. If others hold what is missing, wait for what
        they leave. Raises BudgetSpent if there is too little even for a short answer. What is only done with money to
        `spare` is neither waited for nor cut short, and is no refusal.
        """
        if not self.is_limited:
            reservation = Reservation(wanted)
            try:
                yield reservation
            finally:
                self.spend(reservation.spent_usd, reservation.spent_tokens)
            return
        rates = (prices[0] / 1_000_000, prices[1] / 1_000_000), (1.0, 1.0)  # a token costs a token
        wanted = wanted or USUAL_TOKENS
        least = wanted if spare else min(LEAST_TOKENS, wanted)
        await self._wait_for([prompt_tokens * read + least * written for read, written in rates], last, spare)
        payable = (
            (self._left(currency, last) - prompt_tokens * read) / written * (1 - 1e-9) if written else wanted
            for currency, (read, written) in enumerate(rates)
        )
        tokens = max(least, int(min(wanted, *payable)))
        most = [prompt_tokens * read + tokens * written for read, written in rates]
        reservation = Reservation(tokens, most[0], int(most[1]))
        amounts = [(pot, amount) for each in self._all for pot, amount in zip(each._pots, most, strict=True)]
        pots = [(pot, amount) for pot, amount in amounts if pot.limit is not None]
        for pot, amount in pots:
            pot.held.append(amount)
        try:
            yield reservation
        finally:
            for pot, amount in pots:
                pot.held.remove(amount)
            self.spend(reservation.spent_usd, reservation.spent_tokens)

    def spend(self, usd: float, tokens: int = 0) -> None:
        """Count what was used, and let those look again who wait for what is left."""
        for each in self._all:
            each._pots[0].spent += usd
            each._pots[1].spent += tokens
            each._settled.set()

    def refuse(self) -> None:
        """Remember that there was too little left for something."""
        for each in self._all:
            each.refused = True

    async def settled(self) -> None:
        """Wait until something was paid."""
        self._settled.clear()
        await self._settled.wait()

    def _left(self, currency: int, last: bool = False, held: bool = False) -> float:
        return min(each._pots[currency].left(last, held) for each in self._all)

    async def _wait_for(self, needed: Sequence[float], last: bool, spare: bool) -> None:
        """Wait until there is so much of each currency; raise BudgetSpent if there will not be."""
        while short := next(self._short(needed, last), None):
            ledger, pot, amount = short
            if spare or pot.left(last, held=True) < amount:
                if not spare:
                    self.refuse()
                found = f"found {pot.told(pot.left(last))} left of {pot.told(pot.limit or 0.0)}"
                raise BudgetSpent(f"{found}; expected enough for another answer. Raise the limit, or ask for less")
            await ledger.settled()

    def _short(self, needed: Sequence[float], last: bool) -> Iterator[tuple[Ledger, _Pot, float]]:
        for each in self._all:
            for pot, amount in zip(each._pots, needed, strict=True):
                if pot.left(last) < amount:
                    yield each, pot, amount


class _Pot:
    """What a ledger has of one currency, US dollars or tokens, and how an amount of it is told."""

    __slots__ = ("_kept", "held", "limit", "spent", "told")

    def __init__(self, limit: float | None, kept: float, told: Callable[[float], str]) -> None:
        self.limit, self.told = limit, told
        self._kept = kept * (limit or 0.0)
        self.spent = 0.0
        self.held: list[float] = []  # for calls under way; a running sum would not come back to nothing

    def left(self, last: bool, held: bool = False) -> float:
        """What is not spent and not kept for the last step; with what is `held`, if calls under way take nothing."""
        if self.limit is None:
            return math.inf
        free = self.limit - self.spent - (0.0 if last else self._kept)
        return max(0.0, free if held else free - sum(self.held))


def dollars(usd: float) -> str:
    """An amount with as many digits as it takes to tell it from nothing."""
    digits = 2 - math.floor(math.log10(usd)) if 0 < usd < 0.1 else 2
    return f"${usd:.{digits}f}"


def _in_tokens(tokens: float) -> str:
    return f"{tokens:,.0f} tokens"


def most_tokens(text: str) -> int:
    """More tokens than a text can have: a tokenizer makes at most one of each byte, and a few for who speaks."""
    return len(text.encode()) + 16
