"""Policies: the probability of each action at a decision, from a file or a function."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from seedbed.errors import DocumentError, Problem, SeedbedError, shown
from seedbed.storage.store import Json, canonical


@dataclass(frozen=True, slots=True)
class Situation:
    """What a policy knows when it decides: not the action that was taken, nor its outcome."""

    run: str
    point: str
    inputs: Json
    earlier: tuple[str, ...]
    """The actions taken at this point before, in the same run."""
    options: tuple[str, ...]
    """All actions ever taken at this point."""


DecisionPolicy: TypeAlias = Callable[[Situation], Mapping[str, float]]
"""The probability that a candidate gives to each action; actions that it does not name have none."""


def load_policy(source: str) -> DecisionPolicy:
    """The policy of a file, or of a function that can be imported. Raises DocumentError.

    A `.json` file has one set of chances for all decisions: `{"ask": 0.2, "go": 0.8}`. A `.jsonl` file has a line for
    each run, or for all with the same inputs: `{"run": ID, "chances": {...}}` or `{"inputs": {...}, "chances": {...}}`.
    `module:function` is called with each `Situation`.
    """
    suffix = Path(source).suffix
    if suffix == ".json":
        fixed = _parsed(_text(source), "file", source)
        try:
            chances = check_chances(fixed)
        except NoChances as wrong:
            raise _bad(source, "file", str(wrong), 'chances that sum to 1, such as {"ask": 0.2, "go": 0.8}') from None
        return lambda situation: chances
    if suffix == ".jsonl":
        return _Table(source).chances
    module, colon, name = source.partition(":")
    if not colon:
        raise _bad("", "policy", shown(source), "a file.json, a file.jsonl or module:function")
    try:
        function = getattr(import_module(module), name)
    except Exception as wrong:
        why = f"{source} ({type(wrong).__name__}: {wrong})"
        raise _bad("", "policy", why, "module:function", "Is its folder on PYTHONPATH?") from wrong
    if not callable(function):
        raise _bad("", "policy", f"{source}, {shown(function)}", "a function of a situation")
    return function  # type: ignore[no-any-return]


class NoChances(SeedbedError):
    """A policy returned something that is not a distribution over actions."""


def check_chances(chances: Any) -> dict[str, float]:
    """Probabilities from 0 to 1, normalised to sum to exactly 1. Raises NoChances."""
    if not isinstance(chances, Mapping) or not chances:
        raise NoChances(shown(chances))
    for action, chance in chances.items():
        number = isinstance(chance, int | float) and not isinstance(chance, bool)
        if not isinstance(action, str) or not number or not 0 <= chance <= 1:
            raise NoChances(f"{shown(action)}: {shown(chance)}")
    total = math.fsum(chances.values())
    if abs(total - 1) > 1e-6:
        raise NoChances(f"{shown(dict(chances))}, which sum to {total:g}")
    return {action: chance / total for action, chance in chances.items()}


class _Table:
    """Probabilities by run or by inputs, one line each."""

    def __init__(self, source: str) -> None:
        self._rows: dict[str, Any] = {}
        problems = list[Problem]()
        expected = 'an object with chances, and run or inputs: {"run": ID, "chances": {"ask": 0.2, "go": 0.8}}'
        for number, line in enumerate(_text(source).split("\n"), 1):
            if not line.strip():
                continue
            try:
                row = _parsed(line, f"line {number}", source)
            except DocumentError as wrong:
                problems += wrong.problems
                continue
            if not isinstance(row, dict) or row.keys() not in ({"run", "chances"}, {"inputs", "chances"}):
                problems.append(Problem(f"line {number}", shown(row), expected))
                continue
            try:
                chances = check_chances(row["chances"])
            except NoChances as wrong:
                problems.append(Problem(f"line {number}", str(wrong), "chances from 0 to 1 that sum to 1"))
                continue
            key = canonical(row["run"] if "run" in row else row["inputs"])
            if key in self._rows:
                problems.append(Problem(f"line {number}", "a run or inputs of an earlier line", "one line for each"))
            self._rows[key] = chances
        if problems:
            raise DocumentError(problems, source)

    def chances(self, situation: Situation) -> Mapping[str, float]:
        for key in (canonical(situation.run), canonical(situation.inputs)):
            if key in self._rows:
                chances: Mapping[str, float] = self._rows[key]
                return chances
        raise NoChances("no line for it or its inputs")


def _text(source: str) -> str:
    try:
        return Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as wrong:
        why = "bytes that are not UTF-8" if isinstance(wrong, UnicodeDecodeError) else wrong.strerror or str(wrong)
        raise _bad(source, "file", why, "a file with the chances of a policy", "Check the path.") from None


def _parsed(text: str, path: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise _bad(source, path, f"text that is not JSON ({wrong})", "an object") from None


def _bad(source: str, path: str, actual: str, expected: str, remedy: str = "") -> DocumentError:
    return DocumentError([Problem(path, actual, expected, remedy)], source)
