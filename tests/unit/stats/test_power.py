from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.estimates import after_ratio_test, after_stopping, exact_rate, mcnemar
from seedbed.stats.power import detectable_effect, fixed_power, sample_size


def test_sample_size_of_the_published_formula() -> None:
    z = stats.norm.ppf
    for effect, discordance, alpha, power in [(0.1, 0.3, 0.05, 0.9), (0.2, 0.5, 0.025, 0.8), (0.02, 0.1, 0.05, 0.95)]:
        root = z(1 - alpha) * math.sqrt(discordance) + z(power) * math.sqrt(discordance - effect**2)
        assert sample_size(effect, discordance, alpha=alpha, power=power) == math.ceil((root / effect) ** 2)
    assert sample_size(0.1, 0.3) == 254


def test_fixed_power_is_the_share_of_experiments_that_end_significant() -> None:
    rng = np.random.default_rng(1)
    wins, losses, _ = rng.multinomial(60, [0.35, 0.15, 0.5], size=20_000).T
    significant = {}
    for pair in set(zip(wins.tolist(), losses.tolist(), strict=True)):
        significant[pair] = pair[0] > pair[1] and mcnemar(*pair) / 2 <= 0.05
    share = np.mean([significant[pair] for pair in zip(wins.tolist(), losses.tolist(), strict=True)])
    assert fixed_power(60, 0.2, 0.5) == pytest.approx(share, abs=0.012)


@settings(deadline=None)
@given(st.integers(1, 200), st.floats(0.01, 1), st.floats(0.001, 0.3))
def test_the_fixed_test_never_exceeds_alpha(tasks: int, discordance: float, alpha: float) -> None:
    assert 0 <= fixed_power(tasks, 0, discordance, alpha=alpha) <= alpha * (1 + 1e-9)


def test_connors_sample_has_about_the_power_it_promises() -> None:
    # The exact test is cautious: it has less than the approximation says, and for few tasks that differ much less.
    for effect, discordance in [(0.1, 0.3), (0.1, 0.5), (0.2, 0.5), (0.05, 0.1)]:
        assert 0.85 <= fixed_power(sample_size(effect, discordance), effect, discordance) <= 0.91


@pytest.mark.parametrize(("tasks", "discordance"), [(50, 0.5), (254, 0.3), (1000, 0.1)])
def test_detectable_effect_has_just_the_power_asked_for(tasks: int, discordance: float) -> None:
    effect = detectable_effect(tasks, discordance, power=0.8)
    assert fixed_power(tasks, effect, discordance) == pytest.approx(0.8, abs=1e-9)
    assert fixed_power(tasks, effect - 1e-6, discordance) < 0.8
    assert detectable_effect(tasks * 2, discordance, power=0.8) < effect


def test_too_few_tasks_can_detect_nothing() -> None:
    # Even if every task that differs is a win, five of them are needed.
    assert detectable_effect(6, 0.3) == math.inf
    assert detectable_effect(5, 1.0) <= 1.0
    assert fixed_power(4, 1.0, 1.0) == 0.0
    assert fixed_power(5, 1.0, 1.0) == 1.0


def tail(signs: list[int], boundary: list[int | None], wins_chance: float, also_same: bool) -> float:
    """The chance of an outcome better than this one, by listing every path: what after_stopping must solve."""

    def end(path: tuple[int, ...]) -> tuple[float, ...]:
        """Orders outcomes: superior sooner is better, then more wins, and inferior later is better."""
        for look in range(1, len(path) + 1):
            needed = boundary[look - 1]
            wins, losses = path[:look].count(1), path[:look].count(-1)
            if needed is not None and wins >= needed:
                return (1, -look, wins)
            if needed is not None and losses >= needed:
                return (-1, look, wins)
        return (0, 0, path.count(1))

    seen, total = end(tuple(signs)), 0.0
    for path in product(*[(1, -1) if sign else (0,) for sign in signs]):
        if end(path) > seen or (also_same and end(path) == seen):
            total += wins_chance ** path.count(1) * (1 - wins_chance) ** path.count(-1)
    return total


@pytest.mark.parametrize(
    ("signs", "boundary"),
    [
        ([1, 1, 1, 0, 1], [None, None, 3, 3, 4]),
        ([1, 0, 1, -1, 1, 1, 1], [None, None, None, None, 4, 4, 5]),
        ([1, -1, 1, -1, 1, 0, 1, -1], [None, None, None, 4, 4, 4, 5, 5]),
        ([1, 1, -1, 1, 0], [None, None, None, None, 3]),
        ([-1, 1, -1, -1, -1], [None, None, None, 4, 4]),
        ([1, -1, 1, -1, 1, 1], [None, 2, None, None, None, 4]),  # two losses first would have ended it
    ],
)
def test_after_stopping_solves_what_its_definition_says(signs: list[int], boundary: list[int | None]) -> None:
    # A tie lowers the boundary in some of these: a look at which the test may end.
    stop = next(
        (
            look
            for look, needed in enumerate(boundary, 1)
            if needed is not None and max(signs[:look].count(1), signs[:look].count(-1)) >= needed
        ),
        len(signs),
    )
    signs, boundary = signs[:stop], boundary[:stop]
    often = (stop - signs.count(0)) / stop
    interval = after_stopping(signs, boundary)

    def root(chance: float, also_same: bool) -> float:
        low, high = 0.0, 1.0
        for _ in range(14):
            middle = (low + high) / 2
            low, high = (low, middle) if tail(signs, boundary, middle, also_same) >= chance else (middle, high)
        return high

    mean = often * (root(0.5, True) + root(0.5, False) - 1)
    assert interval.mean == pytest.approx(mean, abs=2e-3)
    unsure = stats.norm.ppf(0.975) * abs(mean) * math.sqrt((1 - often) / often / stop)
    low = mean - math.hypot(mean - often * (2 * root(0.025, True) - 1), unsure)
    high = mean + math.hypot(often * (2 * root(0.975, False) - 1) - mean, unsure)
    assert (interval.low, interval.high) == pytest.approx((max(low, -1), min(high, 1)), abs=3e-3)


def test_without_stopping_it_is_the_plain_difference_with_the_exact_interval() -> None:
    signs = [1.0] * 40 + [-1.0] * 20
    interval = after_stopping(signs, [None] * 60)
    share = exact_rate(40, 60)
    assert interval.mean == pytest.approx(20 / 60, abs=0.01)
    assert (interval.low, interval.high) == pytest.approx((2 * share.low - 1, 2 * share.high - 1), abs=1e-9)


def fair_boundary(n: int) -> list[int | None]:
    """Look at every tenth task, end at two standard deviations."""
    return [math.ceil(look / 2 + math.sqrt(look)) if look % 10 == 0 else None for look in range(1, n + 1)]


def taken(signs: list[int], boundary: list[int | None]) -> tuple[list[int], list[int | None]]:
    wins = losses = 0
    for look, (sign, needed) in enumerate(zip(signs, boundary, strict=True), 1):
        wins, losses = wins + (sign > 0), losses + (sign < 0)
        if needed is not None and max(wins, losses) >= needed:
            return signs[:look], boundary[:look]
    return signs, boundary


@pytest.mark.parametrize("effect", [0.0, 0.2, 0.35])
def test_after_stopping_is_too_high_as_often_as_too_low_where_the_plain_mean_is_not(effect: float) -> None:
    rng = np.random.default_rng(2)
    boundary = fair_boundary(100)
    estimates, means, covered = [], [], 0
    for _ in range(400):
        signs, looks = taken(rng.choice([1, -1], 100, p=[(1 + effect) / 2, (1 - effect) / 2]).tolist(), boundary)
        interval = after_stopping(signs, looks)
        estimates.append(interval.mean)
        means.append(np.mean(signs))
        covered += interval.low <= effect <= interval.high
    assert abs(np.median(estimates) - effect) < 0.03
    assert covered / 400 >= 0.935
    if effect:
        assert np.median(means) - effect > 0.03


@settings(deadline=None)
@given(st.lists(st.sampled_from([1, 0, -1]), min_size=1, max_size=40), st.data())
def test_swapping_the_arms_turns_the_estimate_around(signs: list[int], data: st.DataObject) -> None:
    differing = np.cumsum(np.abs(signs)).tolist()
    boundary = [data.draw(st.sampled_from([None, m // 2 + 2, m])) if m > 3 else None for m in differing]
    signs, boundary = taken(signs, boundary)
    there, back = after_stopping(signs, boundary), after_stopping([-sign for sign in signs], boundary)
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low), abs=1e-9)
    assert -1 <= there.low <= there.mean <= there.high <= 1


def test_give_up_bounds_count_as_endings() -> None:
    signs, boundary = [1, -1, -1, 1, -1, -1], [None] * 4 + [5, 5]
    symmetric = [None if needed is None else m - needed for m, needed in enumerate(boundary, 1)]
    assert after_stopping(signs, boundary, symmetric) == after_stopping(signs, boundary)
    # Ended for want of wins at the last look: the same wins earlier would have ended it earlier.
    assert after_stopping(signs, boundary, [None, 0, 0, 1, 1, 2]).mean < 0


def test_only_ties_say_that_the_difference_is_small() -> None:
    interval = after_stopping([0] * 50, [None] * 50)
    assert (interval.mean, interval.high, interval.low) == (0.0, exact_rate(0, 50).high, -exact_rate(0, 50).high)
    assert math.isnan(after_stopping([], []).mean)


def test_a_long_run_of_wins_does_not_break_the_numbers() -> None:
    interval = after_stopping([1] * 3_000, [None] * 3_000)
    assert interval.high == 1.0
    assert interval.mean > 0.99


def ratio_path(values: np.ndarray, effect: float, variance: float) -> np.ndarray:
    """The log of the likelihood ratio of "mean `effect`" to "mean 0" of normal values, after each of them."""
    return effect / variance * (np.cumsum(values) - np.arange(1, len(values) + 1) * effect / 2)


def test_a_ratio_test_with_bounds_out_of_reach_leaves_the_plain_interval() -> None:
    values = np.random.default_rng(3).normal(0.2, 1, 80)
    ratio = float(ratio_path(values, 0.1, values.var(ddof=1))[-1])
    interval = after_ratio_test(values.tolist(), effect=0.1, ratio=ratio, low=-50, high=50)
    reach = stats.norm.ppf(0.975) * values.std(ddof=1) / math.sqrt(80)
    expected = (values.mean(), values.mean() - reach, values.mean() + reach)
    assert (interval.mean, interval.low, interval.high) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("ratio", [-2.25, -0.7, 0.0, 1.3, 2.9])
def test_swapping_the_arms_of_a_ratio_test_turns_its_estimate_around(ratio: float) -> None:
    values = np.random.default_rng(4).choice([1.0, -1.0, 0.0], 90, p=[0.2, 0.1, 0.7])
    there = after_ratio_test(values.tolist(), d0=0.02, effect=0.1, ratio=ratio, low=-2.25, high=2.89)
    back = after_ratio_test((-values).tolist(), d0=-0.12, effect=0.1, ratio=-ratio, low=-2.89, high=2.25)
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low), abs=1e-9)
    assert there.low < there.mean < there.high


def test_after_a_ratio_test_the_estimate_is_too_high_as_often_as_too_low_where_the_mean_is_not() -> None:
    rng = np.random.default_rng(5)
    low, high = math.log(0.1 / 0.95), math.log(0.9 / 0.05)
    estimates, means, covered = [], [], 0
    for values in rng.normal(0.3, 1, size=(300, 600)):
        path = ratio_path(values, 0.2, 1.0)
        end = int(np.argmax((path <= low) | (path >= high) | (np.arange(600) == 599))) + 1
        interval = after_ratio_test(values[:end].tolist(), effect=0.2, ratio=float(path[end - 1]), low=low, high=high)
        estimates.append(interval.mean)
        means.append(values[:end].mean())
        covered += interval.low <= 0.3 <= interval.high
    assert abs(np.median(estimates) - 0.3) < 0.02
    assert np.median(means) - 0.3 > 0.035
    assert covered / 300 >= 0.93


def test_scores_without_spread_leave_any_interval_after_a_ratio_test() -> None:
    interval = after_ratio_test([0.0] * 9, effect=0.1, ratio=-3.0, low=-2.25, high=2.89)
    assert (interval.mean, interval.low, interval.high) == (0.0, -math.inf, math.inf)
    assert math.isnan(after_ratio_test([], effect=0.1, ratio=0.0, low=-1, high=1).mean)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_size(0.4, 0.3), "effect: found 0.4; expected above 0 and at most discordance, 0.3"),
        (lambda: sample_size(0.0, 0.3), "effect: found 0.0"),
        (lambda: sample_size(0.1, 1.3), "discordance: found 1.3"),
        (lambda: sample_size(0.1, 0.3, alpha=0), "alpha: found 0"),
        (lambda: sample_size(0.1, 0.3, power=1), "power: found 1"),
        (lambda: fixed_power(0, 0.1, 0.3), "tasks: found 0"),
        (lambda: fixed_power(9, -0.4, 0.3), "effect: found -0.4; expected at most discordance, 0.3, either way"),
        (lambda: fixed_power(9, math.nan, 0.3), "effect: found nan"),
        (lambda: after_ratio_test([1.0], effect=0.0, ratio=0, low=-1, high=1), "effect: found 0.0; expected above 0"),
        (lambda: after_ratio_test([1.0], effect=0.1, ratio=0, low=1, high=2), "low, high: found 1, 2"),
        (lambda: after_stopping([0.5], [None]), "differences: found 0.5; expected -1, 0 or 1"),
        (lambda: after_stopping([1], []), "boundary: found 0 numbers; expected one for each of the 1 differences"),
        (lambda: after_stopping([1, 1, 1], [None, 2, 2]), "differences: found 3; expected 2, where the boundary ended"),
    ],
)
def test_impossible_questions_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
