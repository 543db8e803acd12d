"""Texts: a prompt in a plain or Markdown file is the instructions of one role."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from seedbed.errors import Problem
from seedbed.playbooks import warnings
from seedbed.playbooks.formats import imports
from seedbed.playbooks.formats.imports import Import, Note, Original, part
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Json

FORMAT = "text"
ROLE = "writer"


def likeness(document: Json) -> int:
    return int(document.keys() == {"text"} and isinstance(document["text"], str))


def read(original: Original) -> Import:
    system = original.document["text"].removesuffix("\n")
    if not system.strip():
        imports.refuse([Problem("text", "nothing", "a prompt")], original.source)
    playbook = Playbook.from_document({"roles": {ROLE: {"system": system}}}, source=original.source)
    name = part(Path(original.source).stem)
    refs = {f"branches/{name}": playbook.digest} if name else {}
    return Import(playbook, FORMAT, refs, warnings=tuple(warnings.literal_placeholders([("text", system)])))


def write(playbook: Playbook, original: Original | None, notes: Iterable[Note], refs: Iterable[str]) -> Json:
    system = next((role.system for role in playbook.roles.values()), "")
    written = {"roles": {name: {"system": system} for name in [*playbook.roles][:1]}}
    imports.refuse_loss(playbook, Playbook.from_document(written) if system.strip() else Playbook(), FORMAT)
    unchanged = original and original.document["text"].removesuffix("\n") == system
    return original.document if original and unchanged else {"text": f"{system}\n"}
