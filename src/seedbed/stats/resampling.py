"""Tests and intervals that ask what else the same data could have shown, not which distribution they come from.

All draws come from a seed: the same data give the same answer, in whatever order the tasks are.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from scipy import special

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Bools, Floats, Indexes, check_finite, number_clusters
from seedbed.stats.estimates import Interval, check_confidence

Alternative: TypeAlias = Literal["two-sided", "greater", "less"]
Method: TypeAlias = Literal["percentile", "bca"]

DRAWS = 9_999
LISTED = 2**20
"""How many outcomes of the flips are listed one by one, rather than drawn: all of them for 20 tasks."""
FEWEST_FOR_BCA = 50
BLOCK = 2_000_000
"""How many numbers are drawn at once, to keep memory small."""


class Statistic(Protocol):
    """What is computed of each sample, along an axis: numpy's mean, median and the like."""

    def __call__(self, values: Floats, /, *, axis: int) -> Any: ...


def sign_flip(
    differences: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    alternative: Alternative = "two-sided",
    seed: int = 0,
) -> float:
    """The p-value of "candidate and control are interchangeable", by their mean difference (a permutation test).

    If they are, each difference could as well have had the other sign. Tasks of a cluster flip together. Exact where
    that leaves no more than 2^20 different outcomes to list: always for 20 tasks or clusters, and for hundreds if they
    have few distinct differences. For differences of -1, 0 and 1 it is McNemar's exact test. Otherwise 9,999 draws from
    the seed, the outcome seen counted among them, so that the p-value is never 0 and errs to the safe side.
    """
    if alternative not in ("two-sided", "greater", "less"):
        raise SeedbedError(f"alternative: found {shown(alternative)}; expected two-sided, greater or less")
    units = check_finite("differences", differences)
    members = number_clusters(clusters, len(units))
    sums = np.bincount(members, weights=units) if len(units) else units
    largest = float(np.abs(sums).max(initial=0.0))
    if largest == 0:
        return 1.0
    # In units of the largest, and rounded: sums that differ only by the order of adding up are the same.
    sums = np.round(sums / largest, 12)
    sizes, counts = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    seen = float(sums.sum()) * (-1 if alternative == "less" else 1)
    least = (abs(seen) if alternative == "two-sided" else seen) - 1e-9

    def as_extreme(outcomes: Floats) -> Bools:
        return (np.abs(outcomes) if alternative == "two-sided" else outcomes) >= least

    if math.prod((counts + 1).tolist()) <= LISTED:
        outcomes, chances = np.zeros(1), np.ones(1)
        for size, count in zip(sizes, counts, strict=True):
            flips = np.arange(count + 1)
            outcomes = np.add.outer(outcomes, size * (2 * flips - count)).ravel()
            chances = np.multiply.outer(chances, _binomial(flips, count)).ravel()
        return min(1.0, float(chances[as_extreme(outcomes)].sum()))
    rng = np.random.default_rng(seed)
    beyond = 0
    for rows in _blocks(DRAWS, len(sizes)):
        flips = rng.binomial(counts, 0.5, size=(rows, len(sizes)))
        beyond += int(as_extreme((2 * flips - counts) @ sizes).sum())
    return (beyond + 1) / (DRAWS + 1)


def wilcoxon(
    differences: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    alternative: Alternative = "two-sided",
    seed: int = 0,
) -> float:
    """The p-value of Wilcoxon's signed-rank test: `sign_flip` on the ranks of the differences, those of 0 left out.

    A check of robustness beside `sign_flip`: one huge difference cannot decide it. It asks whether differences lie
    evenly about 0, which is not whether their mean is 0.
    """
    units = check_finite("differences", differences)
    sizes = np.round(np.abs(units) / max(float(np.abs(units).max(initial=0.0)), 5e-324), 12)
    _, places, counts = np.unique(sizes[sizes > 0], return_inverse=True, return_counts=True)
    ranks = np.zeros(len(units))
    ranks[sizes > 0] = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return sign_flip((np.sign(units) * ranks).tolist(), clusters, alternative=alternative, seed=seed)


def bootstrap_interval(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    statistic: Statistic = np.mean,
    method: Method = "percentile",
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """A statistic of the values with its bootstrap interval, whole clusters drawn together.

    For what has no formula, such as a median. For means prefer `mean_interval`: of 20 tasks with normal scores the
    percentile interval holds the true mean 93 % of the time where 95 % is meant, with skewed ones 89 %. "bca" corrects
    for bias and skewness; it is no better there and is refused below 50 clusters. Fewer than two clusters give an
    infinite interval.
    """
    check_confidence(confidence)
    if method not in ("percentile", "bca"):
        raise SeedbedError(f"method: found {shown(method)}; expected percentile or bca")
    if not isinstance(draws, int) or draws < 1:
        raise SeedbedError(f"draws: found {shown(draws)}; expected how often to draw, at least 1")
    units = check_finite("values", values)
    members = number_clusters(clusters, len(units))
    count = int(members.max(initial=-1)) + 1
    if method == "bca" and count < FEWEST_FOR_BCA:
        raise SeedbedError(
            f"method: found bca for {count} tasks or clusters; expected at least {FEWEST_FOR_BCA}. Use mean_interval"
        )
    if not count:
        return Interval(math.nan, -math.inf, math.inf, confidence, 0)
    # Sorted, so that the draws do not depend on the order of the tasks.
    apart = np.split(units[np.argsort(members, kind="stable")], np.cumsum(np.bincount(members))[:-1])
    groups = sorted((np.sort(group) for group in apart), key=lambda group: group.tolist())
    whole = np.concatenate(groups)
    estimate = float(statistic(whole, axis=-1))
    if count < 2:
        return Interval(estimate, -math.inf, math.inf, confidence, len(units))
    drawn = np.sort(_drawn(groups, statistic, draws, np.random.default_rng(seed)))
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _corrected(tails, drawn, estimate, groups, statistic)
    low, high = np.quantile(drawn, tails).tolist()
    return Interval(estimate, low, high, confidence, len(units))


def _binomial(flips: Indexes, count: int) -> Floats:
    ways = special.gammaln(count + 1) - special.gammaln(flips + 1) - special.gammaln(count - flips + 1)
    return np.asarray(np.exp(ways - count * math.log(2)))


def _blocks(draws: int, width: int) -> Iterator[int]:
    rows = max(1, BLOCK // width)
    for start in range(0, draws, rows):
        yield min(rows, draws - start)


def _drawn(groups: list[Floats], statistic: Statistic, draws: int, rng: np.random.Generator) -> Floats:
    count = len(groups)
    if all(len(group) == 1 for group in groups):
        whole = np.concatenate(groups)
        blocks = (rng.integers(count, size=(rows, count)) for rows in _blocks(draws, count))
        return np.concatenate([statistic(whole[chosen], axis=-1) for chosen in blocks])
    samples = (np.concatenate([groups[each] for each in rng.integers(count, size=count)]) for _ in range(draws))
    return np.array([statistic(sample, axis=-1) for sample in samples], dtype=np.float64)


def _corrected(tails: Floats, drawn: Floats, estimate: float, groups: list[Floats], statistic: Statistic) -> Floats:
    """Which quantiles to take instead: Efron's correction for bias and acceleration."""
    draws = len(drawn)
    # Half of the draws that equal the estimate are below it; never none and never all, to keep the bias finite.
    below = (np.searchsorted(drawn, estimate, "left") + np.searchsorted(drawn, estimate, "right")) / 2
    bias = special.ndtri(min(max(below, 0.5), draws - 0.5) / draws)
    whole, ends = np.concatenate(groups), np.cumsum([len(group) for group in groups])
    rests = (np.delete(whole, slice(end - len(group), end)) for group, end in zip(groups, ends, strict=True))
    leverage = np.array([float(statistic(rest, axis=-1)) for rest in rests])
    leverage = leverage.mean() - leverage
    squares = float((leverage**2).sum())
    acceleration = float((leverage**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + special.ndtri(tails)
    return np.asarray(special.ndtr(bias + shifted / (1 - acceleration * shifted)))


__all__ = ["bootstrap_interval", "sign_flip", "wilcoxon"]
