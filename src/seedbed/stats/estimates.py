"""How large an average or a difference is, and how sure that is, for a number of tasks fixed in advance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import check_finite, number_clusters


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

    def within(self, least: float, most: float) -> Interval:
        """The same, cut at the least and the most that a value can be: for showing, never for deciding."""
        mean, low, high = (min(max(value, least), most) for value in (self.mean, self.low, self.high))
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return replace(self, mean=mean, low=low, high=high) if known else replace(self, mean=mean)

    def __str__(self) -> str:
        if not self.n:
            return "no score"
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return f"{_digits(self.mean)} ({_digits(self.low)} to {_digits(self.high)})" if known else _digits(self.mean)


def _digits(value: float) -> str:
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of one value per task, with Student's t interval.

    Average repeats of a task first (`average_replicates`): repeats are not samples. Where tasks share something (a
    document, a customer), say what in `clusters`, one id per value; the interval then allows for likeness within a
    cluster and has one degree of freedom less than there are clusters. Fewer than two clusters give an infinite
    interval. Values all equal give an interval of width 0: they show no spread, which is no proof that there is none.
    For pass rates use `wilson`.
    """
    check_confidence(confidence)
    units = check_finite("values", values)
    n = len(units)
    members = number_clusters(clusters, n)
    if n == 0:
        return Interval(math.nan, -math.inf, math.inf, confidence, 0)
    # Rounding must not move the mean of equal values away from them.
    mean = min(max(math.fsum(units) / n, units.min().item()), units.max().item())
    count = int(members.max()) + 1
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
    return mean_interval((check_finite("b", b) - check_finite("a", a)).tolist(), clusters, confidence)


def average_replicates(values: Sequence[float], tasks: Sequence[Hashable]) -> dict[Hashable, float]:
    """One value per task, the mean of its replicates; `tasks` says which task each value is of."""
    units = check_finite("values", values)
    members = number_clusters(tasks, len(units), "tasks")
    means = np.bincount(members, weights=units) / np.bincount(members)
    return dict(zip(dict.fromkeys(tasks), means.tolist(), strict=True))


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """The share of successes among `n` tasks, with Wilson's score interval: right on average over rates."""
    _check_rate(successes, n, confidence)
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


def exact_rate(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """The share of successes among `n` tasks, with Clopper and Pearson's interval: never right less often than it says.

    Wider than `wilson`; for guarantees, such as the false alarms of an instrument.
    """
    _check_rate(successes, n, confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(special.betainccinv(successes + 1, n - successes, tail))
    return Interval(successes / n if n else math.nan, low, high, confidence, n)


def pass_hat_k(
    passed: Sequence[int],
    tries: Sequence[int],
    k: int,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """pass^k: the chance that `k` tries of a task all pass, over tasks that passed so many of so many tries.

    Without bias: of each task, the share of its sets of k tries in which all passed. The interval is that of
    `mean_interval`, within 0 and 1; if all tasks have 0, or all have 1, it is the exact one for as many tasks as there
    are clusters. Unlike pass@k, where one pass of k is enough, it falls with k.
    """
    if not isinstance(k, int) or k < 1:
        raise SeedbedError(f"k: found {shown(k)}; expected how many tries must all pass, at least 1")
    if len(passed) != len(tries):
        raise SeedbedError(f"tries: found {len(tries)} numbers; expected {len(passed)}, one for each task")
    for place, (good, tried) in enumerate(zip(passed, tries, strict=True)):
        check_counts(**{f"passed[{place}]": good, f"tries[{place}]": tried})
        if tried < max(k, good):
            wanted = f"k, {k}. Run this task more often" if tried < k else f"as many as passed, {good}"
            raise SeedbedError(f"tries[{place}]: found {tried}; expected at least {wanted}")
    shares = [math.comb(good, k) / math.comb(tried, k) for good, tried in zip(passed, tries, strict=True)]
    plain = mean_interval(shares, clusters, confidence)
    if plain.low == plain.high and plain.mean in (0, 1):
        # No spread was seen. A rate of tasks that are not at this end bounds how far the mean can be from it.
        count = int(number_clusters(clusters, len(shares)).max()) + 1
        return replace(exact_rate(int(plain.mean) * count, count, confidence), n=plain.n)
    return replace(plain, low=max(plain.low, 0.0), high=min(plain.high, 1.0))


def mcnemar(wins: int, losses: int) -> float:
    """The exact two-sided p-value of "wins and losses are equally likely", for a number of tasks fixed in advance."""
    check_counts(wins=wins, losses=losses)
    return min(1.0, 2 * float(special.bdtr(min(wins, losses), wins + losses, 0.5)))


def mcnemar_mid_p(wins: int, losses: int) -> float:
    """The p-value of `mcnemar`, with half the chance of the very counts seen.

    Less cautious: it is below alpha about as often as it should be, now and then a little more. For reports; decide by
    `mcnemar`.
    """
    check_counts(wins=wins, losses=losses)
    fewer, n = min(wins, losses), wins + losses
    below = float(special.bdtr(fewer - 1, n, 0.5)) if fewer else 0.0
    return min(1.0, below + float(special.bdtr(fewer, n, 0.5)))


def check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise SeedbedError(f"confidence: found {shown(confidence)}; expected above 0 and below 1, such as 0.95")


def check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0 or count % 1:
            raise SeedbedError(f"{name}: found {shown(count)}; expected a whole number of tasks, at least 0")


def _check_rate(successes: int, n: int, confidence: float) -> None:
    check_confidence(confidence)
    check_counts(n=n, successes=successes)
    if successes > n:
        raise SeedbedError(f"successes: found {shown(successes)}; expected at most n, {n}")


__all__ = [
    "Interval",
    "average_replicates",
    "exact_rate",
    "mcnemar",
    "mcnemar_mid_p",
    "mean_interval",
    "paired_interval",
    "pass_hat_k",
    "wilson",
]
