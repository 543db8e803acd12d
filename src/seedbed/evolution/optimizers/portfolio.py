"""Portfolio: several optimizers in one search; the one that gains most per run gets the next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evolution.learning.effects import effects_of
from seedbed.evolution.optimizers.assembly import Assembly
from seedbed.evolution.protocols import Offer, Optimizer, Search, check_settings
from seedbed.storage.store import Json

MEMORY = 0.85
"""The weight of a turn is multiplied by this at each later turn of the arm: what helped at first may stop helping."""


ASSEMBLY = "assembly"
"""The arm of candidates that are put together from the parts of others."""


@dataclass(slots=True)
class ArmGains:
    """What one optimizer has gained: its turns, how many of them improved on the best, by how much, for how many cells.
    `recent_…` are the same with old turns fading."""

    turns: int = 0
    improved: int = 0
    gain: float = 0.0
    cells: int = 0
    recent_improved: float = 0.0
    recent_missed: float = 0.0
    recent_gain: float = 0.0
    recent_cells: float = 0.0

    def learn(self, gain: float, cells: int) -> None:
        won = gain > 0
        self.turns += 1
        self.improved += won
        self.gain += gain
        self.cells += cells
        self.recent_improved = MEMORY * self.recent_improved + won
        self.recent_missed = MEMORY * self.recent_missed + (not won)
        self.recent_gain = MEMORY * self.recent_gain + gain
        self.recent_cells = MEMORY * self.recent_cells + cells

    def draw(self, chance: np.random.Generator, usual: float) -> float:
        """Draw a guess of what the next turn gains per cell; the less is known, the wider. `usual` is the gain of an
        improving turn of any arm."""
        rate = chance.beta(1 + self.recent_improved, 1 + self.recent_missed)
        size = (self.recent_gain + usual) / (self.recent_improved + 1)
        turns = self.recent_improved + self.recent_missed
        return float(rate * size / max(self.recent_cells / turns, 1.0)) if turns else np.inf


class Portfolio:
    """A bandit over other optimizers: each turn goes to the one that is expected to gain most for its cost.

    After each turn of an arm there are `turns` of Assembly, which combines the candidates of all arms. Only the arm of
    a candidate learns from its cells, but all arms see the same pool. One arm, named best_of, should make candidates
    without learning: then the report shows what learning added.
    """

    def __init__(self, arms: Mapping[str, Optimizer], *, turns: int = 2) -> None:
        check_settings(
            "portfolio",
            arms=(dict(arms), bool(arms), "at least one optimizer"),
            turns=(turns, turns >= 0, "a number that is not negative"),
        )
        self.optimizers, self.turns = dict(arms), turns
        self.arms = {name: ArmGains() for name in arms}
        self._assembly = Assembly()

    @property
    def identity(self) -> Json:
        arms = {name: each.identity for name, each in self.optimizers.items()}
        return {"optimizer": "portfolio", "arms": arms, "turns": self.turns}

    def begin(self, search: Search) -> None:
        self._search = search
        self.arms = {name: ArmGains() for name in self.optimizers}
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
                if not looks:  # a turn that only looks at tasks has nothing to combine
                    self._to_assemble = self.turns
                self._now, self._looks = name, looks
                return [replace(offer, arm=offer.arm or name) for offer in offers]
            self._left.remove(name)
            if name == self._now:  # it looked at tasks and has nothing to offer: that was its turn
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
        """End the work that an arm may have under way."""
        for optimizer in self.optimizers.values():
            getattr(optimizer, "close", lambda: None)()

    def _credit(self) -> None:
        """Credit the arm whose turn it was with its gain, including what Assembly made of it."""
        if self._now and not self._looks:
            score = self._score()
            gain = round(max(0.0, score - self._before), 9)  # rounding is no gain
            self.arms[self._now].learn(gain, self._cells)
            self._before, self._cells, self._now = score, 0, ""

    def _next(self) -> str:
        """The arm whose guess is highest; at first each in its order. An arm that only looked at tasks goes on."""
        if self._now and self._looks and self._now in self._left:
            return self._now
        chance = self._search.chance("portfolio", self._turn)
        self._turn += 1
        usual = [arm.recent_gain / arm.recent_improved for arm in self.arms.values() if arm.recent_improved]
        guesses = {name: self.arms[name].draw(chance, max(usual, default=0.01)) for name in self._left}
        return max(guesses, key=guesses.__getitem__)

    def _score(self) -> float:
        """By how much the best is better than the start, estimated from all scores."""
        effects = effects_of(self._search.pool)
        means = dict(zip(effects.places, effects.means.tolist(), strict=True))
        return float(max(means.values(), default=0.0) - means.get(0, 0.0))
