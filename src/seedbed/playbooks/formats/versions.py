"""Versions: what an export says of a playbook's history, from the facts about it and its ancestors."""

from __future__ import annotations

from collections.abc import Iterator

from seedbed.errors import NotFound
from seedbed.playbooks.changes import diff
from seedbed.playbooks.formats.imports import Note
from seedbed.playbooks.library import Entry, Library
from seedbed.storage.store import Digest, Json, Query

NOTES = ("change", "score", "parent", "import")
"""The kinds of fact that come with a foreign document."""


def recorded_notes(library: Library, digest: Digest) -> list[Note]:
    """What was recorded about a playbook and its ancestors, oldest first; then the versions that were made here."""
    try:
        library.entry(digest)
    except NotFound:
        return []
    ancestry = {entry.digest: entry for entry in library.ancestry(digest)}
    facts = [
        fact for each in ancestry for kind in NOTES for fact in library.store.facts(Query(kind=kind, subject=each))
    ]
    recorded = [Note(fact.kind, fact.key, fact.body) for fact in sorted(facts, key=lambda fact: fact.number)]
    return [*recorded, *reversed([*_versions(library, ancestry, digest)])]


def _versions(library: Library, ancestry: dict[Digest, Entry], digest: Digest) -> Iterator[Note]:
    """Each version that was made here, newest first, and each parameter that it changed with the reason."""
    numbers = {str(ref.target): ref.name.rpartition("/")[2] for ref in library.store.refs("versions/")}
    version: Json = {}
    while True:
        entry, number = ancestry[digest], numbers.get(digest)
        if number and version:
            version.setdefault("parent_version", number)
        if entry.how == "imported":
            return
        if number:
            at = entry.at.strftime("%Y-%m-%dT%H:%M:%SZ")
            version = {"version": number, "at": at, "by": entry.by, "because": entry.because}
            yield Note("version", digest, version)
        if not entry.parents:
            return
        for change in diff(*map(library.get, (entry.parents[0], digest))) if version else ():
            if change.path.startswith("parameters."):
                body = {"from": change.before, "to": change.after, "reason": entry.because, "path": change.path}
                body |= {"version": version["version"], "date": version["at"]}
                yield Note("change", f"{digest}/{change.path}", body)
        digest = entry.parents[0]
