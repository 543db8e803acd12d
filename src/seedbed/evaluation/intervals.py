"""Intervals of scores by some metric, inside the range of the metric."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from seedbed.stats.estimates import Interval, mean_interval, paired_interval
from seedbed.stats.scores import difference_interval, score_interval

MEASURED = frozenset({"cost_usd", "latency_seconds", "tokens", "turns", "length"})
"""Metrics without a largest value. By any other, one more failure may be a whole point worse."""


def is_measured(metric: str) -> bool:
    return metric.partition("(")[0] in MEASURED


def score_range(metric: str, scores: Iterable[float]) -> tuple[float, float]:
    """The least and the most that a score can be: from 0 to 1 if these are, at least 0 if it is measured, else
    anything."""
    if is_measured(metric):
        return 0.0, math.inf
    return (0.0, 1.0) if all(0 <= score <= 1 for score in scores) else (-math.inf, math.inf)


def mean_score(metric: str, scores: Sequence[float], sources: Sequence[Hashable] | None = None) -> Interval:
    """The mean score of tasks, which may share sources."""
    ends = score_range(metric, scores)
    return score_interval(scores, sources) if ends == (0, 1) else mean_interval(scores, sources).within(*ends)


def mean_gain(
    metric: str,
    before: Sequence[float],
    after: Sequence[float],
    sources: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """By how much the second scores exceed the first on the same tasks, which may share sources."""
    if score_range(metric, (*before, *after)) != (0, 1):
        return paired_interval(before, after, sources, confidence)
    return difference_interval([one - other for one, other in zip(after, before, strict=True)], sources, confidence)
