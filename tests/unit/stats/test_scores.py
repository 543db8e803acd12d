from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.estimates import Interval, exact_rate, mean_interval
from seedbed.stats.scores import difference_interval, few_sources, score_interval

CLUSTERS = st.none() | st.integers(1, 8)


def sources(count: int, tasks: int) -> list[int]:
    return np.repeat(np.arange(count), tasks).tolist()


def drawn(rng: np.random.Generator, rate: float, count: int, tasks: int, icc: float) -> list[float]:
    """Passes and failures of the tasks of some sources, which correlate by `icc` within a source."""
    chances = rng.beta(rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc, count)
    return (rng.random((count, tasks)) < chances[:, None]).astype(float).ravel().tolist()


def test_the_rate_of_independent_tasks_has_the_exact_interval() -> None:
    passed = [1.0] * 3 + [0.0] * 9
    reference = stats.binomtest(3, 12).proportion_ci(method="exact")
    assert score_interval(passed) == score_interval(passed, list(range(12))) == exact_rate(3, 12)
    assert (score_interval(passed).low, score_interval(passed).high) == pytest.approx((reference.low, reference.high))


@pytest.mark.parametrize(("rate", "icc"), [(0.05, 0.5), (0.05, 0.02), (0.3, 0.2), (0.95, 0.5)])
def test_rates_of_tasks_of_ten_sources_are_covered(rate: float, icc: float) -> None:
    rng, ids, held = np.random.default_rng(1), sources(10, 20), 0
    for _ in range(400):
        interval = score_interval(drawn(rng, rate, 10, 20, icc), ids)
        held += interval.low <= rate <= interval.high
    assert held >= stats.binom.ppf(0.001, 400, 0.95)


@pytest.mark.parametrize(("differ", "gain", "icc"), [(0.05, 0.05, 0.5), (0.1, 0.0, 0.2), (0.3, 0.1, 0.02)])
def test_differences_on_tasks_of_ten_sources_are_covered(differ: float, gain: float, icc: float) -> None:
    rng, ids, held, plain = np.random.default_rng(2), sources(10, 20), 0, 0
    shares = np.array([(differ + gain) / 2, (differ - gain) / 2, 1 - differ])
    for _ in range(400):
        chances = rng.dirichlet(shares[shares > 0] * (1 - icc) / icc, 10)
        outcomes = np.array([1.0, -1.0, 0.0])[shares > 0]
        values = np.concatenate([rng.choice(outcomes, 20, p=each) for each in chances]).tolist()
        interval, student = difference_interval(values, ids), mean_interval(values, ids)
        held += interval.low <= gain <= interval.high
        plain += student.low <= gain <= student.high
    assert held >= stats.binom.ppf(0.001, 400, 0.94)
    assert icc < 0.5 or plain < 0.8 * 400


@pytest.mark.parametrize("n", [20, 30])
def test_differences_of_few_tasks_are_covered(n: int) -> None:
    counts = [(wins, losses) for wins in range(n + 1) for losses in range(n + 1 - wins) if wins + losses < 0.7 * n]
    found = {
        (wins, losses): difference_interval([1.0] * wins + [-1.0] * losses + [0.0] * (n - wins - losses))
        for wins, losses in counts
    }
    for differ, gain in ((0.05, 0.05), (0.1, 0.0), (0.3, 0.1), (0.3, 0.3)):
        chances = [(differ + gain) / 2, (differ - gain) / 2, 1 - differ]
        many = np.array([[wins, losses, n - wins - losses] for wins, losses in found])
        chance = stats.multinomial.pmf(many, n, chances)
        held = np.array([each.low - 1e-9 <= gain <= each.high + 1e-9 for each in found.values()])
        assert chance[held].sum() >= 0.94


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), CLUSTERS)
def test_the_interval_of_scores_stays_where_scores_can_be_and_holds_their_mean(
    scores: list[float], clusters: int | None
) -> None:
    ids = None if clusters is None else [place % clusters for place in range(len(scores))]
    interval = score_interval(scores, ids)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=1, max_size=30), CLUSTERS)
def test_the_interval_of_differences_turns_around_with_them(differences: list[float], clusters: int | None) -> None:
    ids = None if clusters is None else [place % clusters for place in range(len(differences))]
    there, back = difference_interval(differences, ids), difference_interval([-each for each in differences], ids)
    assert -1 <= there.low <= there.mean <= there.high <= 1
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-9)


def test_scores_that_are_all_equal_do_not_prove_that_all_are() -> None:
    assert score_interval([1.0] * 40, sources(10, 4)).low == pytest.approx(exact_rate(10, 10).low)
    assert score_interval([0.7] * 40).low < 0.6
    none = difference_interval([0.0] * 20)
    assert 0.1 < none.high == -none.low < 0.3


def test_scores_that_differ_by_next_to_nothing_have_an_interval() -> None:
    sources = [n // 20 for n in range(200)]
    for scores in ([1e-200 * (n % 7) for n in range(200)], [1.0 if n % 3 else 1 - 1e-16 for n in range(200)]):
        interval = score_interval(scores, sources)
        assert 0 <= interval.low <= interval.mean <= interval.high <= 1
        assert interval.low < interval.high


def test_one_source_tells_nothing_of_others() -> None:
    assert score_interval([1.0, 0.0], ["a", "a"]) == Interval(0.5, 0.0, 1.0, 0.95, 2)
    assert difference_interval([1.0, 0.0], ["a", "a"]) == Interval(0.5, -1.0, 1.0, 0.95, 2)
    assert math.isnan(score_interval([]).mean)
    assert (difference_interval([]).low, difference_interval([]).high) == (-1.0, 1.0)


def test_fewer_than_twenty_sources_are_too_few() -> None:
    assert few_sources(19).startswith("too few sources: 19")
    assert not few_sources(20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score_interval([0.5, 1.2]), r"scores\[1\]: found 1.2; expected a number from 0 to 1"),
        (lambda: difference_interval([-1.5]), r"differences\[0\]: found -1.5; expected a number from -1 to 1"),
        (lambda: score_interval([0.5], ["a", "b"]), "clusters: found 2 ids"),
    ],
)
def test_what_is_no_score_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
