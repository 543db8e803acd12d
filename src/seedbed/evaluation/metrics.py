"""Metric and Score: how good one run was at one task."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Protocol

from seedbed.evaluation.dataset import Task
from seedbed.runs.run import Run
from seedbed.stage.dialogue import told
from seedbed.storage.store import Json


@dataclass(frozen=True, slots=True)
class Score:
    """A value, or None if the run could not be scored: an unscored run is never a zero."""

    value: float | None
    reason: str = ""
    answer: str = ""


class Metric(Protocol):
    """Scores a run. `name` is what people call it; `identity` changes whenever its scores might."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Json: ...

    async def __call__(self, run: Run, task: Task) -> Score: ...


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """1 if the output is the expected answer, else 0. Case, quotes around it and a full stop make no difference."""

    name: str = "exact_match"

    @property
    def identity(self) -> Json:
        return {"metric": "exact_match", "version": 1}

    async def __call__(self, run: Run, task: Task) -> Score:
        if task.expected is None:
            return Score(None, "the task has no expected answer")
        answer, expected = _bare(run.output), _bare(task.expected)
        right = answer == expected
        return Score(float(right), "" if right else f"expected {expected}", answer)


_AROUND = "\"'`“”‘’«»()[]*" + string.whitespace
_BEHIND = _AROUND + ".,;:!?…"


def _bare(value: object) -> str:
    # Signs stay: -5 is not 5, nor is C++ C. An answer that is nothing but punctuation is taken at its word.
    text = told(value).strip()
    return (text.lstrip(_AROUND).rstrip(_BEHIND) or text).casefold()
