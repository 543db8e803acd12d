"""A person says yes, and nobody approves their own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from seedbed.errors import PlaybookError, ReleaseRefused
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.channels import release, rollback, stable
from seedbed.release.gates.review import Review
from seedbed.release.review.panel import Panel
from seedbed.release.review.review import approve, queue, refuse, request
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
    with pytest.raises(ReleaseRefused, match="seedbed review approve production"):
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
    assert report.chained == report.facts


def test_an_approval_that_the_author_slipped_in_does_not_count(anna: Library, start: Digest) -> None:
    approval = approve(replace(anna, by="ben"), "staging", start, because="read it")
    body = {**approval.body, "channel": "production"}
    anna.store.append([replace(approval, key="slipped in", by="anna", body=body)])
    with pytest.raises(
        ReleaseRefused, match="an approval by anna, who made it; expected one by somebody other than anna"
    ):
        put(anna, start, Review())


# Asking


def test_whoever_asked_for_a_review_does_not_give_it(anna: Library, start: Digest) -> None:
    """Not before and not after: who approves first and asks then has approved their own wish."""
    ben, cleo = replace(anna, by="ben"), replace(anna, by="cleo")
    request(ben, "production", start, because="please")
    with pytest.raises(ReleaseRefused, match="ben, who asked for its review"):
        approve(ben, "production", start, because="fine")
    approve(cleo, "production", start, because="read it")
    request(cleo, "production", start, because="hurry")
    with pytest.raises(ReleaseRefused, match="an approval by cleo, who asked for its review"):
        put(anna, start, Review())


def test_a_review_without_a_reason_is_none(anna: Library, start: Digest) -> None:
    ben = replace(anna, by="ben")
    for say in (request, approve, refuse):
        with pytest.raises(ReleaseRefused, match="no reason"):
            say(ben, "production", start, because=" \n")


def test_the_queue_tells_who_waits_and_how_it_was_answered(anna: Library, start: Digest) -> None:
    ben = replace(anna, by="ben")
    warmer = anna.derive(start, {"parameters.warmth": 0.6}, because="try")
    for digest in (start, warmer, start):
        request(anna, "production", digest, because="please")
    assert [(item.candidate, item.status) for item in queue(anna, {})] == [(start, "waiting"), (warmer, "waiting")]
    approve(ben, "production", start, because="read it")
    refuse(ben, "production", warmer, because="too warm")
    assert [item.status for item in queue(anna, {})] == ["approved", "refused"]
    later = Panel(expires=timedelta(0))
    assert [item.status for item in queue(anna, {"production": later})] == ["expired", "refused"]
    put(anna, start, Review())
    assert [item.status for item in queue(anna, {})] == ["served", "refused"]


# No


def test_a_refusal_stands_whatever_others_say(anna: Library, start: Digest) -> None:
    ben, cleo = replace(anna, by="ben"), replace(anna, by="cleo")
    refuse(ben, "production", start, because="it shouts")
    approve(cleo, "production", start, because="it does not")
    with pytest.raises(ReleaseRefused, match="a refusal by ben: it shouts"):
        put(anna, start, Review())
    with pytest.raises(ReleaseRefused, match="a refusal by ben"):
        put(anna, start, Review("rules or roles change"))
    approve(ben, "production", start, because="I was wrong")
    put(anna, start, Review())


def test_who_approved_may_take_it_back(anna: Library, start: Digest) -> None:
    ben = replace(anna, by="ben")
    approve(ben, "production", start, because="fine")
    refuse(ben, "production", start, because="on second thought")
    with pytest.raises(ReleaseRefused, match="on second thought"):
        put(anna, start, Review())


def test_refusals_and_requests_are_chained_too(anna: Library, start: Digest) -> None:
    request(anna, "production", start, because="please")
    refuse(replace(anna, by="ben"), "production", start, because="no")
    report = upkeep.verify(anna.store)
    assert (report.clean, report.chained) == (True, report.facts)


# Who, and for how long

PEOPLE = {"ben": ("safety",), "cleo": ("product",), "dan": ("safety", "product")}


def test_with_reviewers_nobody_else_counts(anna: Library, start: Digest) -> None:
    panel = Panel({"ben": ()})
    eve = replace(anna, by="eve")
    with pytest.raises(ReleaseRefused, match="eve, who is not a reviewer of this channel; expected ben"):
        approve(eve, "production", start, because="fine", panel=panel)
    approve(eve, "production", start, because="fine")
    with pytest.raises(ReleaseRefused, match="eve, who is not a reviewer of this channel; expected one by ben"):
        put(anna, start, Review(panel=panel))
    refuse(eve, "production", start, because="no")
    approve(replace(anna, by="ben"), "production", start, because="read it", panel=panel)
    put(anna, start, Review(panel=panel))


def test_every_role_has_to_say_yes(anna: Library, start: Digest) -> None:
    panel = Panel(PEOPLE, ("safety", "product"))
    gate = Review(panel=panel)
    approve(replace(anna, by="cleo"), "production", start, because="sells", panel=panel)
    with pytest.raises(ReleaseRefused, match=r"no approval for safety; expected one for safety by ben or dan"):
        put(anna, start, gate)
    approve(replace(anna, by="ben"), "production", start, because="safe", panel=panel)
    put(anna, start, gate)


def test_one_person_may_have_every_role(anna: Library, start: Digest) -> None:
    panel = Panel(PEOPLE, ("safety", "product"))
    approve(replace(anna, by="dan"), "production", start, because="both", panel=panel)
    put(anna, start, Review(panel=panel))


def test_an_approval_expires_and_can_be_given_again(anna: Library, start: Digest) -> None:
    given = approve(replace(anna, by="ben"), "production", start, because="read it")
    week = timedelta(days=7)
    early, late = Panel(expires=week, clock=lambda: given.at), Panel(expires=week, clock=lambda: given.at + week)
    with pytest.raises(ReleaseRefused, match=r"an approval by ben, which expired on \d{4}-\d\d-\d\d"):
        put(anna, start, Review(panel=late))
    again = replace(anna, by="ben", clock=lambda: given.at + week)
    approve(again, "production", start, because="read it once more")
    put(anna, start, Review(panel=late))
    assert early.opinion(anna, "production", start).approved


def test_there_is_no_way_around_a_review(anna: Library, start: Digest) -> None:
    """Channels are moved by release alone, and what was never let in cannot be rolled back to."""
    put(anna, start)
    other = anna.derive(start, {"roles.writer.system": "Be rude."}, because="try")
    with pytest.raises(ReleaseRefused, match="no approval"):
        put(anna, other, Review())
    with pytest.raises(PlaybookError, match="a protected name"):
        anna.name("channels/production", other, because="quietly")
    with pytest.raises(PlaybookError, match="a protected name"):
        anna.name("channels/production", start, because="quietly")
    with pytest.raises(ReleaseRefused):
        rollback(anna, "production", because="to where it never was")
    assert stable(anna.store, "production") == start
