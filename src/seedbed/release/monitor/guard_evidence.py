"""Evidence for one guard: outcomes of the newer playbook set against outcomes of the older one as they arrive."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from seedbed.release.monitor.guards import Guard
from seedbed.stats.monitors import Drift
from seedbed.stats.sequential.betting import Bet, Stakes, bets, evidence, interval

PairSide: TypeAlias = Literal["newer", "older"]


def _stakes() -> Stakes:
    """Bets of every size, with three quarters of the money on shares of the middle.

    The best share is by how much the canary is worse than allowed, over the variance of the differences. Where errors
    are rare the variance is little more than the rate of errors, so for a canary that is half again to twice as bad as
    allowed the share is between a tenth and four tenths, however much that is.
    """
    every = bets()
    middle = (every.shares > 0.09) & (every.shares < 0.4)
    return Stakes(every.shares, np.log(0.75 * middle / middle.mean() + 0.25 * np.exp(every.start)))


STAKES = _stakes()
AT_ONCE = 0.8
"""The part of the capital that is bet from the first pair on. The rest is bet on a change at any later pair."""
DIGITS = 3
"""The decimal digits of differences in the interval, which people read, so that it stays quick to compute."""


@dataclass(frozen=True, slots=True)
class GuardStatus:
    """The state of one guard. `change` is newer minus older, between `low` and `high` with 95 % confidence.

    `evidence` says how close the guard is to acting: at 1 it acts.
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
    """Sets each outcome of the newer playbook against the mean of those of the older one that have arrived by then.

    It takes as many of them as is said with the outcome if there are so many; without any, it waits for the next. If
    the newer playbook is never worse by more than the guard allows, the probability that the guard is ever breached is
    at most `error`. With a `run_length` it watches for changes without end: on average, false alarms are at least that
    many pairs apart.
    """

    def __init__(self, guard: Guard, *, error: float = 0.05, run_length: float | None = None) -> None:
        self.guard = guard
        self.known: dict[str, int] = {"newer": 0, "older": 0}
        self._sums: dict[PairSide, float] = {"newer": 0.0, "older": 0.0}
        self._newer: deque[tuple[float, int]] = deque()
        self._older: deque[float] = deque()
        self._pairs = 0
        self._differences: Counter[float] = Counter()
        self._difference = 0.0
        self._needed = math.log(1 / error) if run_length is None else math.log(run_length)
        self._drift = None if run_length is None else Drift(-guard.margin, run_length=run_length)
        self._bet = Bet(-guard.margin, "below", STAKES.shares)
        self._money = np.full(len(STAKES.shares), -np.inf)
        self._most = 0.0

    def take(self, side: PairSide, value: float, controls: int = 1) -> None:
        """Take an outcome of one of the two playbooks; one of the newer is set against at most so many `controls`."""
        goodness = self.guard.goodness(value)
        self.known[side] += 1
        self._sums[side] += goodness
        if side == "newer":
            self._newer.append((goodness, controls))
        else:
            self._older.append(goodness)
        if self._newer and self._older:
            newer, most = self._newer.popleft()
            older = [self._older.popleft() for _ in range(min(most, len(self._older)))]
            self._learn(newer - math.fsum(older) / len(older))

    def _learn(self, difference: float) -> None:
        self._pairs += 1
        self._differences[round(difference, DIGITS)] += 1
        self._difference += difference
        if self._drift:
            self._drift.update(difference)
        else:
            put = AT_ONCE if self._pairs == 1 else (1 - AT_ONCE) / (self._pairs * (self._pairs - 1))
            self._money = np.logaddexp(self._money, math.log(put) + STAKES.start) + self._bet.growth(
                np.array(difference)
            )
        self._most = max(self._most, self.evidence)

    @property
    def evidence(self) -> float:
        """The evidence that it is worse by more than the guard allows, as a share of what the guard needs to act."""
        if self._drift:
            now = math.log(self._drift.evidence)
        else:
            now = float(evidence(self._money)) if self._pairs else 0.0
        return max(now, 0.0) / self._needed

    def status(self) -> GuardStatus:
        """The state of the guard. One that rolls back stays breached; one that holds recovers with good outcomes."""
        guard, read = self.guard, self._pairs
        low, high = sorted(map(guard.change, interval(self._differences, STAKES))) if read else (None, None)
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
