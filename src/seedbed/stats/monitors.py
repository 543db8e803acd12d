"""Monitors of a stream without end: whether traffic is split as planned, and whether a mean has dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy

from seedbed.errors import SeedbedError, shown
from seedbed.stats.sequential.betting import Bet, bets
from seedbed.stats.sequential.stopping_rule import check_between

CONCENTRATIONS: tuple[float, ...] = tuple(np.geomspace(30, 3e6, 12).tolist())
"""The priors on wrong shares: each as near to the planned ones as those of so many units would be by chance. The small
find a gross mismatch after few units, the large a slight one after many."""
OLD_CONCENTRATIONS = (300.0,)
"""The prior of live comparisons that were registered before there were several."""
LOOK_ERROR = 0.01
"""At a look that was fixed beforehand, a split with an exact p of at most this is not as planned."""


class SampleRatio:
    """Whether units reach the arms in the planned shares, checked as often as you like.

    If they do, `alarm` is ever raised with chance at most `alpha`. The evidence is how much likelier the counts are if
    the shares were drawn from a Dirichlet distribution around the planned ones (Lindon and Malek 2020), averaged over
    several concentrations of it. A mismatch says nothing about quality: assignment or logging is broken, and no other
    result can be trusted. `exact_p` finds a slighter mismatch, but may be asked only at a few looks fixed beforehand.
    """

    def __init__(
        self,
        shares: Mapping[str, float],
        *,
        alpha: float = 0.01,
        concentrations: Sequence[float] = CONCENTRATIONS,
    ) -> None:
        check_between("alpha", alpha, 0, 1)
        for arm, share in shares.items():
            check_between(f"shares.{arm}", share, 0, 1)
        if not math.isclose(math.fsum(shares.values()), 1):
            raise SeedbedError(f"shares: found a sum of {math.fsum(shares.values()):g}; expected 1")
        self.shares = dict(shares)
        self.alpha = alpha
        self.counts = dict.fromkeys(shares, 0)
        self.evidence = 0.0
        """The log of the e-value now."""
        self._most = 0.0
        self._log_shares = np.log([*shares.values()])
        self._priors = np.outer(concentrations, [*shares.values(), 1.0])
        self._signs = np.array([1.0] * len(shares) + [-1.0])
        self._start = scipy.special.gammaln(self._priors) @ self._signs + math.log(len(self._priors))

    @property
    def p(self) -> float:
        """The p-value of "as planned", over all looks so far."""
        return math.exp(-self._most)

    @property
    def e(self) -> float:
        """The largest e-value so far: how many times its stake a bet on a mismatch had made."""
        return math.exp(min(self._most, 700.0))

    @property
    def exact_p(self) -> float:
        """The exact p-value of "as planned" by the counts now, as if they were looked at only once."""
        total = sum(self.counts.values())
        tails = [float(scipy.special.bdtr(self.counts[arm], total, share)) for arm, share in self.shares.items()]
        return min(1.0, len(tails) * min(tails))

    @property
    def alarm(self) -> bool:
        return self.p <= self.alpha

    def update(self, counts: Mapping[str, int]) -> bool:
        """Take the total number of units of each arm since the start, and return `alarm`.

        Totals, so that repeating an update changes nothing.
        """
        if counts.keys() != self.shares.keys():
            raise SeedbedError(f"counts: found {shown(sorted(counts))}; expected {shown(sorted(self.shares))}")
        for arm, count in counts.items():
            if not isinstance(count, int) or count < self.counts[arm]:
                raise SeedbedError(
                    f"counts.{arm}: found {shown(count)}; expected at least {self.counts[arm]}, as before. "
                    "Pass totals since the start"
                )
        self.counts = {arm: int(counts[arm]) for arm in self.shares}
        self.evidence = self._log_e()
        self._most = max(self._most, self.evidence)
        return self.alarm

    def _log_e(self) -> float:
        """The log of the mean over the concentrations of how much likelier the counts are."""
        counts = [*self.counts.values()]
        drawn = scipy.special.gammaln(np.add(self._priors, [*counts, sum(counts)])) @ self._signs - self._start
        return float(np.logaddexp.reduce(drawn) - self._log_shares @ counts)


class Drift:
    """Whether the mean of numbers in [`least`, `most`] has dropped below `level`, from some unknown moment on.

    As long as every number is expected to be at `level` or above, whatever came before it, a false alarm takes
    `run_length` numbers or more on average (Shin, Ramdas and Rinaldo 2022). An alarm stays on; start a new monitor when
    the cause is gone.
    """

    def __init__(self, level: float, *, run_length: float = 10_000, least: float = -1.0, most: float = 1.0) -> None:
        check_between("level", level, least, most)
        check_between("run_length", run_length, 1, math.inf)
        self.level, self.run_length, self.least, self.most = level, run_length, least, most
        self.n = 0
        self.alarm_at: int | None = None
        stakes = bets(spread="even")
        self._bet = Bet(level, "below", stakes.shares, least, most)
        self._money = stakes.start

    @property
    def evidence(self) -> float:
        """The number compared with `run_length`: the money of a bet on a drop that starts again from 1 when below."""
        return float(np.exp(self._money).mean())

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    def update(self, value: float, place: int | None = None) -> bool:
        """Take the next number and return `alarm`. A number repeated with its `place`, from 1, is ignored."""
        if place is not None and place <= self.n:
            return self.alarm
        if place is not None and place != self.n + 1:
            raise SeedbedError(
                f"place: found {shown(place)} after {self.n} numbers; expected {self.n + 1}, none left out"
            )
        if not self.least <= value <= self.most:
            raise SeedbedError(f"value: found {shown(value)}; expected a number from {self.least:g} to {self.most:g}")
        self.n += 1
        if not self.alarm:
            self._money = np.maximum(self._money, 0.0) + self._bet.growth(np.array(float(value)))
            self.alarm_at = self.n if self.evidence >= self.run_length else None
        return self.alarm
