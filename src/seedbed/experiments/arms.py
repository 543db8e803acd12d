"""Arms: the playbooks of a comparison, run on the same tasks, unit by unit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import chain

from seedbed.evaluation.cells import Cell, Naming, recorded_cells
from seedbed.evaluation.context import EvaluationContext, TaskReplicate
from seedbed.evaluation.evaluate import cells_of
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.metrics.metric import Metric
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.replay.coverage import ARMS
from seedbed.parallel import in_order
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Store

TRIES = 3
"""How often a run is tried that fails through no fault of the agent's."""

ArmItems = Sequence[Sequence[TaskReplicate]]
"""The items that a playbook performs for every unit."""
ArmPlans = Sequence[tuple[Playbook, ArmItems]]


def run_arms(
    arms: ArmPlans, metric: Metric, context: EvaluationContext, failed: FailedRuns
) -> AsyncGenerator[list[list[Cell]], None]:
    """The cells of each arm, unit by unit: known ones, or those of new runs, here or by other processes.

    Which arm goes first at a unit is drawn from the experiment, so that a metric or a judge that remembers cannot tell
    whose answer it is shown; other processes get each arm by itself.
    """
    return (_cells_by_workers if context.remote else _cells)(arms, metric, replace(context, tries=TRIES), failed)


def is_unpaid(cells: Sequence[Sequence[Cell]], context: EvaluationContext) -> bool:
    """Whether a run of a unit could not be paid, which does not count as a failure."""
    return context.ledger.is_short and any(cell.value is None for arm in cells for cell in arm)


def recorded_arms(
    store: Store, plan: Experiment, items: tuple[ArmItems, ArmItems], places: Sequence[int]
) -> list[tuple[list[Cell], list[Cell]]]:
    """The cells of both arms at these units, from the store, as they counted: a run that failed in the experiment stays
    failed, even if a later one did not. A cell that is not recorded names no playbook."""
    failed, arms = FailedRuns(store, plan.digest), list[list[list[Cell]]]()
    for playbook, name, units in zip((plan.control, plan.candidate), ARMS, items, strict=True):
        naming = Naming(playbook, plan.models[name], [plan.metric])
        keys = [[naming(*item).cells[0] for item in units[place]] for place in places]
        wanted = [key for unit in keys for key in unit if key not in failed]
        known = {cell.key: cell for cell in recorded_cells(store, playbook, wanted)}
        arms.append(
            [[failed[key] if key in failed else known.get(key) or _absent(key) for key in unit] for unit in keys]
        )
    return list(zip(*arms, strict=True))


def _absent(key: str) -> Cell:
    return Cell(key=key, playbook="", task="", replicate=0, metric="", value=None)


async def _cells(
    arms: ArmPlans, metric: Metric, context: EvaluationContext, failed: FailedRuns
) -> AsyncGenerator[list[list[Cell]], None]:
    """The cells of each arm, unit by unit; all arms run a unit at the same time."""
    pays = [await _payer(playbook, [*chain(*plan)], metric, context, failed) for playbook, plan in arms]

    async def perform(number: int) -> list[list[Cell]]:
        turns = [(pay, item) for pay, (_, plan) in zip(pays, arms, strict=True) for item in plan[number]]
        places = random.Random(f"{failed.of} {turns[0][1][0].id}").sample(range(len(turns)), len(turns))
        drawn = [turns[place] for place in places]
        async with aclosing(in_order(drawn, lambda turn: turn[0](turn[1]), at_once=context.at_once)) as coming:
            cells = dict(zip(places, [cell async for cell in coming], strict=True))
        size = len(turns) // len(arms)
        return [[cells[arm * size + place] for place in range(size)] for arm in range(len(arms))]

    largest = len(arms) * max(map(len, arms[0][1]))
    numbers = range(len(arms[0][1]))
    async with aclosing(in_order(numbers, perform, at_once=max(1, context.at_once // largest))) as coming:
        async for cells in coming:
            yield cells


async def _payer(
    playbook: Playbook,
    plan: Sequence[TaskReplicate],
    metric: Metric,
    context: EvaluationContext,
    failed: FailedRuns,
) -> Callable[[TaskReplicate], Awaitable[Cell]]:
    """A function that returns the cell of an item: a known one, an earlier failure, or that of a new run."""
    cells = await asyncio.to_thread(cells_of, playbook, plan, [metric], context)
    naming = Naming(playbook.digest, context.identity(playbook), [metric.identity])

    async def pay(item: TaskReplicate) -> Cell:
        (key,) = naming(*item).cells
        if key in failed:
            return failed[key]
        (cell,) = await cells(item)
        return cell if context.ledger.is_short else await _settle(cell, failed, context)

    return pay


async def _settle(cell: Cell, failed: FailedRuns, context: EvaluationContext) -> Cell:
    """The cell, or its earlier failure in this experiment; a new failure is recorded."""
    if cell.key in failed:
        return failed[cell.key]
    for fact in failed.after([cell], context.clock(), context.by):
        await context.journal.add(fact)
    return cell


async def _cells_by_workers(
    arms: ArmPlans, metric: Metric, context: EvaluationContext, failed: FailedRuns
) -> AsyncGenerator[list[list[Cell]], None]:
    """The same by other processes: each arm in its order, both at the same time. What has failed before is not run."""
    assert context.remote
    remote, earlier = context.remote, {cell.key: cell for cell in failed.cells}

    async def stream(playbook: Playbook, plan: ArmItems) -> AsyncGenerator[list[Cell], None]:
        naming = Naming(playbook.digest, context.identity(playbook), [metric.identity])
        known = [[earlier.get(naming(*item).cells[0]) for item in unit] for unit in plan]
        todo = [
            item
            for unit, cells in zip(plan, known, strict=True)
            for item, cell in zip(unit, cells, strict=True)
            if not cell
        ]
        async with aclosing(remote.cells(playbook, todo, [metric], context)) as coming:
            for unit in known:
                cells = [cell or (await anext(coming))[0] for cell in unit]
                yield cells if context.ledger.is_short else [await _settle(cell, failed, context) for cell in cells]

    streams = [stream(playbook, plan) for playbook, plan in arms]
    try:
        for _ in arms[0][1]:
            yield list(await asyncio.gather(*map(anext, streams)))
    finally:
        for each in streams:
            await each.aclose()
