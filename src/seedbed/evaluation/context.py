"""EvaluationContext: what it takes to run a playbook on tasks and score it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import Metric
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.stage.runner import Runner
from seedbed.storage.store import Json, Store, digest

TaskReplicate = tuple[Task, int]
"""A task, and which of its replicates."""

Perform = Callable[[str, Playbook, Task, int, Ledger], Awaitable[Run]]
"""Returns the run with that id: performed now with that seed and ledger, or by another process that was quicker."""


class RemoteCells(Protocol):
    """Other processes that run playbooks and score the runs."""

    def cells(
        self, playbook: Playbook, plan: Sequence[TaskReplicate], metrics: Sequence[Metric], context: EvaluationContext
    ) -> AsyncGenerator[Sequence[Cell], None]:
        """The cells of each task replicate in order; all are paid from the ledger of the context."""
        ...


@dataclass(frozen=True)
class EvaluationContext:
    """Who performs runs, where cells are stored, what it may cost, and how many runs are under way at once.

    `identity` describes the models behind a playbook: a cell is reused only while they stay the same. `present` is a
    block in which this process announces that it is at work. With `remote`, other processes perform the runs. Where
    runs are replays, `live` is the context in which judges are asked. `runner` is needed to replay past runs. A run
    that fails through no fault of the agent's is tried up to `tries` times.
    """

    store: Store
    perform: Perform
    identity: Callable[[Playbook], Json]
    by: str
    at_once: int = 8
    timeout_seconds: float | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    present: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    remote: RemoteCells | None = None
    live: EvaluationContext | None = None
    runner: Runner | None = None
    ledger: Ledger = field(default_factory=Ledger)
    tries: int = 1
    _journal: list[Journal] = field(default_factory=list, repr=False)
    """One for the store, shared by every copy that `dataclasses.replace` makes, so that they write together."""

    @property
    def journal(self) -> Journal:
        if not self._journal:
            self._journal.append(Journal(self.store))
        return self._journal[0]


def seed_of(task: Task, replicate: int) -> int:
    """The seed of a task's replicate: the same for every playbook, so that comparisons are paired."""
    return int(digest("seed", [dict(task.inputs), replicate])[3:11], 16)
