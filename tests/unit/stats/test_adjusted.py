from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import SeedbedError
from seedbed.stats.adjusted import ppi
from seedbed.stats.estimates import Interval, mean_interval

SCORES = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), max_size=40)


def replays(
    rng: np.random.Generator, live: int, others: int, fidelity: float, wrong: tuple[float, float]
) -> tuple[list[float], list[float], list[float]]:
    """Differences of mean 0.1 on tasks of which 30 % differ; replays that are right this often, else drawn anew."""
    truth = rng.choice([1.0, -1.0, 0.0], live + others, p=[0.2, 0.1, 0.7])
    anew = rng.choice([1.0, -1.0, 0.0], live + others, p=[*wrong, 1 - sum(wrong)])
    replayed = np.where(rng.random(live + others) < fidelity, truth, anew)
    return truth[:live].tolist(), replayed[:live].tolist(), replayed[live:].tolist()


def test_ppi_has_the_estimate_of_the_reference() -> None:
    # ppi-python 0.2.3: ppi_mean_pointestimate, and the ends of ppi_mean_ci, which ours must contain.
    few, many = np.arange(40), np.arange(300)
    live = np.sign(np.sin(1.7 * few + 0.3) + 0.3)
    replayed = np.where(few % 9 == 4, -live, live)
    others = np.sign(np.sin(2.3 * many + 1) + 0.2)
    interval = ppi(live.tolist(), replayed.tolist(), others.tolist()).interval
    assert interval.mean == pytest.approx(0.2232633, abs=5e-8)
    assert interval.low <= 0.02308362
    assert interval.high >= 0.42344298
    assert interval.high - interval.low < 1.2 * (0.42344298 - 0.02308362)


def test_ppi_of_graded_scores_has_nearly_the_plain_formulas_interval() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(0.2, 1, 2_400)
    replayed = truth + rng.normal(0.5, 0.5, 2_400)
    adjusted = ppi(truth[:400].tolist(), replayed[:400].tolist(), replayed[400:].tolist())
    weight = np.cov(truth[:400], replayed[:400])[0, 1] / (replayed.var() * (1 + 400 / 2_000))
    left = truth[:400] - weight * replayed[:400]
    error = math.sqrt(left.var() / 400 + weight**2 * replayed[400:].var() / 2_000)
    assert adjusted.weight == pytest.approx(weight, rel=0.01)
    assert adjusted.interval.mean == pytest.approx(weight * replayed[400:].mean() + left.mean(), abs=0.01 * error)
    assert adjusted.interval.high - adjusted.interval.mean == pytest.approx(1.96 * error, rel=0.03)


@pytest.mark.parametrize("fidelity", [0.5, 0.9, 0.97])
@pytest.mark.parametrize("wrong", [(0.15, 0.15), (0.0, 0.3)], ids=["both ways", "one way"])
def test_ppi_covers_the_truth_however_wrong_the_replays(fidelity: float, wrong: tuple[float, float]) -> None:
    rng = np.random.default_rng(5)
    covered = replay_only = 0
    for _ in range(1_500):
        live, replayed, others = replays(rng, 60, 1_000, fidelity, wrong)
        interval, cheap = ppi(live, replayed, others).interval, mean_interval(others)
        covered += interval.low <= 0.1 <= interval.high
        replay_only += cheap.low <= 0.1 <= cheap.high
    assert covered / 1_500 >= 0.935
    if fidelity == 0.5:
        assert replay_only / 1_500 < 0.6


def test_ppi_saves_two_of_three_live_runs_at_fidelity_nine_tenths() -> None:
    rng = np.random.default_rng(6)
    widths = []
    for _ in range(300):
        live, replayed, others = replays(rng, 60, 1_000, 0.9, (0.15, 0.15))
        alone, together = mean_interval(live), ppi(live, replayed, others).interval
        widths.append((alone.high - alone.low, together.high - together.low))
    alone, together = np.mean(np.square(widths), axis=0)
    assert alone / together >= 3


def test_replays_that_tell_nothing_leave_the_live_interval() -> None:
    live = np.random.default_rng(7).normal(size=30).tolist()
    expected = mean_interval(live)
    for replayed, others in [([0.5] * 30, [0.5] * 100), ([-each for each in live], live * 3), (live, [])]:
        adjusted = ppi(live, replayed, others)
        assert (adjusted.weight, adjusted.worth) == (0.0, 1.0)
        assert (adjusted.interval.low, adjusted.interval.high) == pytest.approx((expected.low, expected.high))


def test_few_live_runs_give_replays_no_weight() -> None:
    live = np.random.default_rng(8).normal(size=19).tolist()
    assert ppi(live, live, live * 9).weight == 0.0
    assert ppi(live[:1], live[:1], live).interval == Interval(live[0], -math.inf, math.inf, 0.95, 1)
    assert math.isnan(ppi([], [], live).interval.mean)


def test_replays_that_never_disagreed_are_not_taken_for_perfect() -> None:
    live = [1.0, 0.0, 0.0, -1.0, 0.0] * 5
    everything = mean_interval(live * 41)
    interval = ppi(live, live, live * 40).interval
    assert interval.high - interval.low > 1.5 * (everything.high - everything.low)


@settings(deadline=None)
@given(SCORES.filter(bool), st.lists(st.floats(-5, 5), max_size=60), st.randoms(use_true_random=False))
def test_ppi_turns_around_with_its_arms_and_ignores_order(
    pairs: list[tuple[float, float]], others: list[float], chance: random.Random
) -> None:
    live, replayed = [one for one, _ in pairs], [other for _, other in pairs]
    there = ppi(live, replayed, others).interval
    back = ppi([-each for each in live], [-each for each in replayed], [-each for each in others]).interval
    assert (there.mean, there.low, there.high) == pytest.approx((-back.mean, -back.high, -back.low), rel=1e-6, abs=1e-6)
    chance.shuffle(pairs)
    again = ppi([one for one, _ in pairs], [other for _, other in pairs], others[::-1]).interval
    assert (again.low, again.high) == pytest.approx((there.low, there.high), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ppi([1.0], [1.0, 2.0], []), "replayed: found 2 values; expected 1, one for each in live"),
        (lambda: ppi([1.0], [math.nan], []), r"replayed\[0\]: found nan"),
        (lambda: ppi([1.0], [1.0], [math.inf]), r"replayed_only\[0\]: found inf"),
        (lambda: ppi([1.0], [1.0], [], 2), "confidence: found 2"),
    ],
)
def test_what_cannot_be_adjusted_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
