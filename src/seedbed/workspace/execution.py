"""Where evaluations and replays are performed: in this event loop, in other processes, or on Ray."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from seedbed.errors import DatasetError, NotFound, PlaybookError, Problem, SettingsError, shown
from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.files import KINDS, ending
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.seal import HELD_OUT, retirements, seals, without
from seedbed.evaluation.judges.declared import DeclaredJudge, declared_judges
from seedbed.evaluation.metrics.metric import Metric, Score, blind
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.evaluation.remote import RemoteWorkers
from seedbed.experiments.options import Comparing
from seedbed.experiments.registration import Registration
from seedbed.parallel import Executor, Loop, executor
from seedbed.playbooks.playbook import Playbook
from seedbed.plugins import unknown
from seedbed.release.assignment import feedback
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger
from seedbed.stage.bounds import bounds
from seedbed.stage.confirmation import Confirm, Person
from seedbed.workspace.resources import DATASET_FILES, AnyPlaybook, Resources, find_file, store_url

AT_ONCE = 8
"""How many runs are under way at a time; the embedded model answers as many together."""

FRESH = "fresh"
"""`NAME:fresh` names the tasks of a dataset that are new to both playbooks of a comparison."""

Tasks: TypeAlias = Dataset | Path | str
MetricChoice: TypeAlias = Metric | str | Sequence[Metric | str]


class Execution:
    """Performs cells and replays with the resources of a workspace, and reads datasets and metrics by their names."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    # Datasets

    def dataset(self, tasks: Tasks, *, compared: bool = False) -> Dataset:
        """The tasks themselves, or those of a file, a folder, a stored name or a digest; `NAME:SPLIT` is one split.

        What exists as a file or folder is read first. Of a stored name, tasks that are held out or retired are left
        out; `NAME:held-out` are those held out. If they are to be compared, `NAME:fresh` is NAME, and tasks that were
        retired after results of them were known are in it. Raises DatasetError or NotFound.
        """
        if isinstance(tasks, Dataset):
            return tasks
        if not isinstance(tasks, str | Path):
            expected = "a Dataset, the path of one, a name or a digest"
            raise DatasetError([Problem("tasks", shown(tasks), expected, "Dataset.load(path) reads one.")])
        if (loaded := dataset_file(tasks)) is not None:
            return loaded
        name, split = dataset_and_split(str(tasks))
        stored, store = self.stored(name), self._resources.store
        seal = next(iter(seals(store, name)), None)
        if split == HELD_OUT and seal:
            chosen = seal.tasks(store)
        else:
            held = {task_key(task.inputs) for task in seal.tasks(store)} if seal else set()
            chosen = without(stored, held)
            if split and not (split == FRESH and compared and split not in stored.splits):
                _expect_split(split, stored)
                chosen = chosen.only(split=split)
        gone = {each.key for each in retirements(store, name) if not (compared and each.known)}
        return without(chosen, gone)

    def is_fresh(self, tasks: object) -> bool:
        """Whether `NAME:fresh` is meant: what is new to those who are compared."""
        if not isinstance(tasks, str) or dataset_and_split(tasks)[1] != FRESH or dataset_file(tasks) is not None:
            return False
        return FRESH not in self.stored(dataset_and_split(tasks)[0]).splits

    def stored(self, whole: str) -> Dataset:
        """All tasks of a stored name or a digest. Raises NotFound."""
        store = self._resources.store
        ref = store.ref(f"datasets/{whole.removeprefix('datasets/')}")
        digest = ref.target if ref else whole
        body = store.get(digest) if isinstance(digest, str) and digest.startswith("b2:") else {}
        if "tasks" not in body:
            if Path(whole).suffix in (".yaml", ".yml"):
                remedy = "Name a file such as tasks.jsonl, a folder, or a stored dataset."
                raise DatasetError([Problem("tasks", f"the playbook {whole}", "a dataset", remedy)])
            known = [ref.name.removeprefix("datasets/") for ref in store.refs("datasets/")]
            remedy = "A file such as tasks.jsonl works too; `seedbed dataset add` stores one."
            raise NotFound(unknown("tasks", whole, known, remedy, kind="dataset"))
        return Dataset.from_content(body)

    # MetricChoice

    @property
    def judges(self) -> Mapping[str, DeclaredJudge]:
        """The judges under `metrics` in the workspace file. Raises SettingsError with all that is wrong with them."""
        return declared_judges(self._resources.runner) if self._resources.settings.metrics else {}

    def metric(self, metric: Metric | str) -> Metric:
        """The metric itself, or the one of that name: built in, `module:name`, or a judge of the workspace file."""
        if isinstance(metric, str):
            return parse_metric(metric, self.judges)
        if not callable(metric) or not hasattr(metric, "identity"):
            remedy = "Put @metric above your function, or give the name of a built-in metric."
            raise SettingsError([Problem("metric", shown(metric), "a metric, or the name of one", remedy)])
        return metric

    def metrics(self, metrics: MetricChoice) -> list[Metric]:
        """One metric or several; the first one decides."""
        several: Sequence[Metric | str] = metrics if isinstance(metrics, list | tuple) else [metrics]  # type: ignore[list-item]
        return [self.metric(each) for each in several]

    # Where runs are performed

    def context(self, parallel: str | int | None = None, max_cost_usd: float | None = None) -> EvaluationContext:
        """What evaluations and comparisons run in: here, or where `parallel` or the settings say.

        Raises SettingsError.
        """
        ledger = Ledger(max_cost_usd, last_share=0.0, within=bounds().ledger)
        context = replace(self._context, ledger=ledger)
        executor = self._executor(parallel)
        return replace(context, remote=RemoteWorkers(executor, open_worker, self._launch)) if executor else context

    def registration(
        self,
        control: Playbook,
        candidates: Iterable[AnyPlaybook],
        on: Tasks,
        metric: Metric | str,
        options: Comparing,
    ) -> Registration:
        """What a comparison on a dataset registers when it begins."""
        options = replace(options, fresh=options.fresh or self.is_fresh(on))
        new, tasks = [self._resources.playbook(each) for each in candidates], self.dataset(on, compared=True)
        return Registration(control, new, tasks, self.metric(metric), self.context(), options)

    async def expect_harmless(self, *playbooks: Playbook) -> None:
        """Refuse, before anything is paid, to run playbooks whose tools would change the world. Raises SettingsError
        with the ways to go on."""
        await self._resources.runner.expect_simulated(playbooks)

    def _executor(self, parallel: str | int | None) -> Executor | None:
        """The executor to use; None if that is this event loop. Raises SettingsError."""
        settings, executors = self._resources.settings, self._resources.executors
        name = str(settings.parallel if parallel is None else parallel)
        chosen: Executor = executors.get(name) or executors.setdefault(name, executor(name))
        if isinstance(chosen, Loop):
            return None
        if settings.store.partition(":")[0] == "memory":
            remedy = "Store it in sqlite:///FILE or in PostgreSQL, or work in this loop."
            raise SettingsError([Problem("store", "memory:", "a store that other processes can reach", remedy)])
        self._resources.models.require_portable()
        return chosen

    def _launch(self) -> Launch:
        """What other processes need to work here. They may run in another folder."""
        settings = self._resources.settings
        source = Path(settings.source or "seedbed.yaml").absolute()
        update = {"store": store_url(settings), "source": str(source), "parallel": "loop"}
        own, real = self._resources, self._resources.real_tools and bounds().real_tools
        return Launch(settings.model_copy(update=update), own.tools, own.confirm, real)

    @property
    def _context(self) -> EvaluationContext:
        resources = self._resources
        runner = resources.runner  # with the tools that there are now
        context: EvaluationContext | None = vars(resources).get("evaluation_context")
        if context is None:

            async def perform(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
                return await runner.perform_once(run, playbook, dict(task.inputs), seed, ledger=ledger)

            context = EvaluationContext(
                resources.store,
                perform,
                runner.identity,
                resources.by,
                AT_ONCE,
                present=runner.heartbeat,
                runner=runner,
            )
            vars(resources)["evaluation_context"] = context
        return context


async def score_run(resources: Resources, run: Run, metric: Metric | str, expected: Any) -> Score:
    """Score a recorded run, and attach the score to it as feedback of the metric's name."""
    chosen = Execution(resources).metric(metric)
    score = await chosen(blind(run), Task(run.id, run.inputs, expected))
    if score.value is not None:
        feedback(resources.library, run.id, score.value, score.reason, metric=chosen.name)
    return score


class Launch(NamedTuple):
    """What another process needs to work here."""

    settings: Settings
    tools: list[Any]
    confirm: Confirm | Person | None
    real_tools: bool


@dataclass(frozen=True)
class WorkerSpace:
    """Where another process evaluates or replays."""

    context: EvaluationContext


def open_worker(launch: Launch) -> WorkerSpace:
    """The workspace of another process, with the same settings and tools."""
    resources = Resources.open(launch.settings)
    resources.tools, resources.confirm, resources.real_tools = launch.tools, launch.confirm, launch.real_tools
    return WorkerSpace(Execution(resources).context())


def expect_order(playbook: object, tasks: object) -> None:
    """Refuse files in the wrong order. Raises PlaybookError."""
    endings = [Path(each).suffix if isinstance(each, str | Path) else "" for each in (playbook, tasks)]
    if endings[0] in DATASET_FILES and endings[1] in (".yaml", ".yml"):
        remedy = "The playbook comes first, then the tasks."
        raise PlaybookError([Problem("playbook", f"the dataset {playbook}", "a playbook", remedy)])


def expect_readable(workspace: Path | None, metrics: Iterable[str], tasks: str | None = None) -> None:
    """Refuse an unknown metric and a file of tasks that is wrong, before a store is made on disk.

    Raises SettingsError or DatasetError.
    """
    own = Settings.load(find_file(workspace)).metrics
    for name in metrics:
        if ":" not in name and name.partition("(")[0].strip() not in own:
            parse_metric(name, {})
    if tasks:
        dataset_file(tasks)


def _expect_split(split: str, tasks: Dataset) -> None:
    """Raises DatasetError for a part that is computed, where there is none."""
    if split in (HELD_OUT, FRESH) and split not in tasks.splits:
        remedy = "Hold some out: seedbed dataset hold-out NAME" if split == HELD_OUT else "Compare on it: compare --on"
        expected = "tasks that are held out" if split == HELD_OUT else "two playbooks that they are new to"
        raise DatasetError([Problem(split, "none", expected, f"{remedy}.")])


def dataset_file(name: Path | str) -> Dataset | None:
    """The tasks if a file or folder is meant, or a split of one; None if only a store can know."""
    whole, split = dataset_and_split(str(name))
    if not is_dataset_file(whole):
        return None
    tasks = Dataset.load(whole)
    return tasks.only(split=split) if split else tasks


def dataset_and_split(name: str) -> tuple[str, str | None]:
    """`mail:test` as `mail` and `test`; a file whose own name has a colon is meant first."""
    parts = None if Path(name).exists() else re.fullmatch(r"(b2:[0-9a-f]{64}|.+?):([^:/\\]+)", name)
    return (parts[1], parts[2]) if parts and parts[1] != "b2" else (name, None)


def is_dataset_file(name: str) -> bool:
    """Whether a dataset is meant as a file or folder: by its ending, or because it exists."""
    path = Path(name)
    return path.suffix not in (".yaml", ".yml") and (ending(path) in KINDS or path.exists())
