"""Optimizer: offers playbooks, learns from their cells. Search: all that it may know and use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.offer import Offer
from seedbed.evolution.pool import Pool
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.storage.store import Json

Performs = Callable[[str, Playbook, Mapping[str, Any]], Awaitable[Run]]
"""Performs a playbook that helps with the search, such as one that proposes edits: recorded, paid from the budget,
and under the same name never paid twice. Raises BudgetSpent."""


@dataclass(frozen=True)
class Search:
    """What an optimizer may know and use: the start, the tasks it may read, all that was tried, and chance.

    `reflect` are tasks whose inputs, answers and transcripts may be read; `pool` also has scores of others, which only
    decide what is kept.
    """

    start: Playbook
    reflect: Sequence[Task]
    pool: Pool
    seed: int = 0
    perform: Performs | None = None
    transcript: Callable[[str], Run | None] = field(default=lambda run: None)
    """The run of a cell, turn by turn, if there is one."""

    def chance(self, *event: object) -> np.random.Generator:
        """Random numbers that depend on the seed and the event alone, not on what was drawn before: a search that is
        taken up again draws the same."""
        named = blake2b(repr((self.seed, *event)).encode(), digest_size=16).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(named, "little")))


class Optimizer(Protocol):
    """Offers playbooks until it has none left, and learns from their cells.

    It is told of all that it was last asked for before it is asked again, and decides by that, by `Search.chance` and
    by recorded runs alone: the same answers make the same search. One that does not look at tasks says so by
    `reads = False`: then none is kept for that.
    """

    @property
    def identity(self) -> Json:
        """Its name and settings: a search by others is another search."""

    def begin(self, search: Search) -> None:
        """Get ready for a search. Raises PlaybookError or SettingsError if it cannot search from there."""

    async def ask(self) -> Sequence[Offer]:
        """What to try next; nothing if it has no more to offer."""

    async def tell(self, cells: Sequence[Cell]) -> None:
        """The cells of what was offered, as far as they were paid; the pool has them already."""


__all__ = ["Offer", "Optimizer", "Performs", "Search"]
