"""Something new beside what was there before, outcome for outcome."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from seedbed.release.monitor.guard_evidence import STAKES, GuardEvidence
from seedbed.release.monitor.guards import Guard
from seedbed.stats.sequential.betting import interval

RATING = Guard("rating", -0.05)


def give(pairs: GuardEvidence, newer: float, older: float, times: int, chance: random.Random) -> int | None:
    """After how many pairs it is breached, if it is."""
    for number in range(1, times + 1):
        pairs.take("newer", float(chance.random() < newer))
        pairs.take("older", float(chance.random() < older))
        if pairs.evidence >= 1:
            return number
    return None


def test_one_that_is_just_borne_is_hardly_ever_breached_and_a_worse_one_soon() -> None:
    """The hardest case: worse by exactly what is borne. Looked at after every pair."""
    chance = random.Random(1)
    wrong = sum(give(GuardEvidence(RATING, error=0.1), 0.85, 0.9, 200, chance) is not None for _ in range(300))
    assert wrong <= 45  # 30 are expected at most; more than 45 of 300 come once in a thousand times
    found = [give(GuardEvidence(RATING), 0.4, 0.9, 400, chance) for _ in range(30)]
    assert None not in found
    assert np.mean([each for each in found if each]) < 40


def test_a_small_error_takes_more_evidence() -> None:
    after = {
        error: give(GuardEvidence(RATING, error=error), 0.0, 1.0, 100, random.Random(1)) for error in (0.05, 0.0001)
    }
    assert 0 < (after[0.05] or 0) < (after[0.0001] or 0)


def test_one_that_becomes_worse_after_thousands_of_good_pairs_is_found_soon_too() -> None:
    chance, pairs = random.Random(1), GuardEvidence(RATING)
    assert give(pairs, 0.95, 0.95, 10_000, chance) is None
    assert (give(pairs, 0.5, 0.95, 1000, chance) or math.inf) < 200


def test_what_should_be_low_is_breached_when_it_is_high_and_not_when_it_is_low() -> None:
    errors, chance = Guard("error_rate", 0.02), random.Random(1)
    assert give(GuardEvidence(errors), 0.5, 0.01, 200, chance)
    assert give(GuardEvidence(errors), 0.01, 0.5, 200, chance) is None
    pairs = GuardEvidence(Guard("latency_seconds", 1.0, most=20.0))
    for _ in range(100):
        pairs.take("newer", 8.0)
        pairs.take("older", 2.0)
    row = pairs.status()
    assert (row.older, row.newer, row.change, row.breached) == pytest.approx((2.0, 8.0, 6.0, True))
    assert row.low is not None
    assert row.high is not None
    assert 1.0 < row.low < 6.0 < row.high


def test_one_that_takes_for_ever_counts_as_the_most() -> None:
    pairs = GuardEvidence(Guard("latency_seconds", 1.0, most=20.0))
    for newer in (2.0, 2.0, 2.0, 1e9):
        pairs.take("newer", newer)
        pairs.take("older", 2.0)
    row = pairs.status()
    assert (row.newer, row.change, row.breached) == pytest.approx((6.5, 4.5, False))


def test_outcomes_wait_for_their_counterpart_in_the_order_in_which_they_came() -> None:
    pairs = GuardEvidence(RATING)
    for value in (0.1, 0.2, 0.3):
        pairs.take("newer", value)
    assert pairs.status().pairs == 0
    assert (pairs.status().newer, pairs.status().older, pairs.status().change) == (pytest.approx(0.2), None, None)
    pairs.take("older", 0.5)
    assert (pairs.status().pairs, pairs.status().change) == (1, pytest.approx(-0.4))
    pairs.take("older", 0.5)
    assert (pairs.status().pairs, pairs.status().change) == (2, pytest.approx(-0.35))
    assert pairs.known == {"newer": 3, "older": 2}


def test_an_outcome_is_set_against_the_mean_of_those_of_the_control_that_wait_up_to_a_number() -> None:
    pairs = GuardEvidence(RATING)
    for value in (0.2, 0.4, 0.9, 0.7):
        pairs.take("older", value)
    pairs.take("newer", 1.0, 3)
    assert pairs.status().change == pytest.approx(1.0 - 0.5)
    pairs.take("newer", 1.0, 9)  # one is left
    assert pairs.status().change == pytest.approx((0.5 + 0.3) / 2)
    pairs.take("newer", 0.5, 9)  # none: the next counts alone, without waiting for nine
    pairs.take("older", 0.0)
    assert (pairs.status().pairs, pairs.known) == (3, {"newer": 3, "older": 5})
    assert pairs.status().change == pytest.approx((0.5 + 0.3 + 0.5) / 3)


def money(differences: list[float], margin: float) -> float:
    """By the definition: the money of bets that begin at the first outcome, or at any later one."""
    shares = np.geomspace(1e-4, 0.9, 30)
    middle = (shares > 0.09) & (shares < 0.4)
    start = 0.75 * middle / middle.sum() + 0.25 * shares**0.75 / (shares**0.75).sum()
    held = np.zeros(30)
    for number, difference in enumerate(differences, 1):
        held += start * (0.8 if number == 1 else 0.2 / (number * (number - 1)))
        held *= 1 + shares * ((1 - difference) / (1 + margin) - 1)
    return float(held.sum())


def test_the_evidence_is_the_money_of_bets_that_it_is_worse_than_allowed() -> None:
    """So what benchmarks/canary.py finds by the same definition is true of it."""
    pairs, chance, differences = GuardEvidence(Guard("error_rate", 0.02)), random.Random(1), []
    for _ in range(200):
        older, newer = [float(chance.random() < 0.05) for _ in range(9)], float(chance.random() < 0.2)
        for value in older:
            pairs.take("older", value)
        pairs.take("newer", newer, 9)
        differences.append(sum(older) / 9 - newer)
    assert pairs.evidence > 0.2
    assert pairs.evidence == pytest.approx(math.log(money(differences, 0.02)) / math.log(20))


def test_what_rolls_back_stays_breached_and_what_only_holds_recovers() -> None:
    rows = {}
    for action in ("roll back", "hold"):
        pairs, chance = GuardEvidence(Guard("rating", -0.05, action)), random.Random(1)  # type: ignore[arg-type]
        assert give(pairs, 0.3, 0.9, 200, chance)
        assert pairs.status().breached
        for _ in range(300):
            pairs.take("newer", 1.0)
            pairs.take("older", 0.9)
        rows[action] = pairs.status()
    assert {action: row.breached for action, row in rows.items()} == {"roll back": True, "hold": False}
    assert all(row.evidence < 1 for row in rows.values())


def test_without_end_a_false_alarm_is_as_rare_as_agreed_and_a_fall_is_found() -> None:
    chance, lengths = random.Random(1), []
    for _ in range(40):
        pairs = GuardEvidence(RATING, run_length=200)
        lengths.append(give(pairs, 0.85, 0.9, 2000, chance) or 2000)
    assert np.mean(lengths) >= 200
    pairs = GuardEvidence(RATING, run_length=10_000)
    assert give(pairs, 0.9, 0.9, 3000, chance) is None
    assert (give(pairs, 0.5, 0.9, 1000, chance) or math.inf) < 150


def test_the_interval_is_that_of_all_differences_as_finely_as_people_read_it() -> None:
    pairs, chance, taken = GuardEvidence(RATING), random.Random(1), []
    for _ in range(500):
        newer, older = chance.random(), chance.random()
        pairs.take("newer", newer)
        pairs.take("older", older)
        taken.append(newer - older)
    row = pairs.status()
    exact = interval(dict.fromkeys(taken, 1), STAKES)
    assert (row.low, row.high) == pytest.approx(exact, abs=0.001)
    assert row.change == pytest.approx(np.mean(taken))


def test_what_there_is_to_show_does_not_grow_with_what_was_read() -> None:
    pairs, chance = GuardEvidence(RATING), random.Random(1)
    for _ in range(20_000):
        pairs.take("newer", chance.random())
        pairs.take("older", chance.random())
    assert len(pairs._differences) <= 2001
