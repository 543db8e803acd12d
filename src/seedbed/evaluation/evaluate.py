"""evaluate(): a playbook over tasks gives a Scorecard; cells already paid for are reused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from seedbed.errors import BudgetSpent, RunError
from seedbed.evaluation.dataset import Task
from seedbed.evaluation.metrics import Metric
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.storage.store import Digest, Fact, Json, Query, Store, digest

if TYPE_CHECKING:
    from seedbed.stats.estimates import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One (playbook, task, replicate) by one metric: the unit of evaluation, caching and resume."""

    key: str
    playbook: Digest
    task: str
    replicate: int
    metric: str
    value: float | None
    reason: str = ""
    answer: str = ""
    run: str = ""
    cost_usd: float = 0.0
    latency_seconds: float = 0.0
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The cells of one playbook over one set of tasks."""

    playbook: Digest
    metric: str
    cells: tuple[Cell, ...]

    @property
    def scored(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell.value is not None)

    @property
    def interval(self) -> Interval:
        """The mean over tasks, replicates averaged within each, with its interval."""
        from seedbed.stats.estimates import mean_interval, wilson

        by_task: dict[str, list[float]] = {}
        for cell in self.cells:
            if cell.value is not None:
                by_task.setdefault(cell.task, []).append(cell.value)
        means = [sum(values) / len(values) for values in by_task.values()]
        # A t interval of a rate near 0 or 1 is too narrow, and has no width at all when every task agrees.
        return wilson(round(sum(means)), len(means)) if {*means} <= {0.0, 1.0} else mean_interval(means)

    @property
    def cost_usd(self) -> float:
        return sum(cell.cost_usd for cell in self.cells if not cell.reused)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where evaluations happen: who performs, where cells are kept, and how many run at once.

    `identity` says what the models behind a playbook are, so that a cell is reused only while they stay.
    """

    store: Store
    perform: Callable[[Playbook, Task, int], Awaitable[Run]]
    identity: Callable[[Playbook], Json]
    by: str
    at_once: int = 8
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


Watcher = Callable[[Cell], None]


async def evaluate(
    playbook: Playbook,
    tasks: Iterable[Task],
    metric: Metric,
    bench: Bench,
    *,
    replicates: int = 1,
    watch: Watcher | None = None,
) -> Scorecard:
    """Score a playbook. Each cell is a fact the moment it is paid; known ones cost nothing.

    A run that fails leaves its cell without a value, to be tried again next time; BudgetSpent ends the evaluation.
    """
    plan = [(task, replicate) for task in tasks for replicate in range(replicates)]
    cell_of = cells_of(playbook, plan, metric, bench)
    done = []
    async with aclosing(in_order(plan, cell_of, at_once=bench.at_once)) as cells:
        async for cell in cells:
            done.append(cell)
            if watch:
                watch(cell)
    return Scorecard(playbook.digest, metric.name, tuple(done))


def cells_of(
    playbook: Playbook, plan: Sequence[tuple[Task, int]], metric: Metric, bench: Bench
) -> Callable[[tuple[Task, int]], Awaitable[Cell]]:
    """A function that gives the cell of a (task, replicate): from the store if it is there, else by running."""
    about = {"playbook": playbook.digest, "metric": metric.identity, "models": bench.identity(playbook)}

    def key_of(task: Task, replicate: int) -> str:
        return digest("cell", {**about, "task": task.digest, "replicate": replicate})

    known = _recorded({key_of(*item) for item in plan}, bench)

    async def cell_of(item: tuple[Task, int]) -> Cell:
        key = key_of(*item)
        return known[key] if key in known else await _pay(key, playbook, *item, metric, bench)

    return cell_of


def seed_of(task: Task, replicate: int) -> int:
    """The seed of a task's replicate: the same for every playbook, so that comparisons are paired."""
    return int(digest("seed", [task.digest, replicate])[3:11], 16)


async def _pay(key: str, playbook: Playbook, task: Task, replicate: int, metric: Metric, bench: Bench) -> Cell:
    cell = Cell(key=key, playbook=playbook.digest, task=task.id, replicate=replicate, metric=metric.name, value=None)
    try:
        run = await bench.perform(playbook, task, seed_of(task, replicate))
    except BudgetSpent:
        raise  # no fault of the playbook's
    except RunError as wrong:
        return replace(cell, reason=str(wrong))
    score = await metric(run, task)
    cell = replace(
        cell,
        value=score.value,
        reason=score.reason,
        answer=score.answer,
        run=run.id,
        cost_usd=run.cost_usd,
        latency_seconds=run.latency_seconds,
    )
    if score.value is not None and not bench.store.append([_fact(cell, bench)]):
        return _recorded({key}, bench)[key]  # somebody was quicker, and there is one truth
    return cell


_IN_BODY = ("task", "replicate", "metric", "reason", "answer", "run", "cost_usd", "latency_seconds")


def _fact(cell: Cell, bench: Bench) -> Fact:
    body = {name: getattr(cell, name) for name in _IN_BODY}
    return Fact(
        kind="cell", key=cell.key, subject=cell.playbook, at=bench.clock(), by=bench.by, body=body, value=cell.value
    )


def _recorded(keys: Collection[str], bench: Bench) -> dict[str, Cell]:
    facts = bench.store.facts(Query(kind="cell", keys=sorted(keys))) if keys else ()
    return {
        fact.key: Cell(key=fact.key, playbook=fact.subject, value=fact.value, reused=True, **fact.body)
        for fact in facts
    }
