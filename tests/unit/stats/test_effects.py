from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.effects import cohen_dz, cohen_g, odds_ratio
from seedbed.stats.estimates import mcnemar

SCORES = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=2, max_size=30)


def test_cohen_dz_is_the_difference_in_standard_deviations_of_differences() -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(0, 2, 40)
    b = a + rng.normal(0.3, 0.5, 40)
    assert cohen_dz(a.tolist(), b.tolist()) == pytest.approx(stats.ttest_rel(b, a).statistic / math.sqrt(40))


@settings(deadline=None)
@given(SCORES)
def test_the_better_arm_has_the_positive_effect(scores: list[tuple[float, float]]) -> None:
    a, b = [one for one, _ in scores], [other for _, other in scores]
    assert cohen_dz(a, b) == pytest.approx(-cohen_dz(b, a), rel=1e-9)
    if np.mean(b) - np.mean(a) > 1e-6:
        assert cohen_dz(a, b) > 0


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 40))
def test_swapping_the_arms_turns_the_effect_of_wins_and_losses_around(wins: int, losses: int) -> None:
    there, back = cohen_g(wins, losses), cohen_g(losses, wins)
    ends = (there.mean, there.low, there.high)
    assert ends == pytest.approx((-back.mean, -back.high, -back.low), abs=1e-9, nan_ok=True)
    there, back = odds_ratio(wins, losses), odds_ratio(losses, wins)
    if wins + losses:
        for one, other in [(there.mean, back.mean), (there.low, back.high), (there.high, back.low)]:
            assert one == pytest.approx(1 / other if other else math.inf, rel=1e-6)
    if wins > losses:
        assert cohen_g(wins, losses).mean > 0
        assert odds_ratio(wins, losses).mean > 1


def test_scores_without_spread_have_no_effect_or_an_infinite_one() -> None:
    assert cohen_dz([0.1, 0.2, 0.3], [0.2, 0.3, 0.4]) == math.inf  # equal but for rounding
    assert cohen_dz([0.2, 0.3, 0.4], [0.1, 0.2, 0.3]) == -math.inf
    assert cohen_dz([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]) == 0.0


def test_too_few_scores_have_no_effect_size() -> None:
    assert math.isnan(cohen_dz([1.0], [2.0]))
    assert math.isnan(cohen_dz([], []))


def test_odds_ratio_is_wins_per_loss_and_excludes_one_when_mcnemar_rejects() -> None:
    assert odds_ratio(30, 10).mean == 3
    for wins in range(30):
        for losses in range(30 - wins):
            interval = odds_ratio(wins, losses)
            assert (interval.low > 1 or interval.high < 1) == (mcnemar(wins, losses) < 0.05)


def test_odds_ratio_with_nothing_lost_or_won_stays_honest() -> None:
    nothing_lost, nothing_won, neither = odds_ratio(6, 0), odds_ratio(0, 6), odds_ratio(0, 0)
    assert nothing_lost.mean == nothing_lost.high == math.inf
    assert 1 < nothing_lost.low < 6
    assert nothing_won.mean == nothing_won.low == 0
    assert nothing_won.high == pytest.approx(1 / nothing_lost.low)
    assert math.isnan(neither.mean)
    assert (neither.low, neither.high, neither.n) == (0.0, math.inf, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cohen_dz([1.0], [1.0, 2.0]), "b: found 2 values; expected 1"),
        (lambda: cohen_dz([1.0, math.nan], [1.0, 1.0]), r"a\[1\]: found nan"),
        (lambda: cohen_g(-1, 2), "wins: found -1"),
        (lambda: odds_ratio(1, 2, 1.0), "confidence: found 1.0"),
    ],
)
def test_what_has_no_effect_size_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
