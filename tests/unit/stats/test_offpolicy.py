"""What another policy would have scored: every estimator against plain loops, and against the truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.estimates import Interval
from seedbed.stats.offpolicy import (
    ESTIMATORS,
    Decisions,
    clipped_ips,
    direct,
    doubly_robust,
    dros,
    guess_rewards,
    ips,
    screen,
    sndr,
    snips,
    switch_dr,
)

ACTIONS = 3
WORTH = np.array([[0.2, 0.5, 0.8], [0.7, 0.4, 0.1]])
"""The chance of success of each action for two kinds of task."""
LOGGED = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
TARGET = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
TRUTH = float((WORTH * TARGET).sum(axis=1).mean())


def logs(n: int, seed: int, guesses: bool = True) -> Decisions:
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, n)
    actions = (rng.random(n)[:, None] > LOGGED[kinds].cumsum(axis=1)).sum(axis=1).clip(max=ACTIONS - 1)
    rewards = (rng.random(n) < WORTH[kinds, actions]).astype(float)
    held = guess_rewards(kinds.tolist(), actions.tolist(), rewards.tolist(), ACTIONS) if guesses else None
    return Decisions(actions, rewards, LOGGED[kinds], TARGET[kinds], held)


def width(interval: Interval) -> float:
    return interval.high - interval.low


def rows(log: Decisions) -> list[tuple[float, float, float, float]]:
    """Of each decision the weight, the reward, the guess for the action taken and the guess for the target."""
    found = []
    for i in range(len(log)):
        action = int(log.actions[i])
        assert log.guesses is not None
        expected = 0.0
        for other in range(log.logged.shape[1]):
            expected += float(log.target[i][other]) * float(log.guesses[i][other])
        weight = float(log.target[i][action]) / float(log.logged[i][action])
        found.append((weight, float(log.rewards[i]), float(log.guesses[i][action]), expected))
    return found


def naive(name: str, log: Decisions) -> float:
    total, weights, plain = 0.0, 0.0, 0.0
    for w, r, q, v in rows(log):
        weights += w
        plain += v
        match name:
            case "ips" | "snips":
                total += w * r
            case "clipped":
                total += min(w, 20) * r
            case "dr":
                total += v + w * (r - q)
            case "sndr":
                total += w * (r - q)
            case "switch-dr":
                total += v + (w * (r - q) if w <= 20 else 0)
            case "dros":
                total += v + 400 * w / (w * w + 400) * (r - q)
    n = len(log)
    match name:
        case "dm":
            return plain / n
        case "snips":
            return total / weights
        case "sndr":
            return plain / n + total / weights
        case _:
            return total / n


@st.composite
def decisions(draw: st.DrawFn, least: int = 2) -> Decisions:
    """Any decisions at all, weights from nothing to thousands."""
    n, k = draw(st.integers(least, 12)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    spread = draw(st.sampled_from([0.2, 1.0, 5.0]))
    logged, target = rng.dirichlet([spread] * k, n) + 1e-4, rng.dirichlet([spread] * k, n)
    logged /= logged.sum(axis=1, keepdims=True)
    actions = [int(rng.choice(k, p=row)) for row in logged]
    return Decisions(actions, rng.normal(0, 2, n), logged, target, rng.normal(0, 2, (n, k)))


@pytest.mark.parametrize("name", ESTIMATORS)
@given(log=decisions())
def test_every_estimate_is_that_of_plain_loops(name: str, log: Decisions) -> None:
    assert ESTIMATORS[name](log).mean == pytest.approx(naive(name, log), rel=1e-12, abs=1e-12)


def test_golden_values() -> None:
    # Three decisions by hand: weights 2, 1/2 and 0; guesses for the target 1/2, 3/8 and 1.
    log = Decisions(
        [0, 1, 1],
        [1.0, 0.0, 3.0],
        [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]],
        [[1.0, 0.0], [0.75, 0.25], [1.0, 0.0]],
        [[0.5, 0.0], [0.25, 0.75], [1.0, 2.0]],
    )
    assert log.weights.tolist() == [2, 0.5, 0]
    assert ips(log).mean == pytest.approx(2 / 3, abs=1e-12)
    assert snips(log).mean == pytest.approx(2 / 2.5, abs=1e-12)
    assert clipped_ips(log, most=1.5).mean == pytest.approx(1.5 / 3, abs=1e-12)
    assert direct(log).mean == pytest.approx((0.5 + 0.375 + 1) / 3, abs=1e-12)
    assert doubly_robust(log).mean == pytest.approx((1.875 + 2 * 0.5 - 0.5 * 0.75) / 3, abs=1e-12)
    assert sndr(log).mean == pytest.approx(1.875 / 3 + (1 - 0.375) / 2.5, abs=1e-12)
    assert switch_dr(log, most=2).mean == doubly_robust(log).mean
    assert switch_dr(log, most=1).mean == pytest.approx((1.875 - 0.375) / 3, abs=1e-12)
    assert dros(log, shrink=4).mean == pytest.approx((1.875 + 1 * 0.5 - 2 / 4.25 * 0.75) / 3, abs=1e-12)


REFERENCE = {
    "ips": 0.8541666666666666,
    "clipped at 1.5": 0.4270833333333333,
    "snips": 0.5347826086956521,
    "dm": 0.4000000000000001,
    "dr": 0.6336805555555555,
    "sndr": 0.546304347826087,
    "switch-dr at 1": 0.39305555555555555,
    "switch-dr at 2": 0.45659722222222227,
    "switch-dr": 0.6336805555555555,
    "dros at 1": 0.41782899698340875,
    "dros at 4": 0.4516900875651689,
    "dros": 0.6191728521195532,
}
"""What obp 0.5.7, the Open Bandit Pipeline, gives for the table below; no definition differs."""


def test_every_estimate_is_that_of_another_library() -> None:
    kinds = [0, 1, 2] * 4
    logged = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])[kinds]
    target = np.array([[0.1, 0.1, 0.3, 0.5], [0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.5, 0.0]])[kinds]
    guesses = np.array([[0.5, 0.25, 0.625, 0.75], [0.125, 0.5, 0.875, 0.375], [0.6, 0.2, 0.4, 0.8]])[kinds]
    actions = [0, 2, 1, 3, 0, 1, 2, 2, 3, 0, 1, 0]
    rewards = [1.0, 0.0, 0.5, 1.0, 0.25, 0.0, 1.0, 0.75, 0.0, 1.0, 0.5, -0.5]
    log = Decisions(actions, rewards, logged, target, guesses)
    found = {name: estimate(log) for name, estimate in ESTIMATORS.items() if name != "clipped"}
    found["clipped at 1.5"] = clipped_ips(log, most=1.5)
    found |= {f"switch-dr at {most}": switch_dr(log, most=most) for most in (1, 2)}
    found |= {f"dros at {shrink}": dros(log, shrink=shrink) for shrink in (1, 4)}
    assert {name: each.mean for name, each in found.items()} == pytest.approx(REFERENCE, rel=0, abs=1e-12)


@given(decisions())
def test_weights_that_are_never_cut_or_shrunk_make_no_difference(log: Decisions) -> None:
    assert clipped_ips(log, most=math.inf).mean == ips(log).mean
    assert switch_dr(log, most=math.inf).mean == doubly_robust(log).mean
    assert dros(log, shrink=1e18).mean == pytest.approx(doubly_robust(log).mean, rel=1e-6, abs=1e-6)
    assert switch_dr(log, most=1e-300).mean == pytest.approx(direct(log).mean)


@given(decisions())
def test_a_weighted_mean_stays_within_the_rewards(log: Decisions) -> None:
    value = snips(log).mean
    assert math.isnan(value) or log.rewards.min() - 1e-9 <= value <= log.rewards.max() + 1e-9


def test_the_policy_that_decided_is_given_its_own_mean() -> None:
    log = logs(300, seed=1)
    same = Decisions(log.actions, log.rewards, log.logged, log.logged, log.guesses)
    for estimate in (ips, snips, clipped_ips):
        assert estimate(same).mean == pytest.approx(log.rewards.mean(), abs=1e-12)
    checked = screen(same)
    assert (checked.effective, checked.largest, checked.coverage) == (300, 1, 1)
    assert checked.refusals() == []


@pytest.mark.parametrize("name", ["ips", "snips", "dr", "sndr", "switch-dr"])
def test_intervals_cover_the_truth_as_often_as_they_say(name: str) -> None:
    found = [ESTIMATORS[name](logs(200, seed)) for seed in range(400)]
    covered = np.mean([each.low <= TRUTH <= each.high for each in found])
    assert 0.92 <= covered <= 0.98
    # The half width, in quantiles of t, is what the estimates vary by, within four of its own errors.
    spread = np.std([each.mean for each in found], ddof=1)
    errors = [(each.high - each.low) / 2 / stats.t.ppf(0.975, 199) for each in found]
    assert np.mean(errors) == pytest.approx(spread, rel=4 / math.sqrt(2 * 400))


def test_wrong_guesses_bias_the_direct_method_only() -> None:
    biases: dict[str, list[float]] = {"dm": [], "dr": [], "sndr": []}
    for seed in range(200):
        log = logs(200, seed, guesses=False)
        wrong = Decisions(log.actions, log.rewards, log.logged, log.target, np.tile([0.9, 0.5, 0.1], (200, 1)))
        for name, bias in biases.items():
            bias.append(ESTIMATORS[name](wrong).mean - TRUTH)
    assert abs(np.mean(biases["dm"])) > 0.1
    for name in ("dr", "sndr"):
        assert abs(np.mean(biases[name])) < 4 * np.std(biases[name]) / math.sqrt(200)


def test_good_guesses_make_doubly_robust_steadier() -> None:
    assert width(doubly_robust(logs(500, 1))) < 0.75 * width(ips(logs(500, 1)))


def test_decisions_of_one_run_count_as_one() -> None:
    log = logs(100, seed=2)
    assert log.guesses is not None
    tripled = [np.repeat(part, 3, axis=0) for part in (log.actions, log.rewards, log.logged, log.target, log.guesses)]
    runs = np.repeat(np.arange(100), 3).tolist()
    for name, estimate in ESTIMATORS.items():
        once, thrice = estimate(log), estimate(Decisions(*tripled, clusters=runs))
        assert thrice.mean == pytest.approx(once.mean), name
        assert width(thrice) == pytest.approx(width(once)), name


def test_guesses_are_means_of_other_folds() -> None:
    kinds, actions, rewards = ["a", "a", "b", "a", "a", "b"], [0, 0, 0, 1, 0, 0], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    found = guess_rewards(kinds, actions, rewards, of=3)
    # The first fold is the first and the fourth; the rest has 2, 16 of kind a and 4, 32 of kind b, all by action 0.
    assert found[0].tolist() == [9, 13.5, 13.5]
    # The third fold is of kind b and holds both of that kind: there is only the mean of action 0 in all kinds.
    assert found[2].tolist() == [19 / 3, 8, 27 / 4]


@given(st.integers(0, 500), st.integers(2, 4))
def test_a_guess_knows_nothing_of_its_own_cluster(seed: int, folds: int) -> None:
    rng = np.random.default_rng(seed)
    n = 24
    kinds, actions = rng.integers(0, 2, n).tolist(), rng.integers(0, 2, n).tolist()
    rewards, clusters = rng.random(n), rng.integers(0, 6, n)
    before = guess_rewards(kinds, actions, rewards.tolist(), 2, clusters.tolist(), folds)
    chosen = clusters == clusters[0]
    rewards[chosen] += 100
    after = guess_rewards(kinds, actions, rewards.tolist(), 2, clusters.tolist(), folds)
    assert (before[chosen] == after[chosen]).all()


def test_logs_that_fit_the_target_pass_the_screen() -> None:
    checked = screen(logs(1000, seed=3))
    assert checked.refusals() == []
    assert checked.largest == pytest.approx(3.5)
    weights = logs(1000, seed=3).weights
    assert checked.effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def paths(log: Decisions) -> set[str]:
    return {refusal.path for refusal in screen(log).refusals()}


def two(n: int, chance: float, target: float, taken: int) -> Decisions:
    """Decisions between two actions, of which the second was taken so often."""
    actions = [1] * taken + [0] * (n - taken)
    return Decisions(actions, [1.0] * n, [[1 - chance, chance]] * n, [[1 - target, target]] * n)


def test_each_reason_to_refuse_is_named() -> None:
    assert paths(two(100, 0.5, 0.5, 50)) == set()
    assert paths(two(49, 0.5, 0.5, 25)) == {"effective sample size"}
    assert paths(two(1000, 0.06, 1.0, 60)) == {"effective sample size"}  # 60, but a tenth of all is 100
    assert paths(two(4000, 0.03, 0.66, 120)) == {"largest weight", "effective sample size"}
    assert paths(two(1000, 0.5, 0.9, 700)) == {"mean weight"}
    nothing = Decisions([], [], np.empty((0, 2)), np.empty((0, 2)))
    assert paths(nothing) == {"effective sample size", "largest weight", "coverage"}


def test_what_was_never_tried_is_not_covered() -> None:
    for uncovered, refused in ((50, False), (51, True)):
        logged = np.full((1000, 3), [0.5, 0.5, 0.0])
        target = np.full((1000, 3), [0.5, 0.5, 0.0])
        target[:uncovered] = [0.5, 0.4, 0.1]
        checked = screen(Decisions([0, 1] * 500, [1.0] * 1000, logged, target))
        assert checked.coverage == pytest.approx(1 - uncovered / 1000)
        assert ("coverage" in {refusal.path for refusal in checked.refusals()}) is refused


def test_a_refusal_says_what_to_do() -> None:
    (refusal,) = screen(two(49, 0.5, 0.5, 25)).refusals()
    assert str(refusal).startswith("effective sample size: found 49.0; expected at least 50 of 49 logged. Try the")


def test_a_target_that_did_nothing_of_what_was_done_is_not_estimated() -> None:
    log = Decisions([0, 0], [1.0, 1.0], [[0.5, 0.5]] * 2, [[0.0, 1.0]] * 2, np.zeros((2, 2)))
    for estimate in (snips(log), sndr(log)):
        assert math.isnan(estimate.mean)
        assert (estimate.low, estimate.high) == (-math.inf, math.inf)
    assert ips(log).mean == 0
    assert {refusal.path for refusal in screen(log).refusals()} >= {"effective sample size", "mean weight"}


good: Any = ([0, 1], [1.0, 0.0], [[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Decisions([0, 2], *good[1:]), r"actions\[1\]: found 2; expected a column from 0 to 1"),
        (lambda: Decisions([0], *good[1:]), r"actions: found shape \(1,\); expected 2"),
        (lambda: Decisions([0, 1], [1.0, math.nan], *good[2:]), r"rewards\[1\]: found nan"),
        (lambda: Decisions(*good[:2], [[0.5, 0.4]] * 2, good[3]), r"logged\[0\]: found .*; expected chances that sum"),
        (lambda: Decisions(*good[:2], [[1.0, 0.0]] * 2, good[3]), r"logged\[1\]\[1\]: found 0 for the action"),
        (lambda: Decisions(*good[:3], [[1.0]] * 2), r"target: found shape \(2, 1\); expected \(2, 2\)"),
        (lambda: Decisions(*good[:3], [[0.5, 0.5]]), "target: found 1 rows; expected 2"),
        (lambda: Decisions(*good, guesses=[[1.0, 1.0]]), "guesses: found shape"),
        (lambda: Decisions(*good, clusters=["a"]), "clusters: found 1 ids"),
        (lambda: doubly_robust(Decisions(*good)), "guesses: found none; expected a score for every action"),
        (lambda: clipped_ips(Decisions(*good), most=0), "most: found 0; expected a number above 0"),
        (lambda: guess_rewards(["a"], [0], [1.0], 1, folds=1), "folds: found 1; expected at least 2"),
    ],
)
def test_what_is_no_log_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
