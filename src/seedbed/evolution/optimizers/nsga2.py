"""NSGA2: a population that spreads along the front of all metrics (Deb et al. 2002)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.selection import tournament
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Operator, Search, at_least, check_settings, settings_of
from seedbed.evolution.variation.operators import Offspring
from seedbed.stats.arrays import Floats
from seedbed.stats.pareto import crowding, ranks, survivors
from seedbed.storage.store import Json


@dataclass(kw_only=True, eq=False)
class NSGA2:
    """Parents win tournaments by front, then by crowding distance; of parents and children the better half survives.

    The objectives are the metrics of the search, estimated from its cells. `size` is that of the population and of a
    generation; `operators` make children, by default all that need no model. The first generation is made from the
    start alone. It ends when no operator makes anything new.
    """

    size: int = 20
    operators: Sequence[Operator] | None = None

    def __post_init__(self) -> None:
        check_settings("nsga2", size=at_least(4, self.size))
        self.population: list[int] = []
        """The survivors, as places of the pool."""
        self.generation = 0

    @property
    def identity(self) -> Json:
        return {"optimizer": "nsga2", **settings_of(self)}

    def begin(self, search: Search) -> None:
        self._search = search
        self._offspring = Offspring(search, self.operators)
        self._offered: list[Offer] = []
        self.population, self.generation = [], 0

    async def ask(self) -> Sequence[Offer]:
        pool, event = self._search.pool, f"nsga2/{self.generation}"
        if self.generation == 0:
            children = await self._offspring.make([[self._search.start]] * (self.size - 1), event)
            self._offered = [Offer(self._search.start, how="the start"), *children]
        elif not self.population:
            self._offered = []
        else:
            fitness = rank_points(objectives(pool, self.population))
            drawn = tournament(fitness, 2 * self.size, self._search.chance(event)).reshape(self.size, 2)
            pairs = [[pool.playbooks[self.population[place]] for place in pair] for pair in drawn.tolist()]
            self._offered = await self._offspring.make(pairs, event)
        self.generation += 1
        return self._offered

    async def tell(self, cells: Sequence[Cell]) -> None:
        pool = self._search.pool
        scored = {cell.playbook for cell in cells}
        tried = [pool.place(offer.playbook.digest) for offer in self._offered if offer.playbook.digest in scored]
        together = list(dict.fromkeys([*self.population, *tried]))
        points = objectives(pool, together)
        best = survivors(points, ["higher"] * len(pool.metrics), self.size)
        self.population = [together[place] for place in best.tolist()]


def objectives(pool: Pool, places: Sequence[int]) -> Floats:
    """The estimates of each playbook by each metric, higher being better; the worst of all where there is none."""
    columns = []
    for metric in range(len(pool.metrics)):
        means, _, tasks = pool.standings(metric, places)
        known = tasks > 0
        worst = means[known].min() if known.any() else 0.0
        columns.append(np.where(known, means, worst))
    return np.column_stack(columns)


def rank_points(points: Floats) -> Floats:
    """A number for each point by which tournaments decide: its front, then its crowding distance. Higher is better."""
    fronts = ranks(points, ["higher"] * points.shape[1])
    room = np.empty(len(points))
    for front in range(int(fronts.max()) + 1):
        members = np.flatnonzero(fronts == front)
        room[members] = crowding(points[members])
    _, place = np.unique(np.column_stack([-fronts, room]), axis=0, return_inverse=True)
    return place.reshape(-1).astype(np.float64)
