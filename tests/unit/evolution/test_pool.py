from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from pool_samples import LENGTH, SCORE, book, cell, pool_of

from seedbed.evaluation.cells import Cell
from seedbed.evolution.pool import DOUBT, Pool, PoolStanding
from seedbed.evolution.protocols import Offer

SELECT, REFLECT = [f"t{n}" for n in range(6)], ["r0", "r1"]


class Slow:
    """What a pool should say, worked out from all cells each time, in plain words."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str, str], list[float]] = defaultdict(list)

    def tell(self, cells: list[Cell]) -> None:
        for each in cells:
            if each.metric == "length":
                if each.value is not None:
                    self.told[each.playbook, each.task, each.metric].append(-each.value)
            else:
                self.told[each.playbook, each.task, each.metric].append(each.value or 0.0)

    def scores(self, playbook: str, metric: str, tasks: list[str]) -> dict[str, float]:
        own = {task: self.told[playbook, task, metric] for task in tasks if (playbook, task, metric) in self.told}
        return {task: sum(values) / len(values) for task, values in own.items()}

    def standing(self, playbook: str, start: str, metric: str) -> PoolStanding:
        own, first = self.scores(playbook, metric, SELECT), self.scores(start, metric, SELECT)
        apart = [own[task] - first[task] for task in own if task in first]
        weight = len(apart) + DOUBT
        plain = sum(own.values()) / len(own) if own else 0.0
        mean = sum(first.values()) / len(first) + sum(apart) / weight if apart else plain
        spread = sum(each**2 for each in apart) / weight - (sum(apart) / weight) ** 2
        return PoolStanding(mean, math.sqrt(max(spread, 0.25 / weight) / weight), len(own))


@pytest.mark.parametrize("seed", range(12))
def test_it_says_what_all_cells_together_say_whenever_it_is_asked(seed: int) -> None:
    """Books come one by one, cells of anything in any order; on every third seed those of the start come last."""
    chance = np.random.default_rng(seed)
    pool, slow = Pool([SCORE, LENGTH], SELECT, REFLECT), Slow()
    books = [book(number) for number in range(40)]
    cells = [
        cell(each, task, None if chance.random() < 0.15 else round(float(chance.normal()), 2), replicate, metric)
        for each in books
        for task in (*SELECT, *REFLECT)
        for replicate in range(2)
        for metric in ("score", "length")
        if chance.random() < 0.5
    ]
    chance.shuffle(cells)  # type: ignore[arg-type]
    if seed % 3 == 0:
        cells.sort(key=lambda each: each.playbook == books[0].digest)
    pool.add(Offer(books[0]))
    for start in range(0, len(cells), 25):
        some = cells[start : start + 25]
        for each in books:
            if any(one.playbook == each.digest for one in some):
                pool.add(Offer(each))
        pool.tell(some)
        slow.tell(some)
        if chance.random() < 0.6:
            for number, metric in enumerate(("score", "length")):
                _expect_the_same(pool, slow, number, metric)
    for number, metric in enumerate(("score", "length")):
        _expect_the_same(pool, slow, number, metric)


def _expect_the_same(pool: Pool, slow: Slow, number: int, metric: str) -> None:
    means, deviations, tasks = pool.standings(number)
    for place, each in enumerate(pool.playbooks):
        expected = slow.standing(each.digest, pool.playbooks[0].digest, metric)
        found = pool.standing(place, number)
        assert found.tasks == expected.tasks == tasks[place]
        assert found.mean == pytest.approx(expected.mean, abs=1e-9)
        assert found.mean == means[place]
        assert found.deviation == pytest.approx(expected.deviation, abs=1e-9)
        assert found.deviation == deviations[place]
        for reflect, names in ((False, SELECT), (True, REFLECT)):
            row = pool.table(number, reflect=reflect)[place]
            known = slow.scores(each.digest, metric, names)
            assert [*row] == pytest.approx([known.get(name, math.nan) for name in names], nan_ok=True)
        assert [*pool.row(place, number)] == pytest.approx([*pool.table(number)[place]], nan_ok=True)


def test_a_lucky_task_weighs_less_than_many_good_ones() -> None:
    pool = pool_of({0: [0.0] * 10, 1: [1.0], 2: [1.0] * 8 + [0.0] * 2})
    assert pool.standing(1).mean < pool.standing(2).mean


def test_playbooks_that_met_different_tasks_are_compared_by_what_they_add_to_the_start() -> None:
    """One met the easy tasks and was as good as the start, the other the hard ones and was better."""
    easy, hard = [1.0] * 5, [0.0] * 5
    pool = pool_of({0: easy + hard})
    pool.add(Offer(book(1)))
    pool.add(Offer(book(2)))
    pool.tell(cell(book(1), f"t{n}", 1.0) for n in range(5))
    pool.tell(cell(book(2), f"t{n}", 0.6) for n in range(5, 10))
    assert pool.standing(1).mean == pytest.approx(0.5)
    assert pool.standing(2).mean > 0.7


def test_the_best_is_the_highest_of_those_that_met_the_most_tasks() -> None:
    assert pool_of({0: [0.2] * 4, 1: [1.0] * 3, 2: [0.3] * 4}).best() == 2


def test_of_equals_the_earliest_is_best() -> None:
    assert pool_of({0: [0.1] * 4, 1: [0.7] * 4, 2: [0.7] * 4}).best() == 1


def test_before_anything_is_known_the_start_is_best() -> None:
    pool = Pool([SCORE], SELECT)
    pool.add(Offer(book(0)))
    pool.add(Offer(book(1)))
    assert pool.best() == 0


def test_less_is_more_where_the_metric_says_so() -> None:
    pool = Pool([LENGTH], ["t0"])
    for number, value in enumerate((5.0, 9.0, 2.0)):
        pool.add(Offer(book(number)))
        pool.tell([cell(book(number), "t0", value, metric="length")])
    assert pool.best() == 2
    assert pool.table()[2, 0] == -2.0


def _long(*lengths: list[float | None]) -> Pool:
    """A pool in which each book has these lengths, of which lower is better; None is a run that failed."""
    pool = Pool([LENGTH], [f"t{n}" for n in range(len(lengths[0]))])
    for number, own in enumerate(lengths):
        pool.add(Offer(book(number)))
        pool.tell(cell(book(number), f"t{n}", value, metric="length") for n, value in enumerate(own))
    return pool


def test_nobody_takes_the_place_of_a_start_that_failed_once_by_being_worse() -> None:
    assert _long([2.0, 2.0, None], [9.0, 9.0, 9.0]).best() == 0
    assert _long([2.0, 2.0, None], [9.0, 9.0, 9.0], [1.0, 1.0, 9.0]).best() == 2
    assert _long([2.0, 2.0, None], [1.0, 1.0, 1.0]).best() == 1
    assert _long([None, None, None], [9.0, 9.0, 9.0]).best() == 1


def test_nobody_becomes_the_best_by_failing_where_lower_is_better() -> None:
    assert _long([2.0, 2.0, 9.0], [1.0, 1.0, None]).best() == 0


def test_only_replicates_that_differ_are_noise() -> None:
    pool = pool_of({0: [1.0, 0.0], 1: [1.0, 0.0], 2: [1.0, 0.0]})
    pool.tell([cell(book(0), "t0", 1.0, 1), cell(book(1), "t0", 0.0, 1), cell(book(2), "t0", None, 1)])
    assert not pool.is_noisy([0])
    assert pool.is_noisy([1])
    assert pool.is_noisy([0, 2])  # once right, once failed


def test_what_is_offered_again_keeps_its_place_and_its_origin() -> None:
    pool = Pool([SCORE], SELECT)
    assert pool.add(Offer(book(0), how="start")) == 0
    assert pool.add(Offer(book(1), (book(0).digest,), "reworded", arm="a")) == 1
    assert pool.add(Offer(book(1), (), "again", arm="b")) == 1
    assert (len(pool), pool.how[1], pool.arms[1], pool.parents[1]) == (2, "reworded", "a", (book(0).digest,))
    assert book(1).digest in pool
    assert book(2).digest not in pool


def test_it_counts_what_each_playbook_did_cost() -> None:
    pool = Pool([SCORE], SELECT)
    pool.add(Offer(book(0)))
    one = cell(book(0), "t0", 1.0)
    pool.tell([Cell(key="k", playbook=one.playbook, task="t0", replicate=0, metric="score", value=1.0, cost_usd=0.25)])
    assert pool.cost_usd == [0.25]


def test_an_estimate_beyond_what_scores_can_be_is_cut_there() -> None:
    """Tried where a good start fails, it would be above 1; a score that is no share may be anything."""
    pool = pool_of({0: [0.0, *[1.0] * 9], 1: [1.0]})
    assert pool.standing(1).mean > 1
    assert pool.clip(pool.standing(1).mean) == 1.0
    assert pool_of({0: [7.0]}).clip(9.0) == 9.0
