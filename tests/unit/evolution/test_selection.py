"""Who becomes a parent: how often each is drawn, beside what it promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import SeedbedError
from seedbed.evolution.optimizers.selection import pareto, rank, roulette, tournament

MANY = 20_000
METHODS: dict[str, Callable[..., Any]] = {
    "tournament": lambda table, count, rng: tournament(np.abs(table).sum(axis=1), count, rng),
    "roulette": lambda table, count, rng: roulette(np.abs(table).sum(axis=1), count, rng),
    "rank": lambda table, count, rng: rank(np.abs(table).sum(axis=1), count, rng),
    "pareto": pareto,
}


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def shares(places: Any, of: int) -> list[float]:
    return (np.bincount(places, minlength=of) / len(places)).tolist()


def near(expected: list[float]) -> Any:
    return pytest.approx(expected, abs=0.015)


tables = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, -2.0, float("nan")]), min_size=width, max_size=width),
        min_size=1,
        max_size=8,
    )
)


@pytest.mark.parametrize("method", METHODS)
@given(table=tables, seed=st.integers(0, 99), count=st.integers(0, 5))
def test_every_draw_is_a_place_and_the_same_chance_draws_the_same(
    method: str, table: list[list[float]], seed: int, count: int
) -> None:
    drawn = METHODS[method](table, count, chance(seed))
    assert drawn.shape == (count,)
    assert all(0 <= place < len(table) for place in drawn)
    assert drawn.tolist() == METHODS[method](table, count, chance(seed)).tolist()


# By one number


def test_a_tournament_of_two_is_lost_only_by_who_meets_a_better_one() -> None:
    # The best of n is in a draw of two by 1 - (1 - 1/n)^2, the worst has to meet itself.
    assert shares(tournament([1.0, 3.0, 2.0], MANY, chance()), 3) == near([1 / 9, 5 / 9, 3 / 9])


def test_a_larger_tournament_is_harder() -> None:
    assert shares(tournament([1.0, 3.0, 2.0], MANY, chance(), size=3), 3) == near([1 / 27, 19 / 27, 7 / 27])


def test_a_tournament_between_equals_is_decided_by_chance() -> None:
    assert shares(tournament([1.0, 1.0], MANY, chance()), 2) == near([0.5, 0.5])


def test_roulette_is_in_proportion() -> None:
    assert shares(roulette([1.0, 0.0, 3.0, 4.0], MANY, chance()), 4) == near([1 / 8, 0, 3 / 8, 4 / 8])


def test_roulette_without_any_fitness_takes_anybody() -> None:
    assert shares(roulette([0.0, 0.0], MANY, chance()), 2) == near([0.5, 0.5])


def test_who_has_no_fitness_at_the_end_of_the_wheel_is_never_drawn() -> None:
    assert set(roulette([1e-300, 0.0], 1_000, chance()).tolist()) == {0}


def test_rank_looks_at_the_order_alone_and_equals_are_equal() -> None:
    expected = near([0.5 / 3, 1.5 / 3, 1 / 3])
    assert shares(rank([1.0, 3.0, 2.0], MANY, chance()), 3) == expected
    assert shares(rank([-1e9, 1e9, 2.0], MANY, chance()), 3) == expected
    assert shares(rank([5.0, 0.0, 5.0], MANY, chance()), 3) == near([1.25 / 3, 0.5 / 3, 1.25 / 3])
    assert shares(rank([1.0, 3.0, 2.0], MANY, chance(), pressure=1), 3) == near([1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize("draw", [tournament, roulette, rank])
def test_unknown_fitness_is_the_least(draw: Callable[..., Any]) -> None:
    drawn = shares(draw([np.nan, 1.0, 2.0], MANY, chance()), 3)
    assert drawn[0] == min(drawn)
    assert drawn[2] == max(drawn)


# By all tasks


def test_pareto_draws_by_how_often_somebody_is_the_best() -> None:
    """Sure of the scores, it is the share of tasks at which each is the best."""
    table = [[0.9, 0.1, 0.1, 0.1], [0.1, 0.9, 0.9, 0.1], [0.1, 0.1, 0.1, 0.9], [0.5, 0.5, 0.5, 0.5]]
    drawn = shares(pareto(table, MANY, chance(), rolls=np.full((4, 4), 10_000)), 4)
    assert drawn == near([0.25, 0.5, 0.25, 0.0])


def test_one_lucky_roll_does_not_make_somebody_the_best() -> None:
    """One is right at 80 % of all tasks, nine at 40 %, none has a talent for any: whoever counts who was right at which
    task sees nine that are the best somewhere."""
    table = (chance(1).random((10, 60)) < np.array([0.8] + [0.4] * 9)[:, None]) * 1.0
    right = table == table.max(axis=0)
    counted = float(np.mean(right[0] / right.sum(axis=0)))
    assert counted < 0.25
    assert shares(pareto(table, MANY, chance()), 10)[0] > 1.5 * counted


def test_what_was_rolled_often_is_no_luck() -> None:
    """The second is better at one task of forty: drawn that often if it is sure, and less if it was rolled once."""
    table = np.vstack([np.ones(40), np.zeros(40)])
    table[:, 0] = [0.0, 1.0]
    noisy = np.clip(table + chance(2).normal(0, 0.3, (2, 40)), 0, 1)
    noisy[:, 0] = table[:, 0]
    once, often = (shares(pareto(noisy, MANY, chance(), rolls=np.full((2, 40), rolls)), 2)[1] for rolls in (1, 10_000))
    assert often == pytest.approx(np.mean(noisy[1] > noisy[0]), abs=0.005)
    assert once < often


def test_who_was_tried_on_few_tasks_is_believed_less() -> None:
    tasks = 30
    rng = chance(5)
    thorough = (rng.random((2, tasks)) < 0.9) * 1.0
    few = np.full((1, tasks), np.nan)
    few[0, :2] = 1.0
    rest = (rng.random((10, tasks)) < 0.5) * 1.0
    drawn = shares(pareto(np.vstack([few, thorough, rest]), MANY, chance()), 13)
    assert drawn[0] < min(drawn[1:3])
    assert drawn[0] > np.mean(drawn[3:])


def test_what_tasks_are_hard_is_learned_whoever_was_tried_on_them() -> None:
    """Half were tried on easy tasks only, half on hard ones only: equals, though their averages are far apart."""
    table = np.full((20, 40), np.nan)
    table[:10, :20], table[10:, 20:] = 0.9, 0.2
    table[:, [0, 39]] = [0.9, 0.2]
    drawn = shares(pareto(table, MANY, chance()), 20)
    assert sum(drawn[:10]) == pytest.approx(0.5, abs=0.02)


def test_of_candidates_of_whom_nothing_is_known_anybody_is_drawn() -> None:
    unknown = np.full((2, 3), np.nan)
    assert shares(pareto(unknown, MANY, chance()), 2) == near([0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tournament([], 1, chance()), r"fitness: found shape \(0,\); expected a number for each"),
        (lambda: tournament([1.0], 1, chance(), size=0), "size: found 0; expected at least 1"),
        (lambda: roulette([-1.0, 2.0], 1, chance()), "fitness: found -1 to 2; expected finite numbers from 0"),
        (lambda: rank([1.0], 1, chance(), pressure=3), "pressure: found 3; expected 1 to 2"),
        (lambda: pareto([1.0], 1, chance()), r"scores: found shape \(1,\); expected a row for each"),
        (lambda: pareto([[]], 1, chance()), r"scores: found shape \(1, 0\)"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
