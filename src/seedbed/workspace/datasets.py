"""space.datasets: store, find, split and sample tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seedbed.errors import DatasetError, Problem, shown
from seedbed.evaluation.datasets.check import DatasetCheck, check_dataset
from seedbed.evaluation.datasets.dataset import Dataset, StratifyBy
from seedbed.evaluation.datasets.files import KINDS, ending
from seedbed.evaluation.datasets.loading import Columns, read
from seedbed.playbooks.library import REF_NAME
from seedbed.reports.numbers import counted
from seedbed.storage.store import Json, Ref
from seedbed.workspace.execution import Execution, Tasks
from seedbed.workspace.resources import Resources


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

    def describe(self) -> list[Json]:
        """Every stored dataset: its name, how many tasks, its splits, and why it is there."""
        return [self._described(ref) for ref in self._resources.store.refs("datasets/")]

    def _described(self, ref: Ref) -> Json:
        body = self._resources.store.get(str(ref.target))
        return {
            "name": ref.name.removeprefix("datasets/"),
            "dataset": ref.target,
            "tasks": len(body["tasks"]),
            "splits": {name: len(ids) for name, ids in body.get("splits", {}).items()},
            "version": ref.version,
            "because": ref.because,
            "by": ref.by,
            "at": ref.at,
        }

    def check(self, tasks: Tasks) -> DatasetCheck:
        """What repeats in a dataset, leaks between its splits or is missing."""
        return check_dataset(self.get(tasks))

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
        tasks = self.get(f"datasets/{name}")
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
        file.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
