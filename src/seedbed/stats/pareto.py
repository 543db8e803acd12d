"""Several objectives at once: Pareto fronts, crowding, and dominance that holds in spite of uncertainty.

Points are rows, objectives are columns, and `better` says for each column whether "higher" or "lower" values are
better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, get_args

import moocore
import numpy as np
from numpy.typing import ArrayLike

from seedbed.errors import SeedbedError, shown
from seedbed.stats.arrays import Direction, Floats, Indexes, Integers
from seedbed.stats.estimates import Interval

Directions: TypeAlias = Sequence[Direction]


def ranks(points: ArrayLike, better: Directions) -> Integers:
    """For each point the number of its front: 0 if nothing dominates it, 1 if only points of front 0 do, and so on.

    Equal points share a front.
    """
    costs = _costs(points, better)
    return np.asarray(moocore.pareto_rank(costs), dtype=np.int64) if len(costs) else np.empty(0, dtype=np.int64)


def crowding(points: ArrayLike) -> Floats:
    """How much room each point of one front has: the gaps to its neighbours, as shares of each objective's range.

    The first and the last in an objective have infinite room (Deb et al. 2002), unless all are equal in it. A copy of
    an earlier point has none: one of each is enough. Apart from that the order of the points does not matter.
    """
    values = _table(points)
    order = np.lexsort(values.T[::-1])
    new = np.ones(len(values), dtype=bool)
    new[1:] = (values[order[1:]] != values[order[:-1]]).any(axis=1)
    first = order[new]
    distinct = values[first]
    room = np.zeros(len(distinct))
    for column in distinct.T:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        if len(ordered) == 0 or ordered[0] == ordered[-1]:
            continue
        room[order[[0, -1]]] = math.inf
        room[order[1:-1]] += (ordered[2:] - ordered[:-2]) / (ordered[-1] - ordered[0])
    if len(distinct) == 1:
        room[:] = math.inf
    all_room = np.zeros(len(values))
    all_room[first] = room
    return all_room


def survivors(points: ArrayLike, better: Directions, keep: int) -> Indexes:
    """The indexes of the points that NSGA-II keeps, in rising order.

    It keeps whole fronts, the best first, and of the front that does not fit the points with the most room. With at
    least two places for each objective the best value in each survives.
    """
    if keep < 0:
        raise SeedbedError(f"keep: found {keep}; expected a number of points")
    table = _table(points, len(better))
    if keep >= len(table):
        return np.arange(len(table))
    fronts = ranks(table, better)
    # The front in which the places run out.
    last = int(np.searchsorted(np.cumsum(np.bincount(fronts)), keep))
    surviving = fronts < last
    candidates = np.flatnonzero(fronts == last)
    left = keep - int(np.count_nonzero(surviving))
    if left:
        surviving[candidates[np.argsort(-crowding(table[candidates]), kind="stable")[:left]]] = True
    return np.flatnonzero(surviving)


@dataclass(frozen=True, slots=True)
class FrontPosition:
    """Where a candidate stands among others.

    `rank` is the number of its front by means alone, None if a mean is not known. `dominated_by` names the candidates
    that dominate it beyond doubt; without any, it may be on the front.
    """

    rank: int | None
    dominated_by: tuple[str, ...]

    @property
    def on_front(self) -> bool:
        return not self.dominated_by


def surely_dominates(a: Sequence[Interval], b: Sequence[Interval], better: Directions) -> bool:
    """Whether `a` dominates `b` wherever in their intervals the true values are.

    That is: in every objective the worse end of `a` is at least as good as the better end of `b`, and in one it is
    better. So the intervals must be apart, or touch, in every objective; one in which both are known exactly and equal
    does not matter. An interval that overlaps the other's, or is infinite, leaves the question open.
    """
    for name, intervals in (("a", a), ("b", b)):
        if len(intervals) != len(better):
            raise SeedbedError(f"{name}: found {len(intervals)} intervals; expected {len(better)}, one per objective")
    _signs(better)
    apart = False
    for mine, other, direction in zip(a, b, better, strict=True):
        gap = mine.low - other.high if direction == "higher" else other.low - mine.high
        if not gap >= 0:
            return False
        apart |= gap > 0
    return apart


def standings(
    candidates: Mapping[str, Mapping[str, Interval]], better: Mapping[str, Direction]
) -> dict[str, FrontPosition]:
    """Where each candidate stands, from its interval in each objective, by names."""
    for name, objectives in candidates.items():
        if objectives.keys() != better.keys():
            raise SeedbedError(f"{name}: found {shown(sorted(objectives))}; expected {shown(sorted(better))}")
    directions = list(better.values())
    rows = {name: [objectives[each] for each in better] for name, objectives in candidates.items()}
    known = [name for name, row in rows.items() if all(math.isfinite(each.mean) for each in row)]
    means = [[each.mean for each in rows[name]] for name in known]
    fronts = dict(zip(known, ranks(means, directions).tolist() if known else [], strict=True))
    return {
        name: FrontPosition(
            fronts.get(name),
            tuple(other for other, theirs in rows.items() if surely_dominates(theirs, row, directions)),
        )
        for name, row in rows.items()
    }


def _signs(better: Directions) -> Floats:
    for place, direction in enumerate(better):
        if direction not in get_args(Direction):
            raise SeedbedError(f'better[{place}]: found {shown(direction)}; expected "higher" or "lower"')
    return np.array([-1.0 if direction == "higher" else 1.0 for direction in better])


def _table(points: ArrayLike, columns: int | None = None) -> Floats:
    table = np.asarray(points, dtype=np.float64)
    if table.size == 0:
        table = table.reshape(0, columns or 1)
    if table.ndim != 2 or columns not in (None, table.shape[1]):
        expected = "rows of" + (f" {columns}" if columns else "") + " numbers, one per objective"
        raise SeedbedError(f"points: found shape {table.shape}; expected {expected}")
    for row, column in np.argwhere(~np.isfinite(table))[:1]:
        raise SeedbedError(f"points[{row}][{column}]: found {table[row, column]}; expected a finite number")
    return table


def _costs(points: ArrayLike, better: Directions) -> Floats:
    """The points turned so that lower is better in every column."""
    if not better:
        raise SeedbedError("better: found no objectives; expected at least one")
    return _table(points, len(better)) * _signs(better) + 0.0  # no zero is negative
