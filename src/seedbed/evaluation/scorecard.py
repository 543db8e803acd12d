"""Scorecard: the cells of one playbook over one set of tasks, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from seedbed.evaluation.cells import Cell, Cells
from seedbed.storage.store import Digest

if TYPE_CHECKING:
    from seedbed.evaluation.dataset import Task
    from seedbed.stats.estimates import Interval


@dataclass(frozen=True)
class Scorecard:
    """What a playbook scored. `metric` is the one that it is judged by; there may be cells of others."""

    playbook: Digest
    metric: str
    cells: Sequence[Cell]
    tasks: Mapping[str, Task] = field(default_factory=dict, compare=False, repr=False)

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys([self.metric, *(cell.metric for cell in self.cells)]))

    def of(self, metric: str) -> Scorecard:
        """The same by another metric."""
        return Scorecard(self.playbook, metric, self.cells, self.tasks)

    def only(self, tasks: Mapping[str, Task]) -> Scorecard:
        """The same over some of the tasks."""
        return Scorecard(self.playbook, self.metric, [cell for cell in self.cells if cell.task in tasks], tasks)

    @cached_property
    def own(self) -> tuple[Cell, ...]:
        """The cells of its metric."""
        return tuple(cell for cell in self.cells if cell.metric == self.metric)

    @property
    def scored(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.own if cell.value is not None)

    @property
    def unscored(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.own if cell.value is None)

    @cached_property
    def means(self) -> dict[str, float]:
        """The score of each task, replicates averaged."""
        by_task: dict[str, list[float]] = {}
        for cell in self.scored:
            assert cell.value is not None
            by_task.setdefault(cell.task, []).append(cell.value)
        return {task: sum(values) / len(values) for task, values in by_task.items()}

    @cached_property
    def interval(self) -> Interval:
        """The mean over tasks with its interval, which allows for tasks that share a source."""
        from seedbed.stats.estimates import mean_interval, wilson

        means = list(self.means.values())
        clusters = self._sources()
        # A t interval of a rate near 0 or 1 is too narrow, and has no width at all when every task agrees.
        if clusters is None and {*means} <= {0.0, 1.0}:
            return wilson(round(sum(means)), len(means))
        return mean_interval(means, clusters)

    def _sources(self) -> list[str] | None:
        """What each task shares with others; None if none does."""
        sources = [getattr(self.tasks.get(task), "source", "") or f"task {task}" for task in self.means]
        return sources if len({*sources}) < len(sources) else None

    @property
    def cost_usd(self) -> float:
        """What was paid for it now."""
        return sum(cell.cost_usd for cell in self.own if not cell.reused)


def scorecard(playbook: Digest, metric: str, cells: Cells, tasks: Sequence[Task]) -> Scorecard:
    return Scorecard(playbook, metric, cells, {task.id: task for task in tasks})
