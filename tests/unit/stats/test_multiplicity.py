"""Many candidates: corrections for those judged together, budgets for those that come one after another."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import ville
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from statsmodels.stats.multitest import multipletests

from seedbed.errors import SeedbedError
from seedbed.stats.multiplicity import (
    Balance,
    ELond,
    ErrorBudget,
    Lord,
    benjamini_hochberg,
    e_bh,
    e_from_p,
    gamma,
    holm,
    p_for_e,
)

chances = st.floats(0, 1) | st.floats(0, 0.01)
several = st.lists(chances, max_size=30)
alphas = st.sampled_from([0.01, 0.05, 0.2])
evidence = st.lists(st.floats(0, 1e6) | st.sampled_from([1.0, 20.0, 40.0]), max_size=30)


@pytest.mark.parametrize(("ours", "theirs"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])
@pytest.mark.parametrize("size", [1, 2, 7, 40, 500])
def test_holm_and_benjamini_hochberg_are_those_of_statsmodels(ours: Callable[..., Any], theirs: str, size: int) -> None:
    p = np.random.default_rng(size).beta(0.3, 2, size).round(4)  # some small, some equal
    rejected, adjusted, *_ = multipletests(p, 0.05, theirs)
    corrected = ours(p.tolist())
    assert corrected.p == pytest.approx(adjusted, rel=1e-14, abs=0)
    assert list(corrected.rejected) == rejected.tolist()


@given(evidence, alphas)
def test_e_bh_rejects_the_largest_number_whose_smallest_is_large_enough(e: list[float], alpha: float) -> None:
    corrected = e_bh(e, alpha)
    ordered = sorted(e, reverse=True)
    count = max((k for k in range(1, len(e) + 1) if alpha * k * ordered[k - 1] >= len(e) * (1 + 1e-12)), default=0)
    assert sum(corrected.rejected) >= count
    assert all(
        rejected for rejected, each in zip(corrected.rejected, e, strict=True) if count and each >= ordered[count - 1]
    )
    if sum(corrected.rejected) > count:
        assert min(abs(alpha * k * ordered[k - 1] / len(e) - 1) for k in range(1, len(e) + 1)) < 1e-12


def test_e_bh_is_that_of_ville() -> None:
    rng = np.random.default_rng(1)
    for size in (1, 5, 50, 400):
        e = np.exp(rng.normal(0, 3, size))
        for alpha in (0.05, 0.2):
            assert list(e_bh(e.tolist(), alpha).rejected) == ville.evalues.ebh(e, alpha).tolist()


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
@given(p=several, seed=st.integers(0, 99))
def test_each_hypothesis_keeps_its_place(correct: Callable[..., Any], p: list[float], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(p))
    plain, shuffled = correct(p), correct([p[place] for place in order])
    assert [plain.p[place] for place in order] == list(shuffled.p)
    assert list(plain.rejected) == [each <= 0.05 for each in plain.p]


@given(several)
def test_what_holm_rejects_benjamini_hochberg_rejects(p: list[float]) -> None:
    strict, lenient = holm(p), benjamini_hochberg(p)
    assert all(not one or other for one, other in zip(strict.rejected, lenient.rejected, strict=True))
    assert all(adjusted >= each for adjusted, each in zip(lenient.p, p, strict=True))


def test_an_e_value_made_of_a_p_value_has_mean_one() -> None:
    mean, _ = integrate.quad(e_from_p, 0, 1)
    assert mean == pytest.approx(1, abs=1e-6)
    assert e_from_p(0.0001) == 50


@pytest.mark.parametrize("e", [0.5, 1.0, 68.3, 1e6])
def test_of_a_larger_p_value_no_such_e_value_can_be_made(e: float) -> None:
    p = p_for_e(e)
    assert e_from_p(p) == pytest.approx(e)
    assert e_from_p(min(1.0, p * 1.01)) < e or p == 1


@pytest.mark.parametrize("n", [1, 10, 10_000])
def test_the_shares_of_a_stream_never_sum_to_more_than_one(n: int) -> None:
    shares = [gamma(place) for place in range(1, n + 1)]
    assert math.fsum(shares) == pytest.approx(1 - 1 / math.sqrt(n + 1), rel=1e-13)
    assert shares == sorted(shares, reverse=True)


def filled(budget: ErrorBudget, told: list[float]) -> list[float]:
    """Tell results one after another; the level of each."""
    levels = []
    for place, value in enumerate(told):
        levels.append(budget.next_alpha)
        budget.tell(f"candidate {place}", value)
    return levels


@given(several)
def test_levels_of_lord_are_those_of_its_formula(p: list[float]) -> None:
    found: list[int] = []
    for t, (value, level) in enumerate(zip(p, filled(Lord(), p), strict=True), 1):
        expected = 0.025 * gamma(t)
        for number, tau in enumerate(found):
            expected += (0.025 if number == 0 else 0.05) * gamma(t - tau)
        assert level == pytest.approx(expected, rel=1e-14)
        if value <= level:
            found.append(t)


@given(evidence)
def test_levels_of_e_lond_are_those_of_its_formula(e: list[float]) -> None:
    found = 0
    for t, (value, level) in enumerate(zip(e, filled(ELond(), e), strict=True), 1):
        assert level == pytest.approx(0.05 * gamma(t) * (found + 1), rel=1e-14)
        found += value >= 1 / level


events = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.none() | st.floats(0, 1) | st.floats(0, 0.005)), max_size=25
)


def played(budget: ErrorBudget, asked: list[tuple[str, float | None]]) -> list[float | bool]:
    """Ask for levels and tell results, the first for each key; what the budget answered."""
    answers: list[float | bool] = []
    told: dict[str, float] = {}
    for key, p in asked:
        if p is None:
            answers.append(budget.reserve(key))
        else:
            first = told.setdefault(key, p)
            answers.append(budget.tell(key, first if budget.name == "lord++" else 1 / max(first, 1e-9)))
    return answers


@pytest.mark.parametrize("control", [Lord, ELond])
@given(asked=events)
def test_the_same_again_changes_nothing(control: type[ErrorBudget], asked: list[tuple[str, float | None]]) -> None:
    budget = control()
    played(budget, asked)
    balance, answers = budget.balance(), played(budget, asked)
    assert budget.balance() == balance
    assert played(budget, asked) == answers


@given(asked=events)
def test_lord_never_spends_more_than_alpha_for_each_discovery(asked: list[tuple[str, float | None]]) -> None:
    budget = Lord()
    for place in range(len(asked)):
        played(budget, asked[: place + 1])
        balance = budget.balance()
        assert balance.spent + balance.left <= 0.05 * max(1, balance.discoveries) + 1e-15


@pytest.mark.parametrize("control", [Lord, ELond])
def test_what_is_left_is_what_those_to_come_will_spend(control: type[ErrorBudget]) -> None:
    budget = control()
    good, bad = (0.0, 1.0) if control is Lord else (1e6, 0.0)
    filled(budget, [bad, good, bad, good, good, bad])
    before = budget.balance()
    for place in range(2000):
        budget.tell(f"later {place}", bad)
    after = budget.balance()
    assert after.spent - before.spent == pytest.approx(before.left - after.left, rel=1e-10)
    assert 0 < after.left < before.left / 5
    assert (before.discoveries, before.tested, after.tested) == (3, 6, 2006)


def test_the_balance_shows_what_happened() -> None:
    budget = Lord()
    assert budget.balance() == Balance(pytest.approx(0.025 * gamma(1)), 0.025, 0.0, 0, 0, 0)
    level = budget.reserve("a")
    assert level == pytest.approx(0.00732, abs=1e-5)
    assert budget.balance().waiting == 1
    assert budget.tell("a", level)  # exactly at the level is enough
    assert not budget.tell("b", 0.9)
    assert (budget.balance().tested, budget.balance().waiting, budget.balance().discoveries) == (2, 0, 1)


def test_an_e_value_is_a_discovery_from_one_over_its_level_on() -> None:
    budget = ELond()
    assert budget.tell("a", 1 / budget.next_alpha)
    assert not budget.tell("b", 0.999 / budget.next_alpha)


def test_a_level_once_given_stays_whatever_is_told_before_it_is_used() -> None:
    budget = Lord()
    levels = {key: budget.reserve(key) for key in "abc"}
    assert levels == {"a": 0.025 * gamma(1), "b": 0.025 * gamma(2), "c": 0.025 * gamma(3)}
    assert budget.tell("b", 0.0)
    assert budget.reserve("c") == levels["c"]
    assert not budget.tell("c", levels["c"] * 1.01)
    # The discovery is known from the fourth candidate on, as if it had been the third that brought it.
    assert budget.next_alpha == pytest.approx(0.025 * gamma(4) + 0.025 * gamma(1))


def streams(number: int, size: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Who is truly better, one in ten, and the p-values of one-sided exact McNemar tests on 400 tasks each."""
    rng = np.random.default_rng(seed)
    better = rng.random((number, size)) < 0.1
    won = np.where(better, 0.2, 0.15)
    counts = rng.multinomial(400, np.stack([won, 0.3 - won, np.full_like(won, 0.7)], axis=-1))
    return better, stats.binom.sf(counts[..., 0] - 1, counts[..., 0] + counts[..., 1], 0.5)


def test_over_500_candidates_few_discoveries_of_lord_are_false_and_most_true_ones_are_made() -> None:
    better, p = streams(number=40, size=500, seed=5)
    false, power = [], []
    for truth, row in zip(better, p.tolist(), strict=True):
        budget = Lord()
        found = np.array([budget.tell(str(place), value) for place, value in enumerate(row)])
        false.append((found & ~truth).sum() / max(1, found.sum()))
        power.append((found & truth).sum() / truth.sum())
    assert np.mean(false) <= 0.05
    assert np.mean(power) >= 0.6


def test_unadjusted_discoveries_of_such_streams_are_often_false() -> None:
    better, p = streams(number=40, size=500, seed=5)
    found = p <= 0.05
    assert ((found & ~better).sum(axis=1) / found.sum(axis=1)).mean() > 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: holm([0.2, math.nan]), r"p\[1\]: found nan; expected a p-value"),
        (lambda: benjamini_hochberg([1.2]), r"p\[0\]: found 1.2"),
        (lambda: holm([0.2], 0.7), "alpha: found 0.7"),
        (lambda: e_bh([1.0, -1.0]), r"e\[1\]: found -1.0"),
        (lambda: e_bh([math.inf]), r"e\[0\]: found inf"),
        (lambda: e_from_p(0.0), "p: found 0.0; expected above 0"),
        (lambda: p_for_e(0.4), "e: found 0.4; expected at least 0.5"),
        (lambda: p_for_e(math.nan), "e: found nan"),
        (lambda: Lord(w0=0.06), "w0: found 0.06; expected above 0 and at most alpha, 0.05"),
        (lambda: Lord().tell("a", math.nan), "found nan"),
        (lambda: ELond().tell("a", math.inf), "e: found inf"),
        (lambda: Lord().reserve(""), 'key: found ""; expected a name'),
        (lambda: filled_twice("a", 0.5, 0.4), "a: found 0.4; expected 0.5, as before"),
    ],
)
def test_what_is_no_evidence_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()


def filled_twice(key: str, first: float, second: float) -> None:
    budget = Lord()
    budget.tell(key, first)
    budget.tell(key, second)


def test_a_refused_result_leaves_the_budget_as_it_was() -> None:
    budget = Lord()
    budget.tell("a", 0.001)
    before = budget.balance()
    for key, value in (("a", 0.002), ("b", math.nan)):
        with pytest.raises(SeedbedError):
            budget.tell(key, value)
    assert budget.balance() == before


def test_nothing_to_judge_is_no_error() -> None:
    assert holm([]) == benjamini_hochberg([]) == e_bh([])
    assert holm([]).p == ()
