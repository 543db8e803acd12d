"""Modes: dialogues written as numbered turns, each with its speaker and its template.

A turn becomes a step of the same name, a distinct speaker becomes a role. In a template `{turn_1}` stays,
`{turn_1_participant}` becomes `{turn_1.model}`, and `<TASK>` becomes `{TASK}` if `template_variables` declares it. A
turn sees the turns in `context_from` that its template does not quote; one with neither template nor context answers
all turns before it, or `{topic}` if it is the first. `context_compression: relevant_only` limits what a turn sees, and
`convergence_threshold` repeats all turns, at most `max_turns` of them, until nobody changes what they say.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from seedbed import documents
from seedbed.errors import PlaybookError, Problem, shown
from seedbed.playbooks import builtin, warnings
from seedbed.playbooks.formats import imports, turns
from seedbed.playbooks.formats.imports import Foreign, Import, Note, Original, RefName, part
from seedbed.playbooks.loading import SUFFIXES
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Json, short

FORMAT = "mode"
STRUCTURES = ("sequential", "parallel", "mixed")
FOR_PEOPLE = frozenset({"name", "description", "note", "notes", "author", "owner", "created_at", "version", "tags"})
SECTIONS = ("prompts", "overrides", "additional_turns")
"""Where a document has turns; the last section wins."""


def _structure(text: str) -> str:
    if text not in STRUCTURES:
        raise PydanticCustomError("structure", "sequential, parallel or mixed")
    return text


def _compression(text: str) -> str:
    if text not in turns.COMPRESSIONS:
        raise PydanticCustomError("compression", " or ".join(turns.COMPRESSIONS))
    return text


def _turn_name(text: str) -> str:
    if not re.fullmatch(r"[^\W\d]\w*", text):
        raise PydanticCustomError("turn", "turn_1, turn_2 and so on")
    return text


def _reference(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("reference", "the number of a turn")
    return value


Compression = Annotated[str, AfterValidator(_compression)]
TurnName = Annotated[str, AfterValidator(_turn_name)]
TurnReference = Annotated[Any, AfterValidator(_reference)]


class ModeTurn(Foreign):
    ignored = FOR_PEOPLE

    role: str | None = None
    participant: str | None = None
    model: str | None = None
    role_instruction: str | None = None
    template: str | None = None
    context_from: tuple[TurnReference, ...] | None = None
    context_compression: Compression | None = None
    requires: tuple[str, ...] | None = None
    prefer: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


class ModePhase(Foreign):
    ignored = FOR_PEOPLE

    type: str | None = None
    structure: str | None = None
    turns: tuple[TurnReference, ...] | None = None
    prompts: dict[TurnName, ModeTurn] | None = None


class ModeMetadata(Foreign):
    template_variables: tuple[str, ...] | None = None


TURNS = "Write turns as turn_1, turn_2 and so on, each a mapping with role, participant and template."


class ModeDocument(Foreign):
    ignored = FOR_PEOPLE | {"participants"}

    name: RefName = Field(description="Give the mode a name in quotes.")
    extends: str | None = Field(default=None, description="Name one file that lies beside this one.")
    structure: Annotated[str, AfterValidator(_structure)] | None = None
    turns: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Say how many turns are played.")
    max_turns: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Say how many turns are enough.")
    convergence_threshold: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="Say how alike two rounds must be for the last one, such as 0.85."
    )
    context_compression: Compression | None = None
    metadata: ModeMetadata | None = Field(default=None, description="List template_variables as names.")
    phases: tuple[ModePhase, ...] | None = Field(
        default=None, description="Give each phase a type, sequential or parallel, and the numbers of its turns."
    )
    prompts: dict[TurnName, ModeTurn] | None = Field(default=None, description=TURNS)
    overrides: dict[TurnName, ModeTurn] | None = Field(default=None, description=TURNS)
    additional_turns: dict[TurnName, ModeTurn] | None = Field(default=None, description=TURNS)


def likeness(document: Json) -> int:
    signs = {"prompts", "structure", "turns", "additional_turns", "phases", "participants"}
    overrides = document.get("overrides")
    of_turns = isinstance(overrides, dict) and any(re.fullmatch(r"turn_\d+", name) for name in overrides)
    return len(signs & document.keys()) + of_turns + ({"name", "extends"} <= document.keys())


# From files


def original(document: Json, source: str) -> Original:
    """The document with the one it extends. Raises PlaybookError for circles and missing parents."""
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
        remedy = f"A playbook with steps can extend {name}, which ships with seedbed." if name in builtin.FILES else ""
        problem = Problem("extends", shown(name), f"one of these files beside it: {looked}", remedy)
        raise PlaybookError([problem], source)
    chain = (*chain, here)
    if path in chain:
        circle = " → ".join(each.name for each in (*chain[chain.index(path) :], path))
        raise PlaybookError([Problem("extends", f"a circle: {circle}", "a mode that ends the chain")], source)
    value = documents.read(path, PlaybookError).value
    if not isinstance(value, dict):
        raise PlaybookError([Problem("document", shown(value), "a mode")], str(path))
    return resolve(Original(value, str(path), _parent(value, str(path), chain)))


def resolve(original: Original) -> Json:
    """The whole mode: merged over the one it extends, with all its turns under `prompts`."""
    document, parent = original.document, original.parent or {}
    imports.refuse(imports.problems(ModeDocument, document) or list(_contradictions(document, parent)), original.source)
    own = {key: value for key, value in document.items() if key not in ("extends", *SECTIONS)}
    mode = {**parent, **own, "metadata": {**(parent.get("metadata") or {}), **(document.get("metadata") or {})}}
    prompts: dict[str, Json] = dict(parent.get("prompts") or {})
    for section in SECTIONS:
        for name, turn in (document.get(section) or {}).items():
            prompts[name] = {**prompts.get(name, {}), **turn}
    if "phases" in document:
        mode["phases"] = [
            {
                **phase,
                "turns": [*(phase.get("turns") or ()), *turns.ordered(phase.get("prompts") or ())],
                "prompts": {},
            }
            for phase in document["phases"] or ()
        ]
        prompts |= _in_phases(document)
    return {**mode, "prompts": prompts}


def _in_phases(document: Json) -> dict[str, Json]:
    """The turns that are written in phases."""
    return {name: turn for phase in document.get("phases") or () for name, turn in (phase.get("prompts") or {}).items()}


def _contradictions(document: Json, parent: Json) -> Iterator[Problem]:
    inherited = parent.get("prompts") or {}
    own = {*(document.get("prompts") or ())}
    for index, phase in enumerate(document.get("phases") or ()):
        for name in phase.get("prompts") or ():
            if name in own or name in inherited:
                yield Problem(f"phases[{index}].prompts.{name}", "a turn that exists already", "each turn once")
            own.add(name)
    for name in document.get("overrides") or ():
        if name not in inherited:
            known = ", ".join(turns.ordered(inherited)) or "none, as it extends nothing"
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
    mode = resolve(original)
    playbook = turns.playbook(mode, original.source)
    meta: Json = {}
    for model, value, place in _mappings(original.document):
        meta |= imports.unknown_values(model, value, place)
    if meta:
        playbook = Playbook.from_document({**playbook.document(), "meta": meta}, source=original.source)
    refs = {f"branches/{part(mode['name'])}": playbook.digest}
    return Import(playbook, FORMAT, refs, warnings=tuple(_warnings(original.document, mode)))


def _warnings(document: Json, mode: Json) -> Iterator[Problem]:
    """What is probably not meant in a document, or has no place in a playbook."""
    played, written = mode.get("turns") or 0, len(mode["prompts"])
    if played > written:
        remedy = f"Only the {written} that are written are played. Write the others under prompts."
        yield Problem("turns", f"{played}, of which {written} are written", f"{played} prompts", remedy)
    yield from _unmet_limits(mode)
    for model, value, place in _mappings(document):
        yield from imports.unknown_keys(model, value, place)
    yield from imports.unkept_tools(document)
    for place, turn in _places(document):
        yield from imports.unkept_tools(turn, place)
        texts = [(f"{place}.{key}", turn.get(key) or "") for key in ("template", "role_instruction")]
        yield from warnings.literal_placeholders(texts)
    for index, phase in enumerate(document.get("phases") or ()):
        kind = phase.get("type") or phase.get("structure")
        if kind not in (None, "sequential", "parallel"):
            remedy = "Its turns are played one after another."
            yield Problem(f"phases[{index}].type", shown(kind), "sequential or parallel", remedy)
        for name in turns.missing(phase, mode["prompts"]):
            yield Problem(f"phases[{index}].turns", name, "a turn that exists", "It is left out.")
    if document.get("phases") and mode.get("structure") not in (None, "mixed"):
        ignored = f"phases in a {mode['structure']} mode"
        yield Problem("phases", ignored, "structure: mixed", "The phases are ignored as it is.")


def _unmet_limits(mode: Json) -> Iterator[Problem]:
    """Limits that no round can keep, and context that there is nothing of."""
    played, at_most = len([*turns.flat(turns.layout(mode))]), mode.get("max_turns")
    if mode.get("convergence_threshold") is not None and turns.rounds(mode) < 2:
        planned = len([*turns.flat(turns.layout({**mode, "max_turns": None}))])
        remedy = f"They are played once. Rounds are compared from max_turns: {2 * planned} on."
        yield Problem("convergence_threshold", f"{planned} turns and max_turns {at_most}", "two rounds or more", remedy)
    if at_most is not None and at_most < played:
        remedy = "Phases are played whole. Leave turns out of them."
        yield Problem("max_turns", f"{at_most}, with {played} turns in phases", f"at least {played}", remedy)
    for name, turn in mode["prompts"].items():
        if turn.get("context_compression") == turns.RELEVANT and not turns.seen(mode, name):
            remedy = "What a template quotes is not compressed; name it under context_from alone."
            yield Problem(f"prompts.{name}.context_compression", "nothing to compress", "context to see", remedy)


def _mappings(document: Json) -> Iterator[tuple[type[Foreign], Json, str]]:
    """Each mapping of a document with its model and its place."""
    yield ModeDocument, document, ""
    for place, turn in _places(document):
        yield ModeTurn, turn, place
    for index, phase in enumerate(document.get("phases") or ()):
        yield ModePhase, phase, f"phases[{index}]"


def _places(document: Json) -> Iterator[tuple[str, Json]]:
    """Each turn of a document, with its place."""
    for section in SECTIONS:
        for name, turn in (document.get(section) or {}).items():
            yield f"{section}.{name}", turn
    for index, phase in enumerate(document.get("phases") or ()):
        for name, turn in (phase.get("prompts") or {}).items():
            yield f"phases[{index}].prompts.{name}", turn


def write(playbook: Playbook, original: Original | None, notes: Iterable[Note], refs: Iterable[str]) -> Json:
    document = copy.deepcopy(original.document) if original else _blank(playbook)
    if branch := imports.parts(refs, "branches", 1):
        document["name"] = imports.keep_spelling(document["name"], branch[0])
    parent = (original and original.parent) or None
    before = resolve(original) if original else document
    playbook = turns.in_turns(playbook, before)
    changes = turns.changes(playbook, before)
    for name, changed in changes.items():
        if changed:
            _turn(document, parent, name).update(changed)
    for name in turns.flat(turns.layout(before)):
        for holder in _holders(document) if name not in changes else ():
            holder.pop(name, None)
    again = Playbook()
    if changes:
        _write_layout(document, parent, turns.plan(playbook))
        document |= turns.convergence(playbook, before)
        again = read(Original(document, parent=parent)).playbook
    imports.refuse_loss(playbook, again, FORMAT)
    return document


def _blank(playbook: Playbook) -> Json:
    models = [playbook.roles[step.role].model for step in playbook.all_steps()]
    inputs = sorted(playbook.needed_inputs - {"topic"})
    return {
        "name": short(playbook.digest),
        "structure": "sequential",
        "turns": len(models),
        "participants": [*dict.fromkeys(model for model in models if model)],
        "metadata": {"template_variables": inputs} if inputs else {},
        "prompts": {},
    }


def _holders(document: Json) -> Iterator[dict[str, Json]]:
    """Each mapping of a document that has turns, the one that wins first."""
    for place in [*(document.get("phases") or ()), *({"prompts": document.get(name)} for name in reversed(SECTIONS))]:
        if place.get("prompts"):
            yield place["prompts"]


def _turn(document: Json, parent: Json | None, name: str) -> Json:
    """Where to write changes to a turn: where it is, or as an override of an inherited turn, or as a new one."""
    for holder in _holders(document):
        if name in holder:
            return holder[name]
    section = "prompts" if parent is None else "overrides" if name in parent["prompts"] else "additional_turns"
    document[section] = {**(document.get(section) or {}), name: {}}
    turn: Json = document[section][name]
    return turn


def _write_layout(document: Json, parent: Json | None, wanted: turns.Layout) -> None:
    mode = resolve(Original(document, parent=parent))
    if turns.layout(mode) == wanted:
        return
    last = max(turns.number(name) or 0 for name in turns.flat(wanted))
    if last > (mode.get("turns") or last):
        mode["turns"] = document["turns"] = last
    count = len([*turns.flat(wanted)])
    if count > (mode.get("max_turns") or count):
        mode["max_turns"] = document["max_turns"] = count
    if turns.layout(mode) == wanted:
        return
    plain = (name for name in ("sequential", "parallel") if turns.layout({**mode, "structure": name}) == wanted)
    document["structure"] = next(plain, "mixed")
    if document["structure"] == "mixed":
        if inner := _in_phases(document):
            document["prompts"] = {**(document.get("prompts") or {}), **inner}
        document["phases"] = turns.phases(wanted)
