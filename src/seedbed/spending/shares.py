"""Shares of a ledger: what each of several workers may spend at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from seedbed.spending.ledger import Ledger

if TYPE_CHECKING:
    pass


@dataclass
class BudgetShare:
    """US dollars and tokens that one chunk may spend, None of what nobody limits; and what it
    has `spent` of both, once that is known."""

    usd: float | None
    tokens: int | None
    spent: tuple[float, int] | None = None

    @property
    def most(self) -> tuple[float, int]:
        return self.usd or 0.0, self.tokens or 0


class BudgetShares:
    """What a ledger has for chunks that are paid for at once: each holds a slice until it is known what it spent.

    What became of the slice of a worker that was lost nobody knows, so it counts as spent.
    """

    def __init__(self, shares: int) -> None:
        self.is_empty = False
        self._shares = shares
        self._held: list[BudgetShare] = []
        self._settled = asyncio.Condition()

    @classmethod
    def of(cls, ledger: Ledger, *, shares: int) -> BudgetShares:
        """The one purse of a ledger: whoever else pays by it at the same time takes slices of the same money."""
        if ledger not in _shares_of:
            _shares_of[ledger] = cls(shares)
        return _shares_of[ledger]

    @asynccontextmanager
    async def slice(self, ledger: Ledger, *, alone: bool = False) -> AsyncIterator[BudgetShare]:
        """A share of what is left; or all of it, as soon as nobody else holds any."""
        if ledger.limit_usd is None and ledger.limit_tokens is None:
            taken = BudgetShare(None, None)
            yield taken
            ledger.spend(*(taken.spent or taken.most))
            return
        async with self._settled:
            await self._settled.wait_for(lambda: len(self._held) < (1 if alone else self._shares))
            taken = self._cut(ledger, 1 if alone else self._shares - len(self._held))
            self._held.append(taken)
        try:
            yield taken
        finally:
            self._held = [each for each in self._held if each is not taken]
            ledger.spend(*(taken.most if taken.spent is None else taken.spent))
            async with self._settled:
                self._settled.notify_all()

    def _cut(self, ledger: Ledger, shares: int) -> BudgetShare:
        def share(limit: float | None, spent: float, held: float) -> float | None:
            if limit is None:
                return None
            return 0.0 if self.is_empty else max(0.0, limit - spent - held) / shares

        usd = share(ledger.limit_usd, ledger.spent_usd, sum(each.usd or 0.0 for each in self._held))
        tokens = share(ledger.limit_tokens, ledger.spent_tokens, sum(each.tokens or 0 for each in self._held))
        return BudgetShare(usd, None if tokens is None else int(tokens))


_shares_of: WeakKeyDictionary[Ledger, BudgetShares] = WeakKeyDictionary()
