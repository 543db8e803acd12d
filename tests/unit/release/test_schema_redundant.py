"""A candidate can be read again and served as before, and says something new."""

from __future__ import annotations

from typing import Any

import pytest
from release_samples import NEW, OLD, change, kept

from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.gates.redundant import redundant
from seedbed.release.gates.schema import schema
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Digest

DESK: dict[str, Any] = {
    "roles": {"writer": {"system": "Answer the {question} in one line."}},
    "parameters": {"low": {"value": 0.5, "low": 0, "high": 1}},
    "locked": ["parameters.low"],
}


class Swapped(MemoryStore):
    """Gives another content than the one that was asked for."""

    other: dict[str, Any]

    def get(self, digest: Digest) -> Any:
        return self.other


async def test_a_playbook_that_reads_again_passes() -> None:
    assert await schema(change(kept())) is None
    assert await schema(change(kept(), incumbent=None)) is None


async def test_one_that_is_not_in_the_store_is_refused() -> None:
    refusal = await schema(change(Library(MemoryStore(), "ada")))
    assert refusal
    assert refusal.found == f"no playbook {NEW.digest[3:13]} in this store"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"roles": {"writer": {"system": 7}}}, "roles.writer.system: found 7"),
        ({"parameters": {"warmth": {"value": 2, "high": 1}}}, "parameters.warmth: found 2; expected at most 1"),
        (OLD.content(), f"the playbook {OLD.digest[3:13]} in its place"),
    ],
    ids=["no playbook", "beyond its own bound", "another one"],
)
async def test_content_that_is_not_the_playbook_is_refused(content: dict[str, Any], found: str) -> None:
    store = Swapped()
    store.other = content
    refusal = await schema(change(Library(store, "ada")))
    assert refusal
    assert found in refusal.found


def made(**changes: Any) -> tuple[Library, Digest, Digest]:
    library = Library(MemoryStore(), "ada")
    before = library.keep(Playbook.from_document(DESK), because="start")
    return library, before, library.keep(Playbook.from_document({**DESK, **changes}), because="try")


async def test_an_input_that_nobody_gives_is_refused() -> None:
    library, before, after = made(roles={"writer": {"system": "Answer the {question} for {customer}."}})
    refusal = await schema(change(library, candidate=after, incumbent=before))
    assert refusal
    assert (refusal.found, refusal.expected) == ("inputs that callers do not pass: customer", "only question")


@pytest.mark.parametrize(
    "changes",
    [
        {"roles": {"writer": {"system": "Answer the {question}\n in one   line. "}}},
        {"locked": []},
        {"parameters": {"low": {"value": 0.5, "low": 0.1, "high": 2}}},
    ],
    ids=["white space", "locks", "bounds"],
)
async def test_what_changes_nothing_is_refused(changes: dict[str, Any]) -> None:
    library, before, after = made(**changes)
    refusal = await redundant(change(library, candidate=after, incumbent=before))
    assert refusal
    assert refusal.found.startswith("nothing but white space, locks or bounds in ")


async def test_the_same_playbook_is_refused() -> None:
    refusal = await redundant(change(kept(), candidate=OLD.digest))
    assert refusal
    assert refusal.found == "no difference"


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"low": {"value": 0.6, "low": 0, "high": 1}}},
        {"roles": {"writer": {"system": "Answer the {question} in two lines."}}},
        {"rules": {"never": ["shout"]}},
    ],
)
async def test_what_changes_something_passes(changes: dict[str, Any]) -> None:
    """Also a parameter that is called as a bound is."""
    library, before, after = made(**changes)
    assert await redundant(change(library, candidate=after, incumbent=before)) is None
    assert await redundant(change(library, candidate=after, incumbent=None)) is None
