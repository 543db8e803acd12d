from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_samples import draw, told
from scipy import optimize, special, stats
from ville.means import BettingCS
from ville.sequential import BettingTest

from seedbed.errors import SeedbedError
from seedbed.stats.sequential.betting import Bet, BetSide, BetSpread, Betting, bets, evidence

graded = st.lists(st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 3)), min_size=1, max_size=40)


def money(values: list[float], mean: float, side: str, effect: float | None) -> float:
    """The money itself, not its log, by the definition."""
    most, sign = (1 / (1 + mean), 1) if side == "above" else (1 / (1 - mean), -1)
    if effect is None:
        shares = [1e-4 * 9000 ** (n / 29) for n in range(30)]
        weights = [share**0.75 for share in shares]
    else:
        shares = [effect * min(8.0, 0.9 / effect) ** (n / 11) for n in range(12)]
        weights = [1.0] * 12
    kept = [math.prod(1 + share * most * sign * (value - mean) for value in values) for share in shares]
    return math.fsum(map(operator.mul, weights, kept)) / math.fsum(weights)


@given(graded, st.sampled_from([0.0, 0.1, -0.2]), st.sampled_from([None, 0.1, 0.5]))
@settings(deadline=None)
def test_evidence_is_the_log_of_the_money_won_by_bets_of_each_size(
    values: list[float], d0: float, effect: float | None
) -> None:
    answer = told(Betting(d0=d0, effect=effect if effect is None or effect < 1 - d0 else None), values)[-1]
    seen = values[: answer.n]
    assert answer.evidence == pytest.approx(math.log(money(seen, d0, "above", effect)), abs=1e-9)
    if effect is not None:
        assert answer.futility == pytest.approx(math.log(money(seen, d0 + effect, "below", effect)), abs=1e-9)


def test_bets_grow_as_those_of_an_independent_library() -> None:
    # That library chooses the size of each bet itself: take those sizes, and compare what the bets win.
    rng = np.random.default_rng(0)
    values = np.clip(rng.normal(0.1, 0.5, 200), -1, 1)
    sides: list[tuple[BetSide, str]] = [("above", "greater"), ("below", "less")]
    for side, alternative in sides:
        theirs = BettingTest(0.05, bounds=(-1, 1), alternative=alternative)
        theirs.fit(values)
        steps = np.diff(theirs.log_e_values_, prepend=0.0)
        most = 1 / 1.05 if side == "above" else 1 / 0.95
        sign = 1 if side == "above" else -1
        sizes = np.expm1(steps) / (sign * (values - 0.05)) / most
        assert ((sizes >= 0) & (sizes < 1)).all()
        each = zip(sizes, values, strict=True)
        ours = [Bet(0.05, side, np.array([size])).growth(np.array(value)) for size, value in each]
        assert np.cumsum(np.ravel(ours)) == pytest.approx(theirs.log_e_values_, abs=1e-9)


@pytest.mark.parametrize("values", [(-1.0, 0.0, 1.0), (-1.0, -0.25, 0.5)])
@pytest.mark.parametrize(("side", "mean"), [("above", 0.0), ("below", 0.1), ("above", -0.3)])
def test_whoever_bets_against_the_truth_expects_to_win_nothing(
    values: tuple[float, ...], side: Any, mean: float
) -> None:
    # A distribution with exactly that mean: the bet is fair, whatever its size.
    low, middle, high = values
    weights = np.zeros(3)
    weights[1] = 0.3
    weights[2] = (mean - 0.3 * middle - 0.7 * low) / (high - low)
    weights[0] = 0.7 - weights[2]
    assert (weights >= 0).all()
    growth = np.exp(Bet(mean, side, bets(0.1).shares).growth(np.array(values)))
    assert weights @ growth == pytest.approx(np.ones(12))


def test_evidence_of_a_million_tasks_neither_overflows_nor_vanishes() -> None:
    grown = 1_000_000 * Bet(0.0, "above", bets(spread="even").shares).growth(np.array([1.0, -1.0]))
    won, lost = evidence(grown)
    assert won == pytest.approx(1_000_000 * math.log(1.9) - math.log(25))
    assert lost == pytest.approx(1_000_000 * math.log(0.95) - math.log(25))


@pytest.mark.parametrize(("spread", "decides"), [("log", True), ("even", False)])
def test_a_gain_of_a_hundredth_is_decided_sooner_or_later(spread: BetSpread, decides: bool) -> None:
    """A million pairs of which half differ. In blocks: the evidence after a block is evidence at one look."""
    rng, stakes = np.random.default_rng(3), bets(spread=spread)
    growth, money = Bet(0.0, "above", stakes.shares).growth(np.array([1.0, 0.0, -1.0])), stakes.start
    most = -math.inf
    for _ in range(1_000):
        money = money + rng.multinomial(1_000, [0.255, 0.5, 0.245]) @ growth
        most = max(most, float(evidence(money)))
    assert (most >= math.log(20)) == decides


def test_an_unknown_spread_is_refused() -> None:
    with pytest.raises(SeedbedError, match=r"spread: found .*wide.*; expected log or even"):
        Betting(spread="wide")  # type: ignore[arg-type]


@pytest.mark.parametrize("effect", [None, 0.1])
@pytest.mark.parametrize("discordance", [0.1, 0.3, 0.5])
def test_equals_are_preferred_with_chance_at_most_alpha(discordance: float, effect: float | None) -> None:
    ends = Betting(effect=effect, at_most=400).ends(draw(1, 800, 400, discordance))
    for wrong in ("superior", "inferior"):
        assert stats.binomtest(int((ends.verdicts == wrong).sum()), 800, 0.05, "greater").pvalue > 1e-4


def test_graded_scores_of_tasks_that_come_in_kinds_keep_the_error_rate() -> None:
    # Three repeats a task, averaged, of tasks that are not alike; equal on average over all kinds.
    rng = np.random.default_rng(2)
    lean = rng.choice([-0.3, 0.0, 0.3], size=(800, 300, 1))
    differences = np.mean(
        (rng.random((800, 300, 3)) < 0.5 + lean / 2).astype(float) - (rng.random((800, 300, 3)) < 0.5 - lean / 2),
        -1,
    )
    ends = Betting(effect=0.1, at_most=300).ends(differences)
    assert stats.binomtest(int((ends.verdicts == "superior").sum()), 800, 0.05, "greater").pvalue > 1e-4


@pytest.mark.parametrize(
    ("rule", "truth", "wrong", "rate"),
    [
        (Betting(effect=0.1, at_most=300), 0.1, "futile", 0.1),
        (Betting(goal="non-inferior", margin=0.1, at_most=300), -0.1, "non-inferior", 0.05),
        (Betting(goal="equivalent", margin=0.1, at_most=300), 0.1, "equivalent", 0.05),
        (Betting(goal="equivalent", margin=0.1, at_most=300), -0.1, "equivalent", 0.05),
        (Betting(goal="equivalent", margin=0.1, at_most=300), 0.1, "superior", 0.05),
        (Betting(margin=0.1, at_most=300), -0.1, "non-inferior", 0.05),
        (Betting(margin=0.1, at_most=300), 0.1, "equivalent", 0.05),
        (Betting(d0=-0.1, at_most=300), -0.1, "inferior", 0.05),
    ],
)
def test_each_verdict_keeps_its_error_rate_where_it_is_just_not_true(
    rule: Betting, truth: float, wrong: str, rate: float
) -> None:
    ends = rule.ends(draw(6, 800, 300, 0.3, truth))
    assert stats.binomtest(int((ends.verdicts == wrong).sum()), 800, rate, "greater").pvalue > 1e-4


@pytest.mark.parametrize(
    ("rule", "truth", "right"),
    [
        (Betting(effect=0.2, at_most=300), 0.2, "superior"),
        (Betting(effect=0.2, at_most=300), 0.0, "futile"),
        (Betting(at_most=300), -0.2, "inferior"),
        (Betting(goal="non-inferior", margin=0.2, at_most=300), 0.0, "non-inferior"),
        (Betting(goal="equivalent", margin=0.2, at_most=300), 0.0, "equivalent"),
        (Betting(goal="equivalent", margin=0.05, at_most=300), 0.3, "superior"),
        (Betting(margin=0.2, at_most=300), 0.0, "equivalent"),
        (Betting(margin=0.1, at_most=300), 0.07, "non-inferior"),
        (Betting(at_most=300), 0.0, "inconclusive"),
    ],
)
def test_each_verdict_is_mostly_reached_where_it_is_true(rule: Betting, truth: float, right: str) -> None:
    ends = rule.ends(draw(7, 300, 300, 0.3, truth))
    assert np.unique(ends.verdicts, return_counts=True)[1].max() == (ends.verdicts == right).sum()
    assert (ends.verdicts == right).mean() > 0.45


@pytest.mark.parametrize(
    "rule", [Betting(effect=0.2, margin=0.1, at_most=80), Betting(goal="equivalent", margin=0.4), Betting(d0=-0.1)]
)
def test_many_tests_at_once_end_as_each_alone(rule: Betting) -> None:
    rng = np.random.default_rng(0)
    rows = np.vstack([draw(1, 20, 80, 0.4, 0.15), rng.uniform(-1, 1, (20, 80)), draw(3, 20, 80, 0.1)])
    ends = rule.ends(rows)
    alone = [told(Betting.from_state(rule.state()), row)[-1] for row in rows]
    assert ends.tasks.tolist() == [answer.n for answer in alone]
    still = ["inconclusive" if answer.verdict == "continue" else answer.verdict for answer in alone]
    assert ends.verdicts.tolist() == still


def test_p_is_one_over_the_most_evidence_ever_and_at_most_alpha_exactly_when_superior() -> None:
    for row in draw(2, 60, 100, 0.5, 0.2):
        answers = told(Betting(at_most=100), row)
        most = list(itertools.accumulate((answer.evidence for answer in answers), max, initial=0.0))[1:]
        assert [answer.p for answer in answers] == pytest.approx([math.exp(-one) for one in most])
        assert [(answer.p or 1) <= 0.05 for answer in answers] == [answer.verdict == "superior" for answer in answers]


@given(graded, st.sampled_from([0.8, 0.95]))
@settings(deadline=None)
def test_interval_is_where_neither_side_has_made_enough_money(values: list[float], confidence: float) -> None:
    rule = Betting()
    for value in values:
        if rule.answer.verdict == "continue":
            rule.update(value)
    seen = values[: rule.answer.n]
    low, high = rule.interval(confidence)
    enough = 2 / (1 - confidence)
    ends = [-1.0, 1.0]
    for i, side in enumerate(("above", "below")):

        def excess(mean: float, side: str = side) -> float:
            return math.log(money(seen, mean, side, None) / enough)

        if excess(-0.999999 if i == 0 else 0.999999) > 0:
            ends[i] = optimize.brentq(excess, -0.999999, 0.999999, xtol=1e-12)
    assert (low, high) == pytest.approx(tuple(ends), abs=2e-6)
    assert low <= np.mean(seen) <= high


def test_interval_holds_the_truth_at_every_look() -> None:
    # A mean leaves the interval of 95% when the bets against it on either side have made 2 / 5% times their money.
    left = Betting(d0=0.1, alpha=0.025).ends(draw(9, 1_600, 400, 0.4, 0.1)).share("superior", "inferior")
    assert stats.binomtest(round(left * 1_600), 1_600, 0.05, "greater").pvalue > 1e-4
    rule = Betting(d0=0.1, alpha=0.025)
    while rule.answer.verdict == "continue":
        answer = rule.update(1.0)
        assert (answer.verdict == "superior") == (rule.interval()[0] > 0.1)


def test_interval_of_nothing_is_everything() -> None:
    assert Betting().interval() == (-1.0, 1.0)


def test_interval_is_as_narrow_as_that_of_an_independent_library() -> None:
    for row in draw(11, 3, 1_000, 0.3, 0.1):
        rule = Betting(alpha=1e-12)
        told(rule, row)
        theirs = BettingCS(bounds=(-1, 1), alpha=0.05, intersect=False).fit(row)
        low, high = rule.interval(0.95)
        assert low <= 0.1 <= high
        assert 0.7 < (high - low) / (theirs.upper_[-1] - theirs.lower_[-1]) < 1.1
        assert abs((high + low) - (theirs.upper_[-1] + theirs.lower_[-1])) / 2 < 0.03


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"alpha": 0.7}, "alpha: found 0.7"),
        ({"d0": 1.0}, "d0: found 1.0"),
        ({"effect": 0.0}, "effect: found 0.0"),
        ({"effect": math.nan}, "effect: found nan"),
        ({"goal": "better"}, 'goal: found "better"'),
        ({"goal": "equivalent"}, "margin: found none; expected how much worse still counts as equivalent"),
        ({"margin": 0.0}, "margin: found 0.0"),
        ({"at_most": 0}, "at_most: found 0"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        Betting(**given_)


@pytest.mark.parametrize("difference", [1.5, -2, math.nan, math.inf, "1", None])
def test_a_difference_outside_its_range_is_refused_and_leaves_the_test_as_it_was(difference: Any) -> None:
    rule = Betting()
    rule.update(0.5)
    state = rule.state()
    with pytest.raises(SeedbedError, match="expected a number from -1 to 1"):
        rule.update(difference)
    assert rule.state() == state


def test_money_is_spread_evenly() -> None:
    assert evidence(np.log([1.0, 3.0])) == pytest.approx(math.log(2))
    assert special.logsumexp(np.zeros(12)) - math.log(12) == pytest.approx(float(evidence(np.zeros(12))))
