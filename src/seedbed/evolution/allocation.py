"""Allocation: which cells to pay for next.

The candidates of one step race on the same tasks in the same order, beside the best playbook so far, whose cells are
mostly known. After each round the worse ones are dropped, so that most of the money goes to promising candidates.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np

from seedbed.evolution.learning.effects import effects_of, estimated_best
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import at_least, check_settings
from seedbed.stats import pareto
from seedbed.storage.store import Json

Wanted: TypeAlias = "list[tuple[int, list[tuple[str, int]]]]"
"""The (task, replicate) pairs to score, for each place of the pool. Known cells are free."""


class Allocation(Protocol):
    """Decides what to pay for, round by round; after each round the pool has its scores."""

    @property
    def identity(self) -> Json: ...

    def race(self, offered: Sequence[int], pool: Pool, room: int | None) -> Iterator[Wanted]:
        """Rounds for the offers of one step; `room` is how many runs the budget allows, None for no limit."""

    def best(self, pool: Pool) -> int:
        """The place of the estimated best so far."""

    def finals(self, pool: Pool) -> Iterator[Wanted]:
        """Rounds at the end of a search, to confirm which is the best."""

    def final_runs(self, pool: Pool) -> int:
        """How many runs to reserve for the final rounds."""


@dataclass(frozen=True)
class Halving:
    """Successive halving: each round has `growth` times as many tasks, and the best 1/`growth` of the candidates.

    The first round has `first` tasks, or fewer if the budget does not allow all rounds: then each round gets an equal
    share. The start takes part in each, since the others are compared with it. A candidate is dropped whatever its rank
    if it is worse than the best so far by more than `patience` standard errors of their differences.
    """

    first: int = 6
    growth: float = 3.0
    patience: float = 1.0
    finalists: int = 3

    def __post_init__(self) -> None:
        check_settings(
            "halving",
            first=at_least(1, self.first),
            growth=(self.growth, self.growth > 1, "more than 1"),
            patience=(self.patience, self.patience >= 0, "a number that is not negative"),
            finalists=at_least(1, self.finalists),
        )

    @property
    def identity(self) -> Json:
        return {"allocation": "halving", **asdict(self)}

    def race(self, offered: Sequence[int], pool: Pool, room: int | None) -> Iterator[Wanted]:
        rivals, incumbent = list(offered), pool.best()
        for size in self.sizes(len(rivals), len(pool.select), room):
            tasks = [(task, 0) for task in pool.select[:size]]
            yield [(place, tasks) for place in dict.fromkeys((0, incumbent, *rivals))]
            ahead = [place for place in rivals if place == incumbent or not self._is_behind(place, incumbent, pool)]
            rivals = rank_places(ahead, pool)[: max(1, math.ceil(len(rivals) / self.growth))]
            if not rivals:
                return

    def best(self, pool: Pool) -> int:
        return pool.best()

    def finals(self, pool: Pool) -> Iterator[Wanted]:
        return _finals(lambda: rank_places(range(len(pool)), pool)[: self.finalists], self.first, pool)

    def final_runs(self, pool: Pool) -> int:
        finalists = rank_places(range(len(pool)), pool)[: self.finalists]
        missing = sum(int((pool.counts()[place] == 0).sum()) for place in finalists)
        return missing + 2 * min(self.first, len(pool.select))

    def sizes(self, candidates: int, tasks: int, room: int | None = None) -> list[int]:
        """The number of tasks in each round."""
        sizes, size = [], float(self.first)
        while size < tasks / math.sqrt(self.growth):
            sizes.append(int(size))
            size *= self.growth
        sizes.append(tasks)
        left = [max(1, math.ceil(candidates / self.growth**number)) for number in range(len(sizes))]
        more = [size - before for size, before in zip(sizes, [0, *sizes], strict=False)]
        if room is None or sum(map(operator.mul, left, more)) <= room:
            return sizes
        rounds = min(len(left), 1 + math.ceil(math.log(candidates, self.growth) - 1e-9))
        shares = [max(1, int(room / rounds / rivals)) for rivals in left[:rounds]]
        return sorted({min(size, tasks) for size in accumulate(shares)})

    def _is_behind(self, place: int, incumbent: int, pool: Pool) -> bool:
        apart = pool.row(place) - pool.row(incumbent)
        apart = apart[~np.isnan(apart)]
        if not apart.size:
            return False
        error = math.sqrt(max(float(apart.var()), 0.25 / apart.size) / apart.size)
        return float(apart.mean()) < -self.patience * error


@dataclass(frozen=True)
class Uniform:
    """Every candidate on every task: the baseline for halving."""

    @property
    def identity(self) -> Json:
        return {"allocation": "uniform"}

    def race(self, offered: Sequence[int], pool: Pool, room: int | None) -> Iterator[Wanted]:
        tasks = [(task, 0) for task in pool.select]
        yield [(place, tasks) for place in dict.fromkeys((0, *offered))]

    def best(self, pool: Pool) -> int:
        return pool.best()

    def finals(self, pool: Pool) -> Iterator[Wanted]:
        return iter(())

    def final_runs(self, pool: Pool) -> int:
        return 0


@dataclass(frozen=True)
class Pooling:
    """Few tasks for each of many candidates: what candidates have in common says more about each than its own scores.

    The candidates of one step are tried on the same `first` tasks, the least tried ones, or on fewer if the budget is
    small. Of more than `few` candidates the best third goes on, with three times as many tasks. All scores together
    decide which is best (see Effects).
    """

    first: int = 12
    few: int = 6
    finalists: int = 2

    def __post_init__(self) -> None:
        check_settings(
            "pooling",
            first=at_least(1, self.first),
            few=at_least(1, self.few),
            finalists=at_least(1, self.finalists),
        )

    @property
    def identity(self) -> Json:
        return {"allocation": "pooling", **asdict(self)}

    def race(self, offered: Sequence[int], pool: Pool, room: int | None) -> Iterator[Wanted]:
        rivals, size = list(offered), min(self.first, len(pool.select))
        if room is not None:
            size = max(1, min(size, room // (2 * len(rivals) + 1)))
        tasks: list[tuple[str, int]] = []
        while True:
            tried = (pool.counts() > 0).sum(axis=0)
            order = [(pool.select[place], 0) for place in np.argsort(tried, kind="stable").tolist()]
            known = set(tasks)
            tasks = tasks + [task for task in order if task not in known][: size - len(tasks)]
            # The others are compared with the start; it needs no more tasks than they have.
            with_start = [0] if not pool.counts()[0].any() or len(pool) <= self.first else []
            yield [(place, tasks) for place in dict.fromkeys((*with_start, *rivals))]
            if len(rivals) <= self.few or size >= len(pool.select):
                return
            effects = effects_of(pool)
            means = dict(zip(effects.places, effects.means.tolist(), strict=True))
            rivals = sorted(rivals, key=lambda place: (-means.get(place, -math.inf), place))
            rivals = rivals[: max(1, math.ceil(len(rivals) / 3))]
            size = min(3 * size, len(pool.select))

    def best(self, pool: Pool) -> int:
        return estimated_best(pool)

    def finals(self, pool: Pool) -> Iterator[Wanted]:
        return _finals(lambda: self._finalists(pool), self.first, pool)

    def final_runs(self, pool: Pool) -> int:
        return (1 + self.finalists) * len(pool.select) if len(pool) > 1 else 0

    def _finalists(self, pool: Pool) -> list[int]:
        effects = effects_of(pool)
        best = [effects.places[number] for number in np.argsort(-effects.means, kind="stable")[: self.finalists]]
        return [*dict.fromkeys((0, *best))]


def _finals(finalists: Callable[[], list[int]], first: int, pool: Pool) -> Iterator[Wanted]:
    """The best few on all tasks; where replicates differ, two more replicates of each."""
    chosen = finalists()
    yield [(place, [(task, 0) for task in pool.select]) for place in chosen]
    chosen = rank_places(chosen, pool)[:2]
    yield [(place, [(task, 1) for task in pool.select[:first]]) for place in chosen]
    if pool.is_noisy(chosen):
        for replicate in (1, 2):
            yield [(place, [(task, replicate) for task in pool.select]) for place in chosen]


def rank_places(places: Sequence[int], pool: Pool) -> list[int]:
    """Places, best first: by the estimate of the first metric, or by fronts where there are several metrics. Places
    without a score come last."""
    chosen = [place for place in places if len(pool)]
    if not chosen:
        return []
    means = np.stack([pool.standings(metric, chosen)[0] for metric in range(len(pool.metrics))], axis=1)
    unknown = pool.standings(0, chosen)[2] == 0
    if means.shape[1] == 1:
        order = np.lexsort((np.array(chosen), -np.round(means[:, 0], 12), unknown))
    else:
        ranks = pareto.ranks(means, ["higher"] * means.shape[1])
        order = np.lexsort((np.array(chosen), -means[:, 0], ranks, unknown))
    return [chosen[number] for number in order]
