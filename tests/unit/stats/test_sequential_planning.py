from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from rule_samples import draw, told
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.sequential import planning
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.gsprt import Gsprt, Sprt
from seedbed.stats.sequential.planning import SamplePlan, plan, power_curve
from seedbed.stats.sequential.stopping_rule import StoppingRule


@cache
def of_three_hundred(looking_for: float | None = None) -> SamplePlan:
    return plan(ExactMcNemar(at_most=300, effect=looking_for), effect=0.10, discordance=0.3)


def test_the_test_of_three_hundred_tasks_has_the_designed_power_and_length() -> None:
    planned = of_three_hundred()
    assert planned.power == pytest.approx(0.91, abs=0.01)
    assert planned.tasks_if_better == pytest.approx(166, abs=4)
    assert planned.tasks_if_worse == pytest.approx(planned.tasks_if_better)
    assert planned.tasks_if_equal == pytest.approx(290, abs=4)
    assert 0.045 < planned.false_alarm <= 0.05
    assert (planned.missed, planned.simulated) == (0, 0)


def test_with_futility_it_ends_soon_whatever_the_candidate_is() -> None:
    planned = of_three_hundred(0.10)
    assert planned.power >= 0.87
    assert planned.missed <= 0.1
    assert planned.tasks_if_equal <= 150
    assert planned.tasks_if_worse <= 50
    assert planned.tasks_if_better <= 0.7 * fixed_size(planned.power, 0.10, 0.3)


def fixed_size(power: float, effect: float, discordance: float, alpha: float = 0.05) -> int:
    """The fewest tasks with which an exact McNemar test, looked at once, has this power."""
    for n in range(20, 400):
        differ = np.arange(n + 1)
        needed = stats.binom.isf(alpha, differ, 0.5) + 1
        won = stats.binom.sf(needed - 1, differ, 0.5 + effect / discordance / 2)
        if stats.binom.pmf(differ, n, discordance) @ won >= power:
            return n
    raise AssertionError(power)


@pytest.mark.parametrize("looking_for", [None, 0.10])
def test_tests_of_the_exact_rule_do_as_planned(looking_for: float | None) -> None:
    rule = ExactMcNemar(at_most=300, effect=looking_for)
    planned = of_three_hundred(looking_for)
    better, worse = (rule.ends(draw(1, 1_500, 300, 0.3, effect)) for effect in (0.10, -0.10))
    for finding, chance in (("superior", planned.power), ("futile", planned.missed)):
        within = 3.9 * math.sqrt(chance * (1 - chance) / 1_500) + 0.003
        assert better.share(finding) == pytest.approx(chance, abs=within)
    for ends, tasks in ((better, planned.tasks_if_better), (worse, planned.tasks_if_worse)):
        assert ends.tasks.mean() == pytest.approx(tasks, abs=3.5 * ends.tasks.std() / math.sqrt(1_500) + 0.5)


@pytest.mark.parametrize("looking_for", [None, 0.5])
def test_plan_agrees_with_every_sequence_of_a_short_test(
    looking_for: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a short test much depends on where the tasks are that differ.
    monkeypatch.setattr(planning, "PATTERNS", 3_000)
    at_most, discordance, effect = 7, 0.6, 0.4
    settings: dict[str, Any] = {"alpha": 0.2, "at_most": at_most, "effect": looking_for, "beta": 0.3}
    power = missed = false_alarm = 0.0
    tasks = np.zeros(3)
    for sequence in itertools.product([1, 0, -1], repeat=at_most):
        end = told(ExactMcNemar(**settings), sequence)[-1]
        win, tie, loss = (sequence.count(sign) for sign in (1, 0, -1))
        chances = [
            ((discordance + d) / 2) ** win * (1 - discordance) ** tie * ((discordance - d) / 2) ** loss
            for d in (0, effect, -effect)
        ]
        false_alarm += chances[0] * (end.verdict == "superior")
        power += chances[1] * (end.verdict == "superior")
        missed += chances[1] * (end.verdict == "futile")
        tasks += np.array(chances) * end.n
    planned = plan(ExactMcNemar(**settings), effect=effect, discordance=discordance)
    assert planned.power == pytest.approx(power, abs=0.01)
    assert planned.missed == pytest.approx(missed, abs=0.01)
    assert planned.false_alarm == pytest.approx(false_alarm, abs=0.01)
    assert [planned.tasks_if_equal, planned.tasks_if_better, planned.tasks_if_worse] == pytest.approx(tasks, abs=0.1)


@pytest.mark.parametrize(
    "rule",
    [
        ExactMcNemar(at_most=100, effect=0.3),
        Betting(effect=0.3, at_most=100),
        Gsprt(effect=0.3, at_most=100),
        Gsprt(effect=0.3, repeats=2, at_most=100),
        Sprt(effect=0.3, discordance=0.5, at_most=100),
    ],
    ids=["exact", "betting", "gsprt", "gsprt of two", "sprt"],
)
def test_every_rule_has_a_plan_that_is_the_same_each_time_and_a_rising_curve(
    rule: StoppingRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "SIMULATED", 1_500)
    monkeypatch.setattr(planning, "PATTERNS", 100)
    planned = plan(rule, effect=0.3, discordance=0.5)
    assert planned == plan(rule, effect=0.3, discordance=0.5)
    assert planned.false_alarm < 0.07
    assert planned.power > 0.8
    assert planned.tasks_if_worse < planned.tasks_if_equal < 100
    curve = power_curve(rule, effects=[0.0, 0.1, 0.2, 0.3, 0.4], discordance=0.5)
    powers = [power for _, power in curve]
    assert powers == sorted(powers)
    assert powers[0] == planned.false_alarm
    assert curve[3] == (0.3, planned.power)


def test_the_power_of_a_test_of_equivalence_is_the_chance_to_show_that() -> None:
    planned = plan(Betting(goal="non-inferior", margin=0.2, at_most=200), effect=0.05, discordance=0.2)
    assert planned.power > 0.9
    assert planned.false_alarm == 0


def test_a_rule_without_an_end_is_followed_as_far_as_asked() -> None:
    with pytest.raises(SeedbedError, match="tasks: found none, and the rule has no at_most"):
        plan(Betting(), effect=0.1, discordance=0.3)
    assert plan(Betting(), effect=0.1, discordance=0.3, tasks=50).tasks_if_equal <= 50


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"effect": 0.0}, "effect: found 0.0"),
        ({"effect": 0.4}, "effect: found 0.4; expected above 0 and at most discordance, 0.3"),
        ({"discordance": 0.0}, "discordance: found 0.0"),
        ({"discordance": 1.1}, "discordance: found 1.1"),
    ],
)
def test_plan_that_cannot_be_is_refused(asked: dict[str, float], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        plan(ExactMcNemar(at_most=10), **({"effect": 0.1, "discordance": 0.3} | asked))


def test_an_effect_larger_than_the_share_of_tasks_that_differ_is_refused() -> None:
    with pytest.raises(SeedbedError, match=r"effects: found 0.4; expected from -0.3 to 0.3"):
        power_curve(ExactMcNemar(at_most=10), effects=[0.1, 0.4], discordance=0.3)
