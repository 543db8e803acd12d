"""Task and Dataset: inputs, and expected answers where they are known. A dataset never changes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from seedbed.errors import DatasetError, Problem, shown
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
    """Tasks in their order."""

    tasks: tuple[Task, ...]

    @classmethod
    def load(cls, path: Path | str) -> Dataset:
        """Read JSON lines: `{"inputs": {…}, "expected": …}` each, with an `id` if you like.

        Raises DatasetError with every bad line.
        """
        path = Path(path)
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as wrong:
            raise DatasetError([Problem("file", str(wrong), "a readable file of JSON lines")], str(path)) from None
        tasks: list[Task] = []
        problems: list[Problem] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    tasks.append(_task(json.loads(line), number))
                except json.JSONDecodeError as wrong:
                    problems.append(Problem(f"line {number}", f"{wrong.msg} at column {wrong.colno}", "a JSON object"))
                except DatasetError as wrong:
                    problems += wrong.problems
        seen: dict[str, int] = {}
        for number, task in enumerate(tasks, 1):
            if task.id in seen:
                found = f"{shown(task.id)}, as in task {seen[task.id]}"
                problems.append(Problem(f"task {number}.id", found, "an id of its own"))
            seen[task.id] = number
        if not tasks and not problems:
            problems.append(Problem("file", "no tasks", "at least one line"))
        if problems:
            raise DatasetError(problems, str(path))
        return cls(tuple(tasks))

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


def _task(row: object, number: int) -> Task:
    if not isinstance(row, dict):
        raise DatasetError([Problem(f"line {number}", shown(row), "a JSON object")])
    problems = [
        Problem(f"line {number}.{key}", "an unknown field", f"one of: {', '.join(FIELDS)}", "Inputs go under inputs.")
        for key in row
        if key not in FIELDS
    ]
    inputs = row.get("inputs")
    if not isinstance(inputs, dict) or not inputs:
        problems.append(Problem(f"line {number}.inputs", shown(inputs), "a mapping of names to values"))
    if not isinstance(row.get("id", ""), str):
        problems.append(Problem(f"line {number}.id", shown(row["id"]), "text"))
    if problems:
        raise DatasetError(problems)
    # Without an id of its own a task is named by its content, so it stays the same task when lines move.
    name = row.get("id") or digest("task", row).removeprefix("b2:")[:12]
    return Task(name, row["inputs"], row.get("expected"))
