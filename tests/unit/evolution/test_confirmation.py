from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pool_samples import SCORE, book, cell, pool_of
from search_samples import tasks

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evolution.confirmation import best_of_n, confirm, optimism
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer
from seedbed.stats.estimates import Interval
from seedbed.stats.scores import difference_interval, score_interval
from seedbed.storage.store import canonical

OLD, NEW, SAMPLED = book(0), book(1), book(2)
TEN = tasks(10, "t")
CHANCE = np.random.default_rng(5)
ONE, OTHER, THIRD = (CHANCE.random(10).round(3).tolist() for _ in range(3))


def gained(one: Sequence[float], other: Sequence[float], sources: Sequence[str] | None = None) -> Interval:
    return difference_interval([after - before for before, after in zip(one, other, strict=True)], sources)


def cells_of(number: int, values: Sequence[float | None]) -> list[Cell]:
    return [cell(book(number), f"t{place}", value) for place, value in enumerate(values)]


def confirmed(values: dict[int, Sequence[float | None]], asked: Dataset = TEN, better: str = "higher") -> object:
    cells = {book(number).digest: cells_of(number, own) for number, own in values.items()}
    sampled = SAMPLED.digest if 2 in values else None
    return confirm(cells, asked, OLD.digest, NEW.digest, sampled, replace(SCORE, better=better))


def test_it_is_the_paired_difference_on_the_same_tasks_with_its_interval() -> None:
    found = confirmed({0: ONE, 1: OTHER, 2: THIRD})
    assert found.gain == gained(ONE, OTHER)
    assert found.over_best_of_n == gained(THIRD, OTHER)
    assert (found.start, found.best, found.best_of_n) == tuple(map(score_interval, (ONE, OTHER, THIRD)))
    assert found.tasks == 10


def test_where_lower_is_better_a_gain_is_a_fall_and_scores_stay_as_the_metric_gives_them() -> None:
    found = confirmed({0: ONE, 1: OTHER}, better="lower")
    assert found.gain == gained(OTHER, ONE)
    assert found.start == score_interval(ONE)
    assert (found.best_of_n, found.over_best_of_n) == (None, None)


def test_tasks_of_one_source_are_not_independent() -> None:
    shared = Dataset(tuple(replace(task, source=f"s{place // 5}") for place, task in enumerate(TEN)))
    sources = [f"s{place // 5}" for place in range(10)]
    assert confirmed({0: ONE, 1: OTHER}, shared).gain == gained(ONE, OTHER, sources)


def test_a_run_that_failed_is_worth_nothing() -> None:
    found = confirmed({0: ONE, 1: [None, *OTHER[1:]]})
    assert found.gain == gained(ONE, [0.0, *OTHER[1:]])
    assert found.tasks == 10


def test_where_lower_is_better_failing_is_no_gain() -> None:
    """As nothing is the best score there is, whoever failed everywhere would be confirmed to be perfect."""
    found = confirmed({0: ONE, 1: [None, *OTHER[1:]]}, better="lower")
    assert found.gain == gained(OTHER[1:], ONE[1:])
    assert found.tasks == 9


def test_tasks_that_there_was_no_money_for_do_not_count() -> None:
    assert confirmed({0: ONE[:6], 1: OTHER[:6]}).gain == gained(ONE[:6], OTHER[:6])


def test_one_task_proves_nothing_and_can_be_recorded_all_the_same() -> None:
    found = confirmed({0: [0.0], 1: [1.0]}, tasks(1, "t"))
    assert (found.gain.mean, found.gain.low, found.gain.high) == (1.0, -1.0, 1.0)
    body = found.body()
    canonical(body)
    assert (body["gain"]["mean"], body["gain"]["low"], body["gain"]["n"]) == (1.0, -1.0, 1)


def test_among_equals_the_best_owes_its_lead_to_chance_and_the_estimate_says_about_how_much() -> None:
    """Twenty playbooks that are right half of the time: all that the best has above that is optimism."""
    chance = np.random.default_rng(3)
    led, told = [], []
    for _ in range(40):
        scores = (chance.random((20, 60)) < 0.5).astype(float)
        pool = pool_of({number: row.tolist() for number, row in enumerate(scores)})
        led.append(scores.mean(axis=1).max() - 0.5)
        told.append(optimism(pool, chance))
    assert min(told) > 0
    assert 0.5 * np.mean(led) < np.mean(told) < 1.2 * np.mean(led)


def test_where_one_is_far_ahead_choosing_adds_next_to_nothing() -> None:
    chance = np.random.default_rng(4)
    scores = {0: [0.0] * 50, 1: (chance.random(50) < 0.9).astype(float).tolist()}
    assert abs(optimism(pool_of(scores), chance)) < 0.02


def test_nobody_chose_where_there_was_one() -> None:
    chance = np.random.default_rng(4)
    assert optimism(pool_of({0: [1.0, 0.0]}), chance) == 0.0
    assert optimism(pool_of({0: [1.0, 0.0], 1: [1.0]}), chance) == 0.0  # the other was not tried on all


def test_the_best_of_n_is_the_best_of_those_made_without_learning() -> None:
    pool = Pool([SCORE], ["t0", "t1"])
    made = {0: ("", [0.0, 0.0]), 1: ("best_of", [0.5, 0.5]), 2: ("best_of", [0.7, 0.7]), 3: ("other", [1.0, 1.0])}
    for number, (arm, values) in made.items():
        pool.add(Offer(book(number), arm=arm))
        pool.tell(cells_of(number, values))
    assert best_of_n(pool) == 2
    pool.add(Offer(book(4), arm="best_of"))
    pool.tell(cells_of(4, [1.0]))
    assert best_of_n(pool) == 2  # what was tried on one task of two is no rival


def test_without_any_there_is_no_best_of_n() -> None:
    assert best_of_n(pool_of({0: [1.0], 1: [0.0]}, arm="other")) is None
