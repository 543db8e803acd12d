"""Task and Dataset: inputs, and expected answers where they are known. A dataset never changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from seedbed import documents
from seedbed.errors import DatasetError, Problem, StoreError, shown
from seedbed.storage.store import Digest, Json, digest

FIELDS = ("id", "inputs", "expected")


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to do. Its id names it within a dataset."""

    id: str
    inputs: Mapping[str, Any]
    expected: Any = None

    def body(self) -> Json:
        return {"id": self.id, "inputs": dict(self.inputs), "expected": self.expected}

    @property
    def digest(self) -> Digest:
        return digest("task", self.body())


@dataclass(frozen=True)
class Dataset:
    """Tasks in their order, no two with the same id."""

    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        double = [name for name, times in Counter(task.id for task in self.tasks).items() if times > 1]
        if double:
            raise DatasetError(
                [Problem(f"task {shown(name)}", "the same id twice", "one of its own") for name in double]
            )

    @classmethod
    def load(cls, path: Path | str) -> Dataset:
        """Read JSON lines: `{"inputs": {…}, "expected": …}` each, with an `id` if you like.

        Raises DatasetError with every bad line.
        """
        path = Path(path)
        try:
            # Not splitlines(): within JSON text other characters than a newline are no ends of lines.
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as wrong:
            raise DatasetError([Problem("file", str(wrong), "a readable file of JSON lines")], str(path)) from None
        tasks: dict[str, tuple[int, Task]] = {}
        problems: list[Problem] = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                task = _task(documents.parse(line, str(path), DatasetError, as_json=True).value)
            except DatasetError as wrong:
                problems += [replace(each, path=_placed(each.path, number)) for each in wrong.problems]
                continue
            first, _ = tasks.setdefault(task.id, (number, task))
            if first != number:
                found = f"{shown(task.id)}, as on line {first}"
                problems.append(Problem(f"line {number}.id", found, "an id, and a task, of its own"))
        if not tasks and not problems:
            problems.append(Problem("file", "no tasks", "at least one line"))
        if problems:
            raise DatasetError(problems, str(path))
        return cls(tuple(task for _, task in tasks.values()))

    @classmethod
    def from_content(cls, content: Json) -> Dataset:
        return cls(tuple(Task(**task) for task in content["tasks"]))

    def content(self) -> Json:
        return {"tasks": [task.body() for task in self.tasks]}

    @cached_property
    def digest(self) -> Digest:
        return digest("dataset", self.content())

    def split(self, share: float, seed: int) -> tuple[Dataset, Dataset]:
        """Two datasets without a task in common, the first with that share of the tasks; the same for the same seed."""
        if not 0 < share < 1:
            raise DatasetError([Problem("share", str(share), "more than 0 and less than 1")])
        order = list(range(len(self.tasks)))
        random.Random(f"{self.digest} {seed}").shuffle(order)
        chosen = set(order[: round(share * len(order))])
        inside = tuple(task for position, task in enumerate(self.tasks) if position in chosen)
        outside = tuple(task for position, task in enumerate(self.tasks) if position not in chosen)
        return Dataset(inside), Dataset(outside)

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)


def _placed(path: str, number: int) -> str:
    """Where on a line of the file something is that was found in the line alone."""
    return f"line {number}{path.removeprefix('line 1')}" if path.startswith("line 1,") else f"line {number}.{path}"


def _task(row: object) -> Task:
    if not isinstance(row, dict):
        raise DatasetError([Problem("task", shown(row), "a JSON object")])
    problems = [
        Problem(key, "an unknown field", f"one of: {', '.join(FIELDS)}", "Inputs go under inputs.")
        for key in row
        if key not in FIELDS
    ]
    inputs = row.get("inputs")
    if not isinstance(inputs, dict) or not inputs:
        problems.append(Problem("inputs", shown(inputs), "a mapping of names to values"))
    if not isinstance(row.get("id", ""), str):
        problems.append(Problem("id", shown(row["id"]), "text"))
    try:
        name = digest("task", row).removeprefix("b2:")[:12]
    except StoreError as wrong:
        problems.append(Problem("task", str(wrong), "values that can be kept"))
    if problems:
        raise DatasetError(problems)
    # Without an id of its own a task is named by its content, so it stays the same task when lines move.
    return Task(row.get("id") or name, row["inputs"], row.get("expected"))
