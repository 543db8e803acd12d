"""A candidate that is better on the whole, and worse on a slice."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.slices import SliceTest, worse_slices

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
slices = importlib.import_module("slices")
"""The simulation, whose boundaries, bets and p-values are computed by code of its own."""


def taken(gains: list[float], *, count: int = 27, signs: bool = True, at_most: int | None = None) -> SliceTest:
    test = SliceTest(margin=0.1, slices=count, at_most=at_most or len(gains), signs=signs)
    for gain in gains:
        if test.update(gain) != "open":
            break
    return test


@pytest.mark.parametrize("gain", [-0.15, 0.0, 0.1])
def test_every_tag_ends_where_code_written_apart_from_it_ends_it(gain: float) -> None:
    setting = slices.Setting(tags=6, tasks=90, discordance=0.3, margin=0.1)
    rows = slices.draw(setting, gain, 60, np.random.default_rng(3))
    expected = slices.read_tags(setting, rows)
    tests = [taken(row.tolist(), count=6) for row in rows.astype(float)]
    assert [sum(test.counts) for test in tests] == expected.read.tolist()
    assert [test.p for test in tests] == pytest.approx(expected.p.tolist(), rel=1e-6)


def test_losses_only_end_worse_and_wins_only_end_not_worse() -> None:
    worse, fine = taken([-1.0] * 60), taken([1.0] * 60)
    assert (worse.finding, fine.finding) == ("worse", "not worse")
    assert worse.p is not None
    assert worse.p <= 0.05 / 27
    assert fine.p == 1.0
    assert worse.counts == (0, 0, sum(worse.counts))
    assert sum(worse.counts) < 60


def test_one_that_reaches_its_last_task_has_the_p_value_of_the_sign_test_and_a_little() -> None:
    """What the early looks have used up of the error rate is added: at most 0.05 over the number of slices."""
    gains = ([-1.0] + [0.0] * 4 + [1.0] + [0.0] * 4 + [-1.0]) * 3
    test = taken(gains)
    assert (test.finding, sum(test.counts)) == ("inconclusive", len(gains))
    plain = stats.binomtest(6, 9, alternative="greater").pvalue
    assert test.p is not None
    assert plain <= test.p <= plain + 0.05 / 27


def test_graded_gains_are_bet_on() -> None:
    worse, fine = (taken([sign * 0.3, sign * 0.1] * 200, signs=False) for sign in (-1, 1))
    assert (worse.finding, fine.finding) == ("worse", "not worse")
    low, high = worse.interval()
    assert low < worse.mean < high < 0
    with pytest.raises(SeedbedError, match="as this rule is for scores of 0 or 1"):
        taken([0.3])


def test_an_open_slice_has_no_p_value_and_every_slice_has_an_interval() -> None:
    test = taken([-1.0, 0.0], at_most=90)
    assert (test.finding, test.p, test.mean) == ("open", None, -0.5)
    assert test.interval()[0] <= -0.5 <= test.interval()[1]
    assert taken([], at_most=5).interval() == (-1.0, 1.0)
    with pytest.raises(SeedbedError, match="margin: found 0"):
        SliceTest(margin=0.0, slices=1, at_most=5, signs=True)


def test_all_slices_share_one_rate_of_false_alarms() -> None:
    assert worse_slices([0.001, 0.2, 1.0, 0.04], 0.1) == (True, False, False, True)
    assert worse_slices([0.04, 1.0, 1.0, 1.0], 0.1) == (False,) * 4


def test_false_refusals_and_finds_are_as_simulated_at_length() -> None:
    """A tenth of what benchmarks/slices.py does: equal slices alone, and one among better ones that is worse."""
    setting = slices.Setting(tags=6, tasks=60, discordance=0.3, margin=0.1)
    equal = slices.simulate(setting, 0.0, 600 * 6, seed=1).p.reshape(600, 6)
    assert (
        stats.binomtest(int(slices.rejected(equal).any(axis=1).sum()), 600, 0.1, alternative="greater").pvalue > 0.001
    )
    equal[:, 0] = slices.simulate(setting, -0.25, 600, seed=2).p
    assert slices.rejected(equal)[:, 0].mean() > 0.7
    ours = np.array([worse_slices(row.tolist(), 0.1) for row in equal])
    assert (ours == slices.rejected(equal)).all()
