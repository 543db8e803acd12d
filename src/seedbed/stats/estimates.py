"""Intervals for means, rates and differences: for a number of tasks fixed in advance, or after a sequential test."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Floats, Indexes, check_finite, first_enough, number_clusters

OVERSHOOT = 0.583
"""How far beyond a bound a motion is when first observed there, in standard deviations of a step (Siegmund 1985)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` units and the range that covers the true one with this confidence.

    Without data the range holds every possible value, so that no comparison with a bound passes by mistake: from minus
    to plus infinity for means, from 0 to 1 for rates. The mean of no units is NaN.
    """

    mean: float
    low: float
    high: float
    confidence: float
    n: int

    def within(self, least: float, most: float) -> Interval:
        """The same, cut at the least and the largest possible value: for display, never for decisions."""
        mean, low, high = (min(max(value, least), most) for value in (self.mean, self.low, self.high))
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return replace(self, mean=mean, low=low, high=high) if known else replace(self, mean=mean)

    def __str__(self) -> str:
        if not self.n:
            return "no score"
        known = math.isfinite(self.low) and math.isfinite(self.high)
        return f"{_digits(self.mean)} ({_digits(self.low)} to {_digits(self.high)})" if known else _digits(self.mean)


def _digits(value: float) -> str:
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of one value per task, with Student's t interval.

    Average repeats of a task first: repeats are not samples. Where tasks share something (a
    document, a customer), say what in `clusters`, one id per value; the interval then allows for likeness within a
    cluster and has one degree of freedom less than there are clusters. Fewer than two clusters give an infinite
    interval. Values all equal give an interval of width 0: they show no spread, which is no proof that there is none.
    For scores from 0 to 1 use `score_interval`.
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
    reach = float(scipy.special.stdtrit(count - 1, (1 + confidence) / 2)) * standard_error
    return Interval(mean, mean - reach, mean + reach, confidence, n)


def paired_interval(
    a: Sequence[float], b: Sequence[float], clusters: Sequence[Hashable] | None = None, confidence: float = 0.95
) -> Interval:
    """By how much `b` exceeds `a` on the same tasks, in the same order, with the interval of `mean_interval`."""
    if len(a) != len(b):
        raise SeedbedError(f"b: found {len(b)} values; expected {len(a)}, as many as in a: two for every task")
    return mean_interval((check_finite("b", b) - check_finite("a", a)).tolist(), clusters, confidence)


def exact_rate(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """The share of successes among `n` tasks, with Clopper and Pearson's interval: right at least as often as said."""
    _check_rate(successes, n, confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(scipy.special.betaincinv(successes, n - successes + 1, tail))
    high = 1.0 if successes == n else float(scipy.special.betainccinv(successes + 1, n - successes, tail))
    return Interval(successes / n if n else math.nan, low, high, confidence, n)


def mcnemar(wins: int, losses: int) -> float:
    """The exact two-sided p-value of "wins and losses are equally likely", for a number of tasks fixed in advance."""
    check_counts(wins=wins, losses=losses)
    return min(1.0, 2 * float(scipy.special.bdtr(min(wins, losses), wins + losses, 0.5)))


def fisher(one: int, of_one: int, other: int, of_other: int) -> float:
    """Fisher's exact two-sided p-value of "both rates are equal", for `one` of `of_one` and `other` of `of_other`."""
    check_counts(one=one, of_one=of_one, other=other, of_other=of_other)
    counts = np.arange(max(0, one + other - of_other), min(of_one, one + other) + 1)
    ways = _log_ways(of_one, counts) + _log_ways(of_other, one + other - counts)
    chances = np.exp(ways - ways.max())
    as_rare = chances <= chances[one - counts[0]] * (1 + 1e-7)  # equal ones may differ by rounding
    return min(1.0, float(chances[as_rare].sum() / chances.sum()))


def _log_ways(n: int, chosen: Indexes) -> Floats:
    """The logarithm of the number of ways to choose so many of `n`."""
    lgamma = scipy.special.gammaln
    return np.asarray(lgamma(n + 1) - lgamma(chosen + 1) - lgamma(n - chosen + 1))


def after_stopping(
    differences: Sequence[float],
    boundary: Sequence[int | None],
    give_up: Sequence[int | None] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The difference, candidate minus control, after a sequential test, without the bias that stopping adds.

    A test that stops early does so on a lucky streak, so the plain mean is too large. This estimate is too large as
    often as it is too small (median-unbiased): the middle of the effects for which an outcome at least as good, and
    one that is better, has a chance of one half. An outcome is better if it ended superior sooner, or at the same
    time with more wins.

    `differences` are -1, 0 or 1, in order. `boundary` has for each how many wins would have ended the test superior
    there, and `give_up` at how many wins or fewer it would have ended otherwise; None where no number would.
    Without `give_up` it ends inferior by as many losses as it takes wins. Exact given which tasks differed; how many do
    in general is estimated from the same tasks, which the interval allows for.
    """
    check_confidence(confidence)
    looks = _looks(differences, boundary, give_up)
    n = len(looks.differed)
    if n == 0:
        return Interval(math.nan, -1.0, 1.0, confidence, 0)
    if not looks.differed[-1]:
        reach = exact_rate(0, n, confidence).high
        return Interval(0.0, -reach, reach, confidence, n)
    if looks.won[-1] <= looks.lower[-1]:
        swapped = _stopped(looks.swapped(), confidence)
        return replace(swapped, mean=-swapped.mean, low=-swapped.high, high=-swapped.low)
    return _stopped(looks, confidence)


def least_after_stopping(
    differences: Sequence[float],
    boundary: Sequence[int | None],
    give_up: Sequence[int | None] | None = None,
    error_rate: float = 0.05,
) -> float:
    """By how much the candidate is better at least, after a sequential test that ended superior.

    The least difference for which an outcome at least as good has a chance above the error rate; see `after_stopping`.
    It is above 0 exactly if that chance is below the error rate for two equals, which is when the test is superior.
    """
    looks = _looks(differences, boundary, give_up)
    return looks.often * (2 * _Outcomes(looks).share(error_rate, observed_too=True) - 1)


def after_ratio_test(
    differences: Sequence[float],
    *,
    d0: float = 0.0,
    effect: float,
    ratio: float,
    low: float,
    high: float,
    confidence: float = 0.95,
) -> Interval:
    """As `after_stopping`, for a likelihood ratio test of "better by `d0` + `effect`" against "better by `d0`".

    The log of the ratio was last at `ratio`; at `low` or `high` the test ends. Approximate, like the test itself: the
    log is modelled as a Brownian motion whose drift is the difference. For any scores.
    """
    check_confidence(confidence)
    units = check_finite("differences", differences)
    if not 0 < effect < math.inf:
        raise SeedbedError(f"effect: found {shown(effect)}; expected above 0")
    if not low < 0 < high:
        raise SeedbedError(f"low, high: found {shown(low)}, {shown(high)}; expected bounds below and above 0")
    n = len(units)
    spread = float(units.std(ddof=1)) if n > 1 else 0.0
    if spread == 0:
        return Interval(float(units.mean()) if n else math.nan, -math.inf, math.inf, confidence, n)
    unit = effect / spread  # by which the log of the ratio varies in one task
    below, above, observed = OVERSHOOT - low / unit, OVERSHOOT + high / unit, ratio / unit
    widest = abs(observed) / n + 10 / math.sqrt(n) + 10 / below + 10 / above

    def difference(chance: float) -> float:
        """The difference for which an outcome at least as good has this chance."""

        def good(drift: float) -> bool:
            if ratio <= low:
                return 1 - _passage(-drift, n, above, below) >= chance
            ended = _passage(drift, n, below, above)
            return ended + (_on_the_way(drift, n, below, above, observed) if ratio < high else 0.0) >= chance

        return first_enough(good, -widest, widest) * spread + d0 + effect / 2

    tail = (1 - confidence) / 2
    return Interval(difference(0.5), difference(tail), difference(1 - tail), confidence, n)


@dataclass(frozen=True, slots=True)
class _Looks:
    """After each task of a sequential test: how many differed and were won, how many wins would have ended it superior,
    and at how many or fewer it would have ended otherwise."""

    differed: Indexes
    won: Indexes
    upper: Indexes
    lower: Indexes

    @property
    def often(self) -> float:
        """The share of tasks that differed."""
        return int(self.differed[-1]) / len(self.differed)

    def swapped(self) -> _Looks:
        """Seen from the other side: losses are wins, and what ended it inferior ends it superior."""
        lost, upper, lower = (self.differed - each for each in (self.won, self.lower, self.upper))
        return _Looks(self.differed, lost, upper, lower)


def _looks(
    differences: Sequence[float], boundary: Sequence[int | None], give_up: Sequence[int | None] | None
) -> _Looks:
    units = check_finite("differences", differences)
    n = len(units)
    for name, looks in (("boundary", boundary), ("give_up", give_up)):
        if looks is not None and len(looks) != n:
            raise SeedbedError(f"{name}: found {len(looks)} numbers; expected one for each of the {n} differences")
    if strange := set(units.tolist()) - {-1.0, 0.0, 1.0}:
        raise SeedbedError(f"differences: found {shown(strange.pop())}; expected -1, 0 or 1")
    differed, won = np.cumsum(units != 0, dtype=np.intp), np.cumsum(units > 0, dtype=np.intp)
    upper = np.array([m + 1 if look is None else look for m, look in zip(differed, boundary, strict=True)], np.intp)
    lower = differed - upper
    if give_up is not None:
        lower = np.array([-1 if look is None else look for look in give_up], np.intp)
    for place in np.flatnonzero((won >= upper) | (won <= lower))[:1]:
        if place < n - 1:
            raise SeedbedError(f"differences: found {n}; expected {place + 1}, where the boundary ended the test")
    return _Looks(differed, won, upper, lower)


def _stopped(looks: _Looks, confidence: float) -> Interval:
    """`after_stopping` of a test that did not end inferior."""
    outcomes, n, often = _Outcomes(looks), len(looks.differed), looks.often
    tail = (1 - confidence) / 2
    mean = often * (outcomes.share(0.5, observed_too=True) + outcomes.share(0.5, observed_too=False) - 1)
    low, high = (
        often * (2 * each - 1)
        for each in (outcomes.share(tail, observed_too=True), outcomes.share(1 - tail, observed_too=False))
    )
    unsure = float(scipy.special.ndtri(1 - tail)) * abs(mean) * math.sqrt((1 - often) / (often * n))
    low, high = mean - math.hypot(mean - low, unsure), mean + math.hypot(high - mean, unsure)
    return Interval(mean, max(low, -1.0), min(high, 1.0), confidence, n)


class _Outcomes:
    """All outcomes of a test at least as good as the one seen, which comes last.

    Each has the logarithm of its chance if wins were fair coins, and its wins and losses. For other coins that chance
    is multiplied by the odds of these wins and losses.
    """

    def __init__(self, looks: _Looks) -> None:
        going_on = np.ones(1)  # the chance of each number of wins, the test having gone on until this look
        endings: list[tuple[Floats, Indexes, Indexes]] = []
        before = 0
        for m, most, least in zip(
            *(each[:-1].tolist() for each in (looks.differed, looks.upper, looks.lower)), strict=True
        ):
            going_on = _toss(going_on, m - before)
            before = m
            ending = np.arange(most, m + 1)
            endings.append((going_on[ending], ending, m - ending))
            going_on[max(most, 0) :] = 0
            going_on[: max(least + 1, 0)] = 0
        m = int(looks.differed[-1])
        going_on = _toss(going_on, m - before)
        ending = np.arange(m, int(looks.won[-1]) - 1, -1)
        endings.append((going_on[ending], ending, m - ending))
        chances, won, lost = (np.concatenate(each) for each in zip(*endings, strict=True))
        possible = chances > 0
        possible[-1] = True
        with np.errstate(divide="ignore"):  # one too rare for a number counts as impossible
            self._logs, self._won, self._lost = np.log(chances[possible]), won[possible], lost[possible]

    def share(self, chance: float, *, observed_too: bool) -> float:
        """The least share of wins among tasks that differ for which a better outcome has at least this chance."""
        those = slice(None, len(self._logs) - 1 + observed_too)
        logs, won, lost = self._logs[those], self._won[those], self._lost[those]

        def good(wins: float) -> bool:
            odds = scipy.special.xlogy(won, 2 * wins) + scipy.special.xlogy(lost, 2 - 2 * wins)
            return float(np.exp(logs + odds).sum()) >= chance

        return first_enough(good, 0.0, 1.0)


def _toss(wins: Floats, tosses: int) -> Floats:
    """The chances of each number of wins after another fair toss, or none."""
    return (np.append(wins, 0.0) + np.append(0.0, wins)) / 2 if tosses else wins


def _passage(drift: float, time: float, below: float, above: float) -> float:
    """The chance that Brownian motion has reached `above` by this time, and not `-below` before."""
    if drift < 0:
        return math.exp(2 * drift * above) * _passage(-drift, time, below, above)
    drift = max(drift, 1e-5 / (below + above))  # at 0 the formula is 0/0
    back = math.exp(-2 * drift * below)
    # The chance to end above at any time, less the chance that it is still on the way there.
    going = _on_the_way(drift, time, below, above, -below) - back * _on_the_way(-drift, time, below, above, -below)
    return min(max((1 - back - going) / -math.expm1(-2 * drift * (below + above)), 0.0), 1.0)


def _on_the_way(drift: float, time: float, below: float, above: float, least: float) -> float:
    """The chance that it has reached neither bound by this time and is at `least` or above (method of images)."""
    root, width = math.sqrt(time), 2 * (below + above)
    most = 2 + math.ceil(10 * root / width)
    starts = width * np.arange(-most, most + 1)
    starts, signs = np.append(starts, starts + 2 * above), np.repeat([1.0, -1.0], len(starts))
    low, high = ((end - starts - drift * time) / root for end in (least, above))
    # Both ends in the lower tail, where the logarithm of the chance is exact.
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    rare, common = scipy.special.log_ndtr(low), scipy.special.log_ndtr(high)
    return float(signs @ (np.exp(drift * starts + common) * -np.expm1(rare - common)))


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
