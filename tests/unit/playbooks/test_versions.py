"""What an export says of versions that were made here: their author, time, reason and changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from format_samples import document, example

from seedbed.playbooks.formats import export
from seedbed.playbooks.formats.versions import recorded_notes
from seedbed.playbooks.library import Library
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Digest, Fact


def imported(name: str, by: str = "bea") -> tuple[Library, Digest]:
    """A library with the playbook of an example, as an import leaves it."""
    library, found = Library(MemoryStore(), by, lambda: datetime(2026, 11, 18, 9, 30, tzinfo=UTC)), example(name)
    digest = library.keep(found.playbook, because="imported", how="imported")
    library.store.append(
        Fact(kind=note.kind, key=note.key, subject=digest, at=library.clock(), by=by, body=note.body)
        for note in found.facts
    )
    for ref in found.refs:
        if ref.startswith("versions/"):
            library.version(*ref.split("/")[1:], of=digest, because="imported")
    return library, digest


def exported(library: Library, digest: Digest, to: str) -> dict[str, Any]:
    refs = [ref.name for ref in library.store.refs("versions/") if ref.target == digest]
    return export(library.get(digest), to, recorded_notes(library, digest), refs)


def test_each_version_has_its_author_time_reason_parent_and_changes() -> None:
    library, digest = imported("parcel-desk.yaml")
    digest = library.derive(digest, {"parameters.refund_readiness": 0.3}, because="still too many")
    digest = library.derive(digest, {"parameters.user_confirmation": 0.8}, because="people asked")
    library.version("parcel-desk", "1.4.0", digest, because="ready")
    digest = library.derive(digest, {"parameters.refund_readiness": 0.25}, because="again")
    library.version("parcel-desk", "2.0.0", digest, because="ready")
    strategy = exported(library, digest, "strategy")
    time = "2026-11-18T09:30:00Z"
    assert (
        strategy["metadata"]
        | {
            "version": "2.0.0",
            "parent_version": "1.4.0",
            "created_at": time,
            "created_by": "bea",
            "description": "again",
        }
        == strategy["metadata"]
    )
    newest, older, *known = strategy["change_log"]
    again = {"parameter": "refund_readiness", "from": 0.3, "to": 0.25, "reason": "again"}
    assert newest == {"version": "2.0.0", "date": time, "changes": [again]}
    assert [change["reason"] for change in older["changes"]] == ["still too many", "people asked"]
    assert known == document("parcel-desk.yaml")["change_log"]


def test_what_was_imported_or_has_no_version_is_signed_by_nobody_else() -> None:
    library, digest = imported("parcel-desk.yaml")
    assert exported(library, digest, "strategy") == document("parcel-desk.yaml")
    child = library.derive(digest, {"parameters.refund_readiness": 0.3}, because="still too many")
    expected = document("parcel-desk.yaml")
    expected["parameters"]["refund_readiness"] = 0.3
    assert exported(library, child, "strategy") == expected


def test_a_new_version_of_a_profile_has_its_own_time() -> None:
    library, digest = imported("tenancy-qa.json")
    digest = library.derive(digest, {"roles.worker.system": "Be exact."}, because="vague answers")
    library.version("tenancy", "1.2.0", digest, because="ready")
    profile = exported(library, digest, "profile")
    assert (profile["version"], profile["created_at"]) == ("1.2.0", "2026-11-18T09:30:00Z")
    assert "created_by" not in profile


def test_a_playbook_that_was_never_stored_has_no_notes() -> None:
    library, _ = imported("parcel-desk.yaml")
    assert recorded_notes(library, example("name-jury.json").playbook.digest) == []
