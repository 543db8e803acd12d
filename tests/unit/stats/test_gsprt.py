from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rule_samples import draw, told
from scipy import optimize

from seedbed.errors import SeedbedError
from seedbed.stats.sequential.gsprt import UNSEEN, Gsprt, Sprt, log_likelihood_ratio


def reference(counts: NDArray[np.float64], d0: float, d1: float) -> float:
    """In scores from 0 to 1, with a root finder: the largest likelihoods of the counts given either mean."""
    counts = np.where(counts == 0, UNSEEN, counts)
    scores = np.arange(len(counts)) / (len(counts) - 1)
    total = math.fsum(counts)

    def best(mean: float) -> float:
        away = scores - mean

        def slope(x: float) -> float:
            return math.fsum(count / total * one / (1 + x * one) for count, one in zip(counts, away, strict=True))

        edges = -1 / away[-1], -1 / away[0]
        # Within a hair of the poles, nearer than any root can be with counts of a thousandth or more.
        gap = 1e-12 * (edges[1] - edges[0])
        x = optimize.brentq(slope, edges[0] + gap, edges[1] - gap, xtol=1e-15, rtol=1e-15, maxiter=500)
        return math.fsum(
            count * math.log(count / total / (1 + x * one)) for count, one in zip(counts, away, strict=True)
        )

    return best(0.5 + d1 / 2) - best(0.5 + d0 / 2)


def tables(outcomes: int, how_many: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(outcomes)
    shares = rng.dirichlet(np.full(outcomes, 0.7), size=how_many)
    sizes = rng.choice([1, 2, 5, 20, 100, 1_000, 20_000], size=how_many)
    return np.array([rng.multinomial(size, share) for size, share in zip(sizes, shares, strict=True)], dtype=float)


@pytest.mark.parametrize(("d0", "d1"), [(0.0, 0.1), (-0.05, 0.05), (0.2, 0.3), (0.0, 0.5), (-0.95, -0.9), (-0.9, 0.9)])
@pytest.mark.parametrize("outcomes", [3, 5])
def test_log_likelihood_ratio_equals_a_reference_with_a_root_finder(outcomes: int, d0: float, d1: float) -> None:
    counts = tables(outcomes, 300)
    expected = np.array([reference(row, d0, d1) for row in counts])
    found = log_likelihood_ratio(counts, d0, d1)
    # Relative where the ratio itself is in the thousands: the reference is rounded too.
    assert np.abs(found - expected).max(where=np.abs(expected) < 1_000, initial=0) < 1e-9
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-9)


def test_log_likelihood_ratio_of_known_tables() -> None:
    # Without ties and with mean 0 in the middle, by hand: 60 wins and 40 losses of 100 that are -1 or 1.
    many_ties = log_likelihood_ratio(np.array([40.0, 0.0, 60.0]), 0.0, 0.2)
    assert many_ties == pytest.approx(60 * math.log(0.6 / 0.5) + 40 * math.log(0.4 / 0.5), abs=1e-2)
    assert log_likelihood_ratio(np.array([10.0, 80.0, 10.0]), -0.1, 0.1) == pytest.approx(0, abs=1e-12)


def test_a_step_that_lands_beside_an_end_of_what_is_possible_is_not_taken_for_the_solution() -> None:
    """Such counts came in one of a hundred tests with two repeats, and ended a better candidate as futile."""
    for counts in ([1.0, 4.0, 31.0, 20.0, 4.0], [1.0, 7.0, 44.0, 29.0, 1.0]):
        expected = reference(np.array(counts), 0.0, 0.1)
        assert log_likelihood_ratio(np.array(counts), 0.0, 0.1) == pytest.approx(expected, abs=1e-9)


def test_for_small_effects_it_is_the_ratio_of_a_normal_mean() -> None:
    counts = np.array([1_000.0, 7_800.0, 1_200.0])
    mean, total = 0.02, 10_000
    variance = 0.22 - mean**2
    normal = total * (0.02 - 0.0) * (2 * mean - 0.02 - 0.0) / (2 * variance)
    assert log_likelihood_ratio(counts, 0.0, 0.02) == pytest.approx(normal, rel=0.01)


def test_trading_the_playbooks_changes_the_sign() -> None:
    counts = tables(5, 100)
    there, back = log_likelihood_ratio(counts, -0.1, 0.2), log_likelihood_ratio(counts[:, ::-1], -0.2, 0.1)
    assert there == pytest.approx(-back, abs=1e-9)


def overshoots(path: list[float], sign: int) -> float:
    """By the definition: over steps to a new record, half the sum of squares over the sum."""
    best, steps = 0.0, []
    for ratio in path:
        if sign * ratio > best:
            steps.append(sign * ratio - best)
            best = sign * ratio
    return sum(step**2 for step in steps) / (2 * sum(steps)) if steps else 0.0


def test_bounds_come_closer_by_the_overshoot_learnt_so_far() -> None:
    row = draw(5, 1, 200, 0.3, 0.05)[0]
    answers = told(Gsprt(effect=0.1), row)
    path = [answer.evidence for answer in answers]
    for n, answer in enumerate(answers, 1):
        assert answer.high == pytest.approx(math.log(0.9 / 0.05) - overshoots(path[:n], 1))
        assert answer.low == pytest.approx(math.log(0.1 / 0.95) + overshoots(path[:n], -1))
    plain = told(Gsprt(effect=0.1, overshoot=False), row)
    assert {(answer.low, answer.high) for answer in plain} == {(math.log(0.1 / 0.95), math.log(0.9 / 0.05))}


@pytest.mark.parametrize(
    "rule",
    [
        Gsprt(effect=0.2, at_most=120),
        Gsprt(effect=0.2, overshoot=False, at_most=120),
        Gsprt(effect=0.2, repeats=2),
        Sprt(effect=0.2, discordance=0.4, at_most=120),
    ],
)
def test_many_tests_at_once_end_as_each_alone(rule: Gsprt | Sprt) -> None:
    rows = np.vstack([draw(1, 40, 120, 0.4, 0.2), draw(2, 40, 120, 0.1)])
    if isinstance(rule, Gsprt) and rule.repeats == 2:
        rows = (rows + np.roll(rows, 1, axis=1)) / 2
    ends = rule.ends(rows)
    alone = [told(type(rule).from_state(rule.state()), row)[-1] for row in rows]
    assert ends.tasks.tolist() == [answer.n for answer in alone]
    assert ends.verdicts.tolist() == [
        "inconclusive" if answer.verdict == "continue" else answer.verdict for answer in alone
    ]


@pytest.mark.parametrize("discordance", [0.1, 0.3, 0.5])
def test_error_rates_are_near_those_of_the_design(discordance: float) -> None:
    rule = Gsprt(effect=0.1, at_most=400)
    equal = rule.ends(draw(1, 2_000, 400, discordance))
    assert equal.share("superior") <= 0.07
    if discordance == 0.3:
        better = rule.ends(draw(1, 2_000, 400, discordance, 0.1))
        assert better.share("superior") == pytest.approx(0.87, abs=0.03)
        assert better.tasks.mean() == pytest.approx(136, abs=8)
        assert equal.tasks.mean() == pytest.approx(117, abs=8)


def test_walds_test_weighs_wins_and_losses_and_no_ties() -> None:
    answer = told(Sprt(effect=0.1, discordance=0.2), [1, 0, 1, -1, 0])[-1]
    assert answer.evidence == pytest.approx(2 * math.log(0.75 / 0.5) + math.log(0.25 / 0.5))
    assert (answer.low, answer.high) == pytest.approx((math.log(0.1 / 0.95), math.log(0.9 / 0.05)))


def test_a_candidate_that_only_loses_is_futile_and_one_that_only_wins_superior() -> None:
    for rule in (Gsprt(effect=0.2), Sprt(effect=0.2, discordance=0.5)):
        assert told(type(rule).from_state(rule.state()), [-1] * 50)[-1].verdict == "futile"
        assert told(type(rule).from_state(rule.state()), [1] * 50)[-1].verdict == "superior"


def test_halves_are_taken_only_with_two_repeats() -> None:
    assert Gsprt(effect=0.1, repeats=2).update(0.5).wins == 1
    with pytest.raises(SeedbedError, match=r"difference: found 0.5; expected -1, 0 or 1"):
        Gsprt(effect=0.1).update(0.5)
    with pytest.raises(SeedbedError, match=r"expected -1, -0.5, 0, 0.5 or 1"):
        Gsprt(effect=0.1, repeats=2).update(0.25)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Gsprt(effect=0.0), "effect: found 0.0"),
        (lambda: Gsprt(effect=0.1, beta=0.5), "beta: found 0.5"),
        (lambda: Gsprt(effect=0.1, repeats=3), "repeats: found 3"),  # type: ignore[arg-type]
        (lambda: Sprt(effect=0.3, discordance=0.2), "discordance: found 0.2; expected a number above 0.3"),
        (lambda: Gsprt(effect=0.1, at_most=0), "at_most: found 0"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(made: Any, message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        made()
