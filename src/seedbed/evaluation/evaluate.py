"""evaluate(): score a playbook over tasks. Cells that were paid for before are reused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count, product
from typing import NamedTuple, overload

from seedbed.errors import ModelUnavailable, QuotaSpent, RunError, RunTaken, Why
from seedbed.evaluation.cells import Cell, Cells, Fault, Naming, completed_runs, recorded_cells, run_of
from seedbed.evaluation.context import EvaluationContext, TaskReplicate, seed_of
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.datasets.seal import expect_open
from seedbed.evaluation.failed_runs import OneReason
from seedbed.evaluation.judges.judge import JudgeContext, asking_judges
from seedbed.evaluation.metrics.metric import Metric, Score, better, blind, expect_answers
from seedbed.evaluation.scorecard import Scorecard, scorecard
from seedbed.parallel import in_order
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.spending.ledger import Ledger
from seedbed.stage.identity import is_routed
from seedbed.stage.turns.model_choice import routing_outcomes
from seedbed.storage.store import Json
from seedbed.telemetry import during

Watcher = Callable[[Cell], None]

YIELD_EVERY = 500
"""How many cells are handled before the event loop gets a turn."""


async def evaluate(
    playbook: Playbook,
    tasks: Iterable[Task],
    metrics: Metric | Sequence[Metric],
    context: EvaluationContext,
    *,
    replicates: int = 1,
    max_cost_usd: float | None = None,
    watch: Watcher | None = None,
) -> Scorecard:
    """Score a playbook by one metric or several; the first decides. Each cell is stored as soon as it is paid for.

    A run that fails leaves its cells without a value, to be tried again next time. So does one that the budget does
    not reach: `max_cost_usd` is never exceeded. Raises QuotaSpent; RunError if the first runs all fail for one reason;
    and DatasetError if tasks are held out, or if a metric needs expected answers and no task has one.
    """
    chosen = list(metrics) if isinstance(metrics, Sequence) else [metrics]
    todo = list(tasks)
    expect_open(context.store, todo, (demo.inputs for demos in playbook.demos.values() for demo in demos))
    plan = _Replicates(todo, replicates)
    expect_answers(chosen, todo)
    limited = replace(context, ledger=Ledger(max_cost_usd, last_share=0.0, within=context.ledger))
    with during("evaluate"):
        async with context.present():
            cells = await all_cells(playbook, plan, chosen, limited, watch, OneReason())
    return scorecard(playbook.digest, chosen, cells, todo, paid_usd=limited.ledger.spent_usd)


class _Replicates(Sequence[TaskReplicate]):
    """All replicates of all tasks, made on demand: very many objects slow down the garbage collector."""

    def __init__(self, tasks: Sequence[Task], replicates: int) -> None:
        self._tasks, self._replicates = tasks, replicates

    def __len__(self) -> int:
        return len(self._tasks) * self._replicates

    @overload
    def __getitem__(self, number: int) -> TaskReplicate: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[TaskReplicate]: ...
    def __getitem__(self, number: int | slice) -> TaskReplicate | Sequence[TaskReplicate]:
        if isinstance(number, slice):
            return [self[each] for each in range(len(self))[number]]
        return self._tasks[number // self._replicates], number % self._replicates

    def __iter__(self) -> Iterator[TaskReplicate]:
        return product(self._tasks, range(self._replicates))


async def all_cells(
    playbook: Playbook,
    plan: Sequence[TaskReplicate],
    metrics: Sequence[Metric],
    context: EvaluationContext,
    watch: Watcher | None = None,
    one_reason: OneReason | None = None,
) -> Cells:
    """The cells of each item of the plan, one for each metric, in order: stored ones, or by running.

    Raises RunError if `one_reason` sees that all new runs fail for one.
    """
    work = _Work(playbook, plan, metrics, context)
    unknown = await asyncio.to_thread(work.look_up)  # the store may have very many of them
    coming: AsyncGenerator[Sequence[Cell], None]
    if context.remote:
        coming = context.remote.cells(playbook, [plan[number] for number in unknown], metrics, context)
    else:
        coming = in_order(unknown, work.pay, at_once=context.at_once)
    async with aclosing(coming):
        left = {*unknown}
        for number in range(len(plan)) if watch else unknown:
            if number in left:
                cells = await anext(coming)
                work.add(number, cells)
                if one_reason and len(unknown) == len(plan) and not context.ledger.is_short:
                    one_reason.see(cells)
            if watch:
                watch(work.first(number))
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
    return await asyncio.to_thread(work.in_order)


def cells_of(
    playbook: Playbook, plan: Sequence[TaskReplicate], metrics: Sequence[Metric], context: EvaluationContext
) -> Callable[[TaskReplicate], Awaitable[Sequence[Cell]]]:
    """A function that returns the cells of a (task, replicate), one for each metric: stored ones, or by running."""
    work = _Work(playbook, plan, metrics, context)
    work.look_up()
    numbers = {(task.id, replicate): number for number, (task, replicate) in enumerate(plan)}
    return lambda item: work.pay(numbers[item[0].id, item[1]])


class _Work:
    """The stored cells of the items of a plan, each by its number, and how the others are paid for."""

    def __init__(
        self, playbook: Playbook, plan: Sequence[TaskReplicate], metrics: Sequence[Metric], context: EvaluationContext
    ) -> None:
        self._playbook = playbook
        self._plan = plan
        self._metrics = metrics
        self._context = context
        self._judges = _judge_context(context)
        self._keys: list[str] = []
        self._cells = Cells(playbook.digest)
        self._places: list[int | None] = []  # of the cells that the keys name
        self._performed: set[str] = set()

    def look_up(self) -> list[int]:
        """Read the stored cells, and return the items of which some are missing."""
        models = self._context.identity(self._playbook)
        naming = Naming(self._playbook.digest, models, [metric.identity for metric in self._metrics])
        self._keys = [key for item in self._plan for key in naming(*item).cells]
        places: dict[str, int | None] = dict.fromkeys(self._keys)
        self._cells = recorded_cells(self._context.store, self._playbook.digest, places)
        places.update(zip(self._cells.texts("key"), count()))
        self._places = [places[key] for key in self._keys]
        if None not in self._places:
            return []
        unknown = [number for number in range(len(self._plan)) if None in self._places[self._of(number)]]
        runs = {run_of(self._keys[number * len(self._metrics)]) for number in unknown}
        self._performed = completed_runs(self._context.store, self._playbook.digest, runs)
        return unknown

    async def pay(self, number: int) -> Sequence[Cell]:
        """The cells of an item: stored ones, and the others by running."""
        keys, places = self._keys[self._of(number)], self._places[self._of(number)]
        cells = {key: self._cells[place] for key, place in zip(keys, places, strict=True) if place is not None}
        missing = {key: metric for key, metric in zip(keys, self._metrics, strict=True) if key not in cells}
        if missing:
            run, item = run_of(keys[0]), self._plan[number]
            before = run in self._performed
            with asking_judges(self._judges):
                paid = await _pay(run, self._playbook, item, missing, self._context, reused=before)
            cells |= {cell.key: cell for cell in paid}
        return [cells[key] for key in keys]

    def add(self, number: int, cells: Sequence[Cell]) -> None:
        """Add the cells of an item that were just paid for."""
        self._places[self._of(number)] = range(len(self._cells), len(self._cells) + len(cells))
        for cell in cells:
            self._cells.append(cell)

    def first(self, number: int) -> Cell:
        place = self._places[number * len(self._metrics)]
        assert place is not None
        return self._cells[place]

    def in_order(self) -> Cells:
        """All cells, in the order of the plan."""
        return self._cells.take(place for place in self._places if place is not None)

    def _of(self, number: int) -> slice:
        return slice(number * len(self._metrics), (number + 1) * len(self._metrics))


def _judge_context(context: EvaluationContext) -> JudgeContext:
    """How judges are asked during an evaluation: their runs are performed and paid for like those they judge."""
    live = context.live or context

    async def once(run: str, playbook: Playbook, inputs: Json, seed: int, ledger: Ledger) -> Run:
        Library(live.store, live.by).keep(playbook, because="judge")
        return await live.perform(run, playbook, Task(run, inputs), seed, ledger)

    return JudgeContext(once, live.identity, context.ledger)


async def _pay(
    run: str,
    playbook: Playbook,
    item: TaskReplicate,
    metrics: Mapping[str, Metric],
    context: EvaluationContext,
    *,
    reused: bool,
) -> list[Cell]:
    """The cells of one run, one for each metric, by their keys; `reused` says whether it was paid before."""
    task, replicate = item

    def cell(key: str, score: Score, done: Run | None = None, fault: Fault = "") -> Cell:
        return Cell(
            key=key,
            playbook=playbook.digest,
            task=task.id,
            replicate=replicate,
            metric=metrics[key].name,
            value=score.value,
            reason=score.reason,
            answer=score.answer,
            run=done.id if done else "",
            cost_usd=(done.cost_usd if done else 0.0) + score.cost_usd,
            tokens=(done.tokens if done else 0) + score.tokens,
            unpriced=(done.unpriced if done else 0) + score.unpriced,
            latency_seconds=done.latency_seconds if done else 0.0,
            reused=reused,
            fault=fault or ("metric" if score.value is None else ""),
        )

    for _ in range(context.tries):
        done = await _perform(run, playbook, item, context)
        if not isinstance(done, _Failure) or done.fault != "infrastructure" or context.ledger.is_short:
            break
    if isinstance(done, _Failure):
        return [cell(key, Score(None, done.reason), fault=done.fault) for key in metrics]
    seen = blind(done)
    cells = [cell(key, await metric(seen, task), done) for key, metric in metrics.items()]
    scored = [each for each in cells if each.value is not None]
    adding = [context.journal.add(each.fact(context.clock(), context.by)) for each in scored]
    await _teach_router(playbook, done, cells[0], metrics[cells[0].key], context)
    added = await asyncio.gather(*adding) if len(adding) > 1 else [await each for each in adding]
    if not all(added):  # another process was quicker, and its cells count
        recorded = recorded_cells(context.store, playbook.digest, [each.key for each in scored])
        known = {each.key: each for each in recorded}
        cells = [known.get(each.key, each) for each in cells]
    return cells


async def _teach_router(playbook: Playbook, run: Run, cell: Cell, metric: Metric, context: EvaluationContext) -> None:
    """Store what a score says of the models that the router chose; a replay chose none."""
    value = cell.value
    taught = context.live is None and is_routed(playbook) and better(metric) == "higher"
    if taught and value is not None and 0 <= value <= 1:
        for fact in routing_outcomes(context.store, run, value, context.by):
            await context.journal.add(fact)


class _Failure(NamedTuple):
    """Why there is no run that can be scored, and whose fault it is."""

    reason: str
    fault: Fault


PASSING: tuple[Why, ...] = ("transient", "rate", "credit")
"""Failures of a model's provider, which have nothing to do with the agent."""


async def _perform(run: str, playbook: Playbook, item: TaskReplicate, context: EvaluationContext) -> Run | _Failure:
    """The run, or why there is none that can be scored."""
    if context.ledger.is_short:
        return _Failure("the money for this evaluation was spent", "infrastructure")
    own = Ledger(last_share=0.0, within=context.ledger)  # a refusal to one run says nothing about the others
    try:
        async with asyncio.timeout(context.timeout_seconds):
            done = await context.perform(run, playbook, item[0], seed_of(*item), own)
    except QuotaSpent:
        raise  # the playbook is not at fault
    except RunError as wrong:
        passing = isinstance(wrong, RunTaken) or (isinstance(wrong, ModelUnavailable) and wrong.why in PASSING)
        return _Failure(str(wrong), "infrastructure" if passing else "agent")
    except TimeoutError:
        return _Failure(f"it took longer than {context.timeout_seconds:g} s", "agent")
    return done if done.status == "completed" else _Failure(f"its run was not completed: {done.status}", "agent")
