"""Session log: a header, then tasks between rules of `=`, each with its steps and its end.

Session: s-1
==========
TASK: t-1 (its name)
TEXT: what was asked
==========
--- step_1 ---
tokens: step=20 (completion=5), task=20, session=20
function: look
  args: {"at": "shelf"}
  result: ["tea"]
COMPLETED: completed
SCORE: 1.0
PASS: tea was found
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

from seedbed.errors import Problem, shown
from seedbed.storage.store import Json

RULE = re.compile(r"={10,}\s*")
TASK = re.compile(r"TASK:\s*(?P<id>\S+)(?:\s+\((?P<name>.*)\))?\s*")
STEP = re.compile(r"--- step_\d+(?P<event> .+)? ---\s*")
INNER = ("args", "result", "BLOCKED", "ERROR")
FIELD = re.compile(rf"(?:(?P<plain>[A-Za-z_]+)|  (?P<inner>{'|'.join(INNER)})):(?: (?P<value>.*))?")
ENDING = re.compile(r"(?P<name>COMPLETED|Summary|Task stats|Session stats|SCORE):(?: (?P<value>.*))?")
TOOK = re.compile(r"step took (-?[\d.]+)s")
STEP_TOKENS = re.compile(r"step=(\d{1,15})")
STATS = re.compile(r"(?P<seconds>-?[\d.]+)s, (?P<tokens>\d{1,15}) tokens")

LogFields: TypeAlias = dict[str, list[str]]
"""The rows of each field, by its name."""


def parse(text: str, at: str) -> tuple[dict[str, str], list[Json], list[Problem]]:
    """The header by lower-case names, the tasks, and the problems."""
    # Not splitlines: results of tools may hold other characters that it takes for the end of a line.
    rows = [row.rstrip("\r") for row in text.split("\n")]
    begins = [place for place in range(1, len(rows)) if RULE.fullmatch(rows[place - 1]) and TASK.fullmatch(rows[place])]
    header = {}
    for row in rows[: begins[0] if begins else len(rows)]:
        name, colon, value = row.partition(": ")
        if colon:
            header[name.strip().lower()] = value.strip()
    problems: list[Problem] = []
    if not begins and "session" not in header:
        problems.append(Problem(at, shown(text), "a log: a line with Session:, then tasks, each after a rule of ="))
    ends = [*(begin - 1 for begin in begins[1:]), len(rows)]
    tasks = [_task(rows, begin, end, at, problems) for begin, end in zip(begins, ends, strict=False)]
    return header, tasks, problems


def _task(rows: list[str], begin: int, end: int, at: str, problems: list[Problem]) -> Json:
    called = TASK.fullmatch(rows[begin])
    task: Json = {"line": begin + 1, "task_id": called["id"] if called else "", "task_code": called and called["name"]}
    closing = next((place for place in range(begin + 1, end) if RULE.fullmatch(rows[place])), None)
    if closing is None:
        problems.append(Problem(f"{at} line {begin + 1}", "a task without a rule of = below it", "one after its text"))
        return task
    task["task_text"] = "\n".join(rows[begin + 1 : closing]).removeprefix("TEXT:").strip()
    body = _Body(task)
    for place in range(closing + 1, end):
        if body.read(rows[place]):
            remedy = "It is unclear which score is the grader's: leave only that one."
            problems.append(Problem(f"{at} line {place + 1}", shown(rows[place]), "only what the grader said", remedy))
    return body.end(f"{at} line {begin + 1}", problems)


class _Body:
    """The part of a task below its text, read row by row."""

    def __init__(self, task: Json) -> None:
        self.task = task
        self.steps: list[LogFields] = []
        self.ending: LogFields = {}
        self.evaluation: list[str] = []
        self.events: list[str] = []
        self.ended = False
        self.open: tuple[LogFields, str] | None = None
        """The field that a row without a name continues: a result may have several rows."""

    def read(self, row: str) -> bool:
        """Read a row. Returns whether it puts the score in doubt: the grader's comes last, tools may print others."""
        step, ending = STEP.fullmatch(row), ENDING.fullmatch(row)
        if "SCORE" in self.ending:
            if step or ending:
                return True
            self.evaluation += [row.strip()] if row.strip() else []
        elif step:
            self._begin((step["event"] or "").strip())
        elif ending:
            self.ended = True
            self._field(self.ending, ending["name"], ending["value"])
        elif (field := FIELD.fullmatch(row)) and (field["inner"] or not self._is_in_result()):
            fields = self.ending if self.ended or not self.steps else self.steps[-1]
            self._field(fields, field["plain"] or field["inner"], field["value"])
        elif self.open:
            fields, name = self.open
            fields[name].append(row)
        elif row.strip():
            self.events.append(row.strip())
        return False

    def _is_in_result(self) -> bool:
        """Whether the row is within the arguments or result of a tool, which end a step and may hold anything."""
        return self.open is not None and self.open[1] in INNER and not self.ended

    def _begin(self, event: str) -> None:
        self.ended, self.open = False, None
        if event:
            self.events.append(event)
        else:
            self.steps.append({})

    def _field(self, fields: LogFields, name: str, value: str | None) -> None:
        fields[name] = [value or ""]
        self.open = fields, name

    def end(self, at: str, problems: list[Problem]) -> Json:
        ending = _texts(self.ending)
        task = self.task | {"steps": [_step(each) for each in self.steps], "evaluation": self.evaluation}
        task |= {"code": ending.pop("COMPLETED", None), "summary": ending.pop("Summary", None)}
        if stats := STATS.match(ending.pop("Task stats", "")):
            task |= {"tokens": int(stats["tokens"]), "seconds": number(stats["seconds"])}
        if (score := ending.pop("SCORE", None)) is not None:
            task["score"] = number(score)
            if task["score"] is None:
                problems.append(Problem(f"{at} SCORE", shown(score), "a number"))
        ending.pop("Session stats", None)  # a running sum of the others
        return task | ending | ({"events": self.events} if self.events else {})


def _texts(fields: LogFields) -> dict[str, str]:
    return {name: "\n".join(rows).strip() for name, rows in fields.items()}


def _step(fields: LogFields) -> Json:
    texts = _texts(fields)
    took, tokens = TOOK.search(texts.pop("time", "")), STEP_TOKENS.search(texts.pop("tokens", ""))
    step: Json = {name: value_of(texts.pop(name)) for name in ("args", "result") if name in texts}
    for name in ("BLOCKED", "ERROR"):
        if name in texts:
            step["error"] = f"{name}: {texts.pop(name)}"
    step |= {"seconds": number(took[1]) if took else None, "tokens": int(tokens[1]) if tokens else None}
    return step | texts


def value_of(text: str) -> Any:
    """The value of a text that is JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
