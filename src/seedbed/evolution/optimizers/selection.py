"""Selection: which candidates become parents. Pure functions on arrays; each draws `count` rows with replacement.

`fitness` has a number for each candidate, `scores` a row for each and a column for each task. Higher is better, and NaN
is unknown. All randomness comes from the generator.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from seedbed.errors import SeedbedError
from seedbed.stats.arrays import Floats, Indexes

ROW_DOUBT = 2.0
"""The weight, in tasks, of the prior that a candidate is as good as the others."""
CELL_DOUBT = 2.0
"""The weight, in rolls, of the prior that a cell is the sum of what its candidate and its task contribute."""


def tournament(fitness: ArrayLike, count: int, rng: np.random.Generator, *, size: int = 2) -> Indexes:
    """For each draw the best of `size` random candidates; ties are broken at random."""
    values = _fitness(fitness)
    if size < 1:
        raise SeedbedError(f"size: found {size}; expected at least 1")
    drawn = rng.integers(len(values), size=(count, size))
    return np.asarray(drawn[np.arange(count), np.argmax(values[drawn], axis=1)])


def roulette(fitness: ArrayLike, count: int, rng: np.random.Generator) -> Indexes:
    """Draw in proportion to fitness, which must not be negative; uniformly if all are 0."""
    values = np.where(np.isneginf(known := _fitness(fitness)), 0.0, known)
    if (values < 0).any() or not np.isfinite(values).all():
        raise SeedbedError(f"fitness: found {values.min():g} to {values.max():g}; expected finite numbers from 0")
    return _by_weight(values, count, rng)


def rank(fitness: ArrayLike, count: int, rng: np.random.Generator, *, pressure: float = 1.5) -> Indexes:
    """Draw with a probability that falls linearly with rank: `pressure` times the average for the best, 2 - `pressure`
    times for the worst. Equal candidates have the same probability."""
    if not 1 <= pressure <= 2:
        raise SeedbedError(f"pressure: found {pressure}; expected 1 to 2")
    values = _fitness(fitness)
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    below = (np.cumsum(sizes) - (sizes + 1) / 2)[group]  # how many are worse; equals share their mean rank
    most = max(len(values) - 1, 1)
    weights = np.ones(1) if len(values) == 1 else 2 - pressure + 2 * (pressure - 1) * below / most
    return _by_weight(weights, count, rng)


def pareto(scores: ArrayLike, count: int, rng: np.random.Generator, *, rolls: ArrayLike | None = None) -> Indexes:
    """Draw by the probability of being the best on a task, averaged over tasks, estimated from the scores.

    A score of one roll is mostly luck. So the estimate for a cell lies between its score, weighted by the number of
    `rolls` it is the mean of (default: 1), and the sum of what its candidate and its task contribute. Each draw takes a
    random task and a value from the posterior of every candidate on it; the highest wins.
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
    return np.asarray(np.argmax(values, axis=0))


def _effects(table: Floats) -> tuple[Floats, Floats, Floats]:
    """The mean score on each task, how far each candidate lies above these, and on how many tasks it was tried."""
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
    """The standard deviation of scores around the sum of candidate and task, from a hundred tasks."""
    some = slice(None, None, max(1, table.shape[1] // 100))
    apart = table[:, some] - task[some] - row[:, None]
    apart = apart[~np.isnan(apart)]
    return max(float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0, 1e-9)  # never 0: ties are broken at random


def _by_weight(weights: Floats, count: int, rng: np.random.Generator) -> Indexes:
    ends = np.cumsum(weights)
    if ends[-1] <= 0:
        return np.asarray(rng.integers(len(weights), size=count))
    # A candidate of weight 0 is never drawn, not even at the very end of the range.
    chosen = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    return np.asarray(np.minimum(chosen, np.flatnonzero(weights)[-1]))


def _fitness(numbers: ArrayLike) -> Floats:
    values = np.asarray(numbers, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise SeedbedError(f"fitness: found shape {values.shape}; expected a number for each candidate, at least one")
    return np.where(np.isnan(values), -np.inf, values)


def _scores(rows: ArrayLike) -> Floats:
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise SeedbedError(f"scores: found shape {table.shape}; expected a row for each candidate, and some tasks")
    return table
