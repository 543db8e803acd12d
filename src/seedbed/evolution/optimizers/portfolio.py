"""Portfolio: several optimizers in one search; whoever gains most per run gets the next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seedbed.errors import Problem, SettingsError, shown
from seedbed.evaluation.cells import Cell
from seedbed.evolution.learning.effects import effects_of
from seedbed.evolution.optimizers.assembly import Assembly
from seedbed.evolution.protocols import Offer, Optimizer, Search
from seedbed.storage.store import Json

MEMORY = 0.85
"""What a turn is worth after each later one of the same arm: what helped at first need not help for ever."""


ASSEMBLY = "assembly"
"""The arm of what was put together from the parts of others."""


@dataclass(slots=True)
class Arm:
    """What one optimizer has earned: its turns, how many of them found something better, by how much, for how many
    cells. `recent_…` are the same with old turns fading."""

    turns: int = 0
    found: int = 0
    gain: float = 0.0
    cells: int = 0
    recent_found: float = 0.0
    recent_missed: float = 0.0
    recent_gain: float = 0.0
    recent_cells: float = 0.0

    def learn(self, gain: float, cells: int) -> None:
        won = gain > 0
        self.turns += 1
        self.found += won
        self.gain += gain
        self.cells += cells
        self.recent_found = MEMORY * self.recent_found + won
        self.recent_missed = MEMORY * self.recent_missed + (not won)
        self.recent_gain = MEMORY * self.recent_gain + gain
        self.recent_cells = MEMORY * self.recent_cells + cells

    def drawn(self, chance: np.random.Generator, usual: float) -> float:
        """A guess of what the next turn gains for each cell; the less is known, the bolder. `usual` is what a turn of
        anybody gains that finds something."""
        rate = chance.beta(1 + self.recent_found, 1 + self.recent_missed)
        size = (self.recent_gain + usual) / (self.recent_found + 1)
        turns = self.recent_found + self.recent_missed
        return float(rate * size / max(self.recent_cells / turns, 1.0)) if turns else np.inf


class Portfolio:
    """A bandit over other optimizers: each turn goes to the one that is believed to gain most for what it costs.

    After each turn of an arm there are `turns` of Assembly, which puts together what all arms have found. Only its own
    arm is told of a candidate, but all see the same pool. Candidates made without learning should be one of the arms,
    named best_of: then the report says what learning has added.
    """

    def __init__(self, arms: Mapping[str, Optimizer], *, turns: int = 2) -> None:
        problems = [] if arms else [Problem("arms", "no optimizer", "at least one")]
        if turns < 0:
            problems.append(Problem("turns", shown(turns), "a number that is not negative"))
        if problems:
            raise SettingsError(problems, "portfolio")
        self.optimizers, self.turns = dict(arms), turns
        self.arms = {name: Arm() for name in arms}
        self._assembly = Assembly()

    @property
    def identity(self) -> Json:
        arms = {name: each.identity for name, each in self.optimizers.items()}
        return {"optimizer": "portfolio", "arms": arms, "turns": self.turns}

    def begin(self, search: Search) -> None:
        self._search = search
        self.arms = {name: Arm() for name in self.optimizers}
        self._left = list(self.optimizers)
        self._turn, self._now, self._to_assemble = 0, "", 0
        self._before, self._cells = 0.0, 0
        for optimizer in (*self.optimizers.values(), self._assembly):
            optimizer.begin(search)

    async def ask(self) -> Sequence[Offer]:
        while self._to_assemble:
            self._to_assemble -= 1
            if offers := await self._assembly.ask():
                return [replace(offer, arm=ASSEMBLY) for offer in offers]
        self._credit()
        while self._left:
            name = self._next()
            offers = await self.optimizers[name].ask()
            if offers:
                looks = all(offer.tasks is not None for offer in offers)
                if not looks:  # who only looks has found nothing yet that could be put together
                    self._to_assemble = self.turns
                self._now, self._looks = name, looks
                return [replace(offer, arm=offer.arm or name) for offer in offers]
            self._left.remove(name)
            if name == self._now:  # it has looked and found nothing to offer: that was its turn
                self.arms[name].learn(0.0, self._cells)
                self._cells, self._now = 0, ""
        return []

    async def tell(self, cells: Sequence[Cell]) -> None:
        self._cells += len(cells)
        if self._to_assemble == self.turns or self._looks:
            await self.optimizers[self._now].tell(cells)
        if not self._to_assemble:
            self._credit()

    def close(self) -> None:
        """End what an arm may have under way."""
        for optimizer in self.optimizers.values():
            getattr(optimizer, "close", lambda: None)()

    def _credit(self) -> None:
        """Tell the arm whose turn it was what it has gained, with all that was put together of it."""
        if self._now and not self._looks:
            score = self._score()
            gain = round(max(0.0, score - self._before), 9)  # what is only rounded otherwise is no gain
            self.arms[self._now].learn(gain, self._cells)
            self._before, self._cells, self._now = score, 0, ""

    def _next(self) -> str:
        """The arm whose guess is highest; in the first turns each in its order. Who has only looked goes on."""
        if self._now and self._looks and self._now in self._left:
            return self._now
        chance = self._search.chance("portfolio", self._turn)
        self._turn += 1
        usual = [arm.recent_gain / arm.recent_found for arm in self.arms.values() if arm.recent_found]
        guesses = {name: self.arms[name].drawn(chance, max(usual, default=0.01)) for name in self._left}
        return max(guesses, key=guesses.__getitem__)

    def _score(self) -> float:
        """By how much the best is believed to be better than the start."""
        effects = effects_of(self._search.pool)
        means = dict(zip(effects.places, effects.means.tolist(), strict=True))
        return float(max(means.values(), default=0.0) - means.get(0, 0.0))
