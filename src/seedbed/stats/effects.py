"""How large a difference is, on scales that do not depend on the score or on the number of tasks.

Every one is above 0 where `b`, the candidate, does better than `a`, the control (an odds ratio: above 1), and changes
its sign when the two are swapped (an odds ratio: to its inverse). A win is a task on which only the candidate passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import scipy

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats, check_finite
from seedbed.stats.estimates import Interval, check_confidence, check_counts, exact_rate

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


def risk_difference(wins: int, losses: int, n: int, confidence: float = 0.95) -> Interval:
    """By how much more often the candidate passes, over `n` tasks, with Tango's score interval.

    The interval has a width even if nothing was won or lost, and holds at few tasks, where that of `paired_interval`
    may not; tasks must not share a source.
    """
    check_confidence(confidence)
    check_counts(n=n)
    if _discordant(wins, losses) > n:
        raise SeedbedError(f"n: found {shown(n)}; expected at least wins and losses together, {wins + losses}")
    if n == 0:
        return Interval(math.nan, -1.0, 1.0, confidence, 0)
    mean = (wins - losses) / n
    z = float(scipy.special.ndtri((1 + confidence) / 2))
    high = _crossing(lambda difference: _score(difference, wins, losses, n) + z, mean, 1.0)
    low = -_crossing(lambda difference: _score(difference, losses, wins, n) + z, -mean, 1.0)
    return Interval(mean, low, high, confidence, n)


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


def _score(difference: float, wins: int, losses: int, n: int) -> float:
    """By how many standard errors the observed difference exceeds this one, if this one is true (Tango 1998)."""
    linear = (2 * n - wins + losses) * difference - wins - losses
    constant = -losses * difference * (1 - difference)
    lost = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
    variance = n * (2 * lost + difference * (1 - difference))
    gap = wins - losses - n * difference
    return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap) if gap else 0.0


def _crossing(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function becomes negative, to the last bit; the upper end if it never does."""
    if falling(high) >= 0:
        return high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if falling(middle) >= 0 else (low, middle)
    return high
