"""How many outcomes of a canary its guards need."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seedbed.errors import SettingsError
from seedbed.release.monitor.guards import Guard, Watch
from seedbed.release.monitor.sample_size import outcomes_needed, plan_canary

ERRORS = Guard("error_rate", 0.02)


def simulated(margin: float, older: float, newer: float, controls: int, outcomes: int) -> float:
    """By own code, outcome for outcome: after how many nine of ten canaries are rolled back."""
    luck, canaries, shares = np.random.default_rng(3), 500, np.geomspace(1e-4, 0.9, 30)
    middle = (shares > 0.09) & (shares < 0.4)
    start = 0.75 * middle / middle.sum() + 0.25 * shares**0.75 / (shares**0.75).sum()
    money, ends = np.zeros((canaries, 30)), np.full(canaries, math.inf)
    for number in range(1, outcomes + 1):
        difference = luck.binomial(controls, older, canaries) / controls - (luck.random(canaries) < newer)
        money += start * (0.8 if number == 1 else 0.2 / (number * (number - 1)))
        money *= 1 + np.outer((1 - difference) / (1 + margin) - 1, shares)
        ends[(money.sum(axis=1) >= 20) & np.isinf(ends)] = number
    return float(np.quantile(ends, 0.9))


@pytest.mark.parametrize(
    ("margin", "older", "newer", "controls"), [(0.05, 0.1, 0.25, 9), (0.02, 0.01, 0.09, 9), (0.05, 0.3, 0.5, 1)]
)
def test_as_many_are_needed_as_a_simulation_of_every_outcome_says(
    margin: float, older: float, newer: float, controls: int
) -> None:
    needed = outcomes_needed(margin, older, newer - older, controls, 0.05)
    assert needed == pytest.approx(simulated(margin, older, newer, controls, 700), rel=0.2)


def test_a_better_control_and_a_worse_canary_take_fewer() -> None:
    def needed(change: float, controls: int) -> int:
        return outcomes_needed(0.02, 0.02, change, controls, 0.05) or 0

    assert 0 < needed(0.06, 9) < needed(0.04, 9) < needed(0.03, 9) < needed(0.03, 1)


def test_each_guard_is_planned_in_its_own_unit_and_shares_the_error_with_those_that_act_alike() -> None:
    slow = Guard("latency_seconds", 1.0, "hold", 20.0)
    plan = plan_canary("live", Watch((ERRORS, Guard("rating", -0.05), slow)), 0.1, [0.1], 2)
    assert (plan.share, plan.controls) == (0.1, 5)
    assert [(need.base, need.change) for need in plan.needs] == [(0.1, 0.04), (0.9, -0.1), (2.0, 2.0)]
    assert [need.outcomes for need in plan.needs] == [
        outcomes_needed(0.02, 0.1, 0.04, 5, 0.025),
        outcomes_needed(0.05, 0.1, 0.1, 5, 0.025),
        outcomes_needed(0.05, 0.1, 0.1, 5, 0.05),
    ]


def test_what_cannot_be_so_bad_or_is_hardly_worse_than_allowed_is_never_found() -> None:
    (need,) = plan_canary("live", Watch((Guard("rating", -0.3),)), 0.1, [0.6], 1.5).needs
    assert need.outcomes is None
    assert outcomes_needed(0.02, 0.01, 0.0200001, 9, 0.05) is None
    assert outcomes_needed(0.02, 0.2, 0.8, 1, 0.05) is not None  # it always fails


def test_what_cannot_be_planned_is_refused_with_every_reason() -> None:
    with pytest.raises(SettingsError) as refused:
        plan_canary("live", Watch((ERRORS,)), 0.1, [0.0, 1.0, 0.5], 1.0)
    assert [problem.path for problem in refused.value.problems] == ["base", "base", "worse"]
