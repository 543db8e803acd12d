"""Outputs: what the two playbooks of a verdict answered at its tasks, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seedbed.errors import NotFound
from seedbed.evaluation.cells import Cell, Naming, recorded_cells
from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.evidence import ends
from seedbed.experiments.experiment import Experiment, Unit
from seedbed.experiments.proof.held_out import known_tasks
from seedbed.experiments.replay.coverage import ARMS
from seedbed.experiments.verdict import Verdict
from seedbed.storage.store import Query, Store, canonical, short


@dataclass(frozen=True, slots=True)
class OutputPair:
    """The outputs of the control and the candidate for one task, with their scores."""

    task: Task
    control: Any
    candidate: Any
    scores: tuple[float, float]
    unit: int
    """Which unit of the experiment the task belongs to, from 0."""

    @property
    def differs(self) -> bool:
        return canonical(self.control) != canonical(self.candidate)


def read_output_pairs(store: Store, verdict: Verdict) -> list[OutputPair]:
    """The outputs for every task of the verdict, in registered order. A task that one of the two failed is left out.

    Raises NotFound if the runs behind the verdict are not in this store.
    """
    units, arms = _read(store, verdict)
    tasks = [(number, task) for number, unit in enumerate(units) for task in unit]
    cells = [[arm.cell(task, 0) for _, task in tasks] for arm in arms]
    ended = ends(store, [cell.run for arm_cells in cells for cell in arm_cells if cell])
    output_pairs = []
    for (number, task), control, candidate in zip(tasks, *cells, strict=True):
        if not control or not candidate or control.value is None or candidate.value is None:
            continue
        if missing := [cell.run for cell in (control, candidate) if cell.run not in ended]:
            raise NotFound(f"no run {short(missing[0])} in this store")
        before, after = (ended[cell.run][-1].body["output"] for cell in (control, candidate))
        output_pairs.append(OutputPair(task, before, after, (control.value, candidate.value), number))
    return output_pairs


def read_tool_calls(store: Store, verdict: Verdict) -> tuple[dict[str, bool], dict[str, bool]]:
    """The tools that the control and the candidate called for the tasks of a verdict, also in failed runs; each with
    whether it may change the world. Raises NotFound as `read_output_pairs` does."""
    units, arms = _read(store, verdict)
    tasks = [task for unit in units for task in unit]
    control, candidate = (_called(store, [run for task in tasks for run in arm.all_runs(task)]) for arm in arms)
    return control, candidate


@dataclass(frozen=True, slots=True)
class _Arm:
    """The cells of one playbook, by their keys."""

    naming: Naming
    first: int
    replicates: int
    known: Mapping[str, Cell]

    def cell(self, task: Task, replicate: int) -> Cell | None:
        """What was scored; None if the run failed."""
        cell = self.known.get(self.naming(task, self.first + replicate).cells[0])
        return cell if cell and cell.run else None

    def all_runs(self, task: Task) -> Iterator[str]:
        for replicate in range(self.replicates):
            cell = self.cell(task, replicate)
            yield cell.run if cell else self.naming(task, self.first + replicate).run


def _read(store: Store, verdict: Verdict) -> tuple[list[Unit], list[_Arm]]:
    """The units that were read, and the cells of both playbooks at their tasks. Raises NotFound."""
    plan = Experiment.from_content(store.get(verdict.experiment))
    if verdict.live:
        raise NotFound("no tasks behind a live verdict, so no outputs to compare")
    units = plan.units(known_tasks(store, plan.dataset))[: verdict.tasks]
    tasks, failed, arms = [task for unit in units for task in unit], {*verdict.failed}, []
    for playbook, name, first in zip((plan.control, plan.candidate), ARMS, plan.first_replicates, strict=True):
        naming = Naming(playbook, plan.models[name], [plan.metric])
        replicates = range(first, first + plan.replicates)
        keys = {naming(task, replicate).cells[0] for task in tasks for replicate in replicates}
        known = {cell.key: cell for cell in recorded_cells(store, playbook, keys - failed)}
        if missing := keys - failed - known.keys():
            raise NotFound(f"no score of {short(playbook)} at {len(missing)} of {len(keys)} tasks in this store")
        arms.append(_Arm(naming, first, plan.replicates, known))
    return units, arms


def _called(store: Store, runs: Sequence[str]) -> dict[str, bool]:
    called: dict[str, bool] = {}
    if not any(store.facts(Query(kind="call", limit=1))):
        return called
    pending = list(dict.fromkeys(runs))
    for run in pending:
        for fact in store.facts(Query(kind="call", subject=run)):
            called[fact.body["tool"]] = called.get(fact.body["tool"], False) or bool(fact.body["changes"])
        opened = (fact.body["run"] for fact in store.facts(Query(kind="child", subject=run)))
        pending += [child for child in opened if child not in pending]
    return called
