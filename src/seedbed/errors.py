"""Every error seedbed raises on purpose.

SeedbedError
├─ DocumentError          a file, a URL or a variable is wrong; lists all problems
│  ├─ PlaybookError
│  │  └─ MergeClash       two playbooks changed the same thing differently
│  ├─ DatasetError
│  └─ SettingsError
├─ RunError               a run could not continue
│  ├─ ModelUnavailable
│  ├─ BudgetSpent
│  │  └─ QuotaSpent       of the whole environment: no other run can start either
│  ├─ ActionForbidden
│  ├─ ToolFailed          a tool said that it could not do its work
│  ├─ InDoubt             a call may have happened, or not
│  └─ RunTaken            another worker performs it
├─ Stopped                a person stopped the whole workspace
├─ StoreError             the store refused or failed
│  ├─ NotFound
│  ├─ RefMoved            someone moved the ref first
│  ├─ StoreDamaged        stored content has changed
│  ├─ StoreUnavailable    it cannot be reached or written now
│  └─ StoreTooNew         written by a newer seedbed
└─ ReleaseRefused         gates refused a release; lists all refusals

Each message says what was found, what was expected and what to do next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import UnionType
from typing import Any, Literal

__all__ = [
    "ActionForbidden",
    "BudgetSpent",
    "DatasetError",
    "DocumentError",
    "InDoubt",
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
    "Stopped",
    "StoreDamaged",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "ToolFailed",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where it is, what was found, what was expected, and what to do."""

    path: str
    found: str
    expected: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: found {self.found}; expected {self.expected}"
        return f"{text}. {self.remedy}" if self.remedy else text

    @classmethod
    def read(cls, text: str) -> Problem:
        """What a message says, if it is written as problems are; of any other all of it was found."""
        path, is_problem, rest = text.partition(": found ")
        if "; expected " not in rest:
            path, is_problem, rest = "", "found " if text.startswith("found ") else "", text.removeprefix("found ")
        value, has_more, more = rest.partition("; expected ")
        if not (is_problem and has_more):
            return cls("", text, "")
        expected, _, remedy = more.partition(". ")
        return cls(path, value, expected, remedy)


class SeedbedError(Exception):
    """Something a user can act on, said in words or by a Problem. The command line prints its text and no traceback."""

    def __init__(self, *said: object) -> None:
        super().__init__(*said)
        self.problems = tuple(each for each in said if isinstance(each, Problem)) or (Problem.read(str(self)),)


class DocumentError(SeedbedError):
    """Everything that is wrong with one source, not only the first problem."""

    def __init__(self, problems: Iterable[Problem], source: str = "") -> None:
        every = tuple(problems)
        lines = [str(problem) for problem in every]
        head = f"{source}: " if source else ""
        if len(lines) == 1:
            super().__init__(head + lines[0])
        else:
            super().__init__(f"{head}{len(lines)} problems\n" + "\n".join(f"  {line}" for line in lines))
        self.problems = every
        self.source = source

    def __reduce__(self) -> Any:
        return type(self), (self.problems, self.source)


class PlaybookError(DocumentError): ...


class MergeClash(PlaybookError): ...


class DatasetError(DocumentError): ...


class SettingsError(DocumentError): ...


class RunError(SeedbedError): ...


Why = Literal["transient", "rate", "credit", "context", "refused", "ours"]
"""Why a model gave no answer: a failure that may pass; too many requests; no credit; messages too long for its context;
a refusal; or a mistake of ours, which another model would not repair."""


class ModelUnavailable(RunError):
    """A model gave no answer. `wait_seconds` is how long its provider asks us to wait, if it says so; `paid` says
    whether it may charge for the request all the same, as for an answer that cannot be read."""

    def __init__(
        self, message: str, why: Why = "ours", wait_seconds: float | None = None, *, paid: bool = False
    ) -> None:
        super().__init__(message)
        self.why = why
        self.wait_seconds = wait_seconds
        self.paid = paid

    def __reduce__(self) -> Any:
        return partial(type(self), paid=self.paid), (str(self), self.why, self.wait_seconds)


class BudgetSpent(RunError): ...


class QuotaSpent(BudgetSpent):
    """The quota of an environment is spent: no other run can start either."""


class ActionForbidden(RunError): ...


class ToolFailed(RunError):
    """A tool's own failure. A model that asked for the call is told; of all other errors none is left to a model."""


class Stopped(SeedbedError):
    """A person stopped the whole workspace. A run that it ends can be resumed when the stop is lifted.

    It is no RunError: whoever goes on after the failure of one run must not go on after this.
    """


class InDoubt(RunError):
    """A tool was called and gave no result: what it was called for may have happened, or not."""


class RunTaken(RunError):
    """Another worker performs this run, or started it first."""


class StoreError(SeedbedError): ...


class NotFound(StoreError): ...


class RefMoved(StoreError): ...


class StoreDamaged(StoreError): ...


class StoreUnavailable(StoreError):
    """The store cannot be reached or written at the moment. What it did not take was not lost by it."""


class StoreTooNew(StoreError): ...


class ReleaseRefused(SeedbedError):
    """The gates' refusals, each with its remedy."""

    def __init__(self, refusals: Iterable[Problem]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("release refused\n" + "\n".join(f"  {refusal}" for refusal in self.refusals))
        self.problems = self.refusals

    def __reduce__(self) -> Any:
        return type(self), (self.refusals,)


def expect_type(value: object, kind: type | UnionType, at: str, expected: str, remedy: str = "") -> None:
    """Raise SettingsError for an argument of another type than the one that is meant."""
    if not isinstance(value, kind):
        raise SettingsError([Problem(at, shown(value), expected, remedy)])


def expect_function(value: object, at: str, name: str | None = None) -> None:
    """Raise SettingsError for what cannot be called, or has neither a name nor was given one."""
    if not callable(value) or not (name or hasattr(value, "__name__")):
        raise SettingsError([Problem(at, shown(value), "a function that has a name", f"Write @{at} above a function.")])


def shown(value: object, limit: int = 60) -> str:
    """A value as error messages quote it: short, on one line."""
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "below {lt}",
    "dict_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "a mapping",
}


def in_words(kind: str, message: str, limits: Mapping[str, object]) -> str:
    """What pydantic expected, as people say it: from the type, message and context of one of its errors."""
    return _EXPECTED[kind].format(**limits) if kind in _EXPECTED else message.removeprefix("Input should be ")


def dollars(usd: float) -> str:
    """An amount with as many digits as it takes to tell it from zero."""
    digits = 2 - math.floor(math.log10(usd)) if 0 < usd < 0.1 else 2
    return f"${usd:.{digits}f}"


def amount(usd: float, unpriced: int = 0, write: Callable[[float], str] = dollars) -> str:
    """What was spent, as people read it: `$0.12`, or `at least $0.12, 3 calls of unknown price`."""
    if not unpriced:
        return write(usd)
    calls = "1 call" if unpriced == 1 else f"{unpriced:,} calls"
    return f"at least {write(usd)}, {calls} of unknown price"
