"""Loading: from files to one document. `extends`, `overrides` and run-time overrides are resolved before hashing.

A file that extends another is merged over it: mappings key by key, a step with a known name changes that step and a new
one is added at the end, lists of rules unite, everything else replaces, and null removes. A file of another tool, which
can be extended too, is read as the playbook that its import makes. `overrides` and run-time
overrides set single values by path, such as `roles.critic.system`. Only they can drop a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seedbed import documents, plugins
from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks import builtin
from seedbed.playbooks.rules import LISTS, Rules
from seedbed.storage.store import Json

SUFFIXES = ("", ".yaml", ".yml", ".json")
RUN_TIME = "override"
"""The origin of values that are in no file."""


@dataclass(frozen=True, slots=True)
class ResolvedDocument:
    """A resolved document, the file and line of each of its values, and what could not be resolved.

    `warnings` are about rules of a file that one extending it, or an override, does not keep, and about files of other
    tools.
    """

    document: Json
    origins: dict[str, str]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load(path: Path | str, overrides: Mapping[str, object] | None = None) -> ResolvedDocument:
    """Read a file and everything it extends. Raises PlaybookError for cycles, missing parents and bad syntax."""
    loaded = _load(documents.file_path(path, "a playbook", PlaybookError), ())
    if overrides:
        changed = _override(loaded, overrides, dict.fromkeys(overrides, RUN_TIME))
        loaded = replace(changed, warnings=(*loaded.warnings, *_loosened(loaded.document, changed.document, path)))
    return loaded


def _load(path: Path, chain: tuple[Path, ...]) -> ResolvedDocument:
    real = path.resolve()
    if real in chain:
        circle = " → ".join(each.name for each in (*chain[chain.index(real) :], real))
        raise PlaybookError([Problem("extends", f"a circle: {circle}", "a file that ends the chain")], str(path))
    read = documents.read(path, PlaybookError)
    # The formats import this module.
    foreign = plugins.load("seedbed.playbooks.formats:import_if_foreign", "formats")(real, read.value)
    if foreign:  # the lines of its document are not those of its playbook
        converted = foreign.playbook.document()
        places = {named: read.source for named, _, _ in leaves(converted)}
        return ResolvedDocument(converted, places, warnings=foreign.warnings)
    if not isinstance(read.value, dict):
        remedy = f"{chain[-1]} extends it." if chain else ""
        expected = "a mapping with roles, steps or parameters"
        kind = "nothing" if read.value is None else "a list" if isinstance(read.value, list) else shown(read.value)
        raise PlaybookError([Problem("document", kind, expected, remedy)], str(real if chain else path))
    own = dict(read.value)
    parents = _parents(own.pop("extends", None), path)
    overrides = own.pop("overrides", None)
    problems = list(_duplicate_steps(own.get("steps"), read)) if parents else []
    document: Json = {}
    origins: dict[str, str] = {}
    warnings: list[Problem] = []
    for parent in parents:
        above = _load(parent, (*chain, real))
        document = _extend(document, above.document)
        origins |= above.origins
        problems += above.problems
        warnings += above.warnings
    base = document
    document = _extend(document, own) if parents else own
    if parents:
        problems += _dropped_rules(base.get("rules"), own, read)
    origins |= {named: _place(read, raw) for named, raw, _ in leaves(own)}
    present = {named for named, _, _ in leaves(document)}
    origins = {named: place for named, place in origins.items() if named in present}
    if overrides is not None and not isinstance(overrides, dict):
        place = _place(read, "overrides")
        problems.append(Problem(f"overrides ({place})", shown(overrides), "a mapping of paths to values"))
    loaded = ResolvedDocument(document, origins, tuple(problems))
    if isinstance(overrides, dict):
        loaded = _override(loaded, overrides, {name: _place(read, f"overrides.{name}") for name in overrides})
    if parents:
        warnings += _loosened(base, loaded.document, path)
    return replace(loaded, warnings=tuple(warnings))


# Rules


def _extend(below: Json, above: Json) -> Json:
    """Merge a document over the one it extends: it can add rules, but not drop any."""
    result, old, new = overlay(below, above), below.get("rules"), above.get("rules", {})
    if not isinstance(old, dict):
        return result
    rules = overlay(old, new if isinstance(new, dict) else {})
    for name in LISTS:
        if isinstance(known := old.get(name), list):
            own = new.get(name) if isinstance(new, dict) else None
            rules[name] = [*known, *(rule for rule in own if rule not in known)] if isinstance(own, list) else known
    return {**result, "rules": rules}


def _dropped_rules(rules: object, own: Json, read: documents.Document) -> Iterator[Problem]:
    """Lists of rules that a file sets to null."""
    mine = own.get("rules", {})
    known = rules if isinstance(rules, dict) else {}
    for name in LISTS:
        if name in known and (mine is None or (isinstance(mine, dict) and mine.get(name, ()) is None)):
            path = f"rules.{name}"
            remedy = f"Rules of a base are dropped under overrides: {{{path}: [...]}}."
            yield Problem(f"{path} ({_place(read, path)})", "null", "rules to add", remedy)


def _loosened(base: Json, document: Json, path: Path | str) -> list[Problem]:
    """What a document allows that its base does not."""
    try:
        before, after = _rules(base), _rules(document)
    except ValueError:  # whoever checks the document says so
        return []
    return [replace(each, path=f"{each.path} ({path})") for each in before.loosened_by(after)]


def _rules(document: Json) -> Rules:
    parameters = document.get("parameters")
    named = parameters.items() if isinstance(parameters, dict) else ()
    values = {name: item.get("value") if isinstance(item, dict) else item for name, item in named}
    return Rules.model_validate(document.get("rules") or {}).with_threshold(values)


# Documents


def _duplicate_steps(steps: object, read: documents.Document) -> Iterator[Problem]:
    """Steps with the same name in one file. Merged over another file, the later would hide the earlier one."""
    paths: dict[str, str] = {}
    for named, raw, value in _step_leaves(steps if isinstance(steps, list) else [], "steps"):
        if named.split(".")[2:] != ["name"] or not isinstance(value, str):
            continue
        if value in paths:
            duplicate = f"{shown(value)}, as in {paths[value]} ({_place(read, paths[value])})"
            yield Problem(f"{raw} ({_place(read, raw)})", duplicate, "a name of its own")
        paths[value] = raw


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
    if name in builtin.FILES:
        return builtin.FILES[name]
    remedy = f"Names are relative to the file that extends them, or built in: {', '.join(builtin.FILES)}."
    expected = f"one of these files: {', '.join(map(str, tried))}"
    raise PlaybookError([Problem("extends", shown(name), expected, remedy)], str(path))


def _place(read: documents.Document, raw: str) -> str:
    line = read.lines.get(raw)
    return f"{read.source}:{line}" if line else read.source


def overlay(below: Json, above: Mapping[str, Any]) -> Json:
    """Merge `above` over `below`; neither is changed."""
    result = dict(below)
    for key, value in above.items():
        if value is None and key in below:
            del result[key]
        elif key == "steps" and isinstance(value, list) and isinstance(below.get(key), list):
            result[key] = _overlay_steps(below[key], value)
        elif isinstance(value, dict) and isinstance(below.get(key), dict):
            result[key] = overlay(below[key], value)
        else:
            result[key] = value
    return result


def _overlay_steps(below: list[Any], above: list[Any]) -> list[Any]:
    changes = {step["name"]: step for step in _named_steps(above)}
    known = {step["name"] for step in _named_steps(below)}

    def changed(item: Any) -> Any:
        if isinstance(item, dict) and isinstance(item.get("together"), list):
            return {**item, "together": [changed(step) for step in item["together"]]}
        name = item.get("name") if isinstance(item, dict) else None
        return overlay(item, changes[name]) if isinstance(name, str) and name in changes else item

    def new(items: list[Any]) -> Iterator[Any]:
        for item in items:
            if isinstance(item, dict) and isinstance(item.get("together"), list) and item["together"]:
                if together := list(new(item["together"])):
                    yield {**item, "together": together}
            elif not any(step["name"] in known for step in _named_steps([item])):
                yield item

    return [changed(item) for item in below] + list(new(above))


def _named_steps(steps: list[Any]) -> Iterator[Json]:
    for item in steps:
        if isinstance(item, dict) and isinstance(item.get("together"), list):
            yield from _named_steps(item["together"])
        elif isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item


def leaves(value: object, named: str = "", raw: str = "") -> Iterator[tuple[str, str, object]]:
    """Each leaf of a document: its path with steps by name, its path with steps by position, and its value."""
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


def _override(loaded: ResolvedDocument, overrides: Mapping[str, object], places: Mapping[str, str]) -> ResolvedDocument:
    document, origins, problems = loaded.document, dict(loaded.origins), list(loaded.problems)
    for path, value in overrides.items():
        try:
            document = _set(document, path.split("."), value)
        except _UnknownPath as missing:
            where = "" if places[path] == RUN_TIME else f" ({places[path]})"
            action = "remove" if value is None else "change"
            problems.append(Problem(path + where, f"no {missing} to {action}", "a path of this playbook"))
            continue
        origins = {known: origin for known, origin in origins.items() if not is_within(known, path)}
        origins |= {named: places[path] for named, _, _ in leaves(document) if is_within(named, path)}
    return ResolvedDocument(document, origins, tuple(problems))


def is_within(path: str, parent: str) -> bool:
    """Whether a path is the parent or lies below it."""
    return path == parent or path.startswith(f"{parent}.")


class _UnknownPath(Exception):
    """A path that does not exist; says how far it does."""


def _set(value: Any, path: list[str], new: object, above: tuple[str, ...] = ()) -> Json:
    """A copy of a mapping with one path changed, or removed if `new` is None. Raises _UnknownPath."""
    head, rest = path[0], path[1:]
    here = (*above, head)
    if above[:1] == ("parameters",) and len(above) == 2 and isinstance(value, bool | float | int | str):
        value = {"value": value}
    if not isinstance(value, dict):
        raise _UnknownPath(".".join(above if value is None else here))
    if here == ("steps",) and rest:
        return {**value, head: _set_step(value.get(head), rest, new)}
    if not rest:
        if new is None and head not in value:
            raise _UnknownPath(".".join(here))
        return {**value, head: new} if new is not None else {key: item for key, item in value.items() if key != head}
    return {**value, head: _set(value.get(head, {} if _may_begin(here) else None), rest, new, here)}


def _may_begin(path: tuple[str, ...]) -> bool:
    """Whether setting a value may add a mapping that the file leaves out."""
    sections = ("roles", "parameters", "rules", "demos", "meta")
    of_step = path[0] == "steps" and len(path) == 3 and path[2] in ("until", "when", "opens", "context")
    return path[0] == "meta" or (len(path) == 1 and path[0] in sections) or of_step


def _set_step(steps: Any, path: list[str], new: object) -> list[Any]:
    name, rest = path[0], path[1:]
    exists = False

    def changed(items: list[Any]) -> Iterator[Any]:
        nonlocal exists
        for item in items:
            if isinstance(item, dict) and isinstance(item.get("together"), list):
                if inner := list(changed(item["together"])):
                    yield {**item, "together": inner}
            elif not (isinstance(item, dict) and item.get("name") == name):
                yield item
            else:
                exists = True
                if rest:
                    yield _set(item, rest, new, ("steps", name))
                elif new is not None:
                    yield new

    result = list(changed(steps if isinstance(steps, list) else []))
    if not exists:
        raise _UnknownPath(f"steps.{name}")
    return result


def with_extends(schema: Json) -> Json:
    """The schema of a resolved playbook, with what a file may have besides."""
    extends = {
        "description": "File or files that this one extends.",
        "type": ["string", "array"],
        "items": {"type": "string"},
    }
    overrides = {"description": "Single values by path; null removes.", "type": "object"}
    properties = {"extends": extends, "overrides": overrides, **schema["properties"]}
    bare = {"type": ["string", "number", "boolean"]}
    parameters = properties["parameters"]
    named = {name: {"anyOf": [schema, bare]} for name, schema in parameters["patternProperties"].items()}
    properties["parameters"] = {**parameters, "patternProperties": named}
    return {**schema, "properties": properties}
