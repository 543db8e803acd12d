"""Ledger: the money and tokens a run may spend, reserved before each call, settled after it, and never exceeded."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from seedbed.errors import BudgetSpent, dollars

LEAST_TOKENS = 16
"""An answer of fewer tokens is not worth asking for."""

USUAL_TOKENS = 4_096
"""The longest answer that is paid for where no limit is set."""


@dataclass(slots=True)
class Reservation:
    """The reservation of one call: `max_tokens` is how long its answer may be, `most_…` the most that it can take, or
    None without a limit. The caller sets `spent_…`, what it took; `unpriced`, how many calls of unknown price there
    were; and `overbilled`, a sentence about a provider that charged more than the request can carry."""

    max_tokens: int | None
    most_usd: float | None = None
    most_tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0
    unpriced: int = 0
    overbilled: str = ""


class Ledger:
    """Money and tokens of one run and of everything it opens: a reservation counts as spent until it is settled.

    Only the last step may spend `last_share` of the limits, so that every run comes to a conclusion. A ledger `within`
    another keeps its own limits and those of the other.
    """

    def __init__(
        self,
        limit_usd: float | None = None,
        limit_tokens: int | None = None,
        *,
        last_share: float = 0.2,
        within: Ledger | None = None,
    ) -> None:
        self.limit_usd, self.limit_tokens = limit_usd, limit_tokens
        self.refused = False
        self.is_exhausted = False
        self.unpriced = 0
        """How many calls of unknown price there were: what was spent is then the least that it can be."""
        self.overbilled = ""
        """Who charged more than a request can carry, if anybody did."""
        self._shares_out = 0
        self._pots = _Pot(limit_usd, last_share, dollars), _Pot(limit_tokens, last_share, _in_tokens)
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
        """Whether there is a limit in money, so that the price of every call must be known."""
        return any(each.limit_usd is not None for each in self._all)

    @property
    def is_short(self) -> bool:
        """Whether a call was refused for lack of money, and this ledger itself has a limit.

        A step with a limit of its own refuses too, which says nothing of other steps.
        """
        return self.refused and any(pot.limit is not None for pot in self._pots)

    def left_usd(self, *, last: bool = False, held: bool = False) -> float:
        """What another call may cost now; with `held`, what it could if calls under way turn out to cost nothing."""
        return self._left(0, last, held)

    def left_tokens(self) -> float:
        """How many tokens another call may take now."""
        return self._left(1)

    @asynccontextmanager
    async def reserved(
        self,
        prompt_tokens: int,
        prices: tuple[float, float],
        max_tokens: int | None,
        *,
        last: bool = False,
        spare: bool = False,
    ) -> AsyncIterator[Reservation]:
        """Reserve the most that a call can take until it is over. `prompt_tokens` is the most the prompt can have.

        The answer may be shorter than `max_tokens` if that is all that is left. If other reservations hold what is
        missing, wait for what they leave over. Raises BudgetSpent if there is too little even for a short answer. A
        `spare` call does not wait, is not cut short, and does not count as refused.
        """
        if not self.is_limited:
            reservation = Reservation(max_tokens)
            with self._hold(reservation, (0.0, 0.0)):
                yield reservation
            return
        rates = (prices[0] / 1_000_000, prices[1] / 1_000_000), (1.0, 1.0)  # a token costs a token
        wanted = max_tokens or USUAL_TOKENS
        least = wanted if spare else min(LEAST_TOKENS, wanted)
        await self._wait_for([prompt_tokens * read + least * written for read, written in rates], last, spare)
        payable = (
            (self._left(currency, last) - prompt_tokens * read) / written * (1 - 1e-9) if written else wanted
            for currency, (read, written) in enumerate(rates)
        )
        tokens = max(least, int(min(wanted, *payable)))
        most = [prompt_tokens * read + tokens * written for read, written in rates]
        reservation = Reservation(tokens, most[0], int(most[1]))
        with self._hold(reservation, most):
            yield reservation

    @asynccontextmanager
    async def share(self, shares: int, *, alone: bool = False) -> AsyncIterator[Reservation]:
        """Reserve one of `shares` equal shares of what is left, for work that several workers do at once; or all of it,
        `alone`, as soon as no other share is out.

        A share that is not settled, because its worker was lost, counts as spent in full.
        """
        if self.limit_usd is not None or self.limit_tokens is not None:
            while self._shares_out >= (1 if alone else shares):
                await self.settled()
        part = 0.0 if self.is_exhausted else 1 / (1 if alone else max(1, shares - self._shares_out))
        most = [None if pot.limit is None else pot.left(last=True) * part for pot in self._pots]
        usd, tokens = most[0], None if most[1] is None else int(most[1])
        reservation = Reservation(None, usd, tokens, spent_usd=usd or 0.0, spent_tokens=tokens or 0)
        self._shares_out += 1
        try:
            with self._hold(reservation, (usd or 0.0, tokens or 0)):
                yield reservation
        finally:
            self._shares_out -= 1
            self._settled.set()

    @contextmanager
    def _hold(self, reservation: Reservation, most: Sequence[float]) -> Iterator[None]:
        """Count the most of a reservation as spent while the block lasts, and then what it took."""
        amounts = [(pot, amount) for each in self._all for pot, amount in zip(each._pots, most, strict=True)]
        held = [(pot, amount) for pot, amount in amounts if pot.limit is not None]
        for pot, amount in held:
            pot.held.append(amount)
        try:
            yield
        finally:
            for pot, amount in held:
                pot.held.remove(amount)
            for each in self._all:
                each.overbilled = reservation.overbilled or each.overbilled
            self.spend(reservation.spent_usd, reservation.spent_tokens, reservation.unpriced)

    def spend(self, usd: float, tokens: int = 0, unpriced: int = 0, *, here: bool = False) -> None:
        """Count what was used, `here` or also in those it is within, and wake the calls that wait for what is left."""
        for each in (self,) if here else self._all:
            each._pots[0].spent += usd
            each._pots[1].spent += tokens
            each.unpriced += unpriced
            each._settled.set()

    def refuse(self) -> None:
        """Note that there was too little left for a call."""
        for each in self._all:
            each.refused = True

    def exhaust(self) -> None:
        """Note that even all that is left was too little, so that further shares are empty."""
        self.is_exhausted = True
        self.refuse()

    async def settled(self) -> None:
        """Wait until something was settled."""
        self._settled.clear()
        await self._settled.wait()

    def _left(self, currency: int, last: bool = False, held: bool = False) -> float:
        return min(each._pots[currency].left(last, held) for each in self._all)

    async def _wait_for(self, needed: Sequence[float], last: bool, spare: bool) -> None:
        """Wait until the needed amount of each currency is left. Raises BudgetSpent if that cannot happen."""
        while short := next(self._short(needed, last), None):
            ledger, pot, amount = short
            if spare or pot.left(last, held=True) < amount:
                if not spare:
                    self.refuse()
                left, limit = pot.write(pot.left(last)), pot.write(pot.limit or 0.0)
                expected = "enough for another answer. Raise the limit, or ask for less"
                because = f" ({ledger.overbilled})" if ledger.overbilled else ""
                raise BudgetSpent(f"found {left} left of {limit}{because}; expected {expected}")
            await ledger.settled()

    def _short(self, needed: Sequence[float], last: bool) -> Iterator[tuple[Ledger, _Pot, float]]:
        for each in self._all:
            for pot, amount in zip(each._pots, needed, strict=True):
                if pot.left(last) < amount:
                    yield each, pot, amount


@dataclass(slots=True, eq=False)
class _Pot:
    """What a ledger has of one currency, US dollars or tokens, and how an amount of it is written."""

    limit: float | None
    last_share: float
    write: Callable[[float], str]
    spent: float = 0.0
    held: list[float] = field(default_factory=list)
    """What calls under way have reserved; a running sum would not come back to exactly zero."""

    def left(self, last: bool, held: bool = False) -> float:
        """What is neither spent nor reserved for the last step; with `held`, as if calls under way took nothing."""
        if self.limit is None:
            return math.inf
        free = self.limit - self.spent - (0.0 if last else self.last_share * self.limit)
        return max(0.0, free if held else free - sum(self.held))


def _in_tokens(tokens: float) -> str:
    return f"{tokens:,.0f} tokens"


def most_tokens(text: str) -> int:
    """More tokens than a text can have: a tokenizer makes at most one of each byte, and a few for the speaker."""
    return len(text.encode()) + 16
