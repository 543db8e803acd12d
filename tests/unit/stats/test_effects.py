from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from seedbed.errors import SeedbedError
from seedbed.stats.effects import cohen_dz, cohen_g, odds_ratio, risk_difference
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
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_swapping_the_arms_turns_the_effect_of_wins_and_losses_around(wins: int, losses: int, ties: int) -> None:
    n = wins + losses + ties
    for there, back in [
        (cohen_g(wins, losses), cohen_g(losses, wins)),
        (risk_difference(wins, losses, n), risk_difference(losses, wins, n)),
    ]:
        ends = (there.mean, there.low, there.high)
        assert ends == pytest.approx((-back.mean, -back.high, -back.low), abs=1e-9, nan_ok=True)
    there, back = odds_ratio(wins, losses), odds_ratio(losses, wins)
    if wins + losses:
        for one, other in [(there.mean, back.mean), (there.low, back.high), (there.high, back.low)]:
            assert one == pytest.approx(1 / other if other else math.inf, rel=1e-6)
    if wins > losses:
        assert cohen_g(wins, losses).mean > 0
        assert odds_ratio(wins, losses).mean > 1
        assert risk_difference(wins, losses, n).mean > 0


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


def score(difference: float, wins: int, losses: int, n: int) -> float:
    """The score statistic by brute force: the most likely tables with this difference, found numerically."""

    def unlikely(lost: float) -> float:
        won, ties = lost + difference, 1 - 2 * lost - difference
        pairs = ((wins, won), (losses, lost), (n - wins - losses, ties))
        return -sum(count * math.log(max(chance, 1e-300)) for count, chance in pairs if count)

    least, most = max(0.0, -difference), (1 - difference) / 2
    lost = optimize.minimize_scalar(unlikely, bounds=(least, most), method="bounded", options={"xatol": 1e-12}).x
    return (wins - losses - n * difference) / math.sqrt(n * (2 * lost + difference - difference**2))


@pytest.mark.parametrize(("wins", "losses", "n"), [(7, 1, 21), (3, 9, 40), (1, 1, 12), (30, 20, 100), (8, 5, 13)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_risk_difference_has_the_interval_of_the_score_test(wins: int, losses: int, n: int, confidence: float) -> None:
    interval = risk_difference(wins, losses, n, confidence)
    z = stats.norm.ppf((1 + confidence) / 2)
    assert interval.mean == (wins - losses) / n
    assert score(interval.low, wins, losses, n) == pytest.approx(z, abs=1e-4)
    assert score(interval.high, wins, losses, n) == pytest.approx(-z, abs=1e-4)


def test_risk_difference_of_the_published_example() -> None:
    # Airway hyper-responsiveness of 21 children before and after a transplant (Fagerland, Lydersen and Laake 2014).
    interval = risk_difference(7, 1, 21)
    assert (round(interval.low, 3), round(interval.high, 3)) == (0.026, 0.517)


def test_risk_difference_has_a_width_even_where_no_task_differs() -> None:
    none = risk_difference(0, 0, 20)
    assert none.low == pytest.approx(-none.high)
    assert 0.1 < none.high < 0.2
    assert risk_difference(5, 0, 5).high == 1 == -risk_difference(0, 5, 5).low
    assert risk_difference(5, 0, 5).low < 1
    empty = risk_difference(0, 0, 0)
    assert math.isnan(empty.mean)
    assert (empty.low, empty.high) == (-1, 1)


@pytest.mark.parametrize(("discordance", "effect"), [(0.1, 0.0), (0.1, 0.05), (0.3, 0.1), (0.5, -0.3)])
def test_risk_difference_covers_the_truth_at_twenty_tasks(discordance: float, effect: float) -> None:
    n, covered = 20, 0.0
    chances = [(discordance + effect) / 2, (discordance - effect) / 2, 1 - discordance]
    for wins in range(n + 1):
        for losses in range(n + 1 - wins):
            interval = risk_difference(wins, losses, n)
            if interval.low <= effect <= interval.high:
                covered += stats.multinomial.pmf([wins, losses, n - wins - losses], n, chances)
    assert covered >= 0.93


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cohen_dz([1.0], [1.0, 2.0]), "b: found 2 values; expected 1"),
        (lambda: cohen_dz([1.0, math.nan], [1.0, 1.0]), r"a\[1\]: found nan"),
        (lambda: cohen_g(-1, 2), "wins: found -1"),
        (lambda: odds_ratio(1, 2, 1.0), "confidence: found 1.0"),
        (lambda: risk_difference(3, 2, 4), "n: found 4; expected at least wins and losses together, 5"),
    ],
)
def test_what_has_no_effect_size_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
