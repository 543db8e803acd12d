"""Sessions of an agent that ran elsewhere, as its own history or log tells them.

A history is a JSON list of records (`session_id`, `config`, `token_statistics`, `session_log` and more); the log of a
record may be text, or parsed into tasks. A log of its own is one session. What is not written down is None, never 0.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from seedbed.errors import DocumentError, Problem, shown
from seedbed.runs.imports import session_log
from seedbed.storage.store import Json

LARGEST = 500_000_000
"""Bytes of a file, which is read at once."""

_Number = TypeVar("_Number", int, float)

RECORD = {
    *("session_id", "start_timestamp", "session_score", "session_tasks_quantity", "config"),
    *("token_statistics", "total_time_sec", "session_log"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStep:
    """One call of a tool. `error` is what was said where there is no result; `notes` hold all else, such as a plan."""

    function: str
    args: Any = field(default=None, hash=False)
    result: Any = field(default=None, hash=False)
    error: str = ""
    tokens: int | None = None
    seconds: float | None = None
    notes: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTask:
    """One task of a session. Ids differ between sessions: the same task is known by its `name`."""

    id: str
    name: str
    text: str = ""
    steps: tuple[SessionStep, ...] = ()
    code: str = ""
    """How the agent said that it ended, such as completed or failed."""
    summary: tuple[str, ...] = ()
    score: float | None = None
    evaluation: tuple[str, ...] = ()
    """What the grader said, line by line."""
    tokens: int | None = None
    seconds: float | None = None
    notes: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All tasks that an agent did in one go, with one configuration."""

    id: str
    started: datetime | None = None
    config: Json = field(default_factory=dict, hash=False)
    """What it was set to, with every field of its record that is not known here."""
    tokens: int | None = None
    seconds: float | None = None
    tasks: tuple[SessionTask, ...] = ()
    score: float | None = None
    """The mean as its record has it, rounded or not."""
    quantity: int | None = None
    """How many tasks its record says there were."""
    notes: Json = field(default_factory=dict, hash=False)

    @property
    def scores(self) -> tuple[float, ...]:
        """Those that there are; a task without one has no place here."""
        return tuple(task.score for task in self.tasks if task.score is not None)

    @property
    def mean(self) -> float | None:
        """The mean score of the tasks that have one."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Where its record and its log do not agree."""
        found = []
        if self.quantity is not None and self.quantity != len(self.tasks):
            found.append(f"session {self.id}: its record tells of {self.quantity} tasks, its log of {len(self.tasks)}")
        whole = self.tasks and len(self.scores) == len(self.tasks)
        # Records round to three digits.
        if whole and self.score is not None and self.mean is not None and abs(self.score - self.mean) > 0.001:
            found.append(f"session {self.id}: its record says a score of {self.score:g}, its log {self.mean:.3f}")
        return tuple(found)


def load(path: Path | str) -> tuple[Session, ...]:
    """The sessions of a history, or the one of a log; a DocumentError with everything that is wrong."""
    file = Path(path)
    text = _text(file)
    if text.lstrip()[:1] not in ("[", "{"):
        reader = _SessionReader(str(file))
        session = reader.logged(text)
        reader.end()
        return (session,)
    records = _json(text, str(file))
    reader = _SessionReader(str(file))
    sessions = [
        reader.session(record, f"[{place}]")
        for place, record in enumerate(records if isinstance(records, list) else [records])
    ]
    seen: dict[str, int] = {}
    for place, session in enumerate(sessions):
        if session.id and seen.setdefault(session.id, place) != place:
            reader.wrong(f"[{place}].session_id", shown(session.id), f"an id of its own: [{seen[session.id]}] has it")
    reader.end()
    return tuple(sessions)


def _text(file: Path) -> str:
    def refuse(found: str, expected: str, remedy: str = "") -> NoReturn:
        raise DocumentError([Problem("file", found, expected, remedy)], str(file)) from None

    try:
        if file.stat().st_size > LARGEST:
            refuse(f"{file.stat().st_size:,} bytes", f"at most {LARGEST:,}", "Split it.")
        return file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError):
        refuse("no such file", "a sessions_history.json or a session.log", "Check the path.")
    except UnicodeDecodeError as wrong:
        refuse(f"a byte that is no UTF-8 at {wrong.start:,}", "UTF-8 text", "Save it as UTF-8.")


def _json(text: str, source: str) -> Any:
    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name}, which is no number of JSON")

    try:
        return json.loads(text, parse_constant=constant)
    except RecursionError:
        found = "endless nesting"
    except json.JSONDecodeError as wrong:
        found = f"{wrong.msg} in line {wrong.lineno}"
    except ValueError as wrong:
        found = str(wrong)
    raise DocumentError([Problem("file", found, "a JSON list of session records, or a log")], source) from None


class _SessionReader:
    """Reads records and keeps everything that is wrong, to tell it all at once."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []

    def end(self) -> None:
        if self.problems:
            raise DocumentError(self.problems, self.source)

    def wrong(self, path: str, found: str, expected: str, remedy: str = "") -> None:
        self.problems.append(Problem(path, found, expected, remedy))

    def session(self, record: Any, at: str) -> Session:
        if not isinstance(record, dict):
            self.wrong(at, shown(record), "a session record: an object with session_id and session_log")
            return Session(id="")
        header: dict[str, str] = {}
        tasks: tuple[SessionTask, ...] = ()
        log = record.get("session_log")
        if isinstance(log, str):
            header, tasks = self.log(log, f"{at}.session_log")
        elif log is not None:
            tasks = self.parsed(log, f"{at}.session_log")
        config = {key: value for key, value in record.items() if key not in RECORD} | self.mapping(record, "config", at)
        if model := header.pop("model", ""):
            config.setdefault("model_id", model)
        logged = header.pop("session", "")
        name = self.word(record, ("session_id",), at) or logged
        if not name:
            self.wrong(f"{at}.session_id", "nothing", "the id of the session")
        elif logged and logged != name:
            self.wrong(f"{at}.session_log", f"the log of session {shown(logged)}", f"that of {shown(name)}")
        tokens = self.mapping(record, "token_statistics", at)
        total = self.count(tokens, ("total",), f"{at}.token_statistics")
        return Session(
            id=name,
            started=self.time(record, "start_timestamp", at),
            config=config,
            tokens=_sum(task.tokens for task in tasks) if total is None else total,
            seconds=_first(self.number(record, ("total_time_sec",), at, least=0), _sum(t.seconds for t in tasks)),
            tasks=tasks,
            score=self.number(record, ("session_score",), at),
            quantity=self.count(record, ("session_tasks_quantity",), at),
            notes=header,
        )

    def logged(self, text: str) -> Session:
        """The session of a log that stands alone."""
        header, tasks = self.log(text, "log")
        config = {"model_id": header.pop("model")} if "model" in header else {}
        name = header.pop("session", "")
        if not name and not self.problems:
            self.wrong("log", "no line with Session:", "one before the first task, with the id of the session")
        tokens, seconds = _sum(task.tokens for task in tasks), _sum(task.seconds for task in tasks)
        return Session(id=name, config=config, tokens=tokens, seconds=seconds, tasks=tasks, notes=header)

    def log(self, text: str, at: str) -> tuple[dict[str, str], tuple[SessionTask, ...]]:
        header, entries, problems = session_log.parse(text, at)
        self.problems += problems
        return header, tuple(self.task(entry, f"{at} line {entry['line']}") for entry in entries)

    def parsed(self, log: Any, at: str) -> tuple[SessionTask, ...]:
        entries = log.get("tasks") if isinstance(log, dict) else log
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            self.wrong(at, shown(log), "the text of a log, a list of tasks, or an object with such a list as tasks")
            return ()
        return tuple(self.task(each, f"{at}[{place}]") for place, each in enumerate(entries))

    def task(self, entry: Json, at: str) -> SessionTask:
        steps = entry.get("steps")
        if steps is not None and not (isinstance(steps, list) and all(isinstance(each, dict) for each in steps)):
            self.wrong(f"{at}.steps", shown(steps), "a list of objects")
            steps = None
        text = self.word(entry, ("task_text", "text"), at)
        name = self.word(entry, ("task_code", "name", "spec"), at) or text
        if not name:
            self.wrong(f"{at}.task_code", "nothing", "the name of the task, or at least its text")
        known = {"task_id", "id", "task_code", "name", "spec", "task_text", "text", "steps", "code", "completion_code"}
        known |= {"summary", "score", "evaluation", "tokens", "seconds", "line"}
        return SessionTask(
            id=self.word(entry, ("task_id", "id"), at),
            name=name,
            text=text,
            steps=tuple(self.step(each, f"{at}.steps[{place}]") for place, each in enumerate(steps or ())),
            code=self.word(entry, ("code", "completion_code"), at),
            summary=lines(entry.get("summary")),
            score=self.number(entry, ("score",), at),
            evaluation=lines(entry.get("evaluation")),
            tokens=self.count(entry, ("tokens",), at),
            seconds=self.number(entry, ("seconds",), at, least=0),
            notes={key: value for key, value in entry.items() if key not in known},
        )

    def step(self, entry: Json, at: str) -> SessionStep:
        known = {"function", "args", "result", "error", "tokens", "seconds"}
        return SessionStep(
            function=self.word(entry, ("function",), at),
            args=entry.get("args"),
            result=entry.get("result"),
            error=self.word(entry, ("error",), at),
            tokens=self.count(entry, ("tokens",), at),
            # A clock that was set back in between tells nothing of how long it took.
            seconds=seconds if (seconds := self.number(entry, ("seconds",), at)) is not None and seconds >= 0 else None,
            notes={key: value for key, value in entry.items() if key not in known},
        )

    def mapping(self, record: Json, name: str, at: str) -> Json:
        value = record.get(name)
        if value is not None and not isinstance(value, dict):
            self.wrong(f"{at}.{name}", shown(value), "an object")
        return value if isinstance(value, dict) else {}

    def word(self, record: Json, names: Sequence[str], at: str) -> str:
        name, value = _named(record, names)
        if value is not None and not isinstance(value, str):
            self.wrong(f"{at}.{name}", shown(value), "a text")
        return value if isinstance(value, str) else ""

    def number(self, record: Json, names: Sequence[str], at: str, least: float = -math.inf) -> float | None:
        name, value = _named(record, names)
        if value is None:
            return None
        # JSON reads 1e999 as infinity, and holds whole numbers that no float does.
        if isinstance(value, bool) or not isinstance(value, int | float) or not max(least, -1e300) <= value <= 1e300:
            self.wrong(f"{at}.{name}", shown(value), "a number" if least < 0 else f"a number, at least {least:g}")
            return None
        return float(value)

    def count(self, record: Json, names: Sequence[str], at: str) -> int | None:
        name, value = _named(record, names)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
            return value
        self.wrong(f"{at}.{name}", shown(value), "a whole number, at least 0")
        return None

    def time(self, record: Json, name: str, at: str) -> datetime | None:
        value = record.get(name)
        try:
            return None if value is None else datetime.fromisoformat(value)
        except (TypeError, ValueError):
            self.wrong(f"{at}.{name}", shown(value), "a time such as 2026-01-31T09:30:00")
            return None


def lines(value: Any) -> tuple[str, ...]:
    """A list, or a text that may be one as Python prints it, as texts."""
    if isinstance(value, str):
        try:
            found = ast.literal_eval(value) if value.startswith("[") else value
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = value
        value = found
    if value is None or value == "":
        return ()
    return tuple(str(each) for each in value) if isinstance(value, list | tuple) else (str(value),)


def _named(record: Mapping[str, Any], names: Sequence[str]) -> tuple[str, Any]:
    """The first of these fields that is there."""
    return next(((name, record[name]) for name in names if record.get(name) is not None), (names[0], None))


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _sum(values: Iterable[_Number | None]) -> _Number | None:
    """The sum, or None where one is not known: part of it would pass for all."""
    known = list(values)
    found = [value for value in known if value is not None]
    return sum(found[1:], found[0]) if found and len(found) == len(known) else None
