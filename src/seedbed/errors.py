"""Every error seedbed raises on purpose.

SeedbedError
├─ DocumentError          something written is wrong; all problems at once
│  ├─ PlaybookError
│  │  └─ MergeClash       two playbooks changed the same thing differently
│  ├─ DatasetError
│  └─ SettingsError       a workspace file, a URL or an environment variable
├─ RunError               a run could not go on
│  ├─ ModelUnavailable
│  ├─ BudgetSpent
│  │  └─ QuotaSpent       of the environment: no other run can be begun either
│  ├─ ActionForbidden
│  └─ RunTaken            another worker is at it
├─ StoreError             the store refused or failed
│  ├─ NotFound
│  ├─ RefMoved            someone moved the ref first
│  ├─ StoreDamaged        what is stored is not what was put there
│  └─ StoreTooNew         written by a newer seedbed
└─ ReleaseRefused         gates refused a release; all refusals at once

Each message says what was found, what was expected and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "ActionForbidden",
    "BudgetSpent",
    "DatasetError",
    "DocumentError",
    "MergeClash",
    "ModelUnavailable",
    "NotFound",
    "PlaybookError",
    "Problem",
    "QuotaSpent",
    "RefMoved",
    "ReleaseRefused",
    "RunError",
    "RunTaken",
    "SeedbedError",
    "SettingsError",
    "StoreDamaged",
    "StoreError",
    "StoreTooNew",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what was found there, what belongs there, what to do."""

    path: str
    found: str
    expected: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: found {self.found}; expected {self.expected}"
        return f"{text}. {self.remedy}" if self.remedy else text


class SeedbedError(Exception):
    """Something a user can act on. The command line prints its text and no traceback."""


class DocumentError(SeedbedError):
    """Everything that is wrong with one source, not only the first thing."""

    def __init__(self, problems: Iterable[Problem], source: str = "") -> None:
        self.problems = tuple(problems)
        self.source = source
        lines = [str(problem) for problem in self.problems]
        head = f"{source}: " if source else ""
        if len(lines) == 1:
            super().__init__(head + lines[0])
        else:
            super().__init__(f"{head}{len(lines)} problems\n" + "\n".join(f"  {line}" for line in lines))

    def __reduce__(self) -> Any:
        return type(self), (self.problems, self.source)


class PlaybookError(DocumentError): ...


class MergeClash(PlaybookError): ...


class DatasetError(DocumentError): ...


class SettingsError(DocumentError): ...


class RunError(SeedbedError): ...


Why = Literal["transient", "rate", "credit", "context", "refused", "ours"]
"""Why a model gave no answer: it may in a moment; we ask too often; nobody pays; we said too much for it to read; it
will not say such things; or the mistake is on our side, and no other model would help."""


class ModelUnavailable(RunError):
    """A model gave no answer. `wait_seconds` is how long its provider asks us to wait, if it says so."""

    def __init__(self, message: str, why: Why = "ours", wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.why = why
        self.wait_seconds = wait_seconds

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.why, self.wait_seconds)


class BudgetSpent(RunError): ...


class QuotaSpent(BudgetSpent):
    """The quota of an environment is spent: no fault of a run, and no other can be begun either."""


class ActionForbidden(RunError): ...


class RunTaken(RunError):
    """Another worker is at this run, or was quicker to begin with it."""


class StoreError(SeedbedError): ...


class NotFound(StoreError): ...


class RefMoved(StoreError): ...


class StoreDamaged(StoreError): ...


class StoreTooNew(StoreError): ...


class ReleaseRefused(SeedbedError):
    """The gates' refusals, each with its remedy."""

    def __init__(self, refusals: Iterable[Problem]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("release refused\n" + "\n".join(f"  {refusal}" for refusal in self.refusals))

    def __reduce__(self) -> Any:
        return type(self), (self.refusals,)


def shown(value: object, limit: int = 60) -> str:
    """A value as an error message quotes it: short, on one line."""
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
