"""Formats: import and export of strategies, modes, prompt profiles and plain texts.

What an agent runs under becomes a Playbook; names and versions become refs; change logs, scores and ancestry become
facts; limits on evolution become the protection of a channel. The `import` fact holds the original document, so that an
export changes only what the playbook changed, and an unchanged document comes back equal. Every export is read again:
if anything got lost, that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from seedbed import documents
from seedbed.errors import PlaybookError, Problem, StoreError, shown
from seedbed.playbooks import checking, loading, warnings
from seedbed.playbooks.formats import imports, mode, profile, strategy, text
from seedbed.playbooks.formats.imports import Import, Note, Original
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Json, canonical

__all__ = [
    "FORMATS",
    "SCHEMAS",
    "Import",
    "Note",
    "export",
    "import_document",
    "import_if_foreign",
    "is_foreign",
    "load_file",
    "load_foreign",
    "recognise",
]


class DocumentFormat(Protocol):
    """The functions of each format module."""

    def likeness(self, document: Json) -> int:
        """How many signs of the format a document has."""

    def read(self, original: Original) -> Import: ...

    def write(
        self, playbook: Playbook, original: Original | None, notes: Iterable[Note], refs: Iterable[str]
    ) -> Json: ...


NATIVE = frozenset({"steps", "rules", "program", "locked", "demos", "inputs"})
"""Keys that only seedbed's own playbooks have."""

FORMATS: dict[str, DocumentFormat] = {each.FORMAT: each for each in (strategy, mode, profile, text)}


SCHEMAS = {
    strategy.FORMAT: strategy.Strategy.model_json_schema,
    mode.FORMAT: mode.ModeDocument.model_json_schema,
    profile.FORMAT: profile.ProfileFile.model_json_schema,
}
"""The JSON Schema of each format that has one."""


def recognise(document: object, source: str = "") -> str:
    """The name of the format of a document, by its structure. Raises PlaybookError if none fits."""
    if not isinstance(document, dict):
        value = "nothing" if document is None else shown(document)
        raise PlaybookError([Problem("document", value, "a mapping: a strategy, a mode or a prompt profile")], source)
    likeness = {name: known.likeness(document) for name, known in FORMATS.items()}
    best = max(likeness, key=lambda name: likeness[name])
    if not likeness[best]:
        expected = (
            "a strategy (metadata, parameters, constraints), a mode (structure, turns, prompts) "
            "or a prompt profile (profile_id, corpus_id, roles with system_prompt)"
        )
        remedy = "A playbook in seedbed's own format is loaded with Playbook.load."
        keys = f"the keys {', '.join(map(str, document))}" if document else "an empty mapping"
        raise PlaybookError([Problem("document", shown(keys, 200), expected, remedy)], source)
    return best


def is_foreign(document: object) -> bool:
    """Whether a document was written for another tool."""
    if not isinstance(document, dict) or NATIVE & document.keys():
        return False
    if "roles" in document and not profile.likeness(document):
        return False
    return any(known.likeness(document) for known in FORMATS.values())


def load_file(path: Path | str, overrides: Mapping[str, object] | None = None) -> Import:
    """A playbook file in any format, with what is probably not meant in it. Raises PlaybookError."""
    if is_foreign(documents.read(path, PlaybookError).value):
        foreign = load_foreign(path)
        return replace(foreign, playbook=Playbook.load(path, overrides)) if overrides else foreign
    playbook = Playbook.load(path, overrides)
    loaded = loading.load(path, overrides)
    unclear = [*warnings.unused_inputs(playbook), *warnings.disguised_rules(playbook)]
    located = checking.locate(unclear, loaded.document, loaded.origins)
    return Import(playbook, "playbook", warnings=(*located, *loaded.warnings))


def import_if_foreign(path: Path, document: object) -> Import | None:
    """The import of a file that has this document, if it was written for another tool. Raises PlaybookError."""
    return load_foreign(path) if is_foreign(document) else None


def load_foreign(path: Path | str) -> Import:
    """Import a file. Problems and warnings name their lines."""
    read = documents.read(path, PlaybookError)
    places = {place: f"{path}:{line}" for place, line in read.lines.items() if place}
    try:
        foreign = import_document(read.value, path)
    except PlaybookError as wrong:
        if wrong.source != str(path) or not read.lines:
            raise
        raise PlaybookError(checking.locate(wrong.problems, read.value, places), wrong.source) from None
    return replace(foreign, warnings=tuple(checking.locate(foreign.warnings, read.value, places)))


def import_document(document: object, source: Path | str = "") -> Import:
    """Import a parsed document. A mode looks for the file it extends beside `source`.

    Raises PlaybookError with everything that is wrong with it.
    """
    source = str(source)
    name = recognise(document, source)
    assert isinstance(document, dict)
    try:
        canonical(document)
    except StoreError as wrong:
        raise PlaybookError([Problem("document", str(wrong), "values that JSON can hold")], source) from None
    original = mode.original(document, source) if name == mode.FORMAT else Original(document, source)
    parts = FORMATS[name].read(original)
    return replace(parts, facts=(*parts.facts, original.note(name)))


def export(playbook: Playbook, format: str, facts: Iterable[Note] = (), refs: Iterable[str] = ()) -> Json:  # noqa: A002
    """A playbook as a document of that format.

    `facts` are those of the import it descends from, if any, and later changes and scores; `refs` are new names for it.
    Raises PlaybookError with everything that the format cannot express.
    """
    if format not in FORMATS:
        raise PlaybookError([Problem("format", shown(format), f"one of: {', '.join(FORMATS)}")])
    notes = tuple(facts)
    return FORMATS[format].write(playbook, imports.original(notes, format), notes, tuple(refs))
