"""Intervals for means of scores from 0 to 1 and for their differences, which hold for few tasks and for few sources.

A t interval is too narrow where few tasks, or the tasks of few sources, decide: it covers a rate of 5 % among 10
sources of 20 tasks in two of three cases. These hold from 10 sources on, and stay inside what scores can be.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import scipy

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats, Indexes, number_clusters
from seedbed.stats.estimates import Interval, exact_rate, mean_interval

FEW_SOURCES = 20
"""With fewer sources than this, intervals hold but are too wide to learn much from."""
FEW_DECIDE, ENOUGH_DECIDE = 5.0, 8.0
"""If what differs from the rest comes from fewer sources than this, their spread says little: the first for passes and
failures, the second for graded scores and for differences, of which there may be fewer sources in all."""

EQUAL = 1e-9
"""Scores that differ by less than this are equal."""


def score_interval(
    scores: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of one score from 0 to 1 per task; `clusters` says which tasks share something, as in `mean_interval`.

    Clopper and Pearson's interval for the number of passes and failures that would vary as much (Korn and Graubard
    1998). Where few clusters differ from the others it is united with that of as many tasks as there are clusters.
    """
    plain = mean_interval(scores, clusters, confidence)
    values, members = _within("scores", scores, 0.0), number_clusters(clusters, plain.n)
    passes = bool(np.isin(values, (0.0, 1.0)).all())
    mean, n, count = plain.mean, plain.n, int(members.max(initial=-1)) + 1
    if passes and count == n:
        return exact_rate(round(values.sum()), n, confidence)
    if count < 2:
        return replace(plain, low=0.0, high=1.0)
    low = high = mean
    errors, apart = (plain.high - mean) / _reach(count, confidence), float(((values - mean) ** 2).sum()) / n**2
    # Likeness within clusters makes errors larger; that it seems to make them smaller is chance.
    if (spread := max(errors**2, apart)) > EQUAL**2:
        normal = float(scipy.special.ndtri((1 + confidence) / 2))
        worth = mean * (1 - mean) / spread * (normal / _reach(count, confidence)) ** 2
        low, high = _exact_ends(mean, worth, confidence)
    few = FEW_DECIDE if passes else min(ENOUGH_DECIDE, count / 2)
    if low == high or _effective(np.abs(values - np.median(values)), members) < few:
        least, most = _exact_ends(mean, count, confidence)
        low, high = min(low, least), max(high, most)
    return replace(plain, low=low, high=high)


def difference_interval(
    differences: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of one difference of two such scores per task, from -1 to 1.

    Student's interval. Where differences come from few clusters it is united with the one that follows from the
    intervals of gains and of losses (square and add, Newcombe 1998).
    """
    plain = mean_interval(differences, clusters, confidence)
    values, members = _within("differences", differences, -1.0), number_clusters(clusters, plain.n)
    if math.isinf(plain.low):
        return replace(plain, low=-1.0, high=1.0)
    low, high = plain.low, plain.high
    if low == high or _effective(np.abs(values), members) < min(ENOUGH_DECIDE, 0.8 * (members.max() + 1)):
        gain, loss = (
            score_interval(np.maximum(sign * values, 0.0).tolist(), clusters, confidence) for sign in (1.0, -1.0)
        )
        low = min(low, plain.mean - math.hypot(gain.mean - gain.low, loss.high - loss.mean))
        high = max(high, plain.mean + math.hypot(gain.high - gain.mean, loss.mean - loss.low))
    return replace(plain, low=max(low, -1.0), high=min(high, 1.0))


def few_sources(count: int) -> str:
    """What to know of an interval for tasks of this many sources, if they are few."""
    if count >= FEW_SOURCES:
        return ""
    return f"too few sources: {count}. Intervals hold, but are wide; add tasks of others, at least {FEW_SOURCES} in all"


def _within(name: str, values: Sequence[float], least: float) -> Floats:
    units = np.asarray(values, dtype=np.float64)
    for place in np.flatnonzero((units < least) | (units > 1))[:1]:
        raise SeedbedError(
            f"{name}[{place}]: found {shown(float(units[place]))}; expected a number from {least:g} to 1"
        )
    return units


def _effective(weights: Floats, members: Indexes) -> float:
    """From how many clusters the weights come, where one with a small part of them counts little."""
    parts = np.bincount(members, weights=weights)
    squares = float((parts**2).sum())
    return float(parts.sum()) ** 2 / squares if squares else 0.0


def _reach(count: int, confidence: float) -> float:
    return float(scipy.special.stdtrit(count - 1, (1 + confidence) / 2))


def _exact_ends(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's interval; numbers of successes and of tasks need not be whole."""
    tail, passes = (1 - confidence) / 2, share * n
    low = 0.0 if share == 0 else float(scipy.special.betaincinv(passes, n - passes + 1, tail))
    high = 1.0 if share == 1 else float(scipy.special.betainccinv(passes + 1, n - passes, tail))
    return low, high
