"""Outputs: the outputs of the two playbooks of a verdict on its tasks, side by side."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seedbed.errors import NotFound
from seedbed.evaluation.cells import Naming, recorded_cells
from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.evidence import ends
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.proof.held_out import known_tasks
from seedbed.experiments.replay.coverage import ARMS
from seedbed.experiments.verdict import Verdict
from seedbed.storage.store import Digest, Json, Query, Store, canonical, short


@dataclass(frozen=True, slots=True)
class OutputPair:
    """The outputs of the control and the candidate for one task."""

    task: Task
    control: Any
    candidate: Any

    @property
    def differs(self) -> bool:
        return canonical(self.control) != canonical(self.candidate)


def read_output_pairs(store: Store, verdict: Verdict) -> list[OutputPair]:
    """The outputs for every task of the verdict, in registered order. A task that one of the two failed is left out.

    Raises NotFound if the runs behind the verdict are not in this store.
    """
    tasks, arms = _read(store, verdict)
    runs = [[arm.run(task, 0) for task in tasks] for arm in arms]
    ended = ends(store, [run for arm_runs in runs for run in arm_runs if run])
    output_pairs = []
    for task, control, candidate in zip(tasks, *runs, strict=True):
        if not control or not candidate:
            continue
        if control not in ended or candidate not in ended:
            raise NotFound(f"no run {(control if control not in ended else candidate)[:10]} in this store")
        before, after = (ended[run][-1].body["output"] for run in (control, candidate))
        output_pairs.append(OutputPair(task, before, after))
    return output_pairs


def read_tool_calls(store: Store, verdict: Verdict) -> tuple[dict[str, bool], dict[str, bool]]:
    """The tools that the control and the candidate called for the tasks of a verdict, also in failed runs; each with
    whether it may change the world. Raises NotFound as `read_output_pairs` does."""
    tasks, arms = _read(store, verdict)
    control, candidate = (_called(store, [run for task in tasks for run in arm.all_runs(task)]) for arm in arms)
    return control, candidate


@dataclass(frozen=True, slots=True)
class _Arm:
    """The runs of one playbook, by the keys of its cells."""

    naming: Naming
    first: int
    replicates: int
    known: Mapping[str, str]

    def run(self, task: Task, replicate: int) -> str:
        """The run that was scored; empty if it failed."""
        return self.known.get(self.naming(task, self.first + replicate).cells[0], "")

    def all_runs(self, task: Task) -> Iterator[str]:
        for replicate in range(self.replicates):
            yield self.run(task, replicate) or self.naming(task, self.first + replicate).run


def _read(store: Store, verdict: Verdict) -> tuple[list[Task], list[_Arm]]:
    """The tasks that were read, and the runs of both playbooks at them. Raises NotFound."""
    plan = Experiment.from_content(store.get(verdict.experiment))
    if verdict.live:
        raise NotFound("no tasks behind a live verdict, so no outputs to compare")
    units = plan.units(known_tasks(store, plan.dataset))[: verdict.tasks]
    tasks, failed, arms = [task for unit in units for task in unit], {*verdict.failed}, []
    for playbook, name, first in zip((plan.control, plan.candidate), ARMS, plan.first_replicates, strict=True):
        naming = Naming(playbook, plan.models[name], [plan.metric])
        replicates = range(first, first + plan.replicates)
        keys = {naming(task, replicate).cells[0] for task in tasks for replicate in replicates}
        known = {cell.key: cell.run for cell in recorded_cells(store, playbook, keys - failed)}
        if missing := keys - failed - known.keys():
            raise NotFound(f"no score of {short(playbook)} at {len(missing)} of {len(keys)} tasks in this store")
        arms.append(_Arm(naming, first, plan.replicates, known))
    return tasks, arms


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


@dataclass(frozen=True, slots=True)
class OutputSample:
    """Two outputs for one task, in an order that does not reveal which is which. `swapped` does."""

    task: Task
    left: Any
    right: Any
    swapped: bool
    """Whether the candidate is on the left."""

    def document(self, reveal: bool) -> Json:
        """The sample as JSON. `reveal` says which side is the candidate's."""
        return {
            "task": self.task.id,
            "inputs": dict(self.task.inputs),
            "left": self.left,
            "right": self.right,
            "candidate": ("left" if self.swapped else "right") if reveal else None,
        }


def draw_samples(
    output_pairs: Sequence[OutputPair], candidate: Digest, reviewer: str, count: int = 5
) -> list[OutputSample]:
    """A random sample of tasks with different outputs, in random order: always the same for one reviewer."""
    chance = random.Random(f"{reviewer} {candidate}")
    differing = [pair for pair in output_pairs if pair.differs]
    samples = []
    for pair in chance.sample(differing, min(count, len(differing))):
        swapped = chance.random() < 0.5
        left, right = (pair.candidate, pair.control) if swapped else (pair.control, pair.candidate)
        samples.append(OutputSample(pair.task, left, right, swapped))
    return samples
