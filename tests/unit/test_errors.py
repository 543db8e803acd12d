"""Errors say what was found, what was expected and what to do, and survive being sent to another process."""

from __future__ import annotations

import pickle

import pytest

from seedbed import errors
from seedbed.errors import DocumentError, PlaybookError, Problem, ReleaseRefused, SeedbedError, shown

LOUD = Problem("roles.writer.temperature", "3", "at most 2", "Lower it.")
UNKNOWN = Problem("colour", "an unknown key", "one of: roles, steps")


def test_every_public_error_is_a_seedbed_error() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__ if name != "Problem"]
    assert all(issubclass(kind, SeedbedError) for kind in kinds)


def test_one_problem_is_told_on_one_line() -> None:
    told = "debate.yaml: roles.writer.temperature: found 3; expected at most 2. Lower it."
    assert str(PlaybookError([LOUD], "debate.yaml")) == told


def test_several_problems_are_counted_and_told_below_each_other() -> None:
    first, *rest = str(PlaybookError([LOUD, UNKNOWN], "debate.yaml")).splitlines()
    assert first == "debate.yaml: 2 problems"
    assert rest == [f"  {LOUD}", f"  {UNKNOWN}"]


@pytest.mark.parametrize("kind", [kind for kind in vars(errors).values() if isinstance(kind, type)], ids=str)
def test_errors_travel_between_processes(kind: type) -> None:
    if not issubclass(kind, SeedbedError):
        return
    if issubclass(kind, DocumentError):
        error: SeedbedError = kind([LOUD], "debate.yaml")
    else:
        error = kind([LOUD]) if issubclass(kind, ReleaseRefused) else kind("told")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (kind, str(error), vars(error))


def test_values_are_quoted_short_and_on_one_line() -> None:
    assert shown("two\nlines") == '"two lines"'
    assert shown({"a": 1}) == "{'a': 1}"
    assert shown("x" * 100) == '"' + "x" * 58 + "…"
