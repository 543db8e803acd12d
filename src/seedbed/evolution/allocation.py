"""Allocation: which cells to pay for next.

Candidates of one step race on the same tasks in the same order, beside the best playbook so far, whose cells are
mostly known. After each round the worse of them are dropped, so that most of the money goes to the promising.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np

from seedbed.errors import Problem, SettingsError, shown
from seedbed.evolution.learning.effects import effects_of, estimated_best
from seedbed.evolution.pool import Pool
from seedbed.stats import pareto
from seedbed.storage.store import Json

Wanted: TypeAlias = "list[tuple[int, list[tuple[str, int]]]]"
"""For each place of the pool the (task, replicate) to be scored. What is known already is free."""


class Allocation(Protocol):
    """Says what to pay for, round by round; after each round the pool has its scores."""

    @property
    def identity(self) -> Json: ...

    def race(self, offered: Sequence[int], pool: Pool, room: int | None) -> Iterator[Wanted]:
        """Rounds for what was offered in one step; there is room for so many runs, if that is limited."""

    def best(self, pool: Pool) -> int:
        """The place that is believed to be best by what was paid for so far."""

    def finals(self, pool: Pool) -> Iterator[Wanted]:
        """Rounds at the end of a search, to be sure of the best."""

    def final_runs(self, pool: Pool) -> int:
        """How many runs to reserve for the final rounds."""


@dataclass(frozen=True)
class Halving:
    """Successive halving: each round has `growth` times as many tasks, and the best 1/`growth` of the candidates.

    The first round has `first` tasks, or fewer if there is no room for all rounds: then each gets an equal share of it.
    The start takes part in each, since the others are seen from it. A candidate that is surely worse than the best so
    far is dropped whatever its rank: by more than `patience` standard errors of their differences.
    """

    first: int = 6
    growth: float = 3.0
    patience: float = 1.0
    finalists: int = 3

    def __post_init__(self) -> None:
        needs = {
            "first": (self.first >= 1, "at least 1"),
            "growth": (self.growth > 1, "more than 1"),
            "patience": (self.patience >= 0, "a number that is not negative"),
            "finalists": (self.finalists >= 1, "at least 1"),
        }
        wrong = [
            Problem(f"halving.{name}", shown(getattr(self, name)), expected)
            for name, (fine, expected) in needs.items()
            if not fine
        ]
        if wrong:
            raise SettingsError(wrong)

    @property
    def identity(self) -> Json:
        return {"allocation": "halving", **asdict(self)}

    def race(self, offered: Sequence[int], pool: Pool, room: int | None) -> Iterator[Wanted]:
        rivals, incumbent = list(offered), pool.best()
        for size in self.sizes(len(rivals), len(pool.select), room):
            tasks = [(task, 0) for task in pool.select[:size]]
            yield [(place, tasks) for place in dict.fromkeys((0, incumbent, *rivals))]
            ahead = [place for place in rivals if place == incumbent or not self._is_behind(place, incumbent, pool)]
            rivals = best_of(ahead, pool)[: max(1, math.ceil(len(rivals) / self.growth))]
            if not rivals:
                return

    def best(self, pool: Pool) -> int:
        return pool.best()

    def finals(self, pool: Pool) -> Iterator[Wanted]:
        return _finals(lambda: best_of(range(len(pool)), pool)[: self.finalists], self.first, pool)

    def final_runs(self, pool: Pool) -> int:
        finalists = best_of(range(len(pool)), pool)[: self.finalists]
        missing = sum(int((pool.counts()[place] == 0).sum()) for place in finalists)
        return missing + 2 * min(self.first, len(pool.select))

    def sizes(self, candidates: int, tasks: int, room: int | None = None) -> list[int]:
        """How many tasks there are in each round."""
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
    """Everything on every task: what halving has to beat."""

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
    """Few tasks for each of many candidates, for what they have in common says more of each than its own scores.

    Candidates of one step meet the same `first` tasks, those that were tried least; fewer if there is not much room.
    Where there are more than `few`, the best third of them goes on, with three times as many tasks. Which is best is
    told by all scores together (see Effects).
    """

    first: int = 12
    few: int = 6
    finalists: int = 2

    def __post_init__(self) -> None:
        numbers = {"first": self.first, "few": self.few, "finalists": self.finalists}
        wrong = [Problem(f"pooling.{name}", shown(n), "at least 1") for name, n in numbers.items() if n < 1]
        if wrong:
            raise SettingsError(wrong)

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
            # The start is what others are seen from; it need not be known any better than they are.
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
    """The best few on all tasks; then, where replicates differ, again until each is tried three times."""
    chosen = finalists()
    yield [(place, [(task, 0) for task in pool.select]) for place in chosen]
    chosen = best_of(chosen, pool)[:2]
    yield [(place, [(task, 1) for task in pool.select[:first]]) for place in chosen]
    if pool.is_noisy(chosen):
        for replicate in (1, 2):
            yield [(place, [(task, replicate) for task in pool.select]) for place in chosen]


def best_of(places: Sequence[int], pool: Pool) -> list[int]:
    """Places, best first: by what is believed of their first score, or by fronts where there are several metrics. Those
    that have no score come last."""
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
