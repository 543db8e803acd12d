"""Beliefs, the chance to be best, and what blind choices would have done."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import SeedbedError
from seedbed.stats.bandits import (
    ArmOutcomes,
    Belief,
    LoggedChoice,
    blind_worth,
    chances,
    draw,
    expectation,
    follow,
    gain_over_uniform,
    greedy,
    level,
    mix,
    ucb1,
)

counts = st.floats(0.1, 300)
beliefs = st.dictionaries(st.sampled_from("abcdef"), st.builds(Belief, counts, counts), min_size=1)
penalties = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 0.5))


@given(beliefs, penalties)
def test_chances_add_up_to_one(held: dict[str, Belief], off: dict[str, float]) -> None:
    odds = chances(held, off)
    assert odds.keys() == held.keys()
    assert sum(odds.values()) == pytest.approx(1, abs=1e-12)
    assert min(odds.values()) >= 0


@given(beliefs, penalties, st.randoms())
def test_chances_do_not_depend_on_the_order_of_the_arms(
    held: dict[str, Belief], off: dict[str, float], by: Any
) -> None:
    names = list(held)
    by.shuffle(names)
    assert chances({name: held[name] for name in names}, off) == chances(held, off)


@given(beliefs, st.sampled_from("abcdef"), st.floats(0.01, 0.5))
def test_a_penalty_never_raises_a_chance(held: dict[str, Belief], arm: str, off: float) -> None:
    held = {arm: Belief(3, 2), **held}
    assert chances(held, {arm: off})[arm] <= chances(held)[arm] + 1e-6


@pytest.mark.parametrize(
    ("held", "off"),
    [
        ({"a": Belief(8, 2), "b": Belief(5, 5)}, {}),
        ({"a": Belief(0.2, 0.3), "b": Belief(0.5, 0.1), "c": Belief(1, 1)}, {"b": 0.2}),
        ({"a": Belief(800, 200), "b": Belief(4, 1), "c": Belief(790, 210)}, {"a": 0.01}),
        ({name: Belief(3 + place, 4) for place, name in enumerate("abcdefghijk")}, {"k": 0.1, "j": 0.05}),
        ({"a": Belief(7800, 2200), "b": Belief(7810, 2190), "c": Belief(0.5, 0.5)}, {}),
    ],
)
def test_chances_are_the_frequencies_of_thompson_sampling(held: dict[str, Belief], off: dict[str, float]) -> None:
    rng = np.random.default_rng(1)
    names = sorted(held)
    draws = np.stack([rng.beta(held[name].good, held[name].bad, 400_000) - off.get(name, 0) for name in names])
    seen = np.bincount(draws.argmax(axis=0), minlength=len(names)) / draws.shape[1]
    odds = chances(held, off)
    # Four standard errors of the simulation, and a thousandth for the integration.
    for name, share in zip(names, seen, strict=True):
        assert odds[name] == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / draws.shape[1]) + 1e-3)


def test_chances_of_two_uniform_beliefs_are_known_exactly() -> None:
    # P(x - 0.2 > y) for two uniform numbers is 0.8² / 2.
    odds = chances({"x": Belief(1, 1), "y": Belief(1, 1)}, {"x": 0.2})
    assert odds["x"] == pytest.approx(0.32, abs=1e-4)


def test_equal_arms_are_equally_likely_and_a_hopeless_one_is_not() -> None:
    odds = chances({"a": Belief(5, 3), "b": Belief(5, 3), "c": Belief(1, 900)})
    assert odds["a"] == odds["b"] == pytest.approx(0.5, abs=1e-6)
    assert odds["c"] < 1e-6


def test_the_greedy_choice_is_the_best_and_equals_share_it() -> None:
    assert greedy({"a": 0.2, "b": 0.7, "c": 0.1}) == {"a": 0, "b": 1, "c": 0}
    assert greedy({"a": 0.7, "b": 0.7, "c": 0.1}) == {"a": 0.5, "b": 0.5, "c": 0}
    epsilon_greedy = mix(greedy({"a": 0.2, "b": 0.7}), 0.1)
    assert epsilon_greedy == pytest.approx({"a": 0.05, "b": 0.95})


def test_ucb1_tries_every_arm_and_then_the_one_that_might_be_best() -> None:
    assert ucb1({"a": ArmOutcomes(9, 10), "b": ArmOutcomes(), "c": ArmOutcomes()}) == {"a": 0, "b": 0.5, "c": 0.5}
    # With 110 outcomes the bounds are 0.5 + √(2 ln 110 / 100) = 0.807 and 0.3 + √(2 ln 110 / 10) = 1.27.
    assert ucb1({"a": ArmOutcomes(50, 100), "b": ArmOutcomes(3, 10)}) == {"a": 0, "b": 1}
    assert ucb1({"a": ArmOutcomes(50, 100), "b": ArmOutcomes(3, 100)}) == {"a": 1, "b": 0}


def test_ucb1_regret_stays_within_its_bound() -> None:
    # Auer, Cesa-Bianchi and Fischer 2002: each worse arm is tried at most 8 ln N / gap² + 1 + π²/3 times, expected.
    rng = np.random.default_rng(4)
    means = {"a": 0.9, "b": 0.5, "c": 0.4}
    seen = dict.fromkeys(means, ArmOutcomes())
    for _ in range(3000):
        arm = draw(ucb1(seen), rng.random())
        seen[arm] = ArmOutcomes(seen[arm].score + float(rng.random() < means[arm]), seen[arm].weight + 1)
    for arm, gap in (("b", 0.4), ("c", 0.5)):
        assert 1 < seen[arm].weight <= 8 * math.log(3000) / gap**2 + 1 + math.pi**2 / 3


@given(beliefs, st.floats(0, 1))
def test_a_blind_share_is_a_floor_under_every_chance(held: dict[str, Belief], explore: float) -> None:
    odds = mix(chances(held), explore)
    assert sum(odds.values()) == pytest.approx(1)
    assert min(odds.values()) >= explore / len(held) * (1 - 1e-12)


def test_arms_are_drawn_as_often_as_their_chances_say() -> None:
    odds = {"b": 0.5, "a": 0.2, "c": 0.3}
    hits = [draw(odds, (place + 0.5) / 1000) for place in range(1000)]
    assert {name: hits.count(name) for name in odds} == {"a": 200, "b": 500, "c": 300}
    assert draw({"a": 0.3, "b": 0.7 - 1e-12}, 1 - 1e-13) == "b"


def test_a_prior_is_worth_its_strength_and_never_certain() -> None:
    prior = Belief.prior(0.9, 8)
    assert (prior.mean, prior.strength) == pytest.approx((0.9, 8))
    assert Belief.prior(1.0, 8).mean == pytest.approx(0.98)
    assert Belief.prior(-3.0, 8).mean == pytest.approx(0.02)
    assert prior.sharpened(4).mean == pytest.approx(0.9)
    assert prior.sharpened(4).deviation < prior.deviation


def test_strangers_are_expected_to_be_as_good_as_the_others_not_as_the_favourite() -> None:
    assert level([], 3) == 0.5
    many = level([ArmOutcomes(80, 100), ArmOutcomes(85, 100), ArmOutcomes(75, 100), ArmOutcomes(80, 100)], 3)
    assert many == pytest.approx(0.8, abs=0.08)
    favourite = level([ArmOutcomes(950, 1000)], 3)
    assert 0.6 < favourite < 0.75


def test_what_an_arm_showed_elsewhere_is_carried_over_relative_to_the_level() -> None:
    none = expectation(0.7, [], 3, 20)
    assert (none.mean, none.strength) == pytest.approx((0.7, 3))
    above = expectation(0.6, [(ArmOutcomes(9, 10), 0.7)], 3, 20)
    assert above.mean == pytest.approx(0.6 + 0.2 * 10 / 13)
    assert above.strength == pytest.approx(13)
    assert expectation(0.6, [(ArmOutcomes(900, 1000), 0.7)], 3, 20).strength == pytest.approx(23)
    balanced = expectation(0.6, [(ArmOutcomes(9, 10), 0.7), (ArmOutcomes(4, 10), 0.6)], 3, 20)
    assert balanced.mean == pytest.approx(0.6)


def test_a_moving_average_starts_as_the_mean_and_then_forgets() -> None:
    average = None
    for n, value in enumerate([1.0, 2.0, 6.0], 1):
        average = follow(average, value, n, 0.1)
    assert average == pytest.approx(3.0)
    for n in range(4, 100):
        average = follow(average, 10.0, n, 0.1)
    assert average == pytest.approx(10.0, abs=0.01)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_gain_over_blind_choices_has_no_bias_even_with_wrong_guesses(seed: int, guesses: list[float]) -> None:
    """Summed over all choices and outcomes with their chances, the estimate is the true difference."""
    rng = np.random.default_rng(seed)
    odds = rng.dirichlet([0.5, 0.5, 0.5]) * 0.9 + 0.1 / 3
    means = rng.random(3)
    guessed = dict(zip("abc", guesses, strict=True))
    expected = 0.0
    for name, chance, mean in zip("abc", odds, means, strict=True):
        for score, of_score in ((1.0, mean), (0.0, 1 - mean)):
            expected += (
                chance
                * of_score
                * gain_over_uniform(LoggedChoice(name, dict(zip("abc", odds.tolist(), strict=True)), guessed, score))
            )
    assert expected == pytest.approx(float(odds @ means - means.mean()), abs=1e-9)


def test_choices_tell_as_much_as_fewer_blind_ones() -> None:
    guesses = {"a": 0.5, "b": 0.5}
    assert blind_worth([LoggedChoice("a", {"a": 0.5, "b": 0.5}, guesses, 1.0)] * 7) == pytest.approx(7)
    # The mean squared weight is (1/0.99 + 1/0.01) / 4, whether or not "b" was ever seen.
    seldom = [LoggedChoice("a", {"a": 0.99, "b": 0.01}, guesses, 1.0)] * 100
    assert blind_worth(seldom) == pytest.approx(400 / (1 / 0.99 + 100))
    assert blind_worth([]) == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Belief(0, 1), "above 0"),
        (lambda: Belief(math.nan, 1), "finite"),
        (lambda: Belief(math.inf, 1), "finite"),
        (lambda: chances({}), "at least one arm"),
        (lambda: greedy({}), "at least one arm"),
        (lambda: ucb1({}), "at least one arm"),
        (lambda: chances({"a": Belief(1, 1)}, {"a": math.inf}), "finite"),
        (lambda: mix({"a": 1.0}, 1.5), "between 0 and 1"),
        (lambda: LoggedChoice("a", {"a": 1.0, "b": 0.0}, {"a": 0.5, "b": 0.5}, 1.0), "above 0"),
        (lambda: LoggedChoice("z", {"a": 1.0}, {"a": 0.5}, 1.0), '"z"'),
        (lambda: LoggedChoice("a", {"a": 0.5, "b": 0.5}, {"a": 0.5}, 1.0), "same arms"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(SeedbedError, match=said):
        wrong()
