"""Variance reduction: a narrower interval for a live difference, from many cheap replays (PPI++).

Replays do not change what is estimated: they only remove noise that they explain. If they explain nothing, the answer
is that of the live scores alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from seedbed.errors import SeedbedError
from seedbed.stats.arrays import Floats, check_finite
from seedbed.stats.estimates import Interval, check_confidence

FEWEST = 20
"""The fewest scores from which a weight is estimated. With fewer, chance would determine it."""
IMAGINED = 2
"""How many disagreements of replay and live run, one each way, are added to the observed ones: few runs show none."""


@dataclass(frozen=True, slots=True)
class AdjustedDifference:
    """A difference, candidate minus control, with its interval.

    `weight` is how much the replays counted, 0 if not at all. `worth` is how many times as many scores an equally
    narrow interval would need without them; NaN if unknown.
    """

    interval: Interval
    weight: float
    worth: float


def ppi(
    live: Sequence[float], replayed: Sequence[float], replayed_only: Sequence[float], confidence: float = 0.95
) -> AdjustedDifference:
    """The mean of live differences, from few live runs and many replays (prediction-powered inference, PPI++).

    `live` and `replayed` are of the same tasks, in the same order, `replayed_only` of other tasks from the same source.
    Replays may be wrong: the live runs show by how much, and that is subtracted. The weight, from 0 to 1, is the one
    that leaves the narrowest interval. The interval is Student's, a little wider than the usual one of PPI++, whose
    coverage suffers where replays seldom err but always the same way. Fewer than two live tasks give an infinite
    interval; with fewer than 20, or without two other replays, replays have no weight.
    """
    check_confidence(confidence)
    truth, same = _alike(live=live, replayed=replayed)
    others = check_finite("replayed_only", replayed_only)
    n, many = len(truth), len(others)
    if n == 0:
        return AdjustedDifference(Interval(math.nan, -math.inf, math.inf, confidence, 0), 0.0, math.nan)
    weight = 0.0
    if n >= FEWEST and many >= 2 and (spread := float(np.concatenate([same, others]).var(ddof=1))) > 0:
        weight = min(max(_squares(truth, same) / n / (spread * (1 + n / many)), 0.0), 1.0)
    mean = float(truth.mean())
    if n < 2:
        return AdjustedDifference(Interval(mean, -math.inf, math.inf, confidence, n), 0.0, math.nan)
    plain = _squares(truth, truth) / (n - 1) / n
    if weight == 0:
        return AdjustedDifference(_welch(mean, [(plain, n - 1)], confidence, n), 0.0, 1.0)
    left = truth - weight * same
    mean = weight * float(others.mean()) + float(left.mean())
    # One degree of freedom went into the weight. Its uncertainty counts by how unlike the two sets of tasks are.
    variance = (_squares(left, left) + IMAGINED * plain * n) / (n - 2)
    rest = variance / n + variance * float(same.mean() - others.mean()) ** 2 / _squares(same, same)
    known = weight**2 * _squares(others, others) / (many - 1) / many
    return AdjustedDifference(
        _welch(mean, [(rest, n - 2), (known, many - 1)], confidence, n), weight, _worth(plain, rest + known)
    )


def _alike(**two: Sequence[float]) -> tuple[Floats, Floats]:
    (name, scores), (other, others) = two.items()
    if len(scores) != len(others):
        raise SeedbedError(f"{other}: found {len(others)} values; expected {len(scores)}, one for each in {name}")
    return check_finite(name, scores), check_finite(other, others)


def _squares(x: Floats, y: Floats) -> float:
    return float((x - x.mean()) @ (y - y.mean()))


def _worth(plain: float, adjusted: float) -> float:
    return plain / adjusted if adjusted > 0 else math.nan


def _welch(mean: float, parts: list[tuple[float, int]], confidence: float, n: int) -> Interval:
    """Student's interval for a sum of independent means. `parts` are their variances and degrees of freedom."""
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return Interval(mean, mean, mean, confidence, n)
    freedom = 1 / sum((part / variance) ** 2 / degrees for part, degrees in parts)
    reach = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(variance)
    return Interval(mean, mean - reach, mean + reach, confidence, n)
