"""Modes: dialogues written as numbered turns, each with its speaker and its template.

A turn becomes a step of the same name, a distinct speaker becomes a role. In a template `{turn_1}` stays,
`{turn_1_participant}` becomes `{turn_1.model}`, and `<TASK>` becomes `{TASK}` where `template_variables`
declares it. A turn sees what `context_from` lists and its template does not already quote; one with neither
template nor context answers to all turns before it, or to `{topic}` if it is the first.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from seedbed import documents
from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks.formats import imports, turns
from seedbed.playbooks.formats.imports import Foreign, Import, Note, Original, RefName, part
from seedbed.playbooks.loading import SUFFIXES
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Json, short

FORMAT = "mode"
STRUCTURES = ("sequential", "parallel", "mixed")


def _structure(text: str) -> str:
    if text not in STRUCTURES:
        raise PydanticCustomError("structure", "sequential, parallel or mixed")
    return text


def _turn_name(text: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*", text):
        raise PydanticCustomError("turn", "turn_1, turn_2 and so on")
    return text


def _reference(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("reference", "the number of a turn")
    return value


TurnName = Annotated[str, AfterValidator(_turn_name)]
Reference = Annotated[Any, AfterValidator(_reference)]


class Turn(Foreign):
    role: str | None = None
    participant: str | None = None
    model: str | None = None
    role_instruction: str | None = None
    template: str | None = None
    context_from: tuple[Reference, ...] | None = None
    requires: tuple[str, ...] | None = None
    prefer: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


class Phase(Foreign):
    type: str | None = None
    turns: tuple[Reference, ...] | None = None
    prompts: dict[TurnName, Turn] | None = None


class Metadata(Foreign):
    template_variables: tuple[str, ...] | None = None


TURNS = "Write turns as turn_1, turn_2 and so on, each a mapping with role, participant and template."


class Mode(Foreign):
    name: RefName = Field(description="Give the mode a name in quotes.")
    extends: str | None = Field(default=None, description="Name one file that lies beside this one.")
    structure: Annotated[str, AfterValidator(_structure)] | None = None
    turns: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Say how many turns are played.")
    metadata: Metadata | None = Field(default=None, description="List template_variables as names.")
    phases: tuple[Phase, ...] | None = Field(
        default=None, description="Give each phase a type, sequential or parallel, and the numbers of its turns."
    )
    prompts: dict[TurnName, Turn] | None = Field(default=None, description=TURNS)
    overrides: dict[TurnName, Turn] | None = Field(default=None, description=TURNS)
    additional_turns: dict[TurnName, Turn] | None = Field(default=None, description=TURNS)


def likeness(document: Json) -> int:
    signs = {"prompts", "structure", "turns", "additional_turns", "phases", "participants"}
    overrides = document.get("overrides")
    of_turns = isinstance(overrides, dict) and any(re.fullmatch(r"turn_\d+", name) for name in overrides)
    return len(signs & document.keys()) + of_turns + ({"name", "extends"} <= document.keys())


# From files


def original(document: Json, source: str) -> Original:
    """The document with what it extends. Raises PlaybookError for circles and missing parents."""
    return Original(document, source, _parent(document, source, ()))


def _parent(document: Json, source: str, chain: tuple[Path, ...]) -> Json | None:
    name = document.get("extends")
    if not isinstance(name, str):
        return None
    if not source:
        remedy = "Load the mode from its file, so that its neighbours can be found."
        raise PlaybookError([Problem("extends", shown(name), "a document from a file", remedy)])
    here = Path(source).resolve()
    tried = [here.parent / f"{name}{suffix}" for suffix in SUFFIXES]
    path = next((candidate for candidate in tried if candidate.is_file()), None)
    if path is None:
        looked = ", ".join(each.name for each in tried)
        raise PlaybookError([Problem("extends", shown(name), f"one of these files beside it: {looked}")], source)
    chain = (*chain, here)
    if path in chain:
        circle = " → ".join(each.name for each in (*chain[chain.index(path) :], path))
        raise PlaybookError([Problem("extends", f"a circle: {circle}", "a mode that ends the chain")], source)
    value = documents.read(path, PlaybookError).value
    if not isinstance(value, dict):
        raise PlaybookError([Problem("document", shown(value), "a mode")], str(path))
    return resolved(Original(value, str(path), _parent(value, str(path), chain)))


def resolved(original: Original) -> Json:
    """The whole mode: laid over what it extends, with all its turns under `prompts`."""
    document, parent = original.document, original.parent
    imports.refuse(imports.problems(Mode, document) or list(_contradictions(document, parent)), original.source)
    mode = {**(parent or {}), **document}
    mode["metadata"] = {**((parent or {}).get("metadata") or {}), **(document.get("metadata") or {})}
    prompts: dict[str, Json] = dict((parent or {}).get("prompts") or {})
    for section in ("prompts", "overrides", "additional_turns"):
        for name, turn in (mode.pop(section, None) or {}).items() if section in document else ():
            prompts[name] = {**prompts.get(name, {}), **turn}
    phases = []
    for phase in document.get("phases") or ():
        prompts |= phase.get("prompts") or {}
        names = [*(phase.get("turns") or ()), *turns.ordered(phase.get("prompts") or {})]
        phases.append({**phase, "turns": names, "prompts": {}})
    if phases:
        mode["phases"] = phases
    return {**mode, "prompts": prompts}


def _contradictions(document: Json, parent: Json | None) -> Iterator[Problem]:
    inherited = (parent or {}).get("prompts") or {}
    own = [*(document.get("prompts") or ())]
    for phase in document.get("phases") or ():
        for name in phase.get("prompts") or ():
            if name in own:
                yield Problem(f"phases.prompts.{name}", f"{name} a second time", "each turn once")
            own.append(name)
    for name in document.get("overrides") or ():
        if name not in inherited and name not in own:
            known = ", ".join(inherited) or "none, as it extends nothing"
            remedy = "A new turn belongs under additional_turns."
            yield Problem(f"overrides.{name}", "a turn to change that does not exist", f"one of: {known}", remedy)
    for name in document.get("additional_turns") or ():
        if name in inherited or name in own:
            remedy = "What changes a turn belongs under overrides."
            yield Problem(f"additional_turns.{name}", "a turn that exists already", "a new one", remedy)
    if not (inherited or own or document.get("additional_turns")):
        yield Problem("prompts", "no turns", "at least one", TURNS)


# In and out


def read(original: Original) -> Import:
    mode = resolved(original)
    playbook = turns.playbook(mode, original.source)
    names = {f"branches/{part(mode['name'])}": playbook.digest}
    if isinstance(version := mode["metadata"].get("version"), str) and part(version):
        names[f"versions/{part(mode['name'])}/{part(version)}"] = playbook.digest
    return Import(playbook, FORMAT, refs=names)


def write(playbook: Playbook, original: Original | None, notes: Iterable[Note], refs: Iterable[str]) -> Json:
    document = copy.deepcopy(original.document) if original else _blank(playbook)
    if branch := imports.parts(refs, "branches", 1):
        document["name"] = imports.kept(document["name"], branch[0])
    before = resolved(original) if original else {**document, "prompts": {}}
    playbook = turns.numbered(playbook, before)
    changes = turns.changes(playbook, before)
    for name, changed in changes.items():
        _place(document, name, before).update(changed)
    for name in before["prompts"].keys() - {step.name for step in playbook.all_steps()}:
        _remove(document, name, before)
    ...
    return document
