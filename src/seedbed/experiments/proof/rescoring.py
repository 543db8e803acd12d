"""Rescoring: the scores of a verdict, computed again from the recorded outputs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from seedbed.errors import NotFound, Problem, SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.metrics.metric import Metric, blind
from seedbed.evaluation.metrics.registry import BUILT_IN, by_name
from seedbed.runs.history import recall
from seedbed.storage.store import Json, Store


def built_in(identity: Json) -> Metric | None:
    """The metric of an identity, if it comes with seedbed and still is what it was; a judge or your own code is not
    called again."""
    if (name := identity.get("metric")) not in BUILT_IN:
        return None
    try:
        metric = by_name(name, **identity.get("options", {}))
    except SettingsError:  # it needs a package that is not installed here
        return None
    return metric if metric.identity == identity else None


def rescore(store: Store, metric: Metric, tasks: Dataset, cells: Sequence[Cell]) -> list[Problem]:
    """The cells whose score does not follow from the recorded run and the task."""
    by_id = {task.id: task for task in tasks}

    async def every() -> list[Problem]:
        return [problem for cell in cells if (problem := await wrong(cell))]

    async def wrong(cell: Cell) -> Problem | None:
        if cell.value is None or not cell.run or cell.task not in by_id:
            return None
        try:
            score = await metric(blind(recall(store, cell.run)), by_id[cell.task])
        except NotFound:
            return Problem(f"cell {cell.key}", f"no run {cell.run}", "the run that was scored")
        if score.value is not None and math.isclose(score.value, cell.value, abs_tol=1e-9):
            return None
        return Problem(f"cell {cell.key}", f"a score of {cell.value:g}", f"{score.value}, by the recorded output")

    # A loop of its own: whoever asks may be within one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, every()).result()
