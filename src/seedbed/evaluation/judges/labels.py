"""Labels: answers that people have judged, read from a file of JSON lines.

```json
{"inputs": {"question": "Capital of France?"}, "expected": "Paris", "output": "It is Paris.", "label": 1}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seedbed.errors import DatasetError, Problem, StoreError, shown
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.datasets.files import read_rows
from seedbed.evaluation.datasets.loading import SHOWN
from seedbed.runs.run import Run, Turn
from seedbed.storage.store import Json, digest


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """An answer to a task and the label that a person gave it, from 0 to 1; None if nobody did."""

    run: Run
    task: Task
    label: float | None

    @classmethod
    def answer(cls, output: Any, task: Task, label: float | None) -> LabelledAnswer:
        """An answer that was stored without its run."""
        return cls(
            Run(
                id="",
                playbook="",
                inputs=dict(task.inputs),
                seed=0,
                started=datetime.fromtimestamp(0, UTC),
                status="completed",
                output=output,
                error="",
                turns=(),
                tokens=0,
                cost_usd=0.0,
                latency_seconds=0.0,
                models={},
            ),
            task,
            label,
        )


FIELDS = ("inputs", "expected", "output", "turns", "label")


def read_labels(path: Path | str) -> dict[str, LabelledAnswer]:
    """The labelled answers of a file, each by its place. Raises DatasetError with what is wrong in every row.

    A row has `inputs`, `output` and a `label` from 0 to 1; `expected` where the judge needs it; and for a dialogue its
    `turns`, each with a role and a text. The same answer counts once.
    """
    try:
        numbered = dict(_rows(Path(path)))
    except OSError as wrong:
        reason = wrong.strerror or "an unreadable file"
        raise DatasetError([Problem("file", reason, "a readable file")], str(path)) from None
    except DatasetError as wrong:
        raise DatasetError(wrong.problems, str(path)) from None
    labelled: dict[str, LabelledAnswer] = {}
    problems: list[Problem] = []
    first: dict[str, str] = {}
    for place, row in numbered.items():
        wrong_here = list(_problems(row))
        if not wrong_here:
            labelled[place] = _labelled(row)
            before = first.setdefault(digest("answer", {**row, "label": None}), place)
            if before != place:
                wrong_here.append(Problem("output", f"the same answer as on {before}", "each answer once"))
        problems += (replace(each, path=f"{place}{each.path and f'.{each.path}'}") for each in wrong_here)
    if not numbered:
        problems.append(Problem("file", "no labels", "at least one"))
    if len(problems) > SHOWN:
        more = Problem("and so on", f"{len(problems) - SHOWN:,} more problems", "none", "Fix those above first.")
        problems = [*problems[:SHOWN], more]
    if problems:
        raise DatasetError(problems, str(path))
    return labelled


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    kind, numbered = read_rows(path)
    if kind != "json":
        raise DatasetError([Problem("file", f"the ending {shown(path.suffix)}", "one of: .jsonl, .json")])
    yield from numbered


def _problems(row: Any) -> Iterator[Problem]:
    """What is wrong with one row, by its field."""
    if isinstance(row, DatasetError):
        yield from (replace(each, path="") for each in row.problems)
        return
    if not isinstance(row, dict):
        yield Problem("", shown(row), "a JSON object")
        return
    for key in row:
        if key not in FIELDS:
            yield Problem(str(key), "an unknown field", f"one of: {', '.join(FIELDS)}")
    inputs, label, turns = row.get("inputs"), row.get("label"), row.get("turns", [])
    if not isinstance(inputs, dict) or not inputs:
        yield Problem("inputs", _shown(row, "inputs"), "a mapping of names to values")
    if "output" not in row:
        yield Problem("output", "nothing", "the answer that was judged")
    if not isinstance(label, int | float) or not 0 <= label <= 1:
        yield Problem("label", _shown(row, "label"), "a number from 0 to 1")
    if not isinstance(turns, list) or not all(_is_turn(each) for each in turns):
        yield Problem("turns", shown(turns), "a list of {role: …, text: …}")
    try:
        digest("answer", row)
    except StoreError as wrong:
        yield Problem("", str(wrong), "values that can be stored")


def _shown(row: Json, key: str) -> str:
    return shown(row[key]) if key in row else "nothing"


def _is_turn(turn: object) -> bool:
    return isinstance(turn, dict) and turn.keys() == {"role", "text"} and all(isinstance(x, str) for x in turn.values())


def _labelled(row: Json) -> LabelledAnswer:
    # Named by its content, so that it stays the same label when lines move.
    name = digest("labelled", {key: row.get(key) for key in FIELDS if key != "label"}).removeprefix("b2:")[:12]
    answer = LabelledAnswer.answer(row["output"], Task(name, row["inputs"], row.get("expected")), float(row["label"]))
    return replace(answer, run=replace(answer.run, turns=tuple(_turn(each) for each in row.get("turns", []))))


def _turn(row: Json) -> Turn:
    return Turn(
        step=row["role"],
        role=row["role"],
        model="",
        messages=(),
        text=row["text"],
        prompt_tokens=0,
        completion_tokens=0,
        cost_usd=0.0,
        latency_seconds=0.0,
        finish_reason="stop",
        seed=0,
    )
