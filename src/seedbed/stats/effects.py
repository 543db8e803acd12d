"""How large a difference is, on scales that do not depend on the score or on the number of tasks.

Every one is above 0 where `b`, the candidate, does better than `a`, the control (an odds ratio: above 1), and changes
its sign when the two are swapped (an odds ratio: to its inverse). A win is a task on which only the candidate passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from seedbed.errors import SeedbedError
from seedbed.stats.arrays import Floats, check_finite
from seedbed.stats.estimates import Interval, check_counts, exact_rate

ROUNDING = 1e-12
"""A spread this small beside the scores themselves is rounding, not spread."""


def cohen_dz(a: Sequence[float], b: Sequence[float]) -> float:
    """Cohen's d_z: by how many standard deviations of the differences `b` exceeds `a`, on the same tasks in order.

    NaN for fewer than two tasks. Where all differences are equal: 0 if there is none, else infinite.
    """
    if len(a) != len(b):
        raise SeedbedError(f"b: found {len(b)} values; expected {len(a)}, as many as in a: two for every task")
    control, candidate = check_finite("a", a), check_finite("b", b)
    if len(control) < 2:
        return math.nan
    differences = candidate - control
    return _standardised(float(differences.mean()), float(differences.std(ddof=1)), control, candidate)


def cohen_g(wins: int, losses: int, confidence: float = 0.95) -> Interval:
    """Cohen's g: how far the share of wins among wins and losses is from one half, with its exact interval."""
    share = exact_rate(wins, _discordant(wins, losses), confidence)
    return replace(share, mean=share.mean - 0.5, low=share.low - 0.5, high=share.high - 0.5)


def odds_ratio(wins: int, losses: int, confidence: float = 0.95) -> Interval:
    """The matched odds ratio: how many wins there are for each loss, with its exact interval.

    Without losses it is infinite, and so is its upper end; the lower end stays finite. Without wins and losses it is
    NaN, from 0 to infinity. Ties do not count.
    """
    share = exact_rate(wins, _discordant(wins, losses), confidence)
    return replace(share, mean=_odds(share.mean), low=_odds(share.low), high=_odds(share.high))


def _standardised(difference: float, spread: float, *scores: Floats) -> float:
    scale = ROUNDING * max(float(np.abs(each).max()) for each in scores)
    if abs(difference) <= scale:
        return 0.0
    return difference / spread if spread > scale else math.copysign(math.inf, difference)


def _odds(share: float) -> float:
    return math.inf if share == 1 else share / (1 - share)


def _discordant(wins: int, losses: int) -> int:
    check_counts(wins=wins, losses=losses)
    return wins + losses
