"""Demos: operators that choose worked examples, how many and in which order. Examples come from the reflect tasks of a
search: from their known answers, and from good runs of the agent on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.protocols import Operator, Search
from seedbed.evolution.variation.checks import child
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.playbooks.prompts import placeholders
from seedbed.runs.run import Run
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.storage.store import Json

MOST = 8
"""How many demos these operators add up to: fewer than a child may have."""


def demo_from_task(task: Task) -> Json:
    """A task and its known answer as a demo."""
    return {"inputs": _inputs(task.inputs), "output": text_of(task.expected)}


def demo_from_run(step: Step, run: Run) -> Json | None:
    """The inputs of a step in a run and its answer, as a demo; None if the answer is missing or cut off."""
    turns = {turn.step or turn.role: turn for turn in run.turns}
    turn = turns.get(step.name)
    if turn is None or turn.finish_reason == "length" or not turn.text.strip():
        return None
    inputs = _inputs(run.inputs)
    for each in placeholders(step.prompt):
        if each.name in turns and each.name != step.name:
            inputs[each.name] = turns[each.name].text
    return {"inputs": inputs, "output": turn.text}


def _inputs(inputs: Mapping[str, Any]) -> dict[str, str]:
    return {name: text_of(value) for name, value in inputs.items()}


@dataclass
class GoodRuns:
    """The best run of each reflect task so far, by one metric.

    A run is good if its score is above the mean and in the best quarter: where all are the same, none is.
    """

    metric: str
    tasks: Iterable[str]
    lower_is_better: bool = False
    _values: list[float] = field(default_factory=list)
    _best: dict[str, tuple[float, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tasks = frozenset(self.tasks)

    def tell(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            if cell.metric != self.metric or cell.task not in self.tasks or cell.value is None:
                continue
            value = -cell.value if self.lower_is_better else cell.value
            self._values.append(value)
            if cell.run and (cell.task not in self._best or value > self._best[cell.task][0]):
                self._best[cell.task] = (value, cell.run)

    def __iter__(self) -> Iterator[str]:
        """The ids of the good runs, in the order in which their tasks were first tried."""
        if not self._values:
            return
        least, mean = np.quantile(self._values, 0.75), np.mean(self._values)
        for value, run in self._best.values():
            if value >= least and value > mean:
                yield run

    def demos(self, playbook: Playbook, step: Step, search: Search, chance: np.random.Generator) -> Iterator[Json]:
        """The answers of a step in the good runs, as demos in random order."""
        good = list(self)
        for place in chance.permutation(len(good)):
            run = search.transcript(good[int(place)])
            demo = demo_from_run(step, run) if run else None
            if demo and fits_prompt(step, demo):
                yield demo


# Operators


def demo_operators(start: Playbook, path: str, tasks: Sequence[Task], runs: GoodRuns | None = None) -> list[Operator]:
    """All ways to change the demos of one step for which there are examples."""
    (step,) = [step for step in start.all_steps() if f"demos.{step.name}" == path]
    sources: list[tuple[str, Source]] = []
    known = [demo_from_task(task) for task in tasks if task.expected is not None]
    if answers_task(start, step) and any(fits_prompt(step, demo) for demo in known):
        sources.append(("a labelled example", _labelled_examples))
    if runs is not None:
        sources.append(("a good run", runs.demos))
    ways: list[Operator] = []
    if sources or len(start.demos.get(step.name, ())) > 1:
        ways += [Demos(f"{what} {path}", step.name, way) for what, way in REARRANGEMENTS.items()]
    for what, source in sources:
        ways += [
            Demos(f"add {what} to {path}", step.name, _add, source),
            Demos(f"put {what} in place of another in {path}", step.name, _replace, source),
            Demos(f"draw other demos for {path}, {what} each", step.name, _draw, source),
        ]
    return ways


Source = Callable[[Playbook, Step, Search, np.random.Generator], Iterator[Json]]
"""Yields demos that fit a step, in random order."""


@dataclass(frozen=True)
class Demos:
    """Changes the demos of a step."""

    name: str
    step: str
    way: Callable[[list[Json], Iterator[Json], np.random.Generator], list[Json] | None]
    source: Source | None = None

    async def __call__(
        self, parent: Playbook, mates: Sequence[Playbook], search: Search, event: str
    ) -> Playbook | None:
        path = f"demos.{self.step}"
        gene = genes(parent).get(path)
        step = next((step for step in parent.all_steps() if step.name == self.step), None)
        if gene is None or step is None:
            return None
        chance = search.chance(event)
        now = list(gene.value)
        fresh = self.source(parent, step, search, chance) if self.source else iter(())
        demos = self.way(now, (demo for demo in fresh if not _has(now, demo)), chance)
        return child(parent, {path: demos}) if demos is not None else None


def _labelled_examples(playbook: Playbook, step: Step, search: Search, chance: np.random.Generator) -> Iterator[Json]:
    if not answers_task(playbook, step):
        return
    for place in chance.permutation(len(search.reflect)):
        task = search.reflect[int(place)]
        if task.expected is not None and fits_prompt(step, demo := demo_from_task(task)):
            yield demo


def answers_task(playbook: Playbook, step: Step) -> bool:
    """Whether the answer of a step is the answer to the task, so that the expected one can be its demo."""
    (*_, last) = playbook.plan
    return last == (step,)


def fits_prompt(step: Step, demo: Json) -> bool:
    """Whether a demo has a value for every placeholder of the step's prompt."""
    return all(not each.of_model and each.name in demo["inputs"] for each in placeholders(step.prompt))


def _has(demos: Sequence[Json], demo: Json) -> bool:
    """Whether there is a demo for the same inputs."""
    return any(each["inputs"] == demo["inputs"] for each in demos)


def _add(demos: list[Json], fresh: Iterator[Json], chance: np.random.Generator) -> list[Json] | None:
    new = next(fresh, None) if len(demos) < MOST else None
    if new is None:
        return None
    demos.insert(int(chance.integers(len(demos) + 1)), new)
    return demos


def _replace(demos: list[Json], fresh: Iterator[Json], chance: np.random.Generator) -> list[Json] | None:
    new = next(fresh, None) if demos else None
    if new is None:
        return None
    demos[int(chance.integers(len(demos)))] = new
    return demos


def _draw(demos: list[Json], fresh: Iterator[Json], chance: np.random.Generator) -> list[Json] | None:
    """About as many as there are, all of them new."""
    count = int(np.clip(len(demos) + chance.integers(-1, 4), 1, MOST))
    new: list[Json] = []
    for demo in fresh:
        if len(new) == count:
            break
        if not _has(new, demo):
            new.append(demo)
    return new or None


def _drop(demos: list[Json], fresh: Iterator[Json], chance: np.random.Generator) -> list[Json] | None:
    if not demos:
        return None
    del demos[int(chance.integers(len(demos)))]
    return demos


def _swap(demos: list[Json], fresh: Iterator[Json], chance: np.random.Generator) -> list[Json] | None:
    if len(demos) < 2:
        return None
    a, b = (int(place) for place in chance.choice(len(demos), 2, replace=False))
    demos[a], demos[b] = demos[b], demos[a]
    return demos


def _reorder(demos: list[Json], fresh: Iterator[Json], chance: np.random.Generator) -> list[Json] | None:
    return [demos[int(place)] for place in chance.permutation(len(demos))] if len(demos) > 2 else None


REARRANGEMENTS = {"drop one of": _drop, "swap two of": _swap, "reorder": _reorder}
