"""Pool: all candidates of a search and their scores, one table of playbooks by tasks for each metric.

Fronts, elites and averages are views of it. Scores are turned so that higher is better for every metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Floats, Integers
from seedbed.storage.store import Digest

DOUBT = 2.0
"""The weight, in tasks, of the prior that a playbook is as good as the start: a few lucky scores count little."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A playbook that an optimizer wants to try, what it was made from, and how, in a few words.

    With `tasks` it is tried on these; otherwise the allocation decides on which, and whether it is worth all of them. A
    playbook may be offered again: known cells are free.
    """

    playbook: Playbook
    parents: tuple[Digest, ...] = ()
    how: str = "varied"
    tasks: tuple[str, ...] | None = None
    arm: str = ""
    """Which optimizer of a portfolio made it."""


@dataclass(frozen=True, slots=True)
class PoolStanding:
    """The estimated mean score of a playbook over all select tasks, by one metric, and its standard deviation."""

    mean: float
    deviation: float
    tasks: int


class Pool:
    """Playbooks in the order in which they were added, and their scores on tasks, the mean over replicates.

    The first playbook is the start. Methods refer to a playbook by its place in this order.
    """

    def __init__(self, metrics: Sequence[Metric], select: Sequence[str], reflect: Sequence[str] = ()) -> None:
        self.metrics = [metric.name for metric in metrics]
        self.select, self.reflect = list(select), list(reflect)
        self.playbooks: list[Playbook] = []
        self.parents: list[tuple[Digest, ...]] = []
        self.how: list[str] = []
        self.arms: list[str] = []
        self.cost_usd: list[float] = []
        self.signs = [1.0 if better(metric) == "higher" else -1.0 for metric in metrics]
        self._places: dict[Digest, int] = {}
        self._noisy: set[int] = set()
        self._unscored: set[tuple[int, int]] = set()  # metrics and tasks at which the start failed without a score
        self._beyond: set[int] = set()  # metrics with a score outside 0 to 1
        self._log: list[int] = []  # the places whose scores changed, in that order
        self._estimates: dict[int, _Estimates] = {}
        self._tasks = {task: place for place, task in enumerate((*select, *reflect))}
        self._metrics = {name: place for place, name in enumerate(self.metrics)}
        self._sums = np.zeros((len(metrics), 16, len(self._tasks)))
        self._counts = np.zeros((len(metrics), 16, len(self._tasks)), np.int32)

    def __len__(self) -> int:
        return len(self.playbooks)

    def __contains__(self, playbook: Digest) -> bool:
        return playbook in self._places

    @property
    def updates(self) -> int:
        """How often the scores of a playbook were added to."""
        return len(self._log)

    def place(self, playbook: Digest) -> int:
        return self._places[playbook]

    def add(self, offer: Offer) -> int:
        """Add a playbook and return its place. A playbook that is there already stays as it is."""
        digest = offer.playbook.digest
        if digest in self._places:
            return self._places[digest]
        place = self._places[digest] = len(self.playbooks)
        self.playbooks.append(offer.playbook)
        self.parents.append(offer.parents)
        self.how.append(offer.how)
        self.arms.append(offer.arm)
        self.cost_usd.append(0.0)
        if place >= self._sums.shape[1]:
            self._sums, self._counts = _double(self._sums), _double(self._counts)
        return place

    def tell(self, cells: Iterable[Cell]) -> None:
        """Add scores. A failed run counts as 0 where higher is better; where lower is better it is ignored."""
        touched: set[int] = set()
        for cell in cells:
            row, task, metric = self._places[cell.playbook], self._tasks[cell.task], self._metrics[cell.metric]
            value = cell.value if cell.value is not None else 0.0 if self.signs[metric] > 0 else None
            if value is not None:
                if not 0 <= value <= 1:
                    self._beyond.add(metric)
                before = self._counts[metric, row, task]
                if before and abs(self._sums[metric, row, task] / before - self.signs[metric] * value) > 1e-9:
                    self._noisy.add(row)
                self._sums[metric, row, task] += self.signs[metric] * value
                self._counts[metric, row, task] += 1
            elif not row:
                self._unscored.add((metric, task))
            self.cost_usd[row] += cell.cost_usd
            touched.add(row)
        self._log += sorted(touched)

    def table(self, metric: int = 0, *, reflect: bool = False) -> Floats:
        """Mean scores: a row for each playbook, a column for each select (or reflect) task, NaN where there is none."""
        columns = slice(len(self.select), None) if reflect else slice(len(self.select))
        return self._means(metric, slice(len(self)), columns)

    def bounds(self, metric: int = 0) -> tuple[float, float]:
        """The least and the most that a score can be, as its metric gives it: 0 and 1 if all scores lie there, else no
        bounds."""
        return (-math.inf, math.inf) if metric in self._beyond else (0.0, 1.0)

    def row(self, place: int, metric: int = 0) -> Floats:
        """The scores of one playbook on the select tasks, NaN where there is none."""
        return self._means(metric, place, slice(len(self.select)))

    def _means(self, metric: int, rows: int | slice, columns: slice) -> Floats:
        counts = self._counts[metric, rows, columns]
        return np.where(counts > 0, self._sums[metric, rows, columns] / np.maximum(counts, 1), np.nan)

    def counts(self, metric: int = 0) -> np.ndarray[Any, np.dtype[np.int32]]:
        """How often each playbook was scored on each select task."""
        return self._counts[metric, : len(self), : len(self.select)]

    def standing(self, place: int, metric: int = 0) -> PoolStanding:
        """The estimate for one playbook (see `standings`), inside what scores can be."""
        means, deviations, tasks = self.standings(metric, [place])
        least, most = sorted(self.signs[metric] * bound for bound in self.bounds(metric))
        return PoolStanding(min(max(float(means[0]), least), most), float(deviations[0]), int(tasks[0]))

    def standings(self, metric: int = 0, places: Sequence[int] | None = None) -> tuple[Floats, Floats, Integers]:
        """Estimated mean scores, their standard deviations, and on how many tasks each playbook was tried.

        Playbooks tried on different tasks are comparable, since each is estimated by its difference from the start on
        the tasks that both have; `DOUBT` shrinks differences on few tasks. Where the start has no scores, the estimate
        is the plain mean.
        """
        if metric not in self._estimates:
            self._estimates[metric] = _Estimates()
        estimates = self._estimates[metric]
        stale = self._stale(estimates)
        if len(stale):
            estimates.update(stale, self._sums[metric], self._counts[metric], len(self.select))
        chosen = slice(0, len(self)) if places is None else list(places)
        return estimates.means[chosen], estimates.deviations[chosen], estimates.tasks[chosen]

    def _stale(self, estimates: _Estimates) -> list[int]:
        """Places with new scores; all places if the start has new ones, since the others are compared with it."""
        estimates.grow(len(self))
        changed = self._log[estimates.read :]
        fresh = range(estimates.known, len(self))
        estimates.read, estimates.known = len(self._log), len(self)
        return list(range(len(self))) if 0 in changed else sorted({*changed, *fresh})

    def is_noisy(self, places: Sequence[int]) -> bool:
        """Whether replicates of a cell of these playbooks differ."""
        return any(place in self._noisy for place in places)

    def best(self, metric: int = 0) -> int:
        """The estimated best of the playbooks that were tried on the most tasks; the earliest if several are equal.

        The start stays in the comparison if only failed runs without a score keep it from having as many tasks.
        """
        means, _, n = self.standings(metric)
        tried = np.flatnonzero(n == n.max())
        if self._unscored and 0 < n[0] < n.max() <= n[0] + self._failures(metric):
            tried = np.concatenate([[0], tried])
        return int(tried[np.argmax(np.round(means[tried], 12))])

    def _failures(self, metric: int) -> int:
        """At how many select tasks the start failed and has no score."""
        return sum(
            failed == metric and task < len(self.select) and not self._counts[metric, 0, task]
            for failed, task in self._unscored
        )


class _Estimates:
    """The estimates for every place by one metric, computed again only where scores changed."""

    def __init__(self) -> None:
        self.means, self.deviations, self.tasks = np.zeros(16), np.zeros(16), np.zeros(16, np.int64)
        self.read = self.known = 0

    def grow(self, size: int) -> None:
        while len(self.means) < size:
            self.means, self.deviations = np.tile(self.means, 2), np.tile(self.deviations, 2)
            self.tasks = np.tile(self.tasks, 2)

    def update(self, places: list[int], sums: Floats, counts: np.ndarray[Any, np.dtype[np.int32]], select: int) -> None:
        own = counts[places, :select]
        values = sums[places, :select] / np.maximum(own, 1)
        known, start_known = own > 0, counts[0, :select] > 0
        start = sums[0, :select] / np.maximum(counts[0, :select], 1)
        both = known & start_known
        shared, tasks = both.sum(axis=1), known.sum(axis=1)
        apart = np.where(both, values - start, 0.0)
        weight = shared + DOUBT
        difference = apart.sum(axis=1) / weight
        spread = (apart**2).sum(axis=1) / weight - difference**2
        base = float(start[start_known].mean()) if start_known.any() else 0.0
        plain = np.where(known, values, 0.0).sum(axis=1) / np.maximum(tasks, 1)
        self.means[places] = np.where(shared > 0, base + difference, plain)
        # Even if all tasks agree so far the next one may not: as if one of them was half wrong.
        self.deviations[places] = np.sqrt(np.maximum(spread, 0.25 / weight) / weight)
        self.tasks[places] = tasks


def _double(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.concatenate([table, np.zeros_like(table)], axis=1)
