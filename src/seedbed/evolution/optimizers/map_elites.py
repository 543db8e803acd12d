"""MapElites: a grid of how playbooks behave, with the best of each cell (Mouret and Clune 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seedbed.errors import SeedbedError
from seedbed.evaluation.cells import Cell
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Operator, Search, at_least, check_settings, settings_of
from seedbed.evolution.variation.operators import Offspring
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Bools, Floats, Integers
from seedbed.storage.store import Json


class Archive:
    """A grid with at most one elite in each cell: the best that was added there, or the first of several equals.

    Each dimension reaches from `low` to `high` in `bins` steps; values beyond belong to the first or last.
    """

    def __init__(self, low: Sequence[float], high: Sequence[float], bins: Sequence[int]) -> None:
        if not 0 < len(low) == len(high) == len(bins):
            raise SeedbedError(f"bins: found {len(bins)}; expected one for each of {len(low)} low and {len(high)} high")
        for place, (start, end, steps) in enumerate(zip(low, high, bins, strict=True)):
            if not (start < end and steps >= 1):
                bins_at = f"bins[{place}]: found {steps} from {start:g} to {end:g}"
                raise SeedbedError(f"{bins_at}; expected at least 1, from low to high")
        self.low, self.high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
        self.bins = np.array(bins, dtype=np.int64)
        cells = int(self.bins.prod())
        self.elites: Integers = np.full(cells, -1, dtype=np.int64)
        """The elite of each cell, -1 where there is none."""
        self.scores: Floats = np.full(cells, -np.inf)

    def cells(self, descriptors: ArrayLike) -> Integers:
        """The cell of each row of descriptors."""
        shares = (np.asarray(descriptors, dtype=np.float64) - self.low) / (self.high - self.low)
        steps = np.clip(shares * self.bins, 0, self.bins - 1).astype(np.int64)
        cells = steps[:, 0]
        for place in range(1, len(self.bins)):
            cells = cells * self.bins[place] + steps[:, place]
        return np.asarray(cells)

    def add(self, places: ArrayLike, scores: ArrayLike, descriptors: ArrayLike) -> Bools:
        """Put each into its cell if it is better than the elite there; which of them are elites now."""
        values, cells = np.asarray(scores, dtype=np.float64), self.cells(descriptors)
        before = self.scores[cells]
        np.fmax.at(self.scores, cells, values)
        best = np.flatnonzero((values > before) & (values == self.scores[cells]))
        _, first = np.unique(cells[best], return_index=True)
        added = np.zeros(len(values), dtype=bool)
        added[best[first]] = True
        self.elites[cells[added]] = np.asarray(places, dtype=np.int64)[added]
        return added


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A measure of how playbooks differ, other than their score: a number for each of some places of the pool, from
    `low` to `high`, in `bins` steps."""

    name: str
    measure: Callable[[Pool, Sequence[int]], Floats]
    low: float
    high: float
    bins: int = 8


def _length(pool: Pool, places: Sequence[int]) -> Floats:
    start, *own = (prompt_length(pool.playbooks[place]) + 1 for place in (0, *places))
    return np.array([math.log2(length / start) for length in own])


def prompt_length(playbook: Playbook) -> int:
    """How many characters the texts and demos have that may evolve."""
    return sum(gene.length for gene in genes(playbook).values())


def _cost(pool: Pool, places: Sequence[int]) -> Floats:
    chosen = [0, *places]
    costs = np.array([pool.cost_usd[place] for place in chosen]) / np.maximum(pool.counts()[chosen].sum(axis=1), 1)
    if costs[0] <= 0:
        return np.zeros(len(places))  # nothing has a price
    return np.asarray(np.log2(np.maximum(costs[1:] / costs[0], 1e-6)))


def _profile(pool: Pool, places: Sequence[int]) -> Floats:
    """By how much more a playbook gains over the start on the first half of the select tasks than on the second."""
    start = pool.row(0)
    gains = np.array([pool.row(place) for place in places]) - np.nan_to_num(start)
    half = len(start) // 2
    return _known_means(gains[:, :half]) - _known_means(gains[:, half:])


def _known_means(table: Floats) -> Floats:
    known = ~np.isnan(table)
    return np.asarray(np.sum(table, axis=1, where=known) / np.maximum(known.sum(axis=1), 1))


DESCRIPTORS = {
    "length": Descriptor("length", _length, -3, 3),
    "cost": Descriptor("cost", _cost, -3, 3),
    "profile": Descriptor("profile", _profile, -0.5, 0.5),
}
"""The length of prompts and the cost of a run relative to the start, from an eighth to eightfold in steps of equal
ratio; and on which tasks a playbook gains, for scores from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Elite:
    """The best of a cell: its place in the pool, its estimated score, and its descriptors."""

    place: int
    score: float
    behaviour: dict[str, float]


@dataclass(kw_only=True, eq=False)
class MapElites:
    """Children of elites, drawn uniformly from the grid, take the cells in which their estimated score is better.

    `descriptors` span the grid, by name or your own. The first metric decides. Each round offers `batch` children; the
    first round makes them from the start. It ends when no operator makes anything new.
    """

    descriptors: Sequence[str | Descriptor] = ("length", "profile")
    batch: int = 10
    operators: Sequence[Operator] | None = None

    def __post_init__(self) -> None:
        unknown = [each for each in self.descriptors if isinstance(each, str) and each not in DESCRIPTORS]
        expected = f"at least one of {', '.join(DESCRIPTORS)}, or a Descriptor"
        check_settings(
            "map_elites",
            descriptors=(unknown[0] if unknown else [], bool(self.descriptors) and not unknown, expected),
            batch=at_least(1, self.batch),
        )
        self.grid = [DESCRIPTORS[each] if isinstance(each, str) else each for each in self.descriptors]
        self.archive = self._empty()

    @property
    def identity(self) -> Json:
        grid = [[each.name, each.low, each.high, each.bins] for each in self.grid]
        return {"optimizer": "map_elites", **settings_of(self), "descriptors": grid}

    def begin(self, search: Search) -> None:
        self._search = search
        self._offspring = Offspring(search, self.operators)
        self._offered: list[Offer] = []
        self._round = 0
        self._behaviour: dict[int, Floats] = {}
        self.archive = self._empty()

    async def ask(self) -> Sequence[Offer]:
        pool, event = self._search.pool, f"map_elites/{self._round}"
        if self._round == 0:
            children = await self._offspring.make([[self._search.start]] * self.batch, event)
            self._offered = [Offer(self._search.start, how="the start"), *children]
        else:
            elites = self.archive.elites[self.archive.elites >= 0].tolist()
            drawn = self._search.chance(event).integers(max(len(elites), 1), size=(self.batch if elites else 0, 2))
            pairs = [[pool.playbooks[elites[place]] for place in pair] for pair in drawn.tolist()]
            self._offered = await self._offspring.make(pairs, event)
        self._round += 1
        return self._offered

    async def tell(self, cells: Sequence[Cell]) -> None:
        pool = self._search.pool
        scored = {cell.playbook for cell in cells}
        places = [pool.place(offer.playbook.digest) for offer in self._offered if offer.playbook.digest in scored]
        if not places:
            return
        means, _, tasks = pool.standings(0, places)
        behaviour = np.column_stack([each.measure(pool, places) for each in self.grid])
        self._behaviour |= dict(zip(places, behaviour, strict=True))
        self.archive.add(places, np.where(tasks > 0, means, -np.inf), behaviour)

    @property
    def elites(self) -> list[Elite]:
        """The best of each cell, the best of all first."""
        taken = np.flatnonzero(self.archive.elites >= 0)
        names = [each.name for each in self.grid]
        elites = []
        for cell in taken[np.argsort(-self.archive.scores[taken], kind="stable")].tolist():
            place = int(self.archive.elites[cell])
            behaviour = dict(zip(names, self._behaviour[place].tolist(), strict=True))
            elites.append(Elite(place, float(self.archive.scores[cell]), behaviour))
        return elites

    def _empty(self) -> Archive:
        return Archive(
            [each.low for each in self.grid],
            [each.high for each in self.grid],
            [each.bins for each in self.grid],
        )
