"""Strategies: numbers an agent reads, actions it must not take, and how fast it may evolve.

`parameters` and `constraints` are the playbook; `metadata` gives it its names; `evolution_metadata` becomes
the protection of a channel; `change_log` becomes facts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from seedbed.errors import Problem
from seedbed.playbooks.formats import imports
from seedbed.playbooks.formats.imports import Foreign, Import, Note, Original, RefName, Version, part
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import Number, is_number
from seedbed.storage.store import Json, short

FORMAT = "strategy"
CONSTRAINTS = {"must_confirm_before": "confirm", "never_execute": "never", "prefer_confirm_for": "prefer_confirm"}
THRESHOLD = "user_confirmation"
"""The parameter that holds the confidence an action needs unless a constraint names it."""

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class StrategyMetadata(Foreign):
    name: RefName
    version: Version
    parent_version: Version | None = None


class Constraints(Foreign):
    must_confirm_before: tuple[str, ...] | None = None
    never_execute: tuple[str, ...] | None = None
    prefer_confirm_for: tuple[str, ...] | None = None


class EvolutionLimits(Foreign):
    max_parameter_delta: NotNegative | None = None
    cooldown_period_days: NotNegative | None = None
    requires_human_review: bool | None = None


class StrategyChange(Foreign):
    parameter: str
    reason: str | None = None


class ChangeLogEntry(Foreign):
    version: Version
    date: str | None = None
    changes: tuple[StrategyChange, ...] | None = None


class Strategy(Foreign):
    metadata: StrategyMetadata = Field(description='Give name and version as text in quotes, such as "2.0.0".')
    parameters: dict[str, Number] = Field(description="Give each parameter one number, mostly from 0 to 1.")
    constraints: Constraints = Field(description=f"List actions under {', '.join(CONSTRAINTS)}; write {{}} for none.")
    evolution_metadata: EvolutionLimits = Field(
        description="Say max_parameter_delta, cooldown_period_days and requires_human_review; write {} for no limits."
    )
    change_log: tuple[ChangeLogEntry, ...] | None = Field(
        default=None, description="Give each entry a version, a date and a list of changes to parameters."
    )


def likeness(document: Json) -> int:
    return len({"constraints", "evolution_metadata", "change_log"} & document.keys()) + (
        {"metadata", "parameters"} <= document.keys()
    )


def read(original: Original) -> Import:
    document = original.document
    problems = imports.problems(Strategy, document)
    if not problems and _is_empty(document):
        problems = [Problem("parameters", "none, and no constraints", "at least one of them")]
    imports.refuse(problems, original.source)
    rules: Json = {
        level: document["constraints"][key] for key, level in CONSTRAINTS.items() if document["constraints"].get(key)
    }
    rules["otherwise"] = "prefer_confirm"  # a strategy asks whenever it is unsure, not only where it says so
    if THRESHOLD in document["parameters"]:
        rules["confirm_below"] = THRESHOLD
    parameters = {
        name: {"value": value, "low": 0, "high": 1} if 0 <= value <= 1 else {"value": value}
        for name, value in document["parameters"].items()
    }
    playbook = Playbook.from_document({"parameters": parameters, "rules": rules}, source=original.source)
    name, version = part(document["metadata"]["name"]), document["metadata"]["version"]
    return Import(
        playbook,
        FORMAT,
        refs={f"versions/{name}/{version}": playbook.digest, f"branches/{name}": playbook.digest},
        facts=(*_parents(document, name), *_changes(document, name)),
        protection=_protection(document["evolution_metadata"]),
    )


def _is_empty(document: Json) -> bool:
    return not document["parameters"] and not any(document["constraints"].get(key) for key in CONSTRAINTS)


def _parents(document: Json, name: str) -> Iterator[Note]:
    metadata = document["metadata"]
    if metadata.get("parent_version"):
        yield Note("parent", f"{name}/{metadata['version']}", {"ref": f"versions/{name}/{metadata['parent_version']}"})


def _changes(document: Json, name: str) -> Iterator[Note]:
    taken: set[str] = set()
    for entry in document.get("change_log") or ():
        for change in entry.get("changes") or ():
            path = f"parameters.{change['parameter']}"
            key = imports.unique(f"{name}/{entry['version']}/{path}", taken)
            taken.add(key)
            fields = {field: value for field, value in change.items() if field != "parameter"}
            yield Note("change", key, {**fields, "version": entry["version"], "date": entry.get("date"), "path": path})


def _protection(limits: Mapping[str, Any]) -> Json:
    require: list[Json] = []
    if (delta := limits.get("max_parameter_delta")) is not None:
        require.append({"max_change": {"number": delta}})
    if days := limits.get("cooldown_period_days"):
        require.append({"cooldown": "1 day" if days == 1 else f"{days:g} days"})
    if limits.get("requires_human_review"):
        require.append({"review": {"when": "always"}})
    return {"require": require} if require else {}


def write(playbook: Playbook, original: Original | None, notes: Iterable[Note], refs: Iterable[str]) -> Json:
    document = copy.deepcopy(original.document) if original else _blank(playbook)
    notes = list(notes)
    _rename(document["metadata"], list(refs))
    for note in notes:
        if note.kind == "version" and note.key == playbook.digest:
            parent = {name: note.body[name] for name in ("parent_version",) if name in note.body}
            document["metadata"] |= {**parent, **imports.signature(note)}
    _write_parameters(document, playbook)
    for key, level in CONSTRAINTS.items():
        actions = getattr(playbook.rules, level)
        if tuple(document["constraints"].get(key) or ()) != actions:
            document["constraints"][key] = list(actions)
    known = {note.key for note in read(original).facts} if original else set()
    entries = _entries(note for note in notes if note.kind == "change" and note.key not in known)
    if entries:
        document["change_log"] = [*entries, *(document.get("change_log") or ())]
    again = Playbook() if _is_empty(document) else read(Original(document)).playbook
    imports.refuse_loss(playbook, again, FORMAT)
    return document


def _blank(playbook: Playbook) -> Json:
    return {
        "metadata": {"name": short(playbook.digest)},
        "parameters": {},
        "constraints": {key: [] for key in CONSTRAINTS},
        "evolution_metadata": {},
        "change_log": [],
    }


def _rename(metadata: Json, refs: list[str]) -> None:
    """Take name and version from the refs; the previous version becomes the parent."""
    if branch := imports.parts(refs, "branches", 1):
        metadata["name"] = imports.keep_spelling(metadata["name"], branch[0])
    if named := imports.parts(refs, "versions", 2):
        metadata["name"] = imports.keep_spelling(metadata["name"], named[0])
        if metadata.get("version", named[1]) != named[1]:
            metadata["parent_version"] = metadata["version"]
        metadata["version"] = named[1]
    metadata.setdefault("version", "1.0.0")


def _write_parameters(document: Json, playbook: Playbook) -> None:
    old = document["parameters"]
    new = {
        name: parameter["value"]
        for name, parameter in playbook.content().get("parameters", {}).items()
        if is_number(parameter["value"])
    }
    document["parameters"] = {
        name: old[name] if name in old and float(old[name]) == new[name] else new[name]
        for name in [*old, *new]
        if name in new
    }


def _entries(notes: Iterable[Note]) -> list[Json]:
    """Changes as entries of a change log, one for each version and date, newest first."""
    entries: dict[tuple[str, str | None], Json] = {}
    for note in notes:
        body = dict(note.body)
        version, date, path = body.pop("version"), body.pop("date", None), body.pop("path")
        entry = entries.setdefault((version, date), {"version": version, "date": date, "changes": []})
        entry["changes"].append({"parameter": path.removeprefix("parameters."), **body})
    return list(reversed(entries.values()))
