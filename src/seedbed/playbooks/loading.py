"""From files to one document: `extends`, `overrides` and run-time overrides, resolved before hashing.

A file that extends another is laid over it: mappings are merged key by key, a step of a known name
changes that step and a new one is added at the end, everything else replaces, and null removes.
`overrides` and run-time overrides name single values by path, such as `roles.critic.system`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from seedbed import documents
from seedbed.errors import PlaybookError, Problem, shown
from seedbed.storage.store import Json

SUFFIXES = ("", ".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A resolved document, and the file and line that each of its values came from."""

    document: Json
    origins: dict[str, str]


def load(path: Path | str, overrides: Mapping[str, object] | None = None) -> Loaded:
    """Read a file and everything it extends. Raises PlaybookError for cycles, missing parents and bad syntax."""
    loaded = _load(Path(path), ())
    if overrides:
        loaded = _overridden(loaded, overrides, dict.fromkeys(overrides, "override"), str(path))
    return loaded


def _load(path: Path, chain: tuple[Path, ...]) -> Loaded:
    real = path.resolve()
    if real in chain:
        circle = " → ".join(each.name for each in (*chain[chain.index(real) :], real))
        raise PlaybookError([Problem("extends", f"a circle: {circle}", "a file that ends the chain")], str(path))
    read = documents.read(path, PlaybookError)
    if not isinstance(read.value, dict):
        kind = "nothing" if read.value is None else type(read.value).__name__
        raise PlaybookError([Problem("document", kind, "a mapping with roles, steps or parameters")], str(path))
    own = dict(read.value)
    parents = _parents(own.pop("extends", None), path)
    overrides = own.pop("overrides", None) or {}
    if not isinstance(overrides, dict):
        raise PlaybookError([Problem("overrides", shown(overrides), "a mapping of paths to values")], str(path))
    document: Json = {}
    origins: dict[str, str] = {}
    for parent in parents:
        above = _load(parent, (*chain, real))
        document = laid_over(document, above.document)
        origins |= above.origins
    document = laid_over(document, own) if parents else own
    origins |= {named: _place(read, raw) for named, raw, _ in leaves(own)}
    present = {named for named, _, _ in leaves(document)}
    loaded = Loaded(document, {named: place for named, place in origins.items() if named in present})
    places = {name: _place(read, f"overrides.{name}") for name in overrides}
    return _overridden(loaded, overrides, places, str(path)) if overrides else loaded


def _parents(extends: object, path: Path) -> list[Path]:
    names = [extends] if isinstance(extends, str) else [] if extends is None else extends
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PlaybookError([Problem("extends", shown(extends), "the name of a file, or a list of them")], str(path))
    return [_parent(name, path) for name in names]


def _parent(name: str, path: Path) -> Path:
    tried = [path.parent / f"{name}{suffix}" for suffix in SUFFIXES]
    for candidate in tried:
        if candidate.is_file():
            return candidate
    looked = ", ".join(str(each) for each in tried)
    remedy = "Names are relative to the file that extends them."
    raise PlaybookError([Problem("extends", shown(name), f"one of these files: {looked}", remedy)], str(path))


def _place(read: documents.Document, raw: str) -> str:
    line = read.lines.get(raw)
    return f"{read.source}:{line}" if line else read.source


def laid_over(below: Json, above: Mapping[str, Any]) -> Json:
    """`above` on top of `below`; neither is changed."""
    result = dict(below)
    for key, value in above.items():
        if value is None and key in below:
            del result[key]
        elif key == "steps" and isinstance(value, list) and isinstance(below.get(key), list):
            result[key] = _steps_over(below[key], value)
        elif isinstance(value, dict) and isinstance(below.get(key), dict):
            result[key] = laid_over(below[key], value)
        else:
            result[key] = value
    return result


def _steps_over(below: list[Any], above: list[Any]) -> list[Any]:
    changes = {step["name"]: step for step in _named_steps(above)}
    known = {step["name"] for step in _named_steps(below)}

    def changed(item: Any) -> Any:
        if isinstance(item, dict) and isinstance(item.get("together"), list):
            return {**item, "together": [changed(step) for step in item["together"]]}
        name = item.get("name") if isinstance(item, dict) else None
        return laid_over(item, changes[name]) if isinstance(name, str) and name in changes else item

    def is_new(item: Any) -> bool:
        return {step["name"] for step in _named_steps([item])}.isdisjoint(known)

    return [changed(item) for item in below] + [item for item in above if is_new(item)]


def _named_steps(steps: list[Any]) -> Iterator[Json]:
    for item in steps:
        if isinstance(item, dict) and isinstance(item.get("together"), list):
            yield from _named_steps(item["together"])
        elif isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item


def leaves(value: object, named: str = "", raw: str = "") -> Iterator[tuple[str, str, object]]:
    """Each leaf of a document: its path with steps by name, its path with steps by position, its value."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            if named == "" and key == "steps" and isinstance(item, list):
                yield from _step_leaves(item, "steps")
            else:
                yield from leaves(item, f"{named}.{key}" if named else key, f"{raw}.{key}" if raw else key)
    else:
        yield named, raw, value


def _step_leaves(steps: list[Any], raw: str) -> Iterator[tuple[str, str, object]]:
    for index, item in enumerate(steps):
        place = f"{raw}[{index}]"
        if isinstance(item, dict) and isinstance(item.get("together"), list):
            yield from _step_leaves(item["together"], f"{place}.together")
        elif isinstance(item, dict) and isinstance(item.get("name"), str):
            yield from leaves(item, f"steps.{item['name']}", place)
        else:
            yield place, place, item


def matches(lock: str, path: str) -> bool:
    """Whether a lock covers a path: itself, what is inside it, and `*` for anything."""
    return _matcher(lock).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _matcher(lock: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, lock.split("*"))) + r"(\..*)?")


def _overridden(loaded: Loaded, overrides: Mapping[str, object], places: Mapping[str, str], source: str) -> Loaded:
    document, origins = loaded.document, dict(loaded.origins)
    problems = []
    for path, value in overrides.items():
        changed = _set(document, path.split("."), value)
        if changed is None:
            parent = path.rpartition(".")[0]
            problems.append(Problem(path, f"no {parent or path} to change", "a path of this playbook"))
            continue
        document = changed
        origins = {known: origin for known, origin in origins.items() if not _within(known, path)}
        origins |= {named: places[path] for named, _, _ in leaves(document) if _within(named, path)}
    if problems:
        raise PlaybookError(problems, source)
    return Loaded(document, origins)


def _within(path: str, parent: str) -> bool:
    return path == parent or path.startswith(f"{parent}.")


def _set(value: Any, path: list[str], new: object) -> Any:
    """A copy of `value` with one path changed, or removed if `new` is None; None if the path leads nowhere."""
    head, rest = path[0], path[1:]
    if not isinstance(value, dict):
        return None
    if head == "steps" and rest and isinstance(value.get("steps"), list):
        steps = _set_step(value["steps"], rest, new)
        return None if steps is None else {**value, "steps": steps}
    if not rest:
        return {**value, head: new} if new is not None else {key: item for key, item in value.items() if key != head}
    inner = value.get(head, {} if head in ("roles", "parameters", "rules", "demos", "meta") else None)
    changed = _set(inner, rest, new)
    return None if changed is None else {**value, head: changed}


def _set_step(steps: list[Any], path: list[str], new: object) -> list[Any] | None:
    result: list[Any] = []
    found = False
    for item in steps:
        if isinstance(item, dict) and isinstance(item.get("together"), list):
            inner = _set_step(item["together"], path, new)
            found |= inner is not None
            if inner is None:
                result.append(item)
            elif inner:
                result.append({**item, "together": inner})
        elif isinstance(item, dict) and item.get("name") == path[0]:
            found = True
            if path[1:]:
                result.append(_set(item, path[1:], new) or item)
            elif new is not None:
                result.append(new)
        else:
            result.append(item)
    return result if found else None


def with_extends(schema: Json) -> Json:
    """The schema of a resolved playbook widened to what a file may say."""
    extends = {
        "description": "File or files this one is laid over.",
        "type": ["string", "array"],
        "items": {"type": "string"},
    }
    overrides = {"description": "Single values by path; null removes.", "type": "object"}
    properties = {"extends": extends, "overrides": overrides, **schema["properties"]}
    bare = {"type": ["string", "number", "boolean"]}
    parameters = properties["parameters"]
    named = {name: {"anyOf": [given, bare]} for name, given in parameters["patternProperties"].items()}
    properties["parameters"] = {**parameters, "patternProperties": named}
    return {**schema, "properties": properties}
