"""What a comparison of two playbooks on pass or fail tasks can show: before it is paid for, and after it has stopped.

`discordance` is the share of tasks on which the two differ, `effect` by how much more often the candidate passes.
Sequential tests have their own plan: see `sequential`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Bools, Floats, Indexes, check_finite
from seedbed.stats.estimates import Interval, check_confidence, exact_rate

OVERSHOOT = 0.583
"""How far beyond a bound a motion is when first seen there, in standard deviations between looks (Siegmund 1985)."""


def sample_size(effect: float, discordance: float, *, alpha: float = 0.05, power: float = 0.9) -> int:
    """How many tasks a one-sided McNemar test looked at once needs for this power, by Connor's (1987) formula.

    A normal approximation: the exact test needs a few more where tasks seldom differ. `fixed_power` is exact.
    """
    _check_effect(effect, discordance, positive=True)
    _check_share("alpha", alpha)
    _check_share("power", power)
    spread = special.ndtri(1 - alpha) * math.sqrt(discordance)
    spread += special.ndtri(power) * math.sqrt(discordance - effect**2)
    return max(1, math.ceil(float(spread / effect) ** 2)) if spread > 0 else 1


def fixed_power(tasks: int, effect: float, discordance: float, *, alpha: float = 0.05) -> float:
    """The chance that the exact one-sided McNemar test, looked at once, after all tasks, calls the candidate better.

    Exact, over how many tasks happen to differ. An effect of 0 gives the chance of a false alarm.
    """
    _check_tasks(tasks)
    _check_effect(effect, discordance)
    _check_share("alpha", alpha)
    return _power(_wins_needed(tasks, alpha), effect, discordance)


def detectable_effect(tasks: int, discordance: float, *, alpha: float = 0.05, power: float = 0.9) -> float:
    """The smallest effect for which `fixed_power` is at least this; infinite if so few tasks can show none at all."""
    _check_tasks(tasks)
    _check_effect(discordance, discordance, positive=True)
    _check_share("alpha", alpha)
    _check_share("power", power)
    needed = _wins_needed(tasks, alpha)
    if _power(needed, discordance, discordance) < power:
        return math.inf
    return _first(lambda effect: _power(needed, effect, discordance) >= power, -discordance, discordance)


def best_replicates(
    *, between_tasks: float, within_task: float, cost_of_task: float = 0.0, cost_of_run: float = 1.0
) -> int:
    """How often to run each task for the most certain mean at a given cost: k* = sqrt(task/run costs x variances).

    Takes the variance of true scores between tasks and that of the runs of one task. Once, unless to get a task costs
    much more than to run it: another task tells more than another run.
    """
    amounts = {"between_tasks": between_tasks, "within_task": within_task, "cost_of_task": cost_of_task}
    for name, amount in (amounts | {"cost_of_run": cost_of_run}).items():
        if not 0 <= amount < math.inf or (name == "cost_of_run" and amount == 0):
            least = "above 0" if name == "cost_of_run" else "at least 0"
            raise SeedbedError(f"{name}: found {shown(amount)}; expected a finite number, {least}")
    if not cost_of_task or not within_task:
        return 1
    if not between_tasks:
        raise SeedbedError("between_tasks: found 0; expected above 0. If tasks do not differ, one task is enough")
    below = max(1, math.floor(math.sqrt(cost_of_task / cost_of_run * within_task / between_tasks)))
    return min((below, below + 1), key=lambda k: (between_tasks + within_task / k) * (cost_of_task + k * cost_of_run))


def after_stopping(
    differences: Sequence[float],
    boundary: Sequence[int | None],
    give_up: Sequence[int | None] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """The difference, candidate minus control, of a test that stopped when it looked good: without what stopping adds.

    A test that stops early does so on a lucky streak, so the plain mean is too large. This estimate is too large as
    often as it is too small (median-unbiased): the middle of the effects for which an outcome at least as good, and
    one that is better, has a chance of one half. Better is: stopped superior sooner, or as soon with more wins.

    `differences` are those taken, -1, 0 or 1, in order. `boundary` has for each how many wins would have ended the test
    superior there, and `give_up` at how many wins or fewer it would have ended otherwise; None where no number would.
    Without `give_up` it ends inferior by as many losses as it takes wins. Exact given which tasks differed; how many do
    in general is estimated from the same tasks, which the interval allows for.
    """
    check_confidence(confidence)
    units = check_finite("differences", differences)
    n = len(units)
    for name, looks in (("boundary", boundary), ("give_up", give_up)):
        if looks is not None and len(looks) != n:
            raise SeedbedError(f"{name}: found {len(looks)} numbers; expected one for each of the {n} differences")
    if n == 0:
        return Interval(math.nan, -1.0, 1.0, confidence, 0)
    if strange := set(units.tolist()) - {-1.0, 0.0, 1.0}:
        raise SeedbedError(f"differences: found {shown(strange.pop())}; expected -1, 0 or 1")
    differed, won = np.cumsum(units != 0), np.cumsum(units > 0)
    upper = np.array([m + 1 if look is None else look for m, look in zip(differed, boundary, strict=True)])
    lower = differed - upper
    if give_up is not None:
        lower = np.array([-1 if look is None else look for look in give_up])
    for place in np.flatnonzero((won >= upper) | (won <= lower))[:1]:
        if place < n - 1:
            raise SeedbedError(f"differences: found {n}; expected {place + 1}, where the boundary ended the test")
    if not differed[-1]:
        reach = exact_rate(0, n, confidence).high
        return Interval(0.0, -reach, reach, confidence, n)
    if won[-1] <= lower[-1]:
        # Seen from the other side: losses are wins, and what ended it inferior ends it superior.
        swapped = _stopped(units < 0, differed, differed - lower, differed - upper, confidence)
        return replace(swapped, mean=-swapped.mean, low=-swapped.high, high=-swapped.low)
    return _stopped(units > 0, differed, upper, lower, confidence)


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

    It ended with the log of the ratio at `ratio`, where `low` and `high` would have ended it. Approximate, as such
    tests are: the log is taken for a Brownian motion, whose drift tells the difference. For any scores.
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
    below, above, seen = OVERSHOOT - low / unit, OVERSHOOT + high / unit, ratio / unit
    widest = abs(seen) / n + 10 / math.sqrt(n) + 10 / below + 10 / above

    def difference(chance: float) -> float:
        """The difference for which an outcome at least as good has this chance."""

        def good(drift: float) -> bool:
            if ratio <= low:
                return 1 - _passage(-drift, n, above, below) >= chance
            ended = _passage(drift, n, below, above)
            return ended + (_on_the_way(drift, n, below, above, seen) if ratio < high else 0.0) >= chance

        return _first(good, -widest, widest) * spread + d0 + effect / 2

    tail = (1 - confidence) / 2
    return Interval(difference(0.5), difference(tail), difference(1 - tail), confidence, n)


def _stopped(wins: Bools, differed: Indexes, upper: Indexes, lower: Indexes, confidence: float) -> Interval:
    """`after_stopping` of a test that did not end inferior, its bounds at each look in numbers of wins."""
    n, m = len(wins), int(differed[-1])
    chances, won, lost = _as_good(int(wins.sum()), differed, upper, lower)
    seen = len(chances) - 1  # the outcome seen is the last; all others are better

    def share(chance: float, *, seen_too: bool) -> float:
        """The least share of wins among tasks that differ for which a better outcome has at least this chance."""
        those = slice(None, seen + seen_too)

        def good(wins: float) -> bool:
            odds = special.xlogy(won[those], 2 * wins) + special.xlogy(lost[those], 2 - 2 * wins)
            return float(np.exp(chances[those] + odds).sum()) >= chance

        return _first(good, 0.0, 1.0)

    tail = (1 - confidence) / 2
    often = m / n
    mean = often * (share(0.5, seen_too=True) + share(0.5, seen_too=False) - 1)
    low, high = (often * (2 * each - 1) for each in (share(tail, seen_too=True), share(1 - tail, seen_too=False)))
    unsure = float(special.ndtri(1 - tail)) * abs(mean) * math.sqrt((1 - often) / (often * n))
    low, high = mean - math.hypot(mean - low, unsure), mean + math.hypot(high - mean, unsure)
    return Interval(mean, max(low, -1.0), min(high, 1.0), confidence, n)


def _as_good(wins: int, differed: Indexes, upper: Indexes, lower: Indexes) -> tuple[Floats, Indexes, Indexes]:
    """All outcomes at least as good as so many wins after the last look, that one last.

    Each with the logarithm of its chance, were wins fair coins, and its wins and losses. For coins that are not fair
    the same chance has only to be multiplied by the odds of so many wins and losses.
    """
    going_on = np.ones(1)  # the chance of each number of wins, the test having gone on until this look
    found: list[tuple[Floats, Indexes, Indexes]] = []

    def add(ending: Indexes, m: int) -> None:
        found.append((going_on[ending], ending, m - ending))

    before = 0
    for m, most, least in zip(differed[:-1].tolist(), upper.tolist(), lower.tolist(), strict=False):
        going_on = _toss(going_on, m - before)
        before = m
        add(np.arange(most, m + 1), m)
        going_on[max(most, 0) :] = 0
        going_on[: max(least + 1, 0)] = 0
    m = int(differed[-1])
    going_on = _toss(going_on, m - before)
    add(np.arange(m, wins - 1, -1), m)
    chances, won, lost = (np.concatenate(each) for each in zip(*found, strict=True))
    possible = chances > 0
    possible[-1] = True
    with np.errstate(divide="ignore"):  # one too rare for a number counts as impossible
        return np.log(chances[possible]), won[possible], lost[possible]


def _toss(wins: Floats, tosses: int) -> Floats:
    """The chances of each number of wins after another fair toss, or none."""
    return (np.append(wins, 0.0) + np.append(0.0, wins)) / 2 if tosses else wins


def _passage(drift: float, time: float, below: float, above: float) -> float:
    """The chance that Brownian motion has by then come to `above`, without having been at `-below` before."""
    if drift < 0:
        return math.exp(2 * drift * above) * _passage(-drift, time, below, above)
    drift = max(drift, 1e-5 / (below + above))  # at 0 the formula is 0/0
    back = math.exp(-2 * drift * below)
    # It ends above in the end, but for those that are still on the way and will.
    going = _on_the_way(drift, time, below, above, -below) - back * _on_the_way(-drift, time, below, above, -below)
    return min(max((1 - back - going) / -math.expm1(-2 * drift * (below + above)), 0.0), 1.0)


def _on_the_way(drift: float, time: float, below: float, above: float, least: float) -> float:
    """The chance that it has been at neither bound by then and is at `least` or above: by the method of images."""
    root, width = math.sqrt(time), 2 * (below + above)
    most = 2 + math.ceil(10 * root / width)
    starts = width * np.arange(-most, most + 1)
    starts, signs = np.append(starts, starts + 2 * above), np.repeat([1.0, -1.0], len(starts))
    low, high = ((end - starts - drift * time) / root for end in (least, above))
    # Both ends in the lower tail, where the logarithm of the chance is exact.
    low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
    rare, common = special.log_ndtr(low), special.log_ndtr(high)
    return float(signs @ (np.exp(drift * starts + common) * -np.expm1(rare - common)))


def _wins_needed(tasks: int, alpha: float) -> Indexes:
    """For each number of tasks that differ, from 0, the fewest wins with a one-sided p-value of at most alpha."""
    needed, wins = [], 1
    for differing in range(tasks + 1):
        while special.bdtrc(wins - 1, differing, 0.5) > alpha:
            wins += 1
        needed.append(wins)
    return np.array(needed)


def _power(needed: Indexes, effect: float, discordance: float) -> float:
    differing = np.arange(len(needed))
    tasks = len(needed) - 1
    ways = special.gammaln(tasks + 1) - special.gammaln(differing + 1) - special.gammaln(tasks - differing + 1)
    often = special.xlogy(differing, discordance) + special.xlog1py(tasks - differing, -discordance)
    to_win = min(max((1 + effect / discordance) / 2, 0.0), 1.0)
    reached = np.where(needed > differing, 0.0, special.bdtrc(np.minimum(needed - 1, differing), differing, to_win))
    return float(np.exp(ways + often) @ reached)


def _first(enough: Callable[[float], bool], low: float, high: float) -> float:
    """The least number from which on there is enough, to 13 digits; the upper end if there never is."""
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _check_tasks(tasks: int) -> None:
    if not isinstance(tasks, int) or tasks < 1:
        raise SeedbedError(f"tasks: found {shown(tasks)}; expected how many there are, at least 1")


def _check_effect(effect: float, discordance: float, *, positive: bool = False) -> None:
    if not 0 < discordance <= 1:
        raise SeedbedError(f"discordance: found {shown(discordance)}; expected a share of tasks above 0 and at most 1")
    if positive and not 0 < effect <= discordance:
        raise SeedbedError(f"effect: found {shown(effect)}; expected above 0 and at most discordance, {discordance:g}")
    if not abs(effect) <= discordance:
        raise SeedbedError(f"effect: found {shown(effect)}; expected at most discordance, {discordance:g}, either way")


def _check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise SeedbedError(f"{name}: found {shown(share)}; expected above 0 and below 1")


__all__ = ["after_ratio_test", "after_stopping", "best_replicates", "detectable_effect", "fixed_power", "sample_size"]
