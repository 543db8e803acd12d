"""The test of a slice: exact where it can be, and only within what is alike."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pattern_samples import scored
from scipy import stats

from seedbed.experiments.patterns.slices import Half, permutation
from seedbed.experiments.patterns.traits import RunCondition

bits = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40)


@given(bits)
def test_passes_and_failures_are_tested_as_fisher_did(pairs: list[tuple[bool, bool]]) -> None:
    inside, good = (np.array(each, dtype=float) for each in zip(*pairs, strict=True))
    table = [[int(((inside == a) & (good == b)).sum()) for b in (1, 0)] for a in (1, 0)]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    if good.min() != good.max():
        assert permutation(inside, good, np.zeros(len(good), int)) == pytest.approx(expected, abs=1e-9)


def test_draws_come_near_to_listing_all_orders() -> None:
    inside, scores = np.array([1, 1, 1, 0, 0, 0, 0.5]), np.array([0.9, 0.8, 0.3, 0.7, 0.1, 0.2, 0.4])
    orders = np.array(list(itertools.permutations(scores)))
    exact = float((orders @ inside >= inside @ scores - 1e-9).mean())
    assert permutation(inside, scores, np.zeros(7, int)) == pytest.approx(exact, abs=0.015)


@settings(deadline=None)
@given(st.integers(0, 1000), st.booleans())
def test_scores_are_dealt_out_within_strata_only(seed: int, binary: bool) -> None:
    """Whatever lies between the strata is no evidence: moving all scores of one changes nothing."""
    rng = np.random.default_rng(seed)
    strata = np.repeat([0, 1, 2], 6)
    inside = (rng.random(18) < [0.2, 0.5, 0.8][seed % 3]).astype(float)
    scores = rng.integers(0, 2, 18).astype(float) if binary else rng.random(18)
    moved = scores + 100 * strata
    plain = permutation(inside, scores, strata, draws=1999)
    assert permutation(inside, moved, strata, draws=1999) == pytest.approx(plain, abs=0.05)


def test_the_p_value_is_never_zero_nor_above_one() -> None:
    scores = np.arange(60.0)
    assert permutation((scores > 29).astype(float), scores, np.zeros(60, int), draws=99) == 0.01
    assert permutation((scores < 30).astype(float), scores, np.zeros(60, int), draws=99) <= 1.0


def test_a_true_null_is_rejected_no_more_often_than_promised() -> None:
    rng = np.random.default_rng(1)
    none = np.zeros(24, int)
    hits = sum(
        permutation((rng.random(24) < 0.4).astype(float), rng.random(24) ** 4, none, draws=199) <= 0.05
        for _ in range(600)
    )
    assert hits <= stats.binom.ppf(0.999, 600, 0.05)


RED = (RunCondition("tag", "is", "red"),)


def test_the_interval_holds_the_effect_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        half = Half(scored(seed, 60, chance=lambda task, _: 0.4 if "red" in task.tags else 0.8))
        low, high = half.interval(half.holds(RED))
        held += low <= -0.4 <= high
    assert held >= 182


def test_equal_scores_on_one_side_do_not_make_the_interval_a_point() -> None:
    half = Half(scored(1, 60, chance=lambda task, _: 0.0 if "red" in task.tags else 1.0))
    low, high = half.interval(half.holds(RED))
    assert (low, high) == (-1.0, pytest.approx(-0.8, abs=0.2))


def test_one_source_gives_no_interval() -> None:
    half = Half(sorted(scored(1, 30, sources=1), key=lambda each: each.inputs_digest))
    assert half.interval(half.holds(RED)) == (-math.inf, math.inf)
