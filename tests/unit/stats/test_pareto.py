"""Fronts of several objectives, against brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import SeedbedError
from seedbed.stats.estimates import Interval
from seedbed.stats.pareto import (
    Direction,
    FrontPosition,
    crowding,
    ranks,
    standings,
    surely_dominates,
    survivors,
)

directions: st.SearchStrategy[Direction] = st.sampled_from(["higher", "lower"])


@st.composite
def fronts(draw: st.DrawFn, most: int = 12, objectives: int = 4) -> tuple[list[list[int]], list[Direction]]:
    """Points with few values, so that many are equal or tied, and a direction for each objective."""
    width = draw(st.integers(1, objectives))
    rows = draw(st.lists(st.lists(st.integers(0, 5), min_size=width, max_size=width), max_size=most))
    return rows, draw(st.lists(directions, min_size=width, max_size=width))


def beats(a: list[int], b: list[int], better: list[Direction]) -> bool:
    gains = [(x - y) if way == "higher" else (y - x) for x, y, way in zip(a, b, better, strict=True)]
    return min(gains) >= 0 and max(gains) > 0


@given(drawn=fronts())
def test_ranks_are_those_of_brute_force(drawn: tuple[list[list[int]], list[Direction]]) -> None:
    rows, better = drawn
    expected = [-1] * len(rows)
    for number in itertools.count():
        left = [place for place, rank in enumerate(expected) if rank < 0]
        if not left:
            break
        for place in left:
            if not any(beats(rows[other], rows[place], better) for other in left):
                expected[place] = number
    assert ranks(rows, better).tolist() == expected


@given(drawn=fronts(most=20), keep=st.integers(0, 22))
def test_survivors_are_whole_fronts_and_those_with_most_room_of_the_last(
    drawn: tuple[list[list[int]], list[Direction]], keep: int
) -> None:
    rows, better = drawn
    kept = survivors(rows, better, keep).tolist()
    assert kept == sorted(set(kept))
    assert len(kept) == min(keep, len(rows))
    fronts = ranks(rows, better).tolist()
    lost = [place for place in range(len(rows)) if place not in kept]
    if not kept or not lost:
        return
    last = max(fronts[place] for place in kept)
    assert min(fronts[place] for place in lost) >= last
    members = [place for place in range(len(rows)) if fronts[place] == last]
    room = dict(zip(members, crowding([rows[place] for place in members]).tolist(), strict=True))
    staying, leaving = ([room[place] for place in part if place in room] for part in (kept, lost))
    assert not leaving or min(staying) >= max(leaving)


@given(drawn=fronts(most=20), more=st.integers(0, 12))
def test_the_best_value_of_each_objective_survives(drawn: tuple[list[list[int]], list[Direction]], more: int) -> None:
    rows, better = drawn
    kept = survivors(rows, better, 2 * len(better) + more).tolist()
    for column, way in enumerate(better):
        best = max if way == "higher" else min
        if rows:
            assert best(rows[place][column] for place in kept) == best(row[column] for row in rows)


def test_crowding_is_the_room_between_neighbours() -> None:
    room = crowding([[0.0, 10.0], [1.0, 6.0], [3.0, 5.0], [4.0, 0.0]])
    assert room.tolist() == pytest.approx([math.inf, 3 / 4 + 5 / 10, 3 / 4 + 6 / 10, math.inf])


def test_crowding_ignores_an_objective_in_which_all_are_equal() -> None:
    assert crowding([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]).tolist() == [math.inf, 1.0, math.inf]
    assert crowding([[7.0, 1.0]]).tolist() == [math.inf]
    assert crowding([]).tolist() == []


def test_a_copy_of_a_point_has_no_room() -> None:
    room = crowding([[0.0, 4.0], [1.0, 2.0], [1.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    assert room.tolist() == [math.inf, 2.0, 0.0, math.inf, 0.0]


@given(fronts(), st.integers(0, 99))
def test_crowding_does_not_depend_on_the_order_of_points(
    drawn: tuple[list[list[int]], list[Direction]], seed: int
) -> None:
    rows = [list(row) for row in dict.fromkeys(map(tuple, drawn[0]))]
    order = np.random.default_rng(seed).permutation(len(rows))
    plain, shuffled = crowding(rows), crowding([rows[place] for place in order])
    assert plain[order].tolist() == shuffled.tolist()


def between(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 0.95, 100)


unknown = Interval(math.nan, -math.inf, math.inf, 0.95, 0)


@pytest.mark.parametrize(
    ("quality", "cost", "sure"),
    [
        (between(0.8, 0.9), between(1, 2), True),
        (between(0.8, 0.9), between(1, 3), True),  # touching in cost
        (between(0.7, 0.9), between(1, 3), False),  # touching in both, so perhaps equal
        (between(0.65, 0.9), between(1, 2), False),  # overlapping in quality
        (between(0.8, 0.9), between(1, 3.1), False),  # overlapping in cost
        (between(0.8, 0.9), between(5, 6), False),  # dearer
        (unknown, between(1, 2), False),
        (between(0.8, 0.9), unknown, False),
    ],
)
def test_intervals_must_be_apart_in_every_objective(quality: Interval, cost: Interval, sure: bool) -> None:
    other = [between(0.6, 0.7), between(3, 4)]
    assert surely_dominates([quality, cost], other, ["higher", "lower"]) is sure
    assert not surely_dominates(other, [quality, cost], ["higher", "lower"])


def test_an_objective_known_exactly_and_equal_does_not_matter() -> None:
    free = between(0, 0)
    better: list[Direction] = ["higher", "lower"]
    assert surely_dominates([between(0.8, 0.9), free], [between(0.6, 0.7), free], better)
    assert not surely_dominates([between(0.8, 0.8), free], [between(0.8, 0.8), free], better)


spans = st.tuples(st.integers(0, 8), st.integers(0, 2)).map(lambda span: between(span[0], span[0] + span[1]))


@st.composite
def crosses(draw: st.DrawFn) -> tuple[dict[str, dict[str, Interval]], dict[str, Direction]]:
    better = draw(st.dictionaries(st.sampled_from(["quality", "cost", "delay"]), directions, min_size=1))
    objectives = st.fixed_dictionaries(dict.fromkeys(better, spans))
    return draw(st.dictionaries(st.sampled_from("abcdefg"), objectives)), better


@given(crosses())
def test_sure_dominance_holds_at_every_corner_and_leaves_somebody_on_the_front(
    drawn: tuple[dict[str, dict[str, Interval]], dict[str, Direction]],
) -> None:
    candidates, better = drawn
    found = standings(candidates, better)
    for name, standing in found.items():
        for other in standing.dominated_by:
            ends = [
                [(one.low, one.high) for one in (candidates[each][objective] for objective in better)]
                for each in (other, name)
            ]
            ways = list(better.values())
            for mine, theirs in itertools.product(itertools.product(*ends[0]), itertools.product(*ends[1])):
                gains = [
                    one - two if way == "higher" else two - one
                    for one, two, way in zip(mine, theirs, ways, strict=True)
                ]
                assert min(gains) >= 0 < max(gains)
            # So it holds for means too, and for whatever the dominating one is dominated by.
            assert found[other].rank < standing.rank
            assert set(found[other].dominated_by) < set(standing.dominated_by)
    if candidates:
        assert any(standing.on_front for standing in found.values())


def test_exact_intervals_give_the_front_of_their_means() -> None:
    values = np.random.default_rng(4).integers(0, 6, (30, 2)).tolist()
    candidates = {str(place): {"x": between(x, x), "y": between(y, y)} for place, (x, y) in enumerate(values)}
    found = standings(candidates, {"x": "higher", "y": "lower"})
    assert [standing.on_front for standing in found.values()] == [standing.rank == 0 for standing in found.values()]


def test_a_candidate_not_measured_has_no_rank_and_may_still_be_on_the_front() -> None:
    found = standings(
        {"old": {"quality": between(0.6, 0.7)}, "new": {"quality": unknown}, "good": {"quality": between(0.8, 0.9)}},
        {"quality": "higher"},
    )
    assert found == {"old": FrontPosition(1, ("good",)), "new": FrontPosition(None, ()), "good": FrontPosition(0, ())}
    assert standings({}, {"quality": "higher"}) == {}


wrong: Any = ["up"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ranks([[1.0]], wrong), r'better\[0\]: found "up"; expected "higher" or "lower"'),
        (lambda: ranks([[1.0, 2.0]], ["higher"]), r"points: found shape \(1, 2\); expected rows of 1 numbers"),
        (lambda: ranks([[1.0, math.nan]], ["higher", "lower"]), r"points\[0\]\[1\]: found nan"),
        (lambda: ranks([], []), "better: found no objectives"),
        (lambda: survivors([[1.0]], ["higher"], -1), "keep: found -1; expected a number of points"),
        (lambda: surely_dominates([], [unknown], ["lower"]), "a: found 0 intervals; expected 1"),
        (lambda: standings({"a": {"cost": unknown}}, {"delay": "lower"}), "a: found .*cost.*; expected .*delay"),
    ],
)
def test_what_is_no_point_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SeedbedError, match=message):
        call()
