"""How large an average or a difference is, and how sure that is, for a number of tasks fixed in advance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from seedbed.errors import SeedbedError, shown


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` units and the range that covers the true one with this confidence.

    Where nothing can be said the range holds every possible value, so that no comparison with a bound passes by
    mistake: from minus to plus infinity for means, from 0 to 1 for rates. The mean of no units is NaN.
    """

    mean: float
    low: float
    high: float
    confidence: float
    n: int


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of one value per task, with Student's t interval.

    Average repeats of a task first: repeats are not samples. Where tasks share something (a document, a customer),
    say what in `clusters`, one id per value; the interval then allows for likeness within a cluster and has one degree
    of freedom less than there are clusters. Fewer than two clusters give an infinite interval. Values all equal give
    an interval of width 0: they show no spread, which is no proof that there is none. For pass rates use `wilson`.
    """
    _check_confidence(confidence)
    units = _finite("values", values)
    n = len(units)
    if clusters is not None and (len(clusters) != n or None in clusters):
        found = sum(cluster is not None for cluster in clusters)
        raise SeedbedError(f"clusters: found {found} ids; expected one for each of the {n} values")
    if n == 0:
        return Interval(math.nan, -math.inf, math.inf, confidence, 0)
    # Rounding must not move the mean of equal values away from them.
    mean = min(max(math.fsum(units) / n, units.min().item()), units.max().item())
    numbers: dict[Hashable, int] = {}
    members = [numbers.setdefault(cluster, len(numbers)) for cluster in (range(n) if clusters is None else clusters)]
    count = len(numbers)
    if count < 2:
        return Interval(mean, -math.inf, math.inf, confidence, n)
    errors = np.bincount(members, weights=units - mean)
    standard_error = math.sqrt(count / (count - 1) * math.fsum(errors**2)) / n
    reach = float(special.stdtrit(count - 1, (1 + confidence) / 2)) * standard_error
    return Interval(mean, mean - reach, mean + reach, confidence, n)


def paired_interval(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """By how much `b` exceeds `a` on the same tasks, in the same order, with the interval of `mean_interval`."""
    if len(a) != len(b):
        raise SeedbedError(f"b: found {len(b)} values; expected {len(a)}, as many as in a: two for every task")
    return mean_interval((_finite("b", b) - _finite("a", a)).tolist(), clusters, confidence)


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """The share of successes among `n` tasks, with Wilson's score interval."""
    _check_confidence(confidence)
    _check_counts(n=n, successes=successes)
    if successes > n:
        raise SeedbedError(f"successes: found {shown(successes)}; expected at most n, {n}")
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, confidence, 0)
    share = successes / n
    z = float(special.ndtri((1 + confidence) / 2))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the formula gives exactly 0 and 1 but for rounding.
    low = 0.0 if successes == 0 else centre - reach
    high = 1.0 if successes == n else centre + reach
    return Interval(share, low, high, confidence, n)


def mcnemar(wins: int, losses: int) -> float:
    """The exact two-sided p-value of "wins and losses are equally likely", for a number of tasks fixed in advance."""
    _check_counts(wins=wins, losses=losses)
    return min(1.0, 2 * float(special.bdtr(min(wins, losses), wins + losses, 0.5)))


def _finite(name: str, values: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    units = np.asarray(values, dtype=np.float64)
    for place in np.flatnonzero(~np.isfinite(units))[:1]:
        raise SeedbedError(
            f"{name}[{place}]: found {units[place]}; expected a finite number. Score failures by a rule set in advance"
        )
    return units


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise SeedbedError(f"confidence: found {shown(confidence)}; expected above 0 and below 1, such as 0.95")


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0 or count % 1:
            raise SeedbedError(f"{name}: found {shown(count)}; expected a whole number of tasks, at least 0")


__all__ = ["Interval", "mcnemar", "mean_interval", "paired_interval", "wilson"]
