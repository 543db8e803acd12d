"""Slices: is a candidate that is better on the whole worse on some part of the tasks?

Each part has a test of its own that stops early, and all of them together have one rate of false alarms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from seedbed.stats.multiplicity import benjamini_hochberg
from seedbed.stats.sequential.betting import Bet, Betting, bets, evidence, interval
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.stopping_rule import StoppingRule, check_between

SliceFinding: TypeAlias = Literal["open", "worse", "not worse", "inconclusive"]

SURE = 0.05
"""The chance to call a slice not worse that is worse by the margin; and of all slices together, the chance that a test
stops at worse on any that is not."""


class SliceTest:
    """Whether the candidate is worse on one of several slices, from the gains on its tasks in registered order.

    It ends "worse" as soon as a test of "not worse at all" rejects at its part of the error rate: the exact test where
    gains are only -1, 0 and 1 (`signs`), else betting. It ends "not worse" when a bet rejects "worse by the margin or
    more". Otherwise it ends "inconclusive" with the last task.
    """

    def __init__(self, *, margin: float, slices: int, at_most: int, signs: bool) -> None:
        check_between("margin", margin, 0, 1)
        rate = SURE / slices
        # Seen from the other side: what the rule calls superior is a candidate that is worse.
        self._rule: StoppingRule = (ExactMcNemar if signs else Betting)(alpha=rate, at_most=at_most)
        self._stakes = bets()
        self._bet = Bet(-margin, "above", self._stakes.shares)
        self._money = self._stakes.start.copy()
        self._gains: list[float] = []
        self.finding: SliceFinding = "open"

    def update(self, gain: float) -> SliceFinding:
        """Take the gain on the next task of the slice."""
        answer = self._rule.update(-gain)
        self._gains.append(gain)
        self._money += self._bet.growth(np.array(gain))
        if answer.verdict == "superior":
            self.finding = "worse"
        elif answer.verdict == "inferior" or evidence(self._money) >= math.log(1 / SURE):
            self.finding = "not worse"
        elif answer.verdict == "inconclusive":
            self.finding = "inconclusive"
        return self.finding

    @property
    def counts(self) -> tuple[int, int, int]:
        """Wins, ties and losses of the candidate."""
        answer = self._rule.answer
        return answer.losses, answer.ties, answer.wins

    @property
    def p(self) -> float | None:
        """The p-value of "not worse at all"; None while the test goes on, and 1 once it has ended not worse, which can
        only hide what is worse by less than the margin."""
        if self.finding == "open":
            return None
        return 1.0 if self.finding == "not worse" else self._rule.answer.p

    def interval(self) -> tuple[float, float]:
        """The 95 % confidence sequence of the gain, which holds wherever the test has ended."""
        return interval(Counter(self._gains), self._stakes)

    @property
    def mean(self) -> float:
        return math.fsum(self._gains) / len(self._gains) if self._gains else 0.0


def worse_slices(p: Sequence[float], false: float) -> tuple[bool, ...]:
    """Which slices are worse, by the p-values of all: at most a share `false` of them is not, on average."""
    return benjamini_hochberg(p, false).rejected
