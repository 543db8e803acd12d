"""Task and Dataset: inputs, and the expected answers that are known. A dataset never changes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor
from pathlib import Path
from typing import Any, Literal

from seedbed import documents
from seedbed.errors import DatasetError, Problem, expect_type, shown
from seedbed.evaluation.datasets import loading
from seedbed.storage.store import Digest, Json, canonical, digest

StratifyBy = Literal["tag", "expected", "source"]
"""How a draw is stratified: by shares of tags or of expected answers, or by whole sources."""


Case = Literal["fold", "keep"]
"""Whether upper and lower case make no difference to what a task asks, or make another task."""


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do. Its id names it within a dataset.

    `source` is shared by related tasks, such as those of one document or customer: they are not independent.
    """

    id: str
    inputs: Mapping[str, Any]
    expected: Any = None
    tags: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        remedy = "Write Task(id, inputs, expected)."
        expect_type(self.id, str, "id", "an id in words", remedy)
        expect_type(self.inputs, Mapping, "inputs", "inputs by name", remedy)

    def body(self) -> Json:
        """All of it; `tags` and `source` only where there are some."""
        body = self._asks()
        if self.tags:
            body["tags"] = list(self.tags)
        if self.source:
            body["source"] = self.source
        return body

    @property
    def digest(self) -> Digest:
        """Covers id, inputs and expected answer. Cells stay valid when tags or source change."""
        return digest("task", self._asks())

    def _asks(self) -> Json:
        return {"id": self.id, "inputs": dict(self.inputs), "expected": self.expected}


@dataclass(frozen=True)
class Dataset:
    """Tasks in their order, no two with the same id, and names for some parts of them.

    Named splits are part of the content; they may overlap, as folds do. Draws depend only on the seed and on the ids,
    inputs and expected answers of the tasks: tags, sources and names that are added later move no task to another side.
    """

    tasks: tuple[Task, ...]
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    case: Case = "fold"
    """`keep` for tasks about letter case: those that differ only in it count as different ones."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", _tasks(self.tasks))
        double = [name for name, times in Counter(task.id for task in self.tasks).items() if times > 1]
        problems = [Problem(f"task {shown(name)}", "the same id twice", "a unique id") for name in double]
        splits = {}
        for name, listed in self.splits.items():
            ids = {*listed}
            problems += _wrong_split(name, ids, self._ids)
            splits[name] = tuple(task.id for task in self.tasks if task.id in ids)
        if problems:
            raise DatasetError(problems)
        object.__setattr__(self, "splits", splits)

    @classmethod
    def load(
        cls,
        path: Path | str,
        columns: loading.Columns = loading.Columns(),  # noqa: B008 - it is frozen
        *,
        expected: str | None = None,
        once: bool = False,
    ) -> Dataset:
        """Read JSON lines, JSON, CSV, TSV, Parquet, Arrow, or a folder with a file for each split.

        `columns` says which field of a row is what, where it has another name; `expected="answer"` is short for the
        most common of them. `once` leaves out repeated tasks. Raises DatasetError with every bad row.
        """
        chosen = replace(columns, expected=expected) if expected else columns
        return cls.made(loading.read(documents.file_path(path, "a dataset", DatasetError), chosen, once=once))

    @classmethod
    def made(cls, loaded: loading.LoadedTasks) -> Dataset:
        return cls.from_content({"tasks": loaded.tasks, "splits": loaded.splits})

    @classmethod
    def from_content(cls, content: Json) -> Dataset:
        splits = {name: tuple(ids) for name, ids in content.get("splits", {}).items()}
        case = content.get("identity", {}).get("case", "fold")
        return cls(tuple(_task(body) for body in content["tasks"]), splits, case)

    def content(self) -> Json:
        tasks: Json = {"tasks": [task.body() for task in self.tasks]}
        if self.case != "fold":
            tasks["identity"] = {"case": self.case}
        return {**tasks, "splits": {name: list(ids) for name, ids in self.splits.items()}} if self.splits else tasks

    def rows(self) -> Iterator[Json]:
        """Each task with its splits, as one line of JSON lines; `load` reads the same dataset back."""
        within: dict[str, list[str]] = {}
        for name, ids in self.splits.items():
            for each in ids:
                within.setdefault(each, []).append(name)
        for task in self.tasks:
            names = within.get(task.id, [])
            yield {**task.body(), "split": names[0] if len(names) == 1 else names} if names else task.body()

    @cached_property
    def digest(self) -> Digest:
        return digest("dataset", self.content())

    # Parts

    def only(self, *, tag: str | None = None, split: str | None = None, ids: Collection[str] | None = None) -> Dataset:
        """The tasks that match all of these, in their order. Raises DatasetError for unknown names, or if none match.

        Named splits stay, as far as they have tasks left; a split that was selected has none.
        """
        chosen = {*self._ids}
        problems = []
        if tag is not None:
            chosen &= {task.id for task in self.tasks if tag in task.tags}
            known: Iterable[str] = sorted({each for task in self.tasks for each in task.tags})
            if tag not in known:
                problems.append(_unknown("tag", tag, known))
        if split is not None:
            chosen &= {*self.splits.get(split, ())}
            if split not in self.splits:
                problems.append(_unknown("split", split, self.splits))
        if ids is not None:
            problems += [
                Problem("id", shown(each), "the id of a task") for each in dict.fromkeys(ids) if each not in self._ids
            ]
            chosen &= {*ids}
        if not chosen and not problems:
            problems.append(Problem("tasks", "none that match all of these", "at least one"))
        if problems:
            raise DatasetError(problems)
        return self._part(chosen, named=split is None)

    def with_splits(self, splits: Mapping[str, Dataset | Iterable[str]]) -> Dataset:
        """The same tasks with more named splits, by their tasks or ids; a known name is replaced."""
        ids = {
            name: tuple(task.id for task in part) if isinstance(part, Dataset) else tuple(part)
            for name, part in splits.items()
        }
        return Dataset(self.tasks, {**self.splits, **ids}, self.case)

    def split(self, share: float, seed: int) -> tuple[Dataset, Dataset]:
        """Two disjoint datasets, the first with that share of the tasks; the same for the same seed."""
        order = self._shuffled(seed)
        return self._halves({task.id for task in order[: round(_checked(share) * len(order))]})

    def stratified(self, share: float, seed: int, by: StratifyBy = "expected") -> tuple[Dataset, Dataset]:
        """Like `split`, but each answer or combination of tags has that share on both sides, up to one task.

        By source no source is divided, and the shares are as close as whole sources allow.
        """
        return self._halves(self._drawn(_checked(share) * len(self.tasks), seed, by))

    def folds(self, k: int, seed: int, by: StratifyBy | None = None) -> list[tuple[Dataset, Dataset]]:
        """k pairs of (the others, the fold): each task is in exactly one fold, and folds are of about equal size.

        By tag or expected answer each fold has its share of each; by source no source is divided.
        """
        groups = self._groups(seed, by)
        units = len(groups) if by == "source" else len(self.tasks)
        if not 2 <= k <= units:
            expected = f"from 2 to {units:,}, the number of {'sources' if by == 'source' else 'tasks'}"
            raise DatasetError([Problem("folds", str(k), expected)])
        held: list[set[str]] = [set() for _ in range(k)]
        if by == "source":
            for group in sorted(groups, key=len, reverse=True):  # the large ones first, while there is room
                min(held, key=len).update(task.id for task in group)
        else:
            for place, task in enumerate(task for group in groups for task in group):
                held[place % k].add(task.id)
        return [self._halves(fold)[::-1] for fold in held]

    def sample(self, n: int, seed: int, by: StratifyBy | None = None) -> Dataset:
        """n tasks drawn by the seed, in their order; a larger sample by the same seed does not contain a smaller one.

        By tag or expected answer each keeps its share; by source whole sources are drawn, about n tasks in all.
        """
        if not 1 <= n <= len(self.tasks):
            raise DatasetError([Problem("n", f"{n:,}", f"from 1 to {len(self.tasks):,}, the number of tasks")])
        return self._part(self._drawn(n, seed, by) if by else {task.id for task in self._shuffled(seed)[:n]})

    def _drawn(self, count: float, seed: int, by: StratifyBy) -> set[str]:
        """The ids of about `count` tasks, drawn group by group."""
        groups = self._groups(seed, by)
        chosen: list[Task] = []
        if by == "source":
            for group in groups:
                if len(chosen) + len(group) / 2 <= count:  # closer with it than without
                    chosen += group
            return {task.id for task in chosen or min(groups, key=len)}
        exact = [count * len(group) / len(self.tasks) for group in groups]
        # Rounded down first; the remainder goes to the groups that lost most by rounding.
        takes = [floor(each) for each in exact]
        left = round(count) - sum(takes)
        for place in sorted(range(len(groups)), key=lambda place: takes[place] - exact[place])[:left]:
            takes[place] += 1
        return {task.id for group, take in zip(groups, takes, strict=True) for task in group[:take]}

    def _groups(self, seed: int, by: StratifyBy | None) -> list[list[Task]]:
        """Tasks grouped by tag, expected answer or source; groups and tasks in an order drawn by the seed."""
        groups: dict[object, list[Task]] = {}
        for task in self._shuffled(seed):
            groups.setdefault(_alike(task, by), []).append(task)
        return list(groups.values())

    def _shuffled(self, seed: int) -> list[Task]:
        order = list(self.tasks)
        random.Random(f"{self._task_digest} {seed}").shuffle(order)
        return order

    @cached_property
    def _task_digest(self) -> Digest:
        """The digest of a dataset of these tasks without tags, sources and splits."""
        return digest("dataset", {"tasks": [task._asks() for task in self.tasks]})

    def _halves(self, chosen: set[str]) -> tuple[Dataset, Dataset]:
        return self._part(chosen, named=False), self._part(self._ids - chosen, named=False)

    def _part(self, chosen: Set[str], *, named: bool = True) -> Dataset:
        tasks = tuple(task for task in self.tasks if task.id in chosen)
        left = {name: tuple(each for each in ids if each in chosen) for name, ids in self.splits.items()}
        return Dataset(tasks, {name: ids for name, ids in left.items() if ids} if named else {}, self.case)

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(task.id for task in self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)


def _tasks(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks as they were given. Raises DatasetError for anything else."""
    listed = tuple(tasks) if isinstance(tasks, Iterable) and not isinstance(tasks, str) else (tasks,)
    remedy = "Write Task(id, inputs, expected), or read a file: Dataset.load(path)."
    problems = [
        Problem(f"tasks[{number}]", shown(each), "a Task with an id in words and its inputs by name", remedy)
        for number, each in enumerate(listed)
        if not isinstance(each, Task)
    ]
    if problems:
        raise DatasetError(problems[:3])
    return listed


def _task(body: Json) -> Task:
    return Task(**{**body, "tags": tuple(body.get("tags", ()))})


def _alike(task: Task, by: StratifyBy | None) -> object:
    match by:
        case None:
            return None
        case "tag":
            return tuple(sorted(task.tags))
        case "expected":
            return canonical(task.expected)
        case "source":
            return ("source", task.source) if task.source else ("task", task.id)
    raise DatasetError([Problem("by", shown(by), "tag, expected or source")])


def _checked(share: float) -> float:
    expect_type(share, float | int, "share", "more than 0 and less than 1", "Write split(0.5, seed=1).")
    if not 0 < share < 1:
        raise DatasetError([Problem("share", str(share), "more than 0 and less than 1")])
    return share


def _wrong_split(name: str, ids: set[str], known: Set[str]) -> list[Problem]:
    path = f"splits.{name}"
    if not re.fullmatch(loading.SPLIT_NAME, name):
        return [Problem(path, shown(name), loading.A_SPLIT_NAME)]
    if not ids:
        return [Problem(path, "no tasks", "at least one")]
    return [Problem(path, f"the id {shown(each)}", "ids of tasks") for each in sorted(ids - known)]


def _unknown(what: str, name: str, known: Iterable[str]) -> Problem:
    names: Sequence[str] = list(known)
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return Problem(what, shown(name), f"one of: {listed}" if names else f"none, as no task has a {what}")
