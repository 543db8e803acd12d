"""The scores of a verdict, computed again from the recorded outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seedbed.errors import Problem
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.rescoring import recorded_rescorer
from seedbed.experiments.evidence import ends
from seedbed.storage.store import Json, Store


def check_scores(store: Store, metric: Json, tasks: Dataset, cells: Sequence[Cell]) -> list[Problem] | None:
    """The cells whose score does not follow from what is recorded of the run, and the task.

    None if that cannot be told: judges would have to be paid again, and code of yours is not run.
    """
    score = recorded_rescorer(metric)
    if score is None:
        return None
    scored = [cell for cell in cells if cell.value is not None and cell.run]
    by_id, ended, problems = {task.id: task for task in tasks}, ends(store, [cell.run for cell in scored]), []
    for cell in scored:
        if cell.run not in ended:
            problems.append(Problem(f"cell {cell.key}", f"no run {cell.run}", "the run that was scored"))
            continue
        again = score(ended[cell.run][-1].body, by_id[cell.task])
        if again is None or not math.isclose(again, cell.value or 0.0, abs_tol=1e-9):
            problems.append(Problem(f"cell {cell.key}", f"a score of {cell.value:g}", f"{again}, by its run"))
    return problems
