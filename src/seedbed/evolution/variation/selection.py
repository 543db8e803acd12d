"""Selection: who becomes a parent. Pure functions on arrays; each draws `count` places, and a place may come again.

`fitness` has a number for each candidate, `scores` a row for each and a column for each task; higher is better, and NaN
is not known. All chance is the generator's.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from seedbed.errors import SeedbedError

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Places: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

ROW_DOUBT = 2.0
"""So many tasks of prior belief that a candidate is as good as the others."""
CELL_DOUBT = 2.0
"""So many rolls of prior belief that a candidate does on a task what it and the task let expect."""


def tournament(fitness: ArrayLike, count: int, rng: np.random.Generator, *, size: int = 2) -> Places:
    """The best of `size` that are drawn by chance, for each place to fill; chance decides between equals."""
    values = _fitness(fitness)
    if size < 1:
        raise SeedbedError(f"size: found {size}; expected at least 1")
    drawn = rng.integers(len(values), size=(count, size))
    winners: Places = drawn[np.arange(count), np.argmax(values[drawn], axis=1)]
    return winners


def roulette(fitness: ArrayLike, count: int, rng: np.random.Generator) -> Places:
    """Each by a chance in proportion to its fitness, which is no less than 0; if all have none, each by the same."""
    values = np.where(np.isneginf(known := _fitness(fitness)), 0.0, known)
    if (values < 0).any() or not np.isfinite(values).all():
        raise SeedbedError(f"fitness: found {values.min():g} to {values.max():g}; expected finite numbers from 0")
    return _by_weight(values, count, rng)


def rank(fitness: ArrayLike, count: int, rng: np.random.Generator, *, pressure: float = 1.5) -> Places:
    """Each by a chance that falls evenly with its rank: that of the best is `pressure` times the average, that of the
    worst 2 - `pressure` times. Equals have the same chance."""
    if not 1 <= pressure <= 2:
        raise SeedbedError(f"pressure: found {pressure}; expected 1 to 2")
    values = _fitness(fitness)
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    below = (np.cumsum(sizes) - (sizes + 1) / 2)[group]  # how many are worse; equals share the mean of their ranks
    most = max(len(values) - 1, 1)
    weights = np.ones(1) if len(values) == 1 else 2 - pressure + 2 * (pressure - 1) * below / most
    return _by_weight(weights, count, rng)


def lexicase(scores: ArrayLike, count: int, rng: np.random.Generator, *, epsilon: float | None = None) -> Places:
    """Those who are left after one task after another, in an order by chance, each keeping who is nearly the best.

    Nearly is no more than `epsilon` below the best of those who are left; if none is given, than the median distance
    of their scores from their median (La Cava et al. 2016). Who has no score is out, unless nobody has one. So whoever
    is good at few tasks that others fail has a chance, whatever its average.
    """
    table = _scores(scores)
    missing = np.isnan(table)
    table = np.where(missing, -np.inf, table) if missing.any() else table
    telling = np.flatnonzero(table.max(axis=0) > table.min(axis=0))
    return np.array([_last_one(table, rng.permutation(telling), rng, epsilon) for _ in range(count)], dtype=np.intp)


def _last_one(table: Floats, order: Places, rng: np.random.Generator, epsilon: float | None) -> int:
    left = np.arange(len(table))
    at, look = 0, 1
    while len(left) > 1 and at < len(order):
        # Several tasks at a time: those that tell nobody apart are done at once. With a tolerance taken from the scores
        # every difference does: it is at most half of the largest.
        block = table[left[:, None], order[at : at + look]]
        best = block.max(axis=0)
        apart = np.flatnonzero(block.min(axis=0) < best - (epsilon or 0.0))
        if apart.size:
            task = apart[0]
            nearly = _median_distance(block[:, task]) if epsilon is None else epsilon
            left = left[block[:, task] >= best[task] - nearly]
            at, look = at + int(task) + 1, 1
        else:
            at, look = at + look, 2 * look
    return int(rng.choice(left))


def _median_distance(values: Floats) -> float:
    """How far values are from their median; 0 if most are not known."""
    middle = np.median(values)
    return float(np.median(np.abs(values - middle))) if np.isfinite(middle) else 0.0


def pareto(scores: ArrayLike, count: int, rng: np.random.Generator, *, rolls: ArrayLike | None = None) -> Places:
    """Each by the chance that it is the best on a task, averaged over tasks, as far as its scores let believe.

    A score of one roll is mostly luck. So what is believed of a candidate on a task lies between that score, which
    weighs as many `rolls` as it is the mean of (one, if not told), and what the candidate and the task let expect
    otherwise. Each draw takes a task by chance, and a value from each belief about it: the highest wins.
    """
    table = _scores(scores)
    task, row, of_row = _effects(table)
    drawn, which = np.unique(rng.integers(table.shape[1], size=count), return_inverse=True)
    expected = task[drawn] + row[:, None]
    known = ~np.isnan(table[:, drawn])
    weight = known * (1.0 if rolls is None else np.asarray(rolls, dtype=np.float64)[:, drawn])
    share = weight / (weight + CELL_DOUBT)
    means = expected + share * (np.where(known, table[:, drawn], 0.0) - expected)
    variances = 1 / (weight + CELL_DOUBT) + (1 - share) ** 2 / (of_row[:, None] + ROW_DOUBT)
    deviations = _spread(table, task, row) * np.sqrt(variances)
    values = means[:, which] + deviations[:, which] * rng.standard_normal((len(table), count))
    winners: Places = np.argmax(values, axis=0)
    return winners


def _effects(table: Floats) -> tuple[Floats, Floats, Floats]:
    """The mean score on each task, how far each candidate lies above them, and on how many tasks it was tried."""
    if np.isfinite(table.sum()):
        task = table.mean(axis=0)
        tried = np.full(len(table), float(table.shape[1]))
        return task, (table.sum(axis=1) - task.sum()) / (tried + ROW_DOUBT), tried
    # In blocks that stay in the processor's cache.
    blocks = [slice(at, at + 64) for at in range(0, len(table), 64)]
    missing = np.isnan(table)
    ones = np.ones(table.shape[1])
    sums, counts = np.zeros(table.shape[1]), np.zeros(table.shape[1])
    total, tried, usual = np.empty(len(table)), np.empty(len(table)), np.empty(len(table))
    for block in blocks:
        filled = np.fmax(table[block], 0.0) + np.fmin(table[block], 0.0)  # 0 for NaN, without a branch to mispredict
        sums += filled.sum(axis=0)
        total[block] = filled @ ones
        known = 1.0 - missing[block]
        counts += known.sum(axis=0)
        tried[block] = known @ ones
    overall = sums.sum() / max(counts.sum(), 1.0)
    task = np.where(counts > 0, sums / np.maximum(counts, 1), overall)
    for block in blocks:
        usual[block] = (1.0 - missing[block]) @ task
    return task, (total - usual) / (tried + ROW_DOUBT), tried


def _spread(table: Floats, task: Floats, row: Floats) -> float:
    """How far scores lie from what candidate and task let expect; a hundred tasks are enough to tell."""
    some = slice(None, None, max(1, table.shape[1] // 100))
    apart = table[:, some] - task[some] - row[:, None]
    apart = apart[~np.isnan(apart)]
    return max(float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0, 1e-9)  # never 0: chance decides between equals


def _by_weight(weights: Floats, count: int, rng: np.random.Generator) -> Places:
    ends = np.cumsum(weights)
    if ends[-1] <= 0:
        return _anyone(len(weights), count, rng)
    # Those of no weight own no part of the line, not even its end.
    chosen = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    places: Places = np.minimum(chosen, np.flatnonzero(weights)[-1])
    return places


def _anyone(of: int, count: int, rng: np.random.Generator) -> Places:
    drawn: Places = rng.integers(of, size=count)
    return drawn


def _fitness(given: ArrayLike) -> Floats:
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise SeedbedError(f"fitness: found shape {values.shape}; expected a number for each candidate, at least one")
    return np.where(np.isnan(values), -np.inf, values)


def _scores(given: ArrayLike) -> Floats:
    table = np.asarray(given, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise SeedbedError(f"scores: found shape {table.shape}; expected a row for each candidate, and some tasks")
    return table
