"""Pairs: something new set against what was there before, by one guard, outcome for outcome as they arrive."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from seedbed.release.monitor.guards import Guard
from seedbed.stats.monitors import Drift
from seedbed.stats.sequential.betting import Bet, bets, evidence, interval

PairSide: TypeAlias = Literal["newer", "older"]

AT_ONCE = 0.8
"""Of the money, what is bet from the first pair on. The rest is bet on a change that comes later, at any pair."""
DIGITS = 3
"""How finely differences are told apart for the interval, which is for people, and need not take longer and longer."""


@dataclass(frozen=True, slots=True)
class GuardStatus:
    """How it stands by one guard. `change` is newer less older, between `low` and `high` with 95 % confidence.

    `evidence` is how near the guard is to acting: at 1 it does.
    """

    guard: Guard
    pairs: int
    older: float | None
    newer: float | None
    change: float | None
    low: float | None
    high: float | None
    evidence: float
    breached: bool


class GuardEvidence:
    """The next outcome of the newer one is set against the next of the older one, which is met as often.

    If the newer is never worse by more than the guard bears, it is ever breached with a chance of at most `error`.
    With a `run_length` it watches without end for the day on which that changes, and is breached without cause once in
    so many pairs at most, on average.
    """

    def __init__(self, guard: Guard, *, error: float = 0.05, run_length: float | None = None) -> None:
        self.guard = guard
        self.known: dict[str, int] = {"newer": 0, "older": 0}
        self._sums: dict[PairSide, float] = {"newer": 0.0, "older": 0.0}
        self._waiting: dict[PairSide, deque[float]] = {"newer": deque(), "older": deque()}
        self._pairs = 0
        self._differences: Counter[float] = Counter()
        self._difference = 0.0
        self._needed = math.log(1 / error) if run_length is None else math.log(run_length)
        self._drift = None if run_length is None else Drift(-guard.margin, run_length=run_length)
        self._bet = Bet(-guard.margin, "below", bets())
        self._money = np.full(len(bets()), -np.inf)
        self._most = 0.0

    def take(self, side: PairSide, value: float) -> None:
        """Take what came of meeting one of the two."""
        goodness = self.guard.goodness(value)
        self.known[side] += 1
        self._sums[side] += goodness
        self._waiting[side].append(goodness)
        if all(self._waiting.values()):
            self._learn(self._waiting["newer"].popleft() - self._waiting["older"].popleft())

    def _learn(self, difference: float) -> None:
        self._pairs += 1
        self._differences[round(difference, DIGITS)] += 1
        self._difference += difference
        if self._drift:
            self._drift.update(difference)
        else:
            put = AT_ONCE if self._pairs == 1 else (1 - AT_ONCE) / (self._pairs * (self._pairs - 1))
            self._money = np.logaddexp(self._money, math.log(put)) + self._bet.growth(np.array(difference))
        self._most = max(self._most, self.evidence)

    @property
    def evidence(self) -> float:
        """That it is worse by more than the guard bears, as a share of what is needed to act."""
        if self._drift:
            now = math.log(self._drift.evidence)
        else:
            now = float(evidence(self._money)) if self._pairs else 0.0
        return max(now, 0.0) / self._needed

    def row(self) -> GuardStatus:
        """How it stands. What rolls back stays breached; what only holds recovers when newer outcomes are good."""
        guard, read = self.guard, self._pairs
        low, high = sorted(map(guard.change, interval(self._differences, bets()))) if read else (None, None)
        strength = self._most if guard.action == "roll back" else self.evidence
        return GuardStatus(
            guard,
            pairs=read,
            older=self._level("older"),
            newer=self._level("newer"),
            change=guard.change(self._difference / read) if read else None,
            low=low,
            high=high,
            evidence=self.evidence,
            breached=strength >= 1,
        )

    def _level(self, side: PairSide) -> float | None:
        return self.guard.value(self._sums[side] / self.known[side]) if self.known[side] else None
