"""Several objectives at once: what is better in all respects, what is a matter of taste, and what is not known yet.

Points are rows, objectives are columns, and `better` says for each column whether "higher" or "lower" values are.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seedbed.errors import SeedbedError, shown
from seedbed.stats.estimates import Floats, Interval

Direction: TypeAlias = Literal["higher", "lower"]
Better: TypeAlias = Sequence[Direction]


def dominates(a: Sequence[float], b: Sequence[float], better: Better) -> bool:
    """Whether `a` is at least as good as `b` in every objective, and better in one."""
    first, second = _costs([a, b], better)
    return bool((first <= second).all() and (first < second).any())


def ranks(points: ArrayLike, better: Better) -> NDArray[np.int64]:
    """For each point the number of its front: 0 if nothing dominates it, 1 if only points of front 0 do, and so on.

    Equal points share a front. moocore does it if it is installed: 100,000 points with two
    objectives take 20 ms, 10,000 with three 6 ms. Without it two objectives take the time of a sort, and more take time
    that grows with the square of the number of points in the worst case; memory always grows with their number.
    """
    costs = _costs(points, better)
    if costs.shape[1] > 1 and len(costs) and (pareto_rank := _moocore()):
        return np.asarray(pareto_rank(costs), dtype=np.int64)
    order, new = _ordered(costs)
    distinct = costs[order[new]]
    fronts = np.empty(len(costs), dtype=np.int64)
    fronts[order] = (_sweep if costs.shape[1] == 2 else _insert)(distinct)[np.cumsum(new) - 1]
    return fronts


def _moocore() -> Callable[[Floats], NDArray[np.int32]] | None:
    try:
        from moocore import pareto_rank
    except ImportError:
        return None
    ranking: Callable[[Floats], NDArray[np.int32]] = pareto_rank
    return ranking


def _ordered(table: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Rows in rising order of the first column, then of the second and so on; and which of them are new, not copies of
    the one before. Of copies the first comes first."""
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    new = np.ones(len(table), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, new


def _sweep(costs: Floats) -> NDArray[np.int64]:
    """Fronts of distinct points with two costs, in rising order of the first and then of the second."""
    # The lowest second cost in each front so far. A front dominates the next point if its lowest is no higher, and then
    # so do all before it: the list is in order.
    lowest: list[float] = []
    fronts = np.empty(len(costs), dtype=np.int64)
    for place, cost in enumerate(costs[:, 1].tolist()):
        front = bisect.bisect_right(lowest, cost)
        lowest[front : front + 1] = [cost]
        fronts[place] = front
    return fronts


def _insert(costs: Floats) -> NDArray[np.int64]:
    """Fronts of distinct points in rising order of the first cost, then of the second and so on."""
    # Only points before it can dominate a point, and those are no worse in the first cost: the others decide. If a
    # front dominates it then so does every front before that one, so the first that does not is found by halving.
    members: list[Floats] = []
    sizes: list[int] = []
    fronts = np.empty(len(costs), dtype=np.int64)
    for place, point in enumerate(costs[:, 1:, None]):
        front, end = 0, len(members)
        while front < end:
            middle = (front + end) // 2
            if (members[middle][:, : sizes[middle]] <= point).all(axis=0).any():
                front = middle + 1
            else:
                end = middle
        if front == len(members):
            members.append(np.empty((len(point), 4)))
            sizes.append(0)
        elif sizes[front] == members[front].shape[1]:
            members[front] = np.concatenate([members[front], np.empty_like(members[front])], axis=1)
        members[front][:, sizes[front]] = point[:, 0]
        sizes[front] += 1
        fronts[place] = front
    return fronts


def crowding(points: ArrayLike) -> Floats:
    """How much room each point of one front has: the gaps to its neighbours, as shares of each objective's range.

    The first and the last in an objective have infinite room (Deb et al. 2002), unless all are equal in it. A copy of a
    point before it has none: one of each is enough. Apart from that the order of the points does not matter.
    """
    values = _table(points)
    order, new = _ordered(values)
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


def survivors(points: ArrayLike, better: Better, keep: int) -> NDArray[np.intp]:
    """The places of the points that NSGA-II keeps, in rising order: whole fronts, the best first, and of the last one
    those with the most room.

    With at least two places for each objective the best value in each is kept.
    """
    if keep < 0:
        raise SeedbedError(f"keep: found {keep}; expected a number of points")
    table = _table(points, len(better))
    if keep >= len(table):
        return np.arange(len(table))
    fronts = ranks(table, better)
    # The front in which the places run out.
    last = int(np.searchsorted(np.cumsum(np.bincount(fronts)), keep))
    kept = fronts < last
    candidates = np.flatnonzero(fronts == last)
    left = keep - int(np.count_nonzero(kept))
    if left:
        kept[candidates[np.argsort(-crowding(table[candidates]), kind="stable")[:left]]] = True
    return np.flatnonzero(kept)


def hypervolume(points: ArrayLike, reference: Sequence[float], better: Better) -> float:
    """The volume of all that some point dominates and that is better than the reference: larger fronts have more.

    Exact. Points no better than the reference in some objective add nothing. With n points and m objectives the time
    grows like n^(m-1): thousands of points for two objectives, hundreds for three, tens for five.
    """
    costs = _costs(points, better)
    worst = _costs([reference], better)[0]
    inside = costs[(costs < worst).all(axis=1)]
    return _volume(worst - inside)


def _volume(gains: Floats) -> float:
    """The volume of the union of boxes from the origin to each of these points."""
    if len(gains) == 0:
        return 0.0
    if gains.shape[1] == 1:
        return float(gains.max())
    gains = gains[np.lexsort(gains.T)[::-1]]  # by the last objective, the largest first
    if gains.shape[1] == 2:
        widths = np.maximum.accumulate(gains[:, 0])
        return math.fsum(widths * (gains[:, 1] - np.append(gains[1:, 1], 0.0)))
    # Cut into slices along the last objective: in each, all boxes that reach so far.
    parts, kept = [], gains[:0, :-1]
    heights = gains[:, -1] - np.append(gains[1:, -1], 0.0)
    for box, height in zip(gains[:, :-1], heights.tolist(), strict=True):
        if not (kept >= box).all(axis=1).any():
            kept = np.vstack([kept[~(kept <= box).all(axis=1)], box])
        if height > 0:
            parts.append(height * _volume(kept))
    return math.fsum(parts)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a candidate stands among others.

    `rank` is the number of its front by means alone, None if a mean is not known. `dominated_by` names those that
    surely dominate it; while there are none, it is on the front as far as anybody knows.
    """

    rank: int | None
    dominated_by: tuple[str, ...]

    @property
    def on_front(self) -> bool:
        return not self.dominated_by


def surely_dominates(a: Sequence[Interval], b: Sequence[Interval], better: Better) -> bool:
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


def standings(candidates: Mapping[str, Mapping[str, Interval]], better: Mapping[str, Direction]) -> dict[str, Standing]:
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
        name: Standing(
            fronts.get(name),
            tuple(other for other, theirs in rows.items() if surely_dominates(theirs, row, directions)),
        )
        for name, row in rows.items()
    }


def _signs(better: Better) -> Floats:
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


def _costs(points: ArrayLike, better: Better) -> Floats:
    """The points turned so that lower is better in every column."""
    if not better:
        raise SeedbedError("better: found no objectives; expected at least one")
    return _table(points, len(better)) * _signs(better) + 0.0  # no zero is negative


__all__ = [
    "Better",
    "Direction",
    "Standing",
    "crowding",
    "dominates",
    "hypervolume",
    "ranks",
    "standings",
    "surely_dominates",
    "survivors",
]
