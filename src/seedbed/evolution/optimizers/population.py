"""Population: a genetic algorithm over a few dozen playbooks, with fitness sharing and elites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evolution.optimizers.selection import roulette
from seedbed.evolution.protocols import Offer, Operator, Search, at_least, check_settings, settings_of
from seedbed.evolution.variation.operators import Offspring
from seedbed.playbooks.genes import distance
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Bools, Floats, Indexes
from seedbed.storage.store import Digest, Json

Replacement = Literal["worst", "crowded"]

ATTEMPTS = 4
"""The search ends after this many attempts in a row without a new child."""

COMPARED = 48
"""How many others each member is compared with at most. They are drawn again for each generation."""


@dataclass(kw_only=True, eq=False)
class Population:
    """Ranks its members, makes children by operators, and replaces members by children.

    `operators` default to all that need no model. Parents are drawn by rank, shared among members that are alike: a
    niche has as many children whether it has one member or ten. With `replacement` "worst" the member with the lowest
    shared rank is removed, with "crowded" the worse of the two that are most alike. The best `elites` of the whole pool
    always stay. `diversity` is the mean distance between members after each generation. The first metric decides.
    """

    size: int = 12
    offspring: int = 8
    elites: int = 2
    replacement: Replacement = "worst"
    operators: Sequence[Operator] | None = None

    def __post_init__(self) -> None:
        ways = get_args(Replacement)
        check_settings(
            "population",
            size=at_least(2, self.size),
            offspring=at_least(1, self.offspring),
            elites=(self.elites, 1 <= self.elites <= self.size, "from 1 to the size"),
            replacement=(self.replacement, self.replacement in ways, f"one of {', '.join(ways)}"),
        )
        self.members: list[Digest] = []
        self.diversity: list[float] = []

    @property
    def identity(self) -> Json:
        return {"optimizer": "population", **settings_of(self)}

    def begin(self, search: Search) -> None:
        self._search = search
        self._offspring = Offspring(search, self.operators)
        self.members, self.diversity = [search.start.digest], []
        self._offered: list[Digest] = []
        self._generation = 0
        self._apart: dict[tuple[Digest, Digest], float] = {}

    async def ask(self) -> Sequence[Offer]:
        """Children of the members; at first, enough children of the start to fill the population."""
        self._generation += 1
        wanted = max(self.offspring, self.size - len(self.members))
        weights = self._crowd(self.members).shared()
        for attempt in range(ATTEMPTS):
            event = f"population/{self._generation}/{attempt}"
            drawn = roulette(weights, 3 * wanted, self._search.chance(event)).reshape(wanted, 3).tolist()
            families = [[self._playbook(self.members[place]) for place in dict.fromkeys(three)] for three in drawn]
            if made := await self._offspring.make(families, event):
                break
        self._offered = [each.playbook.digest for each in made]
        return made

    async def tell(self, cells: Sequence[Cell]) -> None:
        pool = self._search.pool
        tried = pool.standings()[2] > 0
        arrived = [each for each in self._offered if each in pool and tried[pool.place(each)]]
        self._offered = []
        elite = self._elite()
        members = [*dict.fromkeys([*self.members, *arrived, *elite])]
        crowd = self._crowd(members)
        safe = np.array([each in elite for each in members])
        # One at a time, since each removal changes the shared ranks of its neighbours.
        while len(crowd.stays) > self.size:
            order = crowd.least_first() if self.replacement == "worst" else crowd.crowded_first()
            crowd.remove(next(place for place in order if not safe[place]))
        self.members = [members[place] for place in crowd.stays]
        self._apart = {pair: apart for pair, apart in self._apart.items() if {*pair} <= {*self.members}}
        self.diversity.append(crowd.diversity())

    def _playbook(self, digest: Digest) -> Playbook:
        pool = self._search.pool
        return pool.playbooks[pool.place(digest)] if digest in pool else self._search.start

    def _elite(self) -> list[Digest]:
        """The best of the pool, whichever optimizer offered them, in the order of `Pool.best`."""
        pool = self._search.pool
        means, _, tasks = pool.standings()
        tried = np.flatnonzero(tasks > 0)
        order = np.lexsort((tried, -tasks[tried], -np.round(means[tried], 12)))
        return [pool.playbooks[place].digest for place in tried[order][: self.elites]]

    def _crowd(self, members: Sequence[Digest]) -> _Crowd:
        pool = self._search.pool
        known = [each for each in members if each in pool]
        means = dict(zip(known, pool.standings(0, [pool.place(each) for each in known])[0].tolist(), strict=True))
        fitness = np.array([means.get(each, -np.inf) for each in members])
        compared = np.arange(len(members))
        if len(members) > COMPARED:
            chance = self._search.chance("population", "compared", self._generation)
            compared = np.sort(chance.choice(compared, COMPARED, replace=False))
        apart = [[self._distance(one, members[other]) for other in compared.tolist()] for one in members]
        return _Crowd(fitness, np.array(apart), compared)

    def _distance(self, one: Digest, other: Digest) -> float:
        if one == other:
            return 0.0
        pair = (one, other) if one < other else (other, one)
        if pair not in self._apart:
            self._apart[pair] = distance(self._playbook(one), self._playbook(other))
        return self._apart[pair]


class _Crowd:
    """The fitness of each member, and its distances: a row for each member, a column for each it is compared with."""

    def __init__(self, fitness: Floats, apart: Floats, compared: Indexes) -> None:
        self._fitness, self._apart, self._compared = fitness, apart, compared
        self.stays: Indexes = np.arange(len(fitness))

    def remove(self, place: int) -> None:
        self.stays = self.stays[self.stays != place]

    def shared(self) -> Floats:
        """The rank of each member that stays, from 1 for the worst, shared with those nearer than the mean distance."""
        _, ranks = np.unique(self._fitness[self.stays], return_inverse=True)
        apart, others, _ = self._left()
        usual = self.diversity()
        near = np.where(others, np.clip(1 - apart / usual, 0, 1), 0.0) if usual > 0 else np.zeros_like(apart)
        # Scaled up as if all had been compared.
        crowd = 1 + near.sum(axis=1) * (len(self.stays) - 1) / np.maximum(others.sum(axis=1), 1)
        shared: Floats = (ranks + 1) / crowd
        return shared

    def least_first(self) -> list[int]:
        """The members that stay, by their shared rank."""
        order: list[int] = self.stays[np.argsort(self.shared(), kind="stable")].tolist()
        return order

    def crowded_first(self) -> list[int]:
        """The worse of the two that are most alike, then the other, then those of the next two."""
        apart, others, columns = self._left()
        rows, cols = np.nonzero(others)
        order: dict[int, None] = {}
        for at in np.argsort(apart[rows, cols], kind="stable"):
            pair = sorted((int(self.stays[rows[at]]), int(columns[cols[at]])), key=self._worse)
            order.update(dict.fromkeys(pair))
        order.update(dict.fromkeys(self.stays.tolist()))
        return list(order)

    def _worse(self, place: int) -> tuple[float, int]:
        return float(self._fitness[place]), -place

    def diversity(self) -> float:
        """The mean distance between the members that stay."""
        apart, others, _ = self._left()
        return float(apart[others].mean()) if others.any() else 0.0

    def _left(self) -> tuple[Floats, Bools, Indexes]:
        """The distances between members that stay, a mask of those between two different ones, and the columns."""
        columns = np.isin(self._compared, self.stays)
        left = self._compared[columns]
        return self._apart[np.ix_(self.stays, columns)], self.stays[:, None] != left, left
