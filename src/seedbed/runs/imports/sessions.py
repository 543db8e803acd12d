"""Sessions of an agent that ran elsewhere, read from its own history or log.

A history is a JSON list of records (`session_id`, `config`, `token_statistics`, `session_log` and more); the log of a
record may be text, or parsed into tasks. A log of its own is one session. A missing value is None, never 0.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from seedbed.errors import DocumentError, Problem, shown
from seedbed.runs.imports import session_log
from seedbed.storage.store import Json

LARGEST = 500_000_000
"""The largest file in bytes: it is read at once."""

_Number = TypeVar("_Number", int, float)

RECORD = {
    *("session_id", "start_timestamp", "session_score", "session_tasks_quantity", "config"),
    *("token_statistics", "total_time_sec", "session_log"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStep:
    """One call of a tool. `error` is the text in place of a result; `notes` hold everything else, such as a plan."""

    function: str
    args: Any = field(default=None, hash=False)
    result: Any = field(default=None, hash=False)
    error: str = ""
    tokens: int | None = None
    seconds: float | None = None
    notes: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTask:
    """One task of a session. Ids differ between sessions; the same task has the same `name`."""

    id: str
    name: str
    text: str = ""
    steps: tuple[SessionStep, ...] = ()
    code: str = ""
    """The agent's own word for its end, such as completed or failed."""
    summary: tuple[str, ...] = ()
    score: float | None = None
    evaluation: tuple[str, ...] = ()
    """The grader's remarks, one a line."""
    tokens: int | None = None
    seconds: float | None = None
    notes: Json = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All tasks of one session of an agent, with one configuration."""

    id: str
    started: datetime | None = None
    config: Json = field(default_factory=dict, hash=False)
    """Its configuration, with every field of its record that has no other place."""
    tokens: int | None = None
    seconds: float | None = None
    tasks: tuple[SessionTask, ...] = ()
    score: float | None = None
    """The mean score in its record, which may be rounded."""
    quantity: int | None = None
    """The number of tasks in its record."""
    notes: Json = field(default_factory=dict, hash=False)

    @property
    def scores(self) -> tuple[float, ...]:
        """The scores of the tasks that have one."""
        return tuple(task.score for task in self.tasks if task.score is not None)

    @property
    def mean(self) -> float | None:
        """The mean score of the tasks that have one."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Where its record and its log disagree."""
        doubts = []
        if self.quantity is not None and self.quantity != len(self.tasks):
            doubts.append(f"session {self.id}: its record has {self.quantity} tasks, its log {len(self.tasks)}")
        whole = self.tasks and len(self.scores) == len(self.tasks)
        # Records round to three digits.
        if whole and self.score is not None and self.mean is not None and abs(self.score - self.mean) > 0.001:
            doubts.append(f"session {self.id}: its record has a score of {self.score:g}, its log {self.mean:.3f}")
        return tuple(doubts)


def load(path: Path | str) -> tuple[Session, ...]:
    """The sessions of a history, or the one of a log. Raises DocumentError with everything that is wrong."""
    file = Path(path)
    text, reader = _text(file), _SessionReader(str(file))
    if text.lstrip()[:1] in ("[", "{"):
        records = _json(text, str(file))
        listed = records if isinstance(records, list) else [records]
        sessions = [reader.session(record, f"[{place}]") for place, record in enumerate(listed)]
    else:
        sessions = [reader.log_session(text)]
    first: dict[str, int] = {}
    for place, session in enumerate(sessions):
        if session.id and first.setdefault(session.id, place) != place:
            expected = f"another id: [{first[session.id]}] has this one"
            reader.add_problem(f"[{place}].session_id", shown(session.id), expected)
    reader.end()
    return tuple(sessions)


def _text(file: Path) -> str:
    def refuse(*problem: str) -> NoReturn:
        raise DocumentError([Problem("file", *problem)], str(file)) from None

    try:
        if file.stat().st_size > LARGEST:
            refuse(f"{file.stat().st_size:,} bytes", f"at most {LARGEST:,}", "Split it.")
        return file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError):
        refuse("no such file", "a sessions_history.json or a session.log", "Check the path.")
    except UnicodeDecodeError as error:
        refuse(f"a byte that is not UTF-8 at {error.start:,}", "UTF-8 text", "Save it as UTF-8.")


def _json(text: str, source: str) -> Any:
    def constant(name: str) -> NoReturn:
        raise ValueError(f"{name}, which is not a JSON number")

    try:
        return json.loads(text, parse_constant=constant)
    except RecursionError:
        problem = "endless nesting"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} in line {error.lineno}"
    except ValueError as error:
        problem = str(error)
    raise DocumentError([Problem("file", problem, "a JSON list of session records, or a log")], source) from None


class _SessionReader:
    """Reads records and collects all problems, to report them at once."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []

    def end(self) -> None:
        if self.problems:
            raise DocumentError(self.problems, self.source)

    def add_problem(self, path: str, *problem: str) -> None:
        self.problems.append(Problem(path, *problem))

    def session(self, record: Any, at: str) -> Session:
        if not isinstance(record, dict):
            self.add_problem(at, shown(record), "a session record: an object with session_id and session_log")
            return Session(id="")
        header: dict[str, str] = {}
        tasks: tuple[SessionTask, ...] = ()
        log = record.get("session_log")
        if isinstance(log, str):
            header, tasks = self.log(log, f"{at}.session_log")
        elif log is not None:
            tasks = self.parsed_tasks(log, f"{at}.session_log")
        config = {key: value for key, value in record.items() if key not in RECORD} | self.mapping(record, "config", at)
        if model := header.pop("model", ""):
            config.setdefault("model_id", model)
        logged = header.pop("session", "")
        name = self.word(record, ("session_id",), at) or logged
        if not name:
            self.add_problem(f"{at}.session_id", "nothing", "the id of the session")
        elif logged and logged != name:
            self.add_problem(f"{at}.session_log", f"the log of session {shown(logged)}", f"that of {shown(name)}")
        tokens = self.mapping(record, "token_statistics", at)
        total = self.count(tokens, ("total",), f"{at}.token_statistics")
        seconds = self.number(record, ("total_time_sec",), at, least=0)
        return Session(
            id=name,
            started=self.time(record, "start_timestamp", at),
            config=config,
            tokens=whole_sum(task.tokens for task in tasks) if total is None else total,
            seconds=whole_sum(task.seconds for task in tasks) if seconds is None else seconds,
            tasks=tasks,
            score=self.number(record, ("session_score",), at),
            quantity=self.count(record, ("session_tasks_quantity",), at),
            notes=header,
        )

    def log_session(self, text: str) -> Session:
        """The session of a log without a record."""
        header, tasks = self.log(text, "log")
        config = {"model_id": header.pop("model")} if "model" in header else {}
        name = header.pop("session", "")
        if not name and not self.problems:
            self.add_problem("log", "no line with Session:", "one before the first task, with the id of the session")
        tokens, seconds = whole_sum(task.tokens for task in tasks), whole_sum(task.seconds for task in tasks)
        return Session(id=name, config=config, tokens=tokens, seconds=seconds, tasks=tasks, notes=header)

    def log(self, text: str, at: str) -> tuple[dict[str, str], tuple[SessionTask, ...]]:
        header, entries, problems = session_log.parse(text, at)
        self.problems += problems
        return header, tuple(self.task(entry, f"{at} line {entry['line']}") for entry in entries)

    def parsed_tasks(self, log: Any, at: str) -> tuple[SessionTask, ...]:
        entries = log.get("tasks") if isinstance(log, dict) else log
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            self.add_problem(
                at, shown(log), "the text of a log, a list of tasks, or an object with such a list as tasks"
            )
            return ()
        return tuple(self.task(each, f"{at}[{place}]") for place, each in enumerate(entries))

    def task(self, entry: Json, at: str) -> SessionTask:
        steps = entry.get("steps")
        if steps is not None and not (isinstance(steps, list) and all(isinstance(each, dict) for each in steps)):
            self.add_problem(f"{at}.steps", shown(steps), "a list of objects")
            steps = None
        text = self.word(entry, ("task_text", "text"), at)
        name = self.word(entry, ("task_code", "name", "spec"), at) or text
        if not name:
            self.add_problem(f"{at}.task_code", "nothing", "the name of the task, or at least its text")
        known = {"task_id", "id", "task_code", "name", "spec", "task_text", "text", "steps", "code", "completion_code"}
        known |= {"summary", "score", "evaluation", "tokens", "seconds", "line"}
        return SessionTask(
            id=self.word(entry, ("task_id", "id"), at),
            name=name,
            text=text,
            steps=tuple(self.step(each, f"{at}.steps[{place}]") for place, each in enumerate(steps or ())),
            code=self.word(entry, ("code", "completion_code"), at),
            summary=to_texts(entry.get("summary")),
            score=self.number(entry, ("score",), at),
            evaluation=to_texts(entry.get("evaluation")),
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
            # If the clock was set back in between, the time is unknown.
            seconds=seconds if (seconds := self.number(entry, ("seconds",), at)) is not None and seconds >= 0 else None,
            notes={key: value for key, value in entry.items() if key not in known},
        )

    def mapping(self, record: Json, name: str, at: str) -> Json:
        value = record.get(name)
        if value is not None and not isinstance(value, dict):
            self.add_problem(f"{at}.{name}", shown(value), "an object")
        return value if isinstance(value, dict) else {}

    def word(self, record: Json, names: Sequence[str], at: str) -> str:
        name, value = _named(record, names)
        if value is not None and not isinstance(value, str):
            self.add_problem(f"{at}.{name}", shown(value), "a text")
        return value if isinstance(value, str) else ""

    def number(self, record: Json, names: Sequence[str], at: str, least: float = -math.inf) -> float | None:
        name, value = _named(record, names)
        if value is None:
            return None
        # JSON reads 1e999 as infinity, and holds whole numbers that no float does.
        if isinstance(value, bool) or not isinstance(value, int | float) or not max(least, -1e300) <= value <= 1e300:
            self.add_problem(f"{at}.{name}", shown(value), "a number" if least < 0 else f"a number, at least {least:g}")
            return None
        return float(value)

    def count(self, record: Json, names: Sequence[str], at: str) -> int | None:
        name, value = _named(record, names)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
            return value
        self.add_problem(f"{at}.{name}", shown(value), "a whole number, at least 0")
        return None

    def time(self, record: Json, name: str, at: str) -> datetime | None:
        value = record.get(name)
        try:
            return None if value is None else datetime.fromisoformat(value)
        except (TypeError, ValueError):
            self.add_problem(f"{at}.{name}", shown(value), "a time such as 2026-01-31T09:30:00")
            return None


def to_texts(value: Any) -> tuple[str, ...]:
    """The texts of a list, or of a text, which may be a list as Python prints it."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            value = ast.literal_eval(value)
    if value is None or value == "":
        return ()
    return tuple(str(each) for each in value) if isinstance(value, list | tuple) else (str(value),)


def _named(record: Mapping[str, Any], names: Sequence[str]) -> tuple[str, Any]:
    """The first of these fields that has a value."""
    return next(((name, record[name]) for name in names if record.get(name) is not None), (names[0], None))


def whole_sum(values: Iterable[_Number | None]) -> _Number | None:
    """The sum; None if a value is missing, as a partial sum would look like the whole."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(every) else None
