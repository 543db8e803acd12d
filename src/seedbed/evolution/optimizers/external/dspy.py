"""DSPy: worked examples by the `dspy` package's BootstrapFewShot, with our cells, our budget and our record."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from seedbed.errors import PlaybookError, Problem, SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.optimizers.external.adapter import ExternalOptimizer, SearchBridge, TrialRequest, TrialResult
from seedbed.evolution.protocols import Search
from seedbed.evolution.variation.checks import child
from seedbed.evolution.variation.demonstrations import demo_from_run, demo_from_task
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.playbooks.prompts import placeholders
from seedbed.storage.store import Json

Build: TypeAlias = Callable[[], Any]


class DSPy(ExternalOptimizer):
    """Sets of worked examples for each step: up to `demos` of the agent's own runs that went well on tasks that may be
    read, and tasks with their known answers, `labelled` in all.

    A run went well if it scored `good` or more; by default, anything but 0. The first set takes the tasks in their
    order, each of `sets` others in another one, with its own number of demos, as the package's random search does. The
    agent is its own teacher. Which set is the best the search decides, not the package.
    """

    package = extra = "dspy"

    def __init__(self, *, demos: int = 4, demo_from_task: int = 8, sets: int = 16, good: float | None = None) -> None:
        problems = [Problem("demos", str(demos), "at least 1")] if demos < 1 else []
        counts = {"labelled": demo_from_task, "sets": sets}
        problems += [Problem(name, str(count), "at least 0") for name, count in counts.items() if count < 0]
        if problems:
            raise SettingsError(problems, "DSPy")
        self.identity: Json = {"optimizer": "dspy", "demos": demos, **counts, "good": good}
        self._demos, self._labelled, self._sets, self._good = demos, demo_from_task, sets, good

    def begin(self, search: Search) -> None:
        """Get ready for a search. Raises PlaybookError without a step whose demos may evolve; SettingsError without the
        package or tasks to read."""
        super().begin(search)
        if not _steps(search.start):
            raise PlaybookError([Problem("genes", "no demos that may evolve", "those of a step", "Unlock some.")])
        if not search.reflect:
            raise SettingsError([Problem("reflect", "no tasks", "some tasks that may be read")], "DSPy")

    def work(self) -> Callable[[SearchBridge], None]:
        start, read = self._search.start, list(self._search.reflect)
        demos, labels, sets, good = self._demos, self._labelled, self._sets, self._good
        order = self._search.chance("dspy").permutation(len(read)).tolist()

        def run(line: SearchBridge) -> None:
            stage = _Stage(start, read, line)
            build, bootstrap, label = _with_dspy(stage)
            examples = [stage.example(read[place]) for place in order]
            if labels:
                stage.offer(label(labels).compile(build(), trainset=examples), "labelled examples")
            for number in range(sets + 1):
                some, size = list(examples), demos
                if number:
                    random.Random(number).shuffle(some)
                    size = random.Random(number).randint(1, demos)
                optimizer = bootstrap(
                    metric=lambda example, prediction, trace=None: prediction.score,
                    metric_threshold=good,
                    max_bootstrapped_demos=size,
                    max_labeled_demos=labels,
                )
                stage.offer(optimizer.compile(build(), trainset=some), "bootstrapped examples")

        return run

    async def answered(self, question: Any) -> Any:
        raise AssertionError(f"asked {question}; the package asks no model itself")


class _Stage:
    """Turns programs of the package into playbooks, and has them tried."""

    def __init__(self, start: Playbook, read: Sequence[Task], line: SearchBridge) -> None:
        self._start, self._line = start, line
        self._tasks = {task.id: task for task in read}
        self.steps = _steps(start)
        (*_, self._last) = start.plan
        self._shown: dict[tuple[str, str, str], Json] = {}

    def example(self, task: Task) -> Any:
        import dspy

        return dspy.Example(task=task.id).with_inputs("task")

    def offer(self, program: Any, how: str) -> None:
        playbook = self._playbook(program)
        if playbook.digest != self._start.digest:
            self._line.tried(TrialRequest(playbook, None, (self._start.digest,), how))

    def forward(self, program: Any, task: str) -> TrialResult:
        playbook = self._playbook(program)
        parents = () if playbook.digest == self._start.digest else (self._start.digest,)
        (result,) = self._line.tried(TrialRequest(playbook, (task,), parents, "teacher"))
        return result

    def said(self, step: Step, task: str, result: TrialResult) -> str | None:
        """What a step answered, if that can be shown to others."""
        demo = demo_from_run(step, result.run) if result.run else None
        if demo is None and result.run is None and len(list(self._start.all_steps())) == 1 and result.cell:
            demo = {**demo_from_task(self._tasks[task]), "output": result.cell.answer}
        if demo is None or not demo["output"].strip() or not _shows(step, demo):
            return None
        self._shown[step.name, task, demo["output"]] = demo
        return str(demo["output"])

    def _playbook(self, program: Any) -> Playbook:
        """The start with the demos of a program."""
        values = {}
        for (name, step), predictor in zip(self.steps.items(), program.predictors(), strict=True):
            if demos := [demo for each in predictor.demos if (demo := self._demo(step, each))]:
                values[f"demos.{name}"] = demos
        return child(self._start, values) or self._start

    def _demo(self, step: Step, example: Any) -> Json | None:
        if "augmented" in example:
            return self._shown.get((step.name, example["task"], example["answer"]))
        task = self._tasks[example["task"]]
        demo = demo_from_task(task)
        return demo if self._last == (step,) and task.expected is not None and _shows(step, demo) else None


def _with_dspy(stage: _Stage) -> tuple[Build, Any, Any]:
    """Programs whose predictors are the steps of a playbook, and the optimizers of the package, made quiet."""
    import dspy
    from dspy.teleprompt import BootstrapFewShot, LabeledFewShot

    class Program(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = [dspy.Predict("task -> answer") for _ in stage.steps]

        def forward(self, task: str) -> Any:
            result = stage.forward(self, task)
            for step, part in zip(stage.steps.values(), self.parts, strict=True):
                said = stage.said(step, task, result)
                if said is not None and dspy.settings.trace is not None:
                    dspy.settings.trace.append((part, {"task": task}, dspy.Prediction(answer=said)))
            return dspy.Prediction(score=result.score)

    class Bootstrap(BootstrapFewShot):  # type: ignore[misc]
        def _bootstrap(self, *, max_bootstraps: int | None = None) -> None:
            """As the package does it, but without a word: a terminal is not its to write on."""
            good: set[int] = set()
            self.name2traces: dict[str, list[Any]] = {name: [] for name in self.name2predictor}
            for place, example in enumerate(self.trainset):
                if len(good) >= (max_bootstraps or self.max_bootstrapped_demos):
                    break
                if self._bootstrap_one_example(example):
                    good.add(place)
            self.validation = [each for place, each in enumerate(self.trainset) if place not in good]
            random.Random(0).shuffle(self.validation)

    return Program, Bootstrap, LabeledFewShot


def _steps(playbook: Playbook) -> dict[str, Step]:
    """The steps whose demos may evolve."""
    known = genes(playbook)
    return {step.name: step for step in playbook.all_steps() if f"demos.{step.name}" in known}


def _shows(step: Step, demo: Json) -> bool:
    return all(not each.of_model and each.name in demo["inputs"] for each in placeholders(step.prompt))
