"""Slices of runs: one half of the runs suggests them, the other half tests each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy

from seedbed.experiments.patterns.traits import RunCondition, ScoredRun
from seedbed.stats.arrays import Bools, Floats, Indexes

RunSlice: TypeAlias = tuple[RunCondition, ...]
"""The runs for which all of these conditions hold."""

Level: TypeAlias = Literal["run", "task", "source"]
"""What was compared: runs of the same task, tasks of the same source, or tasks (sources, where tasks share some)."""

LEAST = 5
"""The fewest tasks or sources within a slice, and outside of it, in the half that suggests it."""

WORTH = 2.0
"""A slice is tested if its effect is at least this many standard errors."""

PAIRED = 40
"""How many of the best conditions are combined with others."""

DRAWS = 9_999
"""How many permutations a p-value is computed from, where it is not exact."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The scores within a slice and outside of it, in one half: each task counts the same."""

    inside: float
    outside: float
    tasks: int
    """Tasks with runs within the slice."""
    of: int
    """All tasks of the half."""

    @property
    def effect(self) -> float:
        return self.inside - self.outside


class Half:
    """Some of the runs in columns: a row for each run, sorted by unit.

    All runs of a task together weigh as much as one task.
    """

    def __init__(self, scored: Sequence[ScoredRun]) -> None:
        self.scored = scored
        self.scores = np.array([each.score for each in scored])
        self.task, self.of_task = _numbers([each.inputs_digest for each in scored])
        self.unit, self.starts = _numbers([each.unit for each in scored])
        self.unit_of_task = self.unit[self.of_task]
        self.weights = 1 / np.bincount(self.task)[self.task]

    def holds(self, slice_: Sequence[RunCondition]) -> Bools:
        return np.array([all(each.holds(run) for each in slice_) for run in self.scored])

    def supports(self, inside: Bools) -> bool:
        """Whether there are enough units inside and outside."""
        return all(len(np.unique(self.unit[side])) >= LEAST for side in (inside, ~inside))

    def figures(self, inside: Bools) -> Figures:
        within, without = (mean(self.scores[side], self.weights[side]) for side in (inside, ~inside))
        return Figures(within, without, tasks=len(np.unique(self.task[inside])), of=len(self.of_task))

    def interval(self, inside: Bools) -> tuple[float, float]:
        """The interval of the effect, with units as clusters, inside what effects can be. Infinite where a side is too
        small."""
        at, variance, fewest = 0.0, 0.0, len(self.scored)
        for side, sign in ((inside, 1), (~inside, -1)):
            units = np.unique(self.unit[side])
            weights = self.weights * side
            if len(units) < 2:
                return -math.inf, math.inf
            middle, total = mean(self.scores, weights), weights.sum()
            # Equal scores show no spread, which does not prove there is none: then the spread of all runs is used.
            spread = self.scores - (middle if np.ptp(self.scores[side]) else mean(self.scores, self.weights))
            sums = np.bincount(self.unit, weights * spread)[units] / total
            variance += len(units) / (len(units) - 1) * float((sums**2).sum())
            at, fewest = at + sign * middle, min(fewest, len(units))
        reach = float(scipy.special.stdtrit(fewest - 1, 0.975)) * math.sqrt(variance)
        most = 1.0 if 0 <= self.scores.min() <= self.scores.max() <= 1 else math.inf
        return max(at - reach, -most), min(at + reach, most)

    def by_task(self, values: Floats) -> Floats:
        return np.asarray(np.bincount(self.task, values * self.weights), np.float64)

    def by_unit(self, values: Floats) -> Floats:
        return np.bincount(self.unit_of_task, self.by_task(values)) / np.bincount(self.unit_of_task)


def mean(values: Floats, weights: Floats) -> float:
    total = weights.sum()
    return float((values * weights).sum() / total) if total else math.nan


def _numbers(names: Sequence[str]) -> tuple[Indexes, Indexes]:
    """The number of each name, and where each number is met first."""
    _, first, numbers = np.unique(names, return_index=True, return_inverse=True)
    return numbers, first


# Suggestions of one half


def suggest_slices(half: Half, looked: Sequence[RunCondition], at_most: int) -> Iterator[RunSlice]:
    """The slices that explain the scores best, each the best for the residuals of those before it."""
    columns = np.array([half.holds((each,)) for each in looked]).T if looked else np.zeros((len(half.scored), 0), bool)
    scores = half.scores.copy()
    for _ in range(at_most):
        chosen = _best(half, looked, columns, scores)
        if chosen is None:
            return
        inside = half.holds(chosen)
        residual = mean(scores[inside], half.weights[inside]) - mean(scores[~inside], half.weights[~inside])
        scores = scores - residual * inside
        if residual * half.figures(inside).effect > 0:
            yield chosen


def _best(half: Half, looked: Sequence[RunCondition], columns: Bools, scores: Floats) -> RunSlice | None:
    """The slice with the most standard errors between inside and outside: effect times the root of its support."""
    if not looked:
        return None
    errors = _errors(half, columns, scores)
    order = np.argsort(-np.round(errors, 9), kind="stable")
    best = float(errors[order[0]])
    chosen: tuple[int, ...] = (int(order[0]),)
    # A conjunction must beat both of its parts by more than the best of so many would by chance.
    gain = 2 * math.log(max(2, len(looked)))
    for first in order[:PAIRED].tolist():
        both = _errors(half, columns & columns[:, [first]], scores)
        parts = np.maximum(errors, errors[first])
        both[both**2 < parts**2 + gain] = 0
        for second in np.argsort(-np.round(both, 9), kind="stable").tolist():
            if both[second] <= max(best, WORTH):
                break
            if half.supports(columns[:, first] & columns[:, second]):
                best, chosen = float(both[second]), (min(first, second), max(first, second))
                break
    return tuple(looked[each] for each in chosen) if best >= WORTH else None


def _errors(half: Half, columns: Bools, scores: Floats) -> Floats:
    """For each column, how many standard errors the scores within differ from those outside.

    It takes into account how similar the scores of runs of one unit are: a condition that separates runs of the same
    unit needs fewer of them than one that separates units.
    """
    weights, total = half.weights, half.weights.sum()
    apart = scores - mean(scores, weights)
    spread = mean(apart**2, weights)
    if spread < 1e-12:
        return np.zeros(columns.shape[1])
    alike = _alike(half, apart) / spread
    shares = weights @ columns / total
    excess = np.abs((weights * apart) @ columns)
    # The sums of squares of what each run and each unit adds to the excess: the extremes of no and full similarity.
    runs = (weights**2) @ columns * (1 - 2 * shares) + shares**2 * (weights**2).sum()
    own = np.add.reduceat(weights[:, None] * columns, half.starts, axis=0)
    each = np.add.reduceat(weights, half.starts)
    units = (own**2).sum(0) - 2 * shares * (each @ own) + shares**2 * (each**2).sum()
    variance = spread * ((1 - alike) * runs + alike * units)
    return np.where(variance > 1e-12, excess / np.sqrt(np.maximum(variance, 1e-12)), 0.0)


def _alike(half: Half, apart: Floats) -> float:
    """The covariance of the scores of two runs of one unit, never below 0."""
    sums, squares = np.add.reduceat(apart, half.starts), np.add.reduceat(apart**2, half.starts)
    sizes = np.diff([*half.starts, len(apart)])
    pairs = int((sizes * (sizes - 1)).sum())
    return max(0.0, float((sums**2 - squares).sum()) / pairs) if pairs else 0.0


# Tests in the other half


def test_slice(slices: Sequence[RunSlice], place: int, seen: Half, unseen: Half) -> tuple[float, Level]:
    """The one-sided p-value, in the direction that was suggested, of "the condition has nothing to do with scores"."""
    inside = unseen.holds(slices[place]).astype(float)
    before = [unseen.holds(each).astype(float) for each in beyond(slices, place, seen)]
    tasks, units = unseen.by_task(inside), unseen.by_unit(inside)
    vary = {
        "source": float(((units - units.mean()) ** 2).sum()),
        "task": float(((tasks - units[unseen.unit_of_task]) ** 2).sum()),
        "run": float((unseen.weights * (inside - tasks[unseen.task]) ** 2).sum()),
    }
    # The condition is tested at the level at which it varies most. No score is used to choose the level.
    level: Level = max(("source", "task", "run"), key=lambda each: round(vary[each], 9))
    over: Any = {"source": unseen.by_unit, "task": unseen.by_task, "run": lambda values: values}[level]
    blocks = {"source": np.zeros(len(units)), "task": unseen.unit_of_task, "run": unseen.task}[level]
    alike = np.column_stack([blocks, *(over(each) >= 0.5 for each in before)])
    strata = np.unique(alike, axis=0, return_inverse=True)[1].ravel()
    sign = math.copysign(1.0, seen.figures(seen.holds(slices[place])).effect)
    return permutation(over(inside), sign * over(unseen.scores), strata), level


def beyond(slices: Sequence[RunSlice], place: int, seen: Half) -> list[RunSlice]:
    """Earlier slices that are correlated with this one."""
    own = seen.holds(slices[place])
    return [each for each in slices[:place] if abs(_likeness(own, seen.holds(each), seen.weights)) > 0.2]


def _likeness(first: Bools, second: Bools, weights: Floats) -> float:
    one, other = mean(first.astype(float), weights), mean(second.astype(float), weights)
    both = mean((first & second).astype(float), weights)
    return (both - one * other) / math.sqrt(max(one * (1 - one) * other * (1 - other), 1e-12))


def permutation(inside: Floats, scores: Floats, strata: Indexes, *, draws: int = DRAWS, seed: int = 0) -> float:
    """The p-value of scores that are this high inside, if scores are permuted within each stratum.

    Exact if both have two values; otherwise from draws, among which the observed outcome counts, so that the p-value
    is never 0 and is conservative.
    """
    low, high = scores.min(), scores.max()
    if {*inside.tolist()} <= {0.0, 1.0} and {*scores.tolist()} <= {low, high}:
        return _hypergeometric(inside > 0, scores > low, strata)
    order = np.argsort(strata, kind="stable")
    inside, scores, strata = inside[order], scores[order], strata[order]
    least = float(inside @ scores) - 1e-9 * max(1.0, float(np.abs(scores).sum()))
    rng, beyond = np.random.default_rng(seed), 0
    for start in range(0, draws, 1_000):
        keys = strata + rng.random((min(1_000, draws - start), len(scores)))
        beyond += int((scores[np.argsort(keys, axis=1)] @ inside >= least).sum())
    return (beyond + 1) / (draws + 1)


def _hypergeometric(inside: Bools, good: Bools, strata: Indexes) -> float:
    """The chance of at least as many good ones inside, if those inside were drawn from each stratum at random."""
    chances = np.ones(1)
    for stratum in np.unique(strata):
        own = strata == stratum
        n, hits, drawn = int(own.sum()), int(good[own].sum()), int(inside[own].sum())
        counts = np.arange(min(hits, drawn) + 1)
        ways = _log_ways(hits, counts) + _log_ways(n - hits, drawn - counts) - _log_ways(n, np.array(drawn))
        chances = np.convolve(chances, np.exp(ways))
    return min(1.0, float(chances[int((inside & good).sum()) :].sum()))


def _log_ways(n: int, k: Indexes) -> Floats:
    inner = (k >= 0) & (k <= n)
    some = np.clip(k, 0, n)
    ways = scipy.special.gammaln(n + 1) - scipy.special.gammaln(some + 1) - scipy.special.gammaln(n - some + 1)
    return np.where(inner, ways, -np.inf)
