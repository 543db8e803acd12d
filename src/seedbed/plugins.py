"""Plug-ins: entry points of installed packages, imports by path and what they import, optional packages, suggestions
for misspelt names."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from pathlib import Path
from types import ModuleType
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
    names = list(known)
    alike = [each for each in names if len(each) == len(name) < 4]  # in f2 for f1, half of the name is wrong
    near = difflib.get_close_matches(name, names, 1) or difflib.get_close_matches(name, alike, 1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else ""


def unknown(at: str, name: object, known: Iterable[str], remedy: str = "", *, kind: str = "") -> Problem:
    """The problem of a name that is not known, with the closest known name; `remedy` applies if none is close."""
    names = list(known)
    actual = f"no {kind} named {shown(name)}" if kind else shown(name)
    listed = ", ".join([*names[:MOST_NAMES], *["…"] * (len(names) > MOST_NAMES)]) or "none yet"
    return Problem(at, actual, f"one of: {listed}", suggestion(str(name), names) or remedy)


# The source of imported code


def top_folder(module: ModuleType | None) -> Path | None:
    """The folder in which a module of yours is found by its name; None for one that was installed, which its version
    identifies, and for one without a file."""
    if module is None or module.__name__.partition(".")[0] == "seedbed":
        return None
    file = getattr(module, "__file__", None)
    if not file:
        return Path.cwd().resolve() if module.__name__ == "__main__" else None
    path, name = Path(file).resolve(), getattr(module.__spec__, "name", None) or module.__name__
    place = path.parent if path.stem == "__init__" else path.with_suffix("")
    parts = tuple(name.split("."))
    folder = place.parents[len(parts) - 1] if place.parts[-len(parts) :] == parts else path.parent
    return None if INSTALLED & {*folder.parts} else folder


INSTALLED = {"site-packages", "dist-packages", "lib-dynload"}


def sources(modules: Iterable[ModuleType | None]) -> list[tuple[str, str]]:
    """The paths, below their top folders, of your modules and of all that they import from there, each with a hash of
    its source.

    Comments and layout make no difference. Imports that are computed are not found.
    """
    hashes: dict[tuple[Path, Path], str] = {}
    ours = [(folder, getattr(each, "__file__", None)) for each in modules if (folder := top_folder(each))]
    pending = [(folder, Path(file).resolve()) for folder, file in ours if file]
    while pending:
        folder, path = pending.pop()
        if (folder, path) in hashes or not path.is_file():
            continue
        hashes[folder, path], imported = _read(path.read_bytes(), path.relative_to(folder).parts[:-1])
        for parts in imported:
            for end in range(1, len(parts) + 1):
                place = folder.joinpath(*parts[:end])
                pending += [(folder, place.with_suffix(".py")), (folder, place / "__init__.py")]
    return sorted((path.relative_to(folder).as_posix(), text) for (folder, path), text in hashes.items())


@lru_cache(maxsize=250)
def _read(text: bytes, package: tuple[str, ...]) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """The hash of the text of a module in a package, and the names of what it imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return blake2b(text, digest_size=32).hexdigest(), ()
    return blake2b(ast.unparse(tree).encode(), digest_size=32).hexdigest(), tuple(_imports(tree, package))


def _imports(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(each.name.split(".")) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            yield from ((*base, each.name) for each in node.names)
