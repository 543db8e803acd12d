"""DSPy: worked examples by the `dspy` package's BootstrapFewShot, with seedbed's cells, budget and records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from seedbed import plugins
from seedbed.errors import PlaybookError, Problem
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.optimizers.external.adapter import ExternalOptimizer, SearchBridge, TrialRequest, TrialResult
from seedbed.evolution.protocols import Search, at_least, check_settings
from seedbed.evolution.variation.checks import child
from seedbed.evolution.variation.demonstrations import answers_task, demo_from_run, demo_from_task, fits_prompt
from seedbed.playbooks.genes import genes
from seedbed.playbooks.playbook import Playbook, Step
from seedbed.storage.store import Json

if TYPE_CHECKING:
    import dspy

Build: TypeAlias = Callable[[], Any]


class DSPy(ExternalOptimizer):
    """Sets of worked examples for each step: up to `demos` good runs of the agent itself on tasks that may be read, and
    tasks with their known answers, `labelled` in all.

    A run is good if it scores `good` or more; by default, anything but 0. The first set takes the tasks in their order,
    each of `sets` others in a random order with a random number of demos, as the package's random search does. The
    agent is its own teacher. The search decides which set is the best, not the package.
    """

    package = "dspy"

    def __init__(self, *, demos: int = 4, labelled: int = 8, sets: int = 16, good: float | None = None) -> None:
        check_settings("dspy", demos=at_least(1, demos), labelled=at_least(0, labelled), sets=at_least(0, sets))
        self.identity: Json = {"optimizer": "dspy", "demos": demos, "labelled": labelled, "sets": sets, "good": good}
        self._demos, self._labelled, self._sets, self._good = demos, labelled, sets, good

    def begin(self, search: Search) -> None:
        """Begin a search. Raises PlaybookError without a step whose demos may evolve; SettingsError without the package
        or tasks to read."""
        super().begin(search)
        if not _steps(search.start):
            raise PlaybookError([Problem("genes", "no demos that may evolve", "those of a step", "Unlock some.")])

    def work(self) -> Callable[[SearchBridge], None]:
        start, read = self._search.start, list(self._search.reflect)
        demos, labels, sets, good = self._demos, self._labelled, self._sets, self._good
        package = plugins.optional("dspy", extra="dspy", needed_for="optimizer dspy")
        order = self._search.chance("dspy").permutation(len(read)).tolist()

        def run(bridge: SearchBridge) -> None:
            programs = _Programs(start, read, bridge)
            build, bootstrap, label = _make_quiet(package, programs)
            examples = [package.Example(task=read[place].id).with_inputs("task") for place in order]
            if labels:
                programs.offer(label(labels).compile(build(), trainset=examples), "labelled examples")
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
                programs.offer(optimizer.compile(build(), trainset=some), "bootstrapped examples")

        return run

    async def answer(self, question: Any) -> Any:
        raise AssertionError(f"found the question {question}; expected trials only")


class _Programs:
    """Turns programs of the package into playbooks, and tries them in the search."""

    def __init__(self, start: Playbook, read: Sequence[Task], bridge: SearchBridge) -> None:
        self._start, self._bridge = start, bridge
        self._tasks = {task.id: task for task in read}
        self.steps = _steps(start)
        self._shown: dict[tuple[str, str, str], Json] = {}

    def offer(self, program: dspy.Module, how: str) -> None:
        playbook = self._playbook(program)
        if playbook.digest != self._start.digest:
            self._bridge.try_playbook(TrialRequest(playbook, None, (self._start.digest,), how))

    def forward(self, program: dspy.Module, task: str) -> TrialResult:
        playbook = self._playbook(program)
        parents = () if playbook.digest == self._start.digest else (self._start.digest,)
        (result,) = self._bridge.try_playbook(TrialRequest(playbook, (task,), parents, "teacher"))
        return result

    def answer(self, step: Step, task: str, result: TrialResult) -> str | None:
        """What a step answered, if that can be a demo."""
        demo = demo_from_run(step, result.run) if result.run else None
        if demo is None and result.run is None and len(list(self._start.all_steps())) == 1 and result.cell:
            demo = {**demo_from_task(self._tasks[task]), "output": result.cell.answer}
        if demo is None or not demo["output"].strip() or not fits_prompt(step, demo):
            return None
        self._shown[step.name, task, demo["output"]] = demo
        return str(demo["output"])

    def _playbook(self, program: dspy.Module) -> Playbook:
        """The start with the demos of a program."""
        values = {}
        for (name, step), predictor in zip(self.steps.items(), program.predictors(), strict=True):
            if demos := [demo for each in predictor.demos if (demo := self._demo(step, each))]:
                values[f"demos.{name}"] = demos
        return child(self._start, values) or self._start

    def _demo(self, step: Step, example: dspy.Example) -> Json | None:
        if "augmented" in example:
            return self._shown.get((step.name, example["task"], example["answer"]))
        task = self._tasks[example["task"]]
        demo = demo_from_task(task)
        fits = answers_task(self._start, step) and task.expected is not None and fits_prompt(step, demo)
        return demo if fits else None


def _make_quiet(package: Any, programs: _Programs) -> tuple[Build, Any, Any]:
    """Programs whose predictors are the steps of a playbook, and the optimizers of the package without their output."""

    class StepsProgram(package.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts = [package.Predict("task -> answer") for _ in programs.steps]

        def forward(self, task: str) -> Any:
            result = programs.forward(self, task)
            for step, part in zip(programs.steps.values(), self.parts, strict=True):
                answer = programs.answer(step, task, result)
                if answer is not None and package.settings.trace is not None:
                    package.settings.trace.append((part, {"task": task}, package.Prediction(answer=answer)))
            return package.Prediction(score=result.score)

    class QuietBootstrap(package.BootstrapFewShot):  # type: ignore[misc]
        def _bootstrap(self, *, max_bootstraps: int | None = None) -> None:
            """As the package does it, but without writing to the terminal."""
            good: set[int] = set()
            self.name2traces: dict[str, list[Any]] = {name: [] for name in self.name2predictor}
            for place, example in enumerate(self.trainset):
                if len(good) >= (max_bootstraps or self.max_bootstrapped_demos):
                    break
                if self._bootstrap_one_example(example):
                    good.add(place)
            self.validation = [each for place, each in enumerate(self.trainset) if place not in good]
            random.Random(0).shuffle(self.validation)

    return StepsProgram, QuietBootstrap, package.LabeledFewShot


def _steps(playbook: Playbook) -> dict[str, Step]:
    """The steps whose demos may evolve."""
    known = genes(playbook)
    return {step.name: step for step in playbook.all_steps() if f"demos.{step.name}" in known}
