"""What a search is made of: Search, all that an optimizer may use; Optimizer, which offers playbooks; Operator, which
makes children of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from seedbed.errors import Problem, SettingsError, shown
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.pool import Offer, Pool
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import is_whole
from seedbed.runs.run import Run
from seedbed.storage.store import Json

Performs = Callable[[str, Playbook, Mapping[str, Any]], Awaitable[Run]]
"""Performs a playbook that helps with the search, such as one that proposes edits. The run is recorded and paid from
the budget; a run of the same name is never paid twice. Raises BudgetSpent."""


@dataclass(frozen=True)
class Search:
    """What an optimizer may use: the start, the tasks it may read, all candidates so far, and random numbers.

    `reflect` are the tasks whose inputs, answers and transcripts it may read. `pool` also has the scores of select
    tasks, which decide between candidates.
    """

    start: Playbook
    reflect: Sequence[Task]
    pool: Pool
    seed: int = 0
    perform: Performs | None = None
    transcript: Callable[[str], Run | None] = field(default=lambda run: None)
    """The recorded run of a cell, if there is one."""

    def chance(self, *event: object) -> np.random.Generator:
        """Random numbers that depend on the seed and the event alone, not on earlier draws: a search that resumes
        draws the same."""
        key = blake2b(repr((self.seed, *event)).encode(), digest_size=16).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


@runtime_checkable
class Optimizer(Protocol):
    """Offers playbooks until it has none left, and learns from their cells.

    A search calls `tell` with the cells of all offers before it calls `ask` again. An optimizer decides by these cells,
    by `Search.chance` and by recorded runs alone, so that the same cells make the same search. An optimizer that reads
    no tasks sets `reads = False`; then all tasks are for selection.
    """

    @property
    def identity(self) -> Json:
        """Its name under `optimizer`, and its settings. Other settings make another search."""

    def begin(self, search: Search) -> None:
        """Begin a search, the first or another. Raises PlaybookError or SettingsError if it cannot search from it."""

    async def ask(self) -> Sequence[Offer]:
        """What to try next; empty if there is nothing more to offer."""

    async def tell(self, cells: Sequence[Cell]) -> None:
        """Learn from the cells of the last offers that were paid. The pool has them already."""


class Operator(Protocol):
    """One way to make a child of a playbook, or of several where mates are given.

    Its name says what it does to which gene, such as `drop a sentence of roles.writer.system`.
    """

    @property
    def name(self) -> str: ...

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        """A valid child that differs from its parent, or None. All randomness comes from `search.chance(event)`.

        Locked genes and rules stay as they are: children are made by `with_genes`.
        """


def settings_of(optimizer: Any) -> Json:
    """The fields of an optimizer that is a dataclass, for its identity: operators by their names."""
    settings = {each.name: getattr(optimizer, each.name) for each in fields(optimizer)}
    if settings.get("operators") is not None:
        settings["operators"] = [operator.name for operator in settings["operators"]]
    return settings


Setting: TypeAlias = tuple[object, bool, str]
"""A value, whether it fits, and what would."""


def at_least(least: int, value: int) -> Setting:
    return value, is_whole(value) and value >= least, f"at least {least}, a whole number"


def check_settings(source: str, **settings: Setting) -> None:
    """Raise SettingsError with every setting that does not fit."""
    problems = [Problem(name, shown(value), expected) for name, (value, fits, expected) in settings.items() if not fits]
    if problems:
        raise SettingsError(problems, source)


__all__ = [
    "Offer",
    "Operator",
    "Optimizer",
    "Performs",
    "Search",
    "Setting",
    "at_least",
    "check_settings",
    "settings_of",
]
