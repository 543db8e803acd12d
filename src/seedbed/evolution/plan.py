"""Plan: all that decides a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from seedbed.errors import DatasetError, Problem, SettingsError, shown
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import better
from seedbed.evolution.allocation import Allocation, Pooling
from seedbed.evolution.evaluators import Evaluator
from seedbed.evolution.protocols import Optimizer
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.account import Budget
from seedbed.storage.store import Json

NONE = Dataset(())
NO_LIMIT = Budget()
PARTS = ("reflect", "select", "confirm")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that decides a search. Its digest names it: the same plan is the same search.

    `select` are the tasks that decide what is kept, `reflect` those that may be read, `confirm` those that are opened
    once at the end. A search ends early after `patience` steps that brought nothing better, and when it has `enough`.
    With a `surrogate` candidates that seem hopeless are skipped (see Skipping).
    """

    start: Playbook
    select: Dataset
    optimizer: Optimizer
    reflect: Dataset = NONE
    confirm: Dataset = NONE
    budget: Budget = NO_LIMIT
    allocation: Allocation = field(default_factory=Pooling)
    seed: int = 0
    patience: int | None = None
    enough: float | None = None
    surrogate: bool = False

    def __post_init__(self) -> None:
        if not len(self.select):
            raise DatasetError([Problem("tasks", "none that decide", "at least one to choose by")])
        if self.patience is not None and self.patience < 1:
            raise SettingsError([Problem("patience", shown(self.patience), "a number of steps, at least 1")])
        parts: dict[str, str] = {}
        problems = []
        for part in PARTS:
            for task in getattr(self, part):
                other = parts.setdefault(task.id, part)
                if other != part:
                    remedy = "Tasks that are read, that decide and that confirm have to be different ones."
                    problems.append(Problem(f"task {shown(task.id)}", f"in {other} and in {part}", "in one", remedy))
        if problems:
            raise DatasetError(problems)

    @classmethod
    def of(
        cls,
        start: Playbook,
        tasks: Dataset,
        optimizer: Optimizer,
        *,
        confirm: Dataset | None = None,
        seed: int = 0,
        **more: Any,
    ) -> Self:
        """A plan whose tasks are `parted`; with others that `confirm`, none of these do."""
        reads = getattr(optimizer, "reads", True)
        split = parted(tasks, seed, reads=reads, confirms=confirm is None)
        reading, deciding, confirming = (split.only(split=name) if name in split.splits else NONE for name in PARTS)
        last = confirming if confirm is None else confirm
        return cls(start=start, optimizer=optimizer, seed=seed, reflect=reading, select=deciding, confirm=last, **more)

    def content(self, arena: Evaluator) -> Json:
        return {
            "start": self.start.digest,
            "select": self.select.digest,
            "reflect": self.reflect.digest,
            "confirm": self.confirm.digest,
            "metrics": [metric.identity for metric in arena.metrics],
            "better": [better(metric) for metric in arena.metrics],
            "models": arena.identity(self.start),
            "optimizer": self.optimizer.identity,
            "allocation": self.allocation.identity,
            "budget": self.budget.body(),
            "seed": self.seed,
            "patience": self.patience,
            "enough": self.enough,
            **({"surrogate": True} if self.surrogate else {}),  # searches from before there was one keep their names
        }


def parted(tasks: Dataset, seed: int, *, reads: bool = True, confirms: bool = True) -> Dataset:
    """The same tasks with splits: those to be read, those that decide, and those that confirm.

    Splits that are named already stay as they are. Else a quarter confirms, and a third of the rest is read. Of a very
    few tasks none may be left for either.
    """
    if "select" in tasks.splits:
        return tasks
    left, splits = tasks, {}
    if confirms:
        splits["confirm"], left = left.split(0.25, seed)
    if reads:
        splits["reflect"], left = left.split(1 / 3, seed)
    return tasks.with_splits({name: part for name, part in {**splits, "select": left}.items() if len(part)})
