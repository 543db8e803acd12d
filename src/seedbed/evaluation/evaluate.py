"""evaluate(): a playbook over tasks gives a Scorecard; what was paid before is reused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime

from seedbed.errors import BudgetSpent, RunError
from seedbed.evaluation.cells import Cell, Cells, Naming, recorded
from seedbed.evaluation.dataset import Task
from seedbed.evaluation.metrics import Metric, Score
from seedbed.evaluation.scorecard import Scorecard, scorecard
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.runs.run import Run
from seedbed.stage.ledger import Ledger
from seedbed.storage.store import Json, Store, digest

Item = tuple[Task, int]
"""A task, and which of its replicates."""

Perform = Callable[[str, Playbook, Task, int, Ledger], Awaitable[Run]]
"""Gives the run of that id: performed now with that seed and money, or by whoever was quicker."""


@dataclass(frozen=True)
class Bench:
    """Where evaluations happen: who performs, where cells are kept, and how many run at once.

    `identity` says what the models behind a playbook are, so that a cell is reused only while they stay.
    """

    store: Store
    perform: Perform
    identity: Callable[[Playbook], Json]
    by: str
    at_once: int = 8
    timeout_seconds: float | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "journal", Journal(self.store))


Watcher = Callable[[Cell], None]


async def evaluate(
    playbook: Playbook,
    tasks: Iterable[Task],
    metrics: Metric | Sequence[Metric],
    bench: Bench,
    *,
    replicates: int = 1,
    max_cost_usd: float | None = None,
    watch: Watcher | None = None,
) -> Scorecard:
    """Score a playbook, by the first metric above all. Each cell is a fact the moment it is paid; known ones are free.

    A run that fails leaves its cells without a value, to be tried again next time, and so does one that the money does
    not last for: `max_cost_usd` is never exceeded. A spent quota ends the evaluation with BudgetSpent.
    """
    chosen = list(metrics) if isinstance(metrics, Sequence) else [metrics]
    todo = list(tasks)
    plan = [(task, replicate) for task in todo for replicate in range(replicates)]
    cells_at = cells_of(playbook, plan, chosen, bench, Ledger(max_cost_usd, kept=0.0))
    done = Cells(playbook.digest)
    async with aclosing(in_order(plan, cells_at, at_once=bench.at_once)) as results:
        async for cells in results:
            for cell in cells:
                done.append(cell)
            if watch:
                watch(cells[0])
    return scorecard(playbook.digest, chosen[0].name, done, todo)


def cells_of(
    playbook: Playbook, plan: Sequence[Item], metrics: Sequence[Metric], bench: Bench, ledger: Ledger | None = None
) -> Callable[[Item], Awaitable[list[Cell]]]:
    """A function that gives the cells of a (task, replicate), one for each metric: known ones, or by running."""
    naming = Naming(playbook.digest, bench.identity(playbook), metrics)
    runs = {(task.id, replicate): naming.run(task, replicate) for task, replicate in plan}
    keys = {naming.cell(runs[task.id, n], task, metric.name) for task, n in plan for metric in metrics}
    known = recorded(bench.store, playbook.digest, keys)
    money = ledger or Ledger()

    async def cells_at(item: Item) -> list[Cell]:
        task, replicate = item
        run = runs[task.id, replicate]
        cells = {metric.name: known.get(naming.cell(run, task, metric.name)) for metric in metrics}
        missing = [metric for metric in metrics if cells[metric.name] is None]
        if missing:
            paid = await _pay(naming, run, playbook, *item, missing, bench, money)
            cells |= {cell.metric: cell for cell in paid}
        return [cell for cell in cells.values() if cell]

    return cells_at


def seed_of(task: Task, replicate: int) -> int:
    """The seed of a task's replicate: the same for every playbook, so that comparisons are paired."""
    return int(digest("seed", [dict(task.inputs), replicate])[3:11], 16)


async def _pay(
    naming: Naming,
    run: str,
    playbook: Playbook,
    task: Task,
    replicate: int,
    metrics: Sequence[Metric],
    bench: Bench,
    ledger: Ledger,
) -> list[Cell]:
    def cell(metric: Metric, score: Score, done: Run | None = None) -> Cell:
        return Cell(
            key=naming.cell(run, task, metric.name),
            playbook=playbook.digest,
            task=task.id,
            replicate=replicate,
            metric=metric.name,
            value=score.value,
            reason=score.reason,
            answer=score.answer,
            run=done.id if done else "",
            cost_usd=done.cost_usd if done else 0.0,
            latency_seconds=done.latency_seconds if done else 0.0,
        )

    done = await _performed(run, playbook, task, replicate, bench, ledger)
    if isinstance(done, str):
        return [cell(metric, Score(None, done)) for metric in metrics]
    cells = [cell(metric, await metric(done, task), done) for metric in metrics]
    scored = [each for each in cells if each.value is not None]
    kept = await asyncio.gather(*(bench.journal.add(each.fact(bench.clock(), bench.by)) for each in scored))
    if not all(kept):  # somebody was quicker, and there is one truth
        known = recorded(bench.store, playbook.digest, [each.key for each in scored])
        cells = [known.get(each.key, each) for each in cells]
    return cells


async def _performed(
    run: str, playbook: Playbook, task: Task, replicate: int, bench: Bench, ledger: Ledger
) -> Run | str:
    """The run, or why there is none that can be scored."""
    if ledger.refused:
        return "the money for this evaluation was spent"
    try:
        async with asyncio.timeout(bench.timeout_seconds):
            done = await bench.perform(run, playbook, task, seed_of(task, replicate), ledger)
    except BudgetSpent as spent:
        if not ledger.refused:
            raise  # it is the quota's, and no fault of the playbook's
        return str(spent)
    except RunError as wrong:
        return str(wrong)
    except TimeoutError:
        return f"it took longer than {bench.timeout_seconds:g} s"
    return done if done.status == "completed" else f"its run was not completed: {done.status}"


__all__ = ["Bench", "Cell", "Scorecard", "Watcher", "cells_of", "evaluate", "seed_of"]
