"""Plug-ins: entry points of installed packages, imports by path, optional packages, suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

from seedbed.errors import DocumentError, Problem, SettingsError, shown

MOST_NAMES = 40
"""How many known names an error lists."""


def offered(group: str) -> dict[str, str]:
    """What packages offer under an entry point group such as `seedbed.metrics`: paths, `module:name`, by name."""
    return {entry.name: f"{entry.module}:{entry.attr or ''}" for entry in entry_points(group=group)}


def load(path: str, at: str, *, expected: str = "module:name", error: type[DocumentError] = SettingsError) -> Any:
    """Import what `module:name` names. Raises `error` with a Problem at `at` if that fails, whatever the reason."""
    module, _, name = path.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except Exception as wrong:  # the module is a user's: importing it may raise anything
        failure = f"{path} ({type(wrong).__name__}: {wrong})"
        raise error([Problem(at, failure, expected, "Is its folder on PYTHONPATH?")]) from wrong


def optional(module: str, *, extra: str, needed_for: str) -> Any:
    """Import a package that comes with an extra. Raises SettingsError that says how to install it."""
    try:
        return import_module(module)
    except ImportError as missing:
        package = (missing.name or module).partition(".")[0]
        remedy = f"Run: pip install 'seedbed[{extra}]'"
        raise SettingsError([Problem(needed_for, f"no package {package}", "it to be installed", remedy)]) from missing


def suggestion(name: str, known: Iterable[str]) -> str:
    """`Did you mean …?` with the closest of the known names, or an empty text if none is close."""
    near = difflib.get_close_matches(name, list(known), 1, cutoff=0.5 if len(name) < 4 else 0.6)
    return f"Did you mean {near[0]}?" if near else ""


def unknown(at: str, name: object, known: Iterable[str], remedy: str = "", *, kind: str = "") -> Problem:
    """The problem of a name that is not known, with the closest known name; `remedy` applies if none is close."""
    names = list(known)
    actual = f"no {kind} named {shown(name)}" if kind else shown(name)
    listed = ", ".join([*names[:MOST_NAMES], *["…"] * (len(names) > MOST_NAMES)]) or "none yet"
    return Problem(at, actual, f"one of: {listed}", suggestion(str(name), names) or remedy)
