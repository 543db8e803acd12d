from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.monitors import OLD_CONCENTRATIONS, Drift, SampleRatio

HALVES = {"control": 0.5, "candidate": 0.5}


def likelier(counts: list[int], shares: list[float], concentration: float) -> float:
    """By how much counts are likelier if the shares were drawn around the planned ones, in logs."""
    mixed = stats.dirichlet_multinomial(concentration * np.array(shares), sum(counts)).logpmf(counts)
    return float(mixed - stats.multinomial(sum(counts), shares).logpmf(counts))


def test_evidence_of_a_sample_ratio_is_that_of_twelve_dirichlet_mixtures() -> None:
    shares, counts = {"a": 0.2, "b": 0.3, "c": 0.5}, {"a": 30, "b": 20, "c": 50}
    watch, old = SampleRatio(shares), SampleRatio(shares, concentrations=OLD_CONCENTRATIONS)
    watch.update(counts)
    old.update(counts)
    each = [likelier([30, 20, 50], [0.2, 0.3, 0.5], concentration) for concentration in np.geomspace(30, 3e6, 12)]
    assert watch.evidence == pytest.approx(math.log(np.exp(each).mean()), abs=1e-6)
    assert old.evidence == pytest.approx(likelier([30, 20, 50], [0.2, 0.3, 0.5], 300), abs=1e-9)


def test_a_slight_mismatch_of_many_units_is_found_by_the_exact_test_alone() -> None:
    watch = SampleRatio(HALVES)
    assert not watch.update({"control": 44_700, "candidate": 45_489})
    assert watch.exact_p == pytest.approx(stats.binomtest(44_700, 90_189).pvalue)
    assert watch.exact_p <= 0.01
    uneven = SampleRatio({"a": 0.1, "b": 0.9})
    uneven.update({"a": 3, "b": 97})
    assert uneven.exact_p == pytest.approx(2 * stats.binom(100, 0.1).cdf(3))


def test_a_gross_mismatch_needs_no_more_than_thirty_units_and_a_huge_one_still_has_a_number() -> None:
    watch = SampleRatio(HALVES)
    assert watch.update({"control": 30, "candidate": 0})
    watch.update({"control": 100_000, "candidate": 0})
    assert 1e300 < watch.e < math.inf
    assert watch.exact_p == 0


def alarm_at(share: float, units: int, seed: int) -> int | None:
    watch = SampleRatio(HALVES)
    came = np.cumsum(np.random.default_rng(seed).random(units) < share)
    for n in range(50, units + 1, 50):
        candidate = int(came[n - 1])
        if watch.update({"control": n - candidate, "candidate": candidate}):
            return n
    return None


def test_shares_as_agreed_raise_no_alarm_and_others_soon_do() -> None:
    assert sum(alarm_at(0.5, 10_000, seed) is not None for seed in range(100)) <= 1
    assert sum(alarm_at(0.45, 4_000, seed) is not None for seed in range(100)) >= 90
    assert sum(alarm_at(0.48, 20_000, seed) is not None for seed in range(50)) >= 46


def test_an_alarm_stays_and_totals_told_twice_count_once() -> None:
    watch = SampleRatio(HALVES)
    assert watch.update({"control": 200, "candidate": 50})
    p = watch.p
    assert watch.update({"control": 200, "candidate": 50})
    assert watch.update({"control": 200, "candidate": 200}), "what was out of ratio has been so"
    assert watch.p == p


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"control": 5}, "counts: found"),
        ({"control": 5, "candidate": 9}, r"counts.control: found 5; expected at least 10, as before"),
        ({"control": 10.5, "candidate": 9}, r"counts.control: found 10.5"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts: dict[str, int], message: str) -> None:
    watch = SampleRatio(HALVES)
    watch.update({"control": 10, "candidate": 9})
    with pytest.raises(SeedbedError, match=message):
        watch.update(counts)


@pytest.mark.parametrize("shares", [{"a": 0.5, "b": 0.4}, {"a": 1.0, "b": 0.0}])
def test_shares_that_cannot_be_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(SeedbedError, match=r"shares"):
        SampleRatio(shares)


def money(values: list[float], level: float) -> float:
    """By the definition: each number multiplies what was held, or 1 if that was less."""
    held = []
    for share in np.linspace(0.05, 0.9, 25):
        now = 0.0
        for value in values:
            now = max(1.0, now) * (1 + share * (level - value) / (1 - level))
        held.append(now)
    return math.fsum(held) / len(held)


def test_evidence_of_a_drift_is_money_that_begins_anew_when_lost() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, 60).round(2).tolist()
    watch = Drift(0.1)
    for n, value in enumerate(values, 1):
        watch.update(value)
        assert watch.evidence == pytest.approx(money(values[:n], 0.1))


def first_alarm(watch: Drift, seed: int, rate: float) -> int:
    rng = np.random.default_rng(seed)
    for n in itertools.count(1):
        if watch.update(float(rng.random() < rate)):
            return n
    raise AssertionError


def test_false_alarms_are_as_far_apart_as_promised() -> None:
    lengths = [first_alarm(Drift(0.9, run_length=50, least=0, most=1), seed, 0.9) for seed in range(200)]
    assert np.mean(lengths) + 3 * np.std(lengths) / math.sqrt(200) >= 50


def test_a_drop_is_found_soon_also_after_a_long_good_time() -> None:
    for seed in range(20):
        watch = Drift(0.9, run_length=10_000, least=0, most=1)
        for _ in range(500):
            watch.update(1.0)
        assert first_alarm(watch, seed, 0.6) <= 100
        assert watch.alarm_at == watch.n


def test_an_alarm_of_a_drift_stays_when_good_times_come_back() -> None:
    watch = Drift(0.9, run_length=100, least=0, most=1)
    first = first_alarm(watch, 0, 0.0)
    for _ in range(50):
        assert watch.update(1.0)
    assert (watch.alarm_at, watch.n) == (first, first + 50)


def test_a_drift_counts_nothing_twice() -> None:
    watch, again = Drift(0.0, run_length=100), Drift(0.0, run_length=100)
    for place, value in enumerate(np.random.default_rng(3).uniform(-1, 0.5, 200).tolist(), 1):
        watch.update(value)
        again.update(value, place=place)
        again.update(value, place=place)
    assert watch.alarm
    assert (again.n, again.alarm_at, again.evidence) == (watch.n, watch.alarm_at, watch.evidence)


def test_numbers_left_out_or_out_of_range_are_refused() -> None:
    watch = Drift(0.5, least=0, most=1)
    with pytest.raises(SeedbedError, match="place: found 2 after 0 numbers; expected 1"):
        watch.update(1.0, place=2)
    for value in (-0.1, 1.1, math.nan):
        with pytest.raises(SeedbedError, match="expected a number from 0 to 1"):
            watch.update(value)
    with pytest.raises(SeedbedError, match="level: found 1"):
        Drift(1, least=0, most=1)
