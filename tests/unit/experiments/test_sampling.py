"""Stratified samples: how many of each, which ones, and what they say of all."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from seedbed.errors import SeedbedError
from seedbed.experiments.replay.sampling import draw, neyman, proportional, stratified_mean

SIZES = some.lists(some.integers(1, 500), min_size=1, max_size=12)


def test_shares_are_rounded_by_the_largest_remainder() -> None:
    # 20 of 410, 350 and 240: 8.2, 7.0, 4.8.
    assert proportional([410, 350, 240], 20) == [8, 7, 5]


def test_a_small_stratum_is_not_left_out() -> None:
    assert proportional([1000, 1, 5], 20) == [17, 1, 2]


def test_where_there_is_room_for_one_of_each_only_there_is_one_of_each() -> None:
    assert proportional([1000, 1000, 5], 3) == [1, 1, 1]


def test_more_is_drawn_where_more_varies() -> None:
    # By size times spread: 100 · 0.1, 100 · 0.4.
    assert neyman([100, 100], [0.1, 0.4], 50) == [10, 40]


def test_what_a_small_stratum_cannot_give_the_others_do() -> None:
    assert neyman([10, 100], [5.0, 0.1], 50) == [10, 40]


def test_a_stratum_that_does_not_vary_still_shows_that_it_does_not() -> None:
    assert neyman([100, 100], [0.0, 0.4], 50) == [2, 48]


def test_where_nothing_is_known_to_vary_the_sizes_decide() -> None:
    assert neyman([300, 100], [0.0, 0.0], 40) == proportional([300, 100], 40) == [30, 10]


def test_what_does_not_vary_fills_up_a_sample_that_is_larger_than_all_that_varies() -> None:
    assert neyman([100, 10], [0.0, 1.0], 60) == [50, 10]


@given(SIZES, some.data())
def test_every_allocation_adds_up_and_leaves_none_out(sizes: list[int], data: some.DataObject) -> None:
    n = data.draw(some.integers(len(sizes), sum(sizes)))
    spreads = data.draw(some.lists(some.floats(0, 10), min_size=len(sizes), max_size=len(sizes)))
    for takes in (proportional(sizes, n), neyman(sizes, spreads, n)):
        assert sum(takes) == n
        assert all(1 <= take <= size for take, size in zip(takes, sizes, strict=True))


@pytest.mark.parametrize(("sizes", "n"), [([5, 5], 1), ([5, 5], 11), ([5, 0], 3)])
def test_what_cannot_be_drawn_is_told(sizes: list[int], n: int) -> None:
    with pytest.raises(SeedbedError, match="expected"):
        proportional(sizes, n)


@pytest.mark.parametrize("spreads", [[1.0], [1.0, -1.0], [1.0, math.nan]])
def test_spreads_that_cannot_be_are_told(spreads: list[float]) -> None:
    with pytest.raises(SeedbedError, match="spreads: found"):
        neyman([5, 5], spreads, 4)


# Draws


def test_the_same_seed_draws_the_same_and_another_one_others() -> None:
    strata = ["a", "b"] * 50
    assert draw(strata, 20, seed=1) == draw(strata, 20, seed=1)
    assert draw(strata, 20, seed=1).places != draw(strata, 20, seed=2).places


def test_each_stands_for_as_many_as_its_stratum_has_for_each_one_drawn() -> None:
    sample = draw(["a"] * 90 + ["b"] * 10, 12, seed=1)
    drawn = Counter("a" if place < 90 else "b" for place in sample.places)
    assert drawn == {"a": 10, "b": 2}
    assert {weight for place, weight in zip(sample.places, sample.weights, strict=True) if place < 90} == {9.0}
    assert sum(sample.weights) == pytest.approx(100)
    assert sample.sizes == {"a": 90, "b": 10}


def population() -> tuple[list[str], list[float]]:
    """600 tasks: hard ones are fewer, and gain more."""
    chance = random.Random(5)
    strata = ["easy"] * 420 + ["medium"] * 150 + ["hard"] * 30
    gain = {"easy": 0.02, "medium": 0.2, "hard": 0.6}
    return strata, [float(chance.random() < gain[stratum]) for stratum in strata]


@pytest.mark.parametrize("spreads", [None, {"easy": 0.14, "medium": 0.4, "hard": 0.5}])
def test_the_estimate_has_no_bias_and_its_interval_holds_what_it_says(spreads: dict[str, float] | None) -> None:
    strata, values = population()
    truth = statistics.fmean(values)
    estimates, covered = [], 0
    for seed in range(2_000):
        sample = draw(strata, 60, seed=seed, spreads=spreads)
        drawn = [values[place] for place in sample.places]
        interval = stratified_mean(drawn, [strata[place] for place in sample.places], sample.sizes)
        weighted = sum(value * weight for value, weight in zip(drawn, sample.weights, strict=True)) / len(values)
        assert interval.mean == pytest.approx(weighted)
        estimates.append(interval.mean)
        covered += interval.low <= truth <= interval.high
    error = statistics.stdev(estimates) / math.sqrt(len(estimates))
    assert abs(statistics.fmean(estimates) - truth) < error
    # Drawn in fixed shares that do not mind how many there are, it would be off by more than half of itself.
    unweighted = statistics.fmean(
        statistics.fmean(value for value, each in zip(values, strata, strict=True) if each == stratum) * share
        for stratum, share in (("easy", 0.9), ("medium", 1.5), ("hard", 0.6))
    )
    assert abs(unweighted - truth) > 50 * error
    assert covered / len(estimates) > 0.9


def test_a_stratified_mean_is_known_exactly_where_all_were_drawn() -> None:
    interval = stratified_mean([1.0, 0.0, 1.0], ["a", "a", "b"], {"a": 2, "b": 1})
    assert (interval.mean, interval.low, interval.high) == pytest.approx((2 / 3, 2 / 3, 2 / 3))


def test_one_of_each_stratum_shows_no_spread_and_gives_no_interval() -> None:
    interval = stratified_mean([1.0, 0.0], ["a", "b"], {"a": 30, "b": 10})
    assert (interval.mean, interval.low, interval.high) == (0.75, -math.inf, math.inf)


def test_a_stratum_of_one_is_taken_to_vary_like_the_others() -> None:
    values, strata = [1.0, 0.0, 1.0, 0.0, 1.0], ["a", "a", "a", "a", "b"]
    narrow = stratified_mean(values, strata, {"a": 40, "b": 1})
    wide = stratified_mean(values, strata, {"a": 40, "b": 40})
    assert math.isfinite(wide.low)
    assert wide.high - wide.low > narrow.high - narrow.low


def test_a_stratum_that_is_missing_is_told() -> None:
    with pytest.raises(SeedbedError, match="found none of"):
        stratified_mean([1.0], ["a"], {"a": 3, "b": 2})
    with pytest.raises(SeedbedError, match="strata: found 1; expected 2"):
        stratified_mean([1.0, 0.0], ["a"], {"a": 3})
