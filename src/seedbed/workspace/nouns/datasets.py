"""space.datasets: store, find, split and sample tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seedbed.errors import DatasetError, NotFound, Problem, shown
from seedbed.evaluation.datasets import seal
from seedbed.evaluation.datasets.check import DatasetCheck, check_dataset
from seedbed.evaluation.datasets.dataset import Dataset, StratifyBy, Task
from seedbed.evaluation.datasets.files import KINDS, ending
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.loading import Columns, read
from seedbed.evaluation.datasets.near_tasks import leaks
from seedbed.evaluation.datasets.seal import Retirement, Seal, cleared
from seedbed.experiments.proof.freshness import first_results
from seedbed.experiments.proof.held_out import shown_tasks
from seedbed.files import write_private
from seedbed.playbooks.library import REF_NAME
from seedbed.reports.numbers import counted
from seedbed.storage.store import Json, Ref, now
from seedbed.workspace.execution import Execution, Tasks, dataset_and_split
from seedbed.workspace.resources import AnyPlaybook, Resources


class Datasets:
    """The datasets of a workspace."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._execution = Execution(resources)

    def get(self, tasks: Tasks) -> Dataset:
        """The tasks of a file, a folder, a stored name or a digest; `NAME:SPLIT` is one split of them.

        Raises DatasetError or NotFound.
        """
        return self._execution.dataset(tasks)

    def size(self, tasks: Tasks) -> int:
        """How many tasks a comparison on these has at most. Raises DatasetError or NotFound."""
        return len(self._execution.dataset(tasks, compared=True))

    def describe(self) -> list[Json]:
        """Every stored dataset: its name, how many tasks, its splits, and why it is there."""
        return [self._described(ref) for ref in self._resources.store.refs("datasets/")]

    def _described(self, ref: Ref) -> Json:
        body = self._resources.store.get(str(ref.target))
        name = ref.name.removeprefix("datasets/")
        return {
            "name": name,
            "dataset": ref.target,
            "tasks": len(body["tasks"]),
            "held_out": self.held_out(name),
            "splits": {name: len(ids) for name, ids in body.get("splits", {}).items()},
            "version": ref.version,
            "because": ref.because,
            "by": ref.by,
            "at": ref.at,
        }

    def check(self, tasks: Tasks, playbook: AnyPlaybook | None = None) -> DatasetCheck:
        """What repeats in a dataset, leaks between its splits or is missing; and which tasks a playbook shows."""
        own, dataset = self._resources, self.get(tasks)
        checked = check_dataset(dataset, cleared(own.store))
        if playbook is None:
            return checked
        return replace(checked, shown=tuple(shown_tasks(own.library, own.playbook(playbook), dataset)))

    def not_leaked(self, name: str, task: str, *, because: str) -> None:
        """Record that a task of a stored dataset is no leak, although it is very like one that was seen."""
        store, by = self._resources.store, self._resources.by
        seal.clear(store, self._name(name), self._task(name, task), because=because, by=by, clock=now)

    # Tasks that are held out or retired

    def hold_out(self, name: str, *, share: float = 0.3, seed: int = 0) -> Seal:
        """Hold out a share of the tasks of a stored dataset of which no result is known, nor of nearly the same: only a
        confirmatory comparison opens them, as `NAME:held-out`. Raises DatasetError, also if some are held out
        already."""
        store, by, known = self._resources.store, self._resources.by, first_results(self._resources.store)
        tasks = self._execution.stored(self._name(name))
        near = {each.task for each in leaks(tasks.tasks, [each.inputs for each in known.values()])}
        new = [task.id for task in tasks if task_key(task.inputs) not in known and task.id not in near]
        if len(new) < 2:
            remedy = "Add new tasks to it first: seedbed dataset add."
            raise DatasetError([Problem(name, f"{len(new)} tasks without results", "at least 2", remedy)])
        return seal.hold_out(store, name, tasks.only(ids=new), share=share, seed=seed, by=by, clock=now)

    def held_out(self, tasks: Tasks) -> int:
        """How many tasks of a stored dataset are held out."""
        name = dataset_and_split(str(tasks))[0] if isinstance(tasks, str) else ""
        return sum(len(each.ids) for each in seal.seals(self._resources.store, name)) if name else 0

    def retire(self, name: str, task: str, *, because: str) -> Retirement:
        """Take a task of a stored dataset out of use, such as one with a wrong answer.

        If a result of it is known, it counts as a missing answer in confirmatory comparisons, so there is no gain in
        retiring what does not suit a candidate.
        """
        store, by, chosen = self._resources.store, self._resources.by, self._task(name, task)
        known = task_key(chosen.inputs) in first_results(store)
        return seal.retire(store, self._name(name), chosen, known=known, because=because, by=by, clock=now)

    def _task(self, name: str, task: str) -> Task:
        return self._execution.stored(self._name(name)).only(ids=[task]).tasks[0]

    def _name(self, name: str) -> str:
        """The name of a stored dataset. Raises NotFound."""
        called = name.removeprefix("datasets/")
        if self._resources.store.ref(f"datasets/{called}") is None:
            remedy = "Store it first: seedbed dataset add FILE --name NAME"
            raise NotFound(f"no stored dataset is called {shown(name)}. {remedy}")
        return called

    def add(self, name: str, tasks: Tasks, *, because: str) -> Ref:
        """Store tasks under a name. If they are there already nothing moves; the old ones stay in the store."""
        if not REF_NAME.fullmatch(name) or ending(Path(name)) in KINDS:
            remedy = "Give one with --name."
            raise DatasetError([Problem("name", shown(name), "a word such as mail, not that of a file", remedy)])
        store = self._resources.store
        digest = store.put("dataset", self.get(tasks).content())
        current = store.ref(f"datasets/{name}")
        if current and current.target == digest:
            return current
        return store.move(f"datasets/{name}", digest, expected=current, because=because, by=self._resources.by)

    def add_splits(self, name: str, parts: Mapping[str, Dataset], *, because: str) -> Ref:
        """Add splits to a stored dataset. Raises DatasetError for one that it has already."""
        tasks = self._execution.stored(f"datasets/{name}")
        remedy = "Name others with --into, or add the dataset again."
        taken = [each for each in parts if each in tasks.splits]
        if taken:
            raise DatasetError(
                [Problem(f"splits.{each}", "a split that exists", "a new one", remedy) for each in taken]
            )
        return self.add(name, tasks.with_splits(parts), because=because)


def read_file(file: Path, columns: Columns, *, once: bool = False) -> tuple[Dataset, int]:
    """The tasks of a file, and with `once` how many rows repeat others and are left out. Raises DatasetError."""
    loaded = read(file, columns, once=once)
    return Dataset.made(loaded), loaded.repeated


@dataclass(frozen=True)
class Draw:
    """How a dataset is split in two: a share for the first part, or folds; what a draw respects; and the seed."""

    share: float = 0.5
    folds: int | None = None
    by: StratifyBy | None = None
    seed: int = 0

    def parts(self, tasks: Dataset, names: Sequence[str]) -> dict[str, Dataset]:
        """The two parts by their names; of folds, fold-1-train and fold-1-test and so on. Raises DatasetError."""
        if self.folds is not None:
            pairs = enumerate(tasks.folds(self.folds, self.seed, by=self.by), 1)
            return {f"fold-{n}-{name}": part for n, pair in pairs for name, part in zip(names, pair, strict=True)}
        if self.by:
            halves = tasks.stratified(self.share, self.seed, by=self.by)
        else:
            halves = tasks.split(self.share, self.seed)
        if not all(halves):
            sizes = " and ".join(counted(len(half), "task") for half in halves)
            raise DatasetError([Problem("share of tasks", sizes, "at least one in each part", "Give more tasks.")])
        return dict(zip(names, halves, strict=True))


def part_file(whole: str, *names: str) -> Path:
    """Where a part of a file goes: mail-train.jsonl beside mail.csv."""
    path = Path(whole)
    stem = path.name[: path.name.lower().rindex(ending(path))] if ending(path) else path.name
    return path.with_name("-".join([stem, *names]) + ".jsonl")


def write_files(files: Mapping[Path, Dataset], *, dry_run: bool = False) -> None:
    """Write new files of JSON lines, all or none; `Dataset.load` reads them back. Raises DatasetError."""
    remedy = "Remove it, or name another."
    taken = [Problem(str(file), "a file that exists", "a new one", remedy) for file in files if file.exists()]
    if taken:
        raise DatasetError(taken)
    for file, tasks in files.items() if not dry_run else ():
        lines = (json.dumps(row, ensure_ascii=False) for row in tasks.rows())
        write_private(file, "".join(f"{each}\n" for each in lines))
