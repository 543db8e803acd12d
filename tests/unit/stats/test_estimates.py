from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar

from seedbed.errors import SeedbedError
from seedbed.stats.estimates import (
    Interval,
    exact_rate,
    fisher,
    mcnemar,
    mean_interval,
    paired_interval,
)


@pytest.mark.parametrize("n", [2, 3, 20, 500])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_mean_interval_is_students(n: int, confidence: float) -> None:
    values = np.random.default_rng(n).normal(3, 2, n)
    expected = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    interval = mean_interval(values.tolist(), confidence=confidence)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert interval.mean == pytest.approx(values.mean())
    assert (interval.n, interval.confidence) == (n, confidence)


def test_clusters_widen_the_interval_by_the_cluster_robust_formula() -> None:
    values, clusters = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0], ["a", "a", "b", "b", "b", "c", "d"]
    mean = 4 / 7
    errors = [1 - 2 * mean, 2 - 3 * mean, -mean, 1 - mean]
    variance = 4 / 3 * sum(error**2 for error in errors) / 7**2
    reach = stats.t.ppf(0.975, 3) * math.sqrt(variance)
    interval = mean_interval(values, clusters)
    assert (interval.mean, interval.low, interval.high) == pytest.approx((mean, mean - reach, mean + reach))
    assert interval.n == 7


def test_repeats_declared_as_clusters_add_no_certainty() -> None:
    values = [0.1, 0.4, 0.35, 0.8, 0.9]
    once = mean_interval(values)
    repeated = mean_interval(values * 10, list("abcde") * 10)
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high))


def test_order_of_values_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    values, clusters = rng.normal(size=50), rng.integers(0, 9, 50)
    order = rng.permutation(50)
    ordered = mean_interval(values[order].tolist(), clusters[order].tolist())
    there = mean_interval(values.tolist(), clusters.tolist())
    assert ordered.mean == there.mean
    assert (ordered.low, ordered.high) == pytest.approx((there.low, there.high), rel=1e-12)


def test_no_values_have_no_mean_and_any_interval() -> None:
    interval = mean_interval([])
    assert math.isnan(interval.mean)
    assert (interval.low, interval.high, interval.n) == (-math.inf, math.inf, 0)


def test_one_value_or_one_cluster_has_a_mean_and_any_interval() -> None:
    assert mean_interval([0.7]) == Interval(0.7, -math.inf, math.inf, 0.95, 1)
    assert mean_interval([0.0, 1.0], ["a", "a"]) == Interval(0.5, -math.inf, math.inf, 0.95, 2)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 1e-300, 1e300])
@pytest.mark.parametrize("n", [2, 3, 7, 49, 1000])
def test_equal_values_are_their_mean_and_show_no_spread(value: float, n: int) -> None:
    assert mean_interval([value] * n) == Interval(value, value, value, 0.95, n)


def test_paired_interval_says_by_how_much_the_second_is_higher() -> None:
    a, b = [0.0, 1.0, 0.5, 0.0], [1.0, 1.0, 0.25, 1.0]
    assert paired_interval(a, b) == mean_interval([1.0, 0.0, -0.25, 1.0])
    assert paired_interval(a, b, list("xxyz"), 0.9) == mean_interval([1.0, 0.0, -0.25, 1.0], list("xxyz"), 0.9)


@pytest.mark.parametrize("n", [20, 50, 100])
def test_intervals_of_paired_passes_cover_the_truth_as_often_as_they_say(n: int) -> None:
    rng = np.random.default_rng(n)
    covered = 0
    for differences in rng.choice([1.0, -1.0, 0.0], size=(10_000, n), p=[0.25, 0.15, 0.6]):
        interval = mean_interval(differences.tolist())
        covered += interval.low <= 0.10 <= interval.high
    assert 0.94 <= covered / 10_000 <= 0.96


@pytest.mark.parametrize("clusters", [20, 50, 100])
def test_clustered_intervals_cover_the_truth_where_plain_ones_do_not(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    ids = np.repeat(np.arange(clusters), 5).tolist()
    clustered = plain = 0
    for _ in range(4_000):
        values = (np.repeat(rng.normal(size=clusters), 5) + rng.normal(size=5 * clusters)).tolist()
        aware, unaware = mean_interval(values, ids), mean_interval(values)
        clustered += aware.low <= 0 <= aware.high
        plain += unaware.low <= 0 <= unaware.high
    assert 0.94 <= clustered / 4_000 <= 0.96
    assert plain / 4_000 < 0.80


def test_rate_of_nothing_may_be_anything() -> None:
    interval = exact_rate(0, 0)
    assert math.isnan(interval.mean)
    assert (interval.low, interval.high, interval.n) == (0.0, 1.0, 0)


def test_mcnemar_is_the_exact_sign_test() -> None:
    for wins in range(16):
        for losses in range(16):
            expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
            assert mcnemar(wins, losses) == pytest.approx(expected, rel=1e-12)
    assert mcnemar(5_200, 4_800) == pytest.approx(stats.binomtest(5_200, 10_000).pvalue, rel=1e-9)


def test_mcnemar_of_five_wins_is_one_in_sixteen() -> None:
    assert mcnemar(5, 0) == mcnemar(0, 5) == 1 / 16
    assert mcnemar(0, 0) == mcnemar(3, 3) == 1.0


def test_mcnemar_is_that_of_statsmodels() -> None:
    for wins, losses in [(0, 1), (3, 9), (9, 3), (25, 11), (140, 101)]:
        expected = reference_mcnemar([[10, wins], [losses, 30]], exact=True).pvalue
        assert mcnemar(wins, losses) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(0, 500))
def test_p_values_do_not_depend_on_which_playbook_is_called_the_candidate(wins: int, losses: int) -> None:
    assert 0 < mcnemar(wins, losses) == mcnemar(losses, wins) <= 1


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_exact_rate_is_the_interval_of_clopper_and_pearson(confidence: float) -> None:
    for n in (1, 2, 7, 100, 10_000):
        for successes in {0, 1, n // 3, n - 1, n}:
            expected = stats.binomtest(successes, n).proportion_ci(confidence, method="exact")
            interval = exact_rate(successes, n, confidence)
            assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
            assert (interval.mean, interval.n) == (successes / n, n)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9])
def test_exact_rate_never_covers_less_often_than_it_says(rate: float) -> None:
    n = 30
    covering = [k for k in range(n + 1) if exact_rate(k, n).low <= rate <= exact_rate(k, n).high]
    assert sum(stats.binom.pmf(covering, n, rate)) >= 0.95


def test_exact_rate_of_nothing_may_be_anything() -> None:
    interval = exact_rate(0, 0)
    assert math.isnan(interval.mean)
    assert (interval.low, interval.high, interval.n) == (0.0, 1.0, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([1.0, math.nan]), r"values\[1\]: found nan"),
        (lambda: paired_interval([1.0, math.inf], [1.0, 1.0]), r"a\[1\]: found inf"),
        (lambda: mean_interval([1.0, 2.0], ["a"]), "clusters: found 1 ids; expected one for each of the 2 values"),
        (lambda: mean_interval([1.0, 2.0], ["a", None]), "clusters: found 1 ids"),
        (lambda: mean_interval([1.0], confidence=1.0), "confidence: found 1.0"),
        (lambda: paired_interval([1.0], [1.0, 2.0]), "b: found 2 values; expected 1"),
        (lambda: exact_rate(-1, 2), "successes: found -1"),
        (lambda: exact_rate(1, 2, 0.0), "confidence: found 0.0"),
        (lambda: exact_rate(3, 2), "successes: found 3; expected at most n, 2"),
        (lambda: mean_interval([[1.0], [2.0]]), "values: found 2 dimensions"),  # type: ignore[list-item]
        (lambda: mcnemar(1, -1), "losses: found -1"),
        (lambda: mcnemar(1.5, 1), "wins: found 1.5"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_estimated_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()


@given(st.integers(0, 60), st.integers(0, 60), st.data())
def test_fishers_test_is_that_of_the_textbooks(of_one: int, of_other: int, data: st.DataObject) -> None:
    one, other = (data.draw(st.integers(0, of)) for of in (of_one, of_other))
    expected = stats.fisher_exact([[one, of_one - one], [other, of_other - other]]).pvalue
    assert fisher(one, of_one, other, of_other) == pytest.approx(expected, rel=1e-9)
