from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.estimates import Interval, mcnemar, mean_interval
from seedbed.stats.resampling import Alternative, Method, bootstrap_interval, sign_flip, wilcoxon

ALTERNATIVES: list[Alternative] = ["two-sided", "greater", "less"]
DIFFERENCES = st.lists(st.integers(-100, 100).map(lambda number: number / 10), max_size=12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [2, 7, 11])
def test_sign_flip_is_the_permutation_test_of_scipy(n: int, alternative: Alternative) -> None:
    differences = np.random.default_rng(n).normal(0.4, 1, n)
    expected = stats.permutation_test(
        (differences,),
        lambda values, axis: values.mean(axis=axis),
        permutation_type="samples",
        n_resamples=2**12,
        alternative=alternative,
    ).pvalue
    # With two sides scipy takes twice the smaller tail; the null distribution is symmetric, so the two agree.
    assert sign_flip(differences.tolist(), alternative=alternative) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(st.integers(0, 150), st.integers(0, 150), st.integers(0, 20))
def test_sign_flip_of_wins_and_losses_is_mcnemar(wins: int, losses: int, ties: int) -> None:
    differences = [1.0] * wins + [-1.0] * losses + [0.0] * ties
    assert sign_flip(differences) == pytest.approx(mcnemar(wins, losses), rel=1e-9)


def test_clusters_flip_as_one() -> None:
    values, clusters = [1.0, 0.5, -0.25, 0.75, 1.0, 0.5], list("aabbcd")
    sums = {"a": 1.5, "b": 0.5, "c": 1.0, "d": 0.5}
    flipped = [
        abs(sum(sign * each for sign, each in zip(signs, sums.values(), strict=True)))
        for signs in product([1, -1], repeat=4)
    ]
    expected = sum(each >= 3.5 for each in flipped) / 16
    assert sign_flip(values, clusters) == expected == 1 / 8
    assert sign_flip(values) < expected


def test_repeats_declared_as_clusters_add_no_evidence() -> None:
    values = [0.3, -0.1, 0.6, 0.2, 0.9]
    assert sign_flip(values * 10, list("abcde") * 10) == sign_flip(values)


@settings(deadline=None)
@given(DIFFERENCES, st.randoms(use_true_random=False))
@example(np.random.default_rng(2).normal(0.2, 1, 40).tolist(), random.Random(1))  # too many to list
def test_neither_order_nor_scale_nor_swapped_arms_change_the_p_value(
    differences: list[float], chance: random.Random
) -> None:
    shuffled = differences.copy()
    chance.shuffle(shuffled)
    for test in (sign_flip, wilcoxon):
        p = test(differences)
        assert 0 < p <= 1
        assert test(shuffled) == pytest.approx(p, rel=1e-9)
        assert test([-3 * each for each in differences]) == pytest.approx(p, rel=1e-9)
        swapped = test([-each for each in differences], alternative="less")
        assert test(differences, alternative="greater") == pytest.approx(swapped, rel=1e-9)


def test_many_distinct_differences_are_drawn_from_the_seed_and_never_give_zero() -> None:
    differences = np.random.default_rng(3).normal(0, 1, 200).tolist()
    t = stats.ttest_1samp(differences, 0).pvalue
    assert sign_flip(differences) == sign_flip(differences) == pytest.approx(t, abs=0.02)
    assert sign_flip(differences, seed=1) != sign_flip(differences, seed=2)
    assert sign_flip([abs(each) for each in differences]) == 1 / 10_000


def test_no_difference_is_no_evidence() -> None:
    for test in (sign_flip, wilcoxon):
        assert test([]) == test([0.0, 0.0]) == test([1.0, -1.0], ["a", "a"]) == 1.0


def test_sign_flip_keeps_its_error_rate_with_clusters_where_the_unaware_test_does_not() -> None:
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(12), 6).tolist()
    aware = unaware = 0
    for _ in range(500):
        values = (np.repeat(rng.normal(size=12), 6) + rng.normal(size=72) / 2).round(1).tolist()
        aware += sign_flip(values, clusters) <= 0.05
        unaware += stats.ttest_1samp(values, 0).pvalue <= 0.05
    assert aware / 500 <= 0.08
    assert unaware / 500 > 0.25


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [3, 8, 20])
def test_wilcoxon_is_that_of_scipy(n: int, alternative: Alternative) -> None:
    differences = np.random.default_rng(n).normal(0.3, 1, n)
    expected = stats.wilcoxon(differences, alternative=alternative, method="exact").pvalue
    assert wilcoxon(differences.tolist(), alternative=alternative) == pytest.approx(expected, rel=1e-9)


def test_wilcoxon_handles_ties_and_leaves_zeros_out() -> None:
    differences = np.random.default_rng(6).integers(-3, 4, 150) / 4
    expected = stats.wilcoxon(differences, correction=False, method="asymptotic").pvalue
    assert wilcoxon(differences.tolist()) == pytest.approx(expected, rel=0.05)
    assert wilcoxon([*differences.tolist(), 0.0, 0.0]) == wilcoxon(differences.tolist())


def test_one_huge_difference_does_not_decide_wilcoxon() -> None:
    differences = [1000.0, *[-1.0 - each / 10 for each in range(12)]]
    assert np.mean(differences) > 0
    assert wilcoxon(differences, alternative="less") < 0.1


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("statistic", [np.mean, np.median])
def test_bootstrap_is_that_of_scipy(method: Method, statistic: Callable[..., float]) -> None:
    values = np.random.default_rng(7).exponential(1, 81)
    interval = bootstrap_interval(values.tolist(), statistic=statistic, method=method, confidence=0.9)
    reference = stats.bootstrap((values,), statistic, method=method, confidence_level=0.9, rng=1).confidence_interval
    assert interval.mean == pytest.approx(statistic(values))
    assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high), abs=0.03)


def test_bca_moves_the_interval_to_the_long_tail() -> None:
    values = np.random.default_rng(8).exponential(1, 60).tolist()
    plain, corrected = bootstrap_interval(values), bootstrap_interval(values, method="bca")
    assert corrected.low > plain.low
    assert corrected.high > plain.high


def test_bootstrap_of_clusters_is_as_wide_as_their_likeness_asks() -> None:
    rng = np.random.default_rng(9)
    clusters = np.repeat(np.arange(60), 4).tolist()
    values = (np.repeat(rng.normal(size=60), 4) + rng.normal(size=240) / 3).tolist()
    expected, unaware = mean_interval(values, clusters), bootstrap_interval(values)
    for method in ("percentile", "bca"):
        interval = bootstrap_interval(values, clusters, method=method, draws=3_000)  # type: ignore[arg-type]
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.04)
        assert interval.high - interval.low > 1.5 * (unaware.high - unaware.low)


def test_bootstrap_is_repeatable_whatever_the_order() -> None:
    rng = np.random.default_rng(10)
    values, clusters = rng.normal(size=60), rng.integers(0, 20, 60)
    order = rng.permutation(60)
    once = bootstrap_interval(values.tolist(), clusters.tolist(), draws=200)
    again = bootstrap_interval(values[order].tolist(), clusters[order].tolist(), draws=200)
    assert once == again
    assert bootstrap_interval(values.tolist(), seed=1) != bootstrap_interval(values.tolist(), seed=2)


def test_too_little_to_draw_from_gives_any_interval() -> None:
    assert math.isnan(bootstrap_interval([]).mean)
    assert bootstrap_interval([0.7]) == Interval(0.7, -math.inf, math.inf, 0.95, 1)
    assert bootstrap_interval([0.5, 1.0], ["a", "a"]) == Interval(0.75, -math.inf, math.inf, 0.95, 2)
    assert bootstrap_interval([0.5] * 60, method="bca") == Interval(0.5, 0.5, 0.5, 0.95, 60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sign_flip([1.0, math.nan]), r"differences\[1\]: found nan"),
        (lambda: sign_flip([1.0], ["a", "b"]), "clusters: found 2 ids; expected one for each of the 1 values"),
        (lambda: sign_flip([1.0], alternative="up"), 'alternative: found "up"; expected two-sided'),  # type: ignore[arg-type]
        (lambda: bootstrap_interval([1.0] * 49, method="bca"), "found bca for 49 .* at least 50. Use mean_interval"),
        (lambda: bootstrap_interval([1.0] * 99, [0, 1, 2] * 33, method="bca"), "found bca for 3 tasks or clusters"),
        (lambda: bootstrap_interval([1.0], method="t"), 'method: found "t"'),  # type: ignore[arg-type]
        (lambda: bootstrap_interval([1.0], confidence=0), "confidence: found 0"),
        (lambda: bootstrap_interval([1.0], draws=0), "draws: found 0"),
    ],
)
def test_what_cannot_be_resampled_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
