"""Loads the tasks of a dataset from files and folders: JSON lines, JSON, CSV, TSV, Parquet, Arrow.

All bad rows are reported at once, with file, line and field; nothing is loaded in part.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from seedbed.errors import DatasetError, Problem, StoreError, shown
from seedbed.evaluation.datasets.files import SPLITS, FileKind, read_rows
from seedbed.evaluation.datasets.folders import data_files
from seedbed.storage.store import Json, digest

FIELDS = ("id", "inputs", "expected", "tags", "source", "split")
SPLIT_NAME = r"\w[\w .+-]*"
A_SPLIT_NAME = "a name of letters, digits, spaces and . + - _"
SHOWN = 50
"""How many problems are reported; the others are counted."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which field of a row holds what, if it has another name: `Columns(expected="answer", tags=["topic"])`.

    `inputs` are the fields that are inputs, or a mapping of inputs to fields; default: all other fields. `rows` names
    the list within a JSON document.
    """

    inputs: Mapping[str, str] | Iterable[str] = ()
    expected: str | None = None
    id: str | None = None
    tags: Iterable[str] = ()
    source: str | None = None
    split: str | None = None
    rows: str | None = None

    def __post_init__(self) -> None:
        inputs = dict(self.inputs) if isinstance(self.inputs, Mapping) else {each: each for each in self.inputs}
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "tags", tuple(self.tags))

    @property
    def input_fields(self) -> Mapping[str, str]:
        """The field of each input."""
        assert isinstance(self.inputs, Mapping)
        return self.inputs

    @property
    def tag_fields(self) -> tuple[str, ...]:
        assert isinstance(self.tags, tuple)
        return self.tags

    @property
    def fields(self) -> dict[str, str]:
        """The other fields that were named."""
        fields = {"id": self.id, "expected": self.expected, "source": self.source, "split": self.split}
        return {name: field for name, field in fields.items() if field is not None}

    @property
    def is_set(self) -> bool:
        return bool(self.inputs or self.fields or self.tags)

    def named(self) -> set[str]:
        return {*self.input_fields.values(), *self.fields.values(), *self.tag_fields}


@dataclass(slots=True)
class LoadedTasks:
    """The bodies of tasks, the ids in each named split, and how many repeated rows were left out."""

    tasks: list[Json] = field(default_factory=list)
    splits: dict[str, list[str]] = field(default_factory=dict)
    repeated: int = 0


def read(path: Path, columns: Columns, *, once: bool = False) -> LoadedTasks:
    """All tasks of a file or a folder. Raises DatasetError with the problems of every row."""
    reading = _TaskReader(columns, once)
    try:
        if path.is_dir():
            for part in data_files(path):
                reading.take(part.file, part.split, f"{part.file.relative_to(path)} ")
        else:
            reading.take(path)
        return reading.done()
    except DatasetError as wrong:
        raise DatasetError(wrong.problems, str(path)) from None


class _TaskReader:
    """Collects tasks and problems."""

    def __init__(self, columns: Columns, once: bool) -> None:
        self.columns, self.once = columns, once
        self.loaded = LoadedTasks()
        self.first: dict[str, tuple[str, Json]] = {}
        self.seen: set[str] = set()
        self.problems: list[Problem] = []
        self.wrong = 0
        self.bare = 0
        """How many of the problems are those of rows without inputs."""

    def take(self, file: Path, split: str | None = None, prefix: str = "") -> None:
        """Read the tasks of one file; all are in `split`, if there is one."""
        try:
            kind, numbered = read_rows(file, self.columns.rows)
            for where, row in numbered:
                if isinstance(row, DatasetError):
                    self._refuse(replace(each, path=_placed(each.path, prefix + where)) for each in row.problems)
                elif where == SPLITS:
                    self._named(row)
                else:
                    self._add(prefix + where, row, split, kind)
        except DatasetError as wrong:
            self._refuse(replace(each, path=prefix + each.path) for each in wrong.problems)
        except (OSError, EOFError, zlib.error) as wrong:
            reason = getattr(wrong, "strerror", None) or str(wrong) or "an unreadable file"
            remedy = "Check the path." if isinstance(wrong, FileNotFoundError) else ""
            self._refuse([Problem(f"{prefix}file", reason, "a readable file", remedy)])

    def _add(self, place: str, row: object, split: str | None, kind: FileKind) -> None:
        if isinstance(row, dict):
            self.seen.update(row)
            if "inputs" not in row or self.columns.inputs:
                if kind != "json" or self.columns.is_set:
                    row, wrong = _plain(row, self.columns, cells=kind == "cells")
                    if wrong:
                        return self._refuse(replace(each, path=f"{place}.{each.path}") for each in wrong)
            elif self.columns.is_set:
                row = _renamed(row, self.columns)
        try:
            body, splits = _checked(row)
        except DatasetError as wrong:
            if isinstance(row, dict) and "inputs" not in row:
                self.bare += len(wrong.problems)
            return self._refuse(replace(each, path=f"{place}.{each.path}") for each in wrong.problems)
        before, known = self.first.setdefault(body["id"], (place, body))
        if known is not body:
            if self.once and known == body:
                self.loaded.repeated += 1
                return None
            remedy = "" if known != body else "Leave repeated tasks out with --once (once=True)."
            actual = f"{shown(body['id'])}, as on {before}"
            return self._refuse([Problem(f"{place}.id", actual, "a unique id and task", remedy)])
        self.loaded.tasks.append(body)
        for name in [*splits, *([split] if split and split not in splits else [])]:
            self.loaded.splits.setdefault(name, []).append(body["id"])
        return None

    def _named(self, splits: object) -> None:
        """The splits that a JSON document names, each with the ids of its tasks."""
        if not isinstance(splits, dict):
            return self._refuse([Problem("splits", shown(splits), "a mapping of names to lists of ids")])
        for name, ids in splits.items():
            if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
                self._refuse([Problem(f"splits.{name}", shown(ids), "a list of ids")])
            else:
                unknown = [each for each in ids if each not in self.first]
                self._refuse(Problem(f"splits.{name}", f"the id {shown(each)}", "ids of tasks") for each in unknown)
                self.loaded.splits.setdefault(name, []).extend(ids)
        return None

    def _refuse(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.wrong += 1
            if len(self.problems) < SHOWN:
                self.problems.append(problem)

    def done(self) -> LoadedTasks:
        absent = sorted(self.columns.named() - self.seen)
        if absent and self.seen:
            # Reported alone: it causes the other problems.
            known = ", ".join(sorted(map(str, self.seen))[:20])
            raise DatasetError([Problem(f"field {shown(each)}", "it in no row", f"one of: {known}") for each in absent])
        if self.bare and self.bare == self.wrong and not self.loaded.tasks:
            actual = f"no row that has it; the rows have {', '.join(sorted(map(str, self.seen))[:20])}"
            remedy = "Say which field is what: --expected answer (expected='answer'); the others are inputs then."
            raise DatasetError([Problem("inputs", actual, "a mapping of names to values", remedy)])
        if not self.loaded.tasks and not self.problems:
            self.problems.append(Problem("file", "no tasks", "at least one"))
        if self.wrong > len(self.problems):
            more = f"{self.wrong - len(self.problems):,} more problems"
            self.problems.append(Problem("and so on", more, "none", "Fix those above first."))
        if self.problems:
            raise DatasetError(self.problems)
        return self.loaded


def _placed(path: str, where: str) -> str:
    """The place in a file of a problem within one line."""
    return f"{where}{path.removeprefix('line 1')}" if re.match(r"line 1\b", path) else f"{where}.{path}"


# One row


def _renamed(row: Json, columns: Columns) -> Json:
    """A row that has `inputs`, with its other fields renamed."""
    called = {own: name for name, own in columns.fields.items()}
    renamed = {called.get(key, key): value for key, value in row.items() if key not in columns.tag_fields}
    if columns.tags:
        renamed["tags"] = _words([row.get(each) for each in columns.tag_fields], cells=False)
    return {key: _word(value) if key in ("id", "source") else value for key, value in renamed.items()}


def _plain(row: Json, columns: Columns, *, cells: bool) -> tuple[Json, list[Problem]]:
    """A flat row as a task: the fields with a meaning, and the others as inputs.

    In a table of texts an empty cell is no answer, no id and no tag.
    """
    own = {key: columns.fields.get(key, key) for key in ("id", "expected", "source", "split")}
    own = {key: name for key, name in own.items() if key in columns.fields or name not in columns.input_fields.values()}
    tags = columns.tag_fields or (() if "tags" in columns.input_fields.values() else ("tags",))
    taken = {*own.values(), *tags}
    if columns.inputs:
        missing = [each for each in columns.input_fields.values() if each not in row]
        if missing:
            return {}, [Problem(each, "nothing", "a value") for each in missing]
        inputs = {name: row[each] for name, each in columns.input_fields.items()}
    else:
        inputs = {key.removeprefix("inputs."): value for key, value in row.items() if key not in taken}
    task: Json = {"inputs": inputs}
    for key, name in own.items():
        value = row.get(name)
        if key == "expected" and name in row and not (cells and value == ""):
            task[key] = value
        elif key != "expected" and value not in (None, ""):
            task[key] = value if key == "split" and isinstance(value, list) else _word(value)
    if words := _words([row.get(each) for each in tags], cells=cells):
        task["tags"] = words
    return task, []


def _word(value: object) -> object:
    """A number as the text it is written as; ids and sources are often numbers in tables."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) else value


def _words(values: Iterable[object], *, cells: bool) -> list[object]:
    words: list[object] = []
    for value in values:
        if isinstance(value, list | tuple):
            words += map(_word, value)
        elif cells and isinstance(value, str):
            words += [each.strip() for each in re.split("[,;]", value)]
        else:
            words.append(_word(value))
    return [each for each in words if each not in (None, "")]


def _checked(row: object) -> tuple[Json, list[str]]:
    """The body of a task and the splits it is in. Raises DatasetError with all that is wrong."""
    if not isinstance(row, dict):
        raise DatasetError([Problem("task", shown(row), "a JSON object")])
    remedy = "Inputs go under inputs; or say which field is what, as with --expected answer."
    problems = [
        Problem(str(key), "an unknown field", f"one of: {', '.join(FIELDS)}", remedy)
        for key in row
        if key not in FIELDS
    ]
    inputs, tags, split = row.get("inputs"), row.get("tags", []), row.get("split", [])
    if not isinstance(inputs, dict) or not inputs:
        problems.append(Problem("inputs", shown(inputs), "a mapping of names to values"))
    problems += [
        Problem(key, shown(row[key]), "text") for key in ("id", "source") if not isinstance(row.get(key, ""), str)
    ]
    if not isinstance(tags, list) or not all(isinstance(each, str) and each.strip() for each in tags):
        problems.append(Problem("tags", shown(tags), "a list of words"))
    splits = split if isinstance(split, list) else [split]
    if not all(isinstance(each, str) and re.fullmatch(SPLIT_NAME, each) for each in splits):
        problems.append(Problem("split", shown(split), f"{A_SPLIT_NAME}, or a list of such"))
    try:
        # Without tags, source and split, so that the task stays the same when they are added.
        name = digest("task", {key: row[key] for key in row if key in ("id", "inputs", "expected")})
    except StoreError as wrong:
        place, actual, expected = re.match(r"(?:\$\.?([^:]*): found )?(.*?)(?:; expected (.*))?$", str(wrong)).groups()  # type: ignore[union-attr]
        problems.append(Problem(place or "task", actual, expected or "values that can be stored"))
    if problems:
        raise DatasetError(problems)
    # Without an id a task is named by its content, so that it stays the same task when lines move.
    body = {"id": row.get("id") or name.removeprefix("b2:")[:12], "inputs": inputs, "expected": row.get("expected")}
    more = {"tags": list(dict.fromkeys(tags)), "source": row.get("source", "")}
    return {**body, **{key: value for key, value in more.items() if value}}, list(dict.fromkeys(splits))
