"""Evaluators: they pay for the cells of a search. RunEvaluator performs runs, FunctionEvaluator calls a function."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

from seedbed.errors import NotFound, Problem, SeedbedError, SettingsError
from seedbed.evaluation.cells import Cell, Naming, TaskTexts, recorded_cells, run_of
from seedbed.evaluation.context import EvaluationContext, TaskReplicate, seed_of
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.evaluate import cells_of
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.metrics.metric import Metric, Score
from seedbed.parallel import in_order
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.journal import Journal
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.stats.arrays import Direction
from seedbed.storage.store import Digest, Fact, Json, Store

PlaybookTasks: TypeAlias = tuple[Playbook, Sequence[TaskReplicate]]
"""A playbook, and the tasks and replicates to score it on."""

RunKey: TypeAlias = tuple[Digest, str, int]
"""A playbook, a task and a replicate."""

PaidCells: TypeAlias = dict[RunKey, Sequence[Cell]]
"""The cells of each run, one for each metric."""

OnPaid: TypeAlias = Callable[[Iterable[Sequence[Cell]]], None]
"""Receives the cells of runs as soon as these have ended. It may raise, which stops the others."""


class Evaluator(Protocol):
    """Pays for cells. Each cell is stored as a fact as soon as it is paid."""

    @property
    def store(self) -> Store: ...

    @property
    def metrics(self) -> Sequence[Metric]: ...

    @property
    def task_texts(self) -> TaskTexts: ...

    @property
    def by(self) -> str: ...

    @property
    def clock(self) -> Callable[[], datetime]: ...

    @property
    def at_once(self) -> int:
        """The most runs under way at a time."""

    def identity(self, playbook: Playbook) -> Json:
        """The models behind a playbook. Its cells are reused only while these stay the same."""

    def present(self) -> AbstractAsyncContextManager[None]:
        """A block in which other processes see that this one is working."""

    async def pay(self, work: Sequence[PlaybookTasks], ledger: Ledger, came: OnPaid) -> PaidCells:
        """Score all work, of which no cell is known. A cell whose run failed has no value; `came` receives all."""

    async def perform(self, run: str, playbook: Playbook, inputs: Mapping[str, Any], ledger: Ledger) -> Run:
        """The run of that name: the recorded one, or one performed now."""


def known_cells(evaluator: Evaluator, work: Iterable[PlaybookTasks], failures: FailedRuns | None = None) -> PaidCells:
    """The cells that were paid before, for each run of which all are; with `failures`, also those that failed."""
    paid: PaidCells = {}
    for playbook, items in work:
        naming = naming_of(evaluator, playbook)
        names = {run_key(playbook, item): naming(*item).cells for item in items}
        keys = [key for cells in names.values() for key in cells]
        cells = {cell.key: cell for cell in recorded_cells(evaluator.store, playbook.digest, keys)}
        if failures:
            cells |= {key: failures[key] for key in keys if key in failures}
        paid |= {run: [cells[key] for key in own] for run, own in names.items() if all(key in cells for key in own)}
    return paid


def naming_of(evaluator: Evaluator, playbook: Playbook) -> Naming:
    """Names the cells of a playbook."""
    identities = [metric.identity for metric in evaluator.metrics]
    return Naming(playbook.digest, evaluator.identity(playbook), identities, evaluator.task_texts)


def new_fact(evaluator: Evaluator, kind: str, key: str, subject: str, body: Json, value: float | None = None) -> Fact:
    """A fact of now, by the person for whom the evaluator works."""
    at, by = evaluator.clock(), evaluator.by
    return Fact(kind=kind, key=key, subject=subject, at=at, by=by, body=body, value=value)


def run_key(playbook: Playbook, item: TaskReplicate) -> RunKey:
    return playbook.digest, item[0].id, item[1]


def cost_of(cells: Sequence[Cell]) -> tuple[float, int]:
    """What a run and its scores cost, in US dollars and tokens. Each cell has the cost of the run plus its own."""
    if len(cells) == 1:
        return cells[0].cost_usd, cells[0].tokens
    usd, tokens = min(cell.cost_usd for cell in cells), min(cell.tokens for cell in cells)
    return usd + sum(cell.cost_usd - usd for cell in cells), tokens + sum(cell.tokens - tokens for cell in cells)


@dataclass(frozen=True)
class RunEvaluator:
    """Pays for cells by runs on a bench: in this event loop, in other processes, or on a cluster."""

    bench: EvaluationContext
    metrics: Sequence[Metric]
    task_texts: TaskTexts = field(default_factory=TaskTexts)

    @property
    def store(self) -> Store:
        return self.bench.store

    @property
    def by(self) -> str:
        return self.bench.by

    @property
    def clock(self) -> Callable[[], datetime]:
        return self.bench.clock

    @property
    def at_once(self) -> int:
        return self.bench.at_once

    def identity(self, playbook: Playbook) -> Json:
        return self.bench.identity(playbook)

    def present(self) -> AbstractAsyncContextManager[None]:
        return self.bench.present()

    async def perform(self, run: str, playbook: Playbook, inputs: Mapping[str, Any], ledger: Ledger) -> Run:
        Library(self.store, self.by).keep(playbook, because="helps with a search")
        task = Task(run, inputs)
        return await self.bench.perform(run, playbook, task, seed_of(task, 0), ledger)

    async def pay(self, work: Sequence[PlaybookTasks], ledger: Ledger, came: OnPaid) -> PaidCells:
        paid: PaidCells = {}

        def add(playbook: Playbook, item: TaskReplicate, cells: Sequence[Cell]) -> None:
            if any(cell.value is None for cell in cells):
                cells = self._with_costs(cells)
            came([cells])
            paid[run_key(playbook, item)] = cells

        context = replace(self.bench, ledger=ledger)
        if remote := context.remote:

            async def all_of(playbook: Playbook, items: Sequence[TaskReplicate]) -> None:
                async with aclosing(remote.cells(playbook, items, self.metrics, context)) as rows:
                    for item in items:
                        add(playbook, item, await anext(rows))

            await _together(all_of(*each) for each in work)
            return paid
        pays = await asyncio.to_thread(lambda: [cells_of(each, items, self.metrics, context) for each, items in work])
        # Task by task, so that all candidates advance together and none waits for the last.
        turns = [(place, number) for number, (_, items) in enumerate(work) for place in range(len(items))]
        turns.sort()

        async def one(turn: tuple[int, int]) -> None:
            place, number = turn
            playbook, items = work[number]
            add(playbook, items[place], await pays[number](items[place]))

        async with aclosing(in_order(turns, one, at_once=self.bench.at_once)) as coming:
            async for _ in coming:
                pass
        return paid

    def _with_costs(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """The cells of a failed run with what the run cost, which they do not know themselves."""
        if any(cell.run for cell in cells):
            return cells
        with suppress(NotFound):
            run = recall(self.store, run_of(cells[0].key))
            usd, tokens = run.cost_usd, run.tokens
            return [replace(cell, cost_usd=cell.cost_usd + usd, tokens=cell.tokens + tokens) for cell in cells]
        return cells


async def _together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all at the same time. If one fails the others are cancelled: nothing is spent that nobody waits for."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


FunctionScores: TypeAlias = Score | float | Sequence[Score | float]
"""The score, or one for each metric."""

ScoringFunction: TypeAlias = Callable[[Playbook, Task, int], FunctionScores | Awaitable[FunctionScores]]
"""Scores a playbook at a task, in one of its replicates."""

NamedItem: TypeAlias = tuple[Playbook, TaskReplicate, Sequence[str]]
"""What to score, and the names of its cells."""

BATCH_SECONDS = 0.03
"""Scores of a function are stored together, at the latest after this time."""


@dataclass(frozen=True)
class Measure:
    """The metric that a scoring function measures. Change `version` whenever its scores might change."""

    name: str = "score"
    version: int = 1
    better: Direction = "higher"

    @property
    def identity(self) -> Json:
        return {"metric": self.name, "version": self.version}

    async def __call__(self, run: Run, task: Task) -> Score:
        raise SeedbedError(f"{self.name}: found a run; expected its scores from the function that measures it")


@dataclass(frozen=True)
class FunctionEvaluator:
    """Pays for cells by calling a function, sync or async; no run is performed or recorded. If it raises, the run
    failed."""

    score: ScoringFunction
    store: Store
    by: str
    metrics: Sequence[Metric] = (Measure(),)
    at_once: int = 8
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    task_texts: TaskTexts = field(default_factory=TaskTexts)
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "journal", Journal(self.store))

    def identity(self, playbook: Playbook) -> Json:
        return {}

    def present(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def perform(self, run: str, playbook: Playbook, inputs: Mapping[str, Any], ledger: Ledger) -> Run:
        remedy = "Give the optimizer a function that proposes, or search in a workspace, which has models."
        raise SettingsError([Problem("optimizer", "one that asks a model", "one that needs none", remedy)])

    async def pay(self, work: Sequence[PlaybookTasks], ledger: Ledger, came: OnPaid) -> PaidCells:
        waits = inspect.iscoroutinefunction(self.score) or inspect.iscoroutinefunction(type(self.score).__call__)
        return await (self._one_by_one(work, ledger, came) if waits else self._in_batches(work, ledger, came))

    async def _in_batches(self, work: Sequence[PlaybookTasks], ledger: Ledger, came: OnPaid) -> PaidCells:
        items, paid = self._named(work), PaidCells()
        while new := self._next_batch(items, ledger, came):
            paid |= new
            await asyncio.sleep(0)
        return paid

    def _next_batch(self, items: Iterator[NamedItem], ledger: Ledger, came: OnPaid) -> PaidCells:
        """Score the next items, as many as there is time for; nothing if there are no more."""
        new: PaidCells = {}
        begun = time.perf_counter()
        for playbook, item, names in items:
            try:
                scores = self._scores(self.score(playbook, *item))  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - as when an agent crashes
                scores = self._failed_scores(error)
            new[run_key(playbook, item)] = self._cells(playbook, item, names, scores)
            if time.perf_counter() - begun > BATCH_SECONDS:
                break
        return self._store(new, ledger, came) if new else new

    async def _one_by_one(self, work: Sequence[PlaybookTasks], ledger: Ledger, came: OnPaid) -> PaidCells:
        paid: PaidCells = {}

        async def one(named: NamedItem) -> None:
            playbook, item, names = named
            try:
                scores = self._scores(await self.score(playbook, *item))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 - as when an agent crashes
                scores = self._failed_scores(error)
            cells: Sequence[Cell] = self._cells(playbook, item, names, scores)
            ledger.spend(*cost_of(cells))
            facts = [cell.fact(self.clock(), self.by) for cell in cells if cell.value is not None]
            if not all([await self.journal.add(fact) for fact in facts]):
                cells = self._agreed(cells)
            came([cells])
            paid[run_key(playbook, item)] = cells

        async with aclosing(in_order(self._named(work), one, at_once=self.at_once)) as coming:
            async for _ in coming:
                pass
        return paid

    def _named(self, work: Iterable[PlaybookTasks]) -> Iterator[NamedItem]:
        for playbook, items in work:
            naming = naming_of(self, playbook)
            for item in items:
                yield playbook, item, naming(*item).cells

    def _scores(self, returned: FunctionScores) -> list[Score]:
        every = [returned] if isinstance(returned, float) or not isinstance(returned, Sequence) else returned
        if len(every) != len(self.metrics):
            expected = f"{len(self.metrics)}, one for each metric"
            raise SettingsError([Problem("the scoring function", f"{len(every)} scores", expected)])
        return [score if isinstance(score, Score) else Score(float(score)) for score in every]

    def _failed_scores(self, error: Exception) -> list[Score]:
        """No score for any metric, with the error as the reason; a wrong setting is raised again."""
        if isinstance(error, SettingsError):
            raise error
        return [Score(None, f"{type(error).__name__}: {error}")] * len(self.metrics)

    def _cells(
        self, playbook: Playbook, item: TaskReplicate, names: Sequence[str], scores: Sequence[Score]
    ) -> list[Cell]:
        return [
            Cell(
                key=name,
                playbook=playbook.digest,
                task=item[0].id,
                replicate=item[1],
                metric=metric.name,
                value=score.value,
                reason=score.reason,
                answer=score.answer,
                cost_usd=score.cost_usd,
                tokens=score.tokens,
            )
            for name, metric, score in zip(names, self.metrics, scores, strict=True)
        ]

    def _store(self, new: PaidCells, ledger: Ledger, came: OnPaid) -> PaidCells:
        """Store new cells as facts, and return them."""
        at, by = self.clock(), self.by
        every = [cell for cells in new.values() for cell in cells]
        with _no_garbage_collection():
            facts = [cell.fact(at, by) for cell in every if cell.value is not None]
            known = len(facts) - self.store.append(facts)
        came(new.values())
        costs = [cost_of(cells) for cells in new.values()]
        ledger.spend(sum(usd for usd, _ in costs), sum(tokens for _, tokens in costs))
        return {run: self._agreed(cells) for run, cells in new.items()} if known else new

    def _agreed(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """The stored cells where another process was quicker: all processes see the same scores."""
        stored = {
            cell.key: cell for cell in recorded_cells(self.store, cells[0].playbook, [cell.key for cell in cells])
        }
        return [stored.get(cell.key, cell) for cell in cells]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Python's collector would look through thousands of facts again and again, all of them needed until they are
    written."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
