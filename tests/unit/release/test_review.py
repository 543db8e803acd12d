"""A person says yes, and nobody approves their own."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from seedbed.errors import ReleaseRefused
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.channels import release
from seedbed.release.review import Review, approve
from seedbed.storage import upkeep
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Digest, Query

DESK = {
    "roles": {"writer": {"system": "Be kind."}},
    "parameters": {"warmth": {"value": 0.5, "low": 0, "high": 1}},
    "rules": {"never": ["shout"]},
}


@pytest.fixture
def anna() -> Library:
    return Library(MemoryStore(), by="anna")


@pytest.fixture
def start(anna: Library) -> Digest:
    return anna.keep(Playbook.from_document(DESK), because="start")


def put(library: Library, digest: Digest, *gates: Review, channel: str = "production") -> None:
    asyncio.run(release(library, channel, digest, gates, verdict=None, because="try"))


def test_without_an_approval_it_is_refused_with_the_command_to_run(anna: Library, start: Digest) -> None:
    with pytest.raises(ReleaseRefused, match="seedbed channel approve production"):
        put(anna, start, Review())


def test_somebody_else_can_let_it_pass(anna: Library, start: Digest) -> None:
    approve(replace(anna, by="ben"), "production", start, because="read it")
    put(anna, start, Review())


def test_nobody_approves_their_own(anna: Library, start: Digest) -> None:
    with pytest.raises(ReleaseRefused, match="anna, who made it"):
        approve(anna, "production", start, because="looks fine to me")
    assert not list(anna.store.facts(Query(kind="approval")))


def test_an_approval_is_for_one_playbook_and_one_channel(anna: Library, start: Digest) -> None:
    ben = replace(anna, by="ben")
    approve(ben, "staging", start, because="read it")
    with pytest.raises(ReleaseRefused):
        put(anna, start, Review())
    other = anna.derive(start, {"parameters.warmth": 0.6}, because="try")
    approve(ben, "production", start, because="read it")
    with pytest.raises(ReleaseRefused):
        put(anna, other, Review())


def test_a_review_may_be_asked_for_only_when_rules_or_roles_change(anna: Library, start: Digest) -> None:
    gate = Review("rules or roles change")
    put(anna, start, gate)
    put(anna, anna.derive(start, {"parameters.warmth": 0.6}, because="try"), gate)
    stricter = Playbook.from_document({**DESK, "rules": {"never": ["shout", "lie"]}})
    for changed in (
        anna.derive(start, {"roles.writer.system": "Be very kind."}, because="try"),
        anna.keep(stricter, because="try", parents=[start]),
    ):
        with pytest.raises(ReleaseRefused, match="no approval"):
            put(anna, changed, gate)


def test_approvals_are_chained(anna: Library, start: Digest) -> None:
    approve(replace(anna, by="ben"), "production", start, because="read it")
    report = upkeep.verify(anna.store)
    assert report.clean
    assert report.chained == 1


def test_an_approval_that_the_author_slipped_in_does_not_count(anna: Library, start: Digest) -> None:
    approval = approve(replace(anna, by="ben"), "staging", start, because="read it")
    body = {**approval.body, "channel": "production"}
    anna.store.append([replace(approval, key="slipped in", by="anna", body=body)])
    with pytest.raises(ReleaseRefused, match="somebody other than anna"):
        put(anna, start, Review())
