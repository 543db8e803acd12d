"""How far and how fast a channel may change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from seedbed.errors import ReleaseRefused
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.channels import release, rollback
from seedbed.release.gates.cooldown import Cooldown
from seedbed.release.gates.gate import Gate, ReleaseRequest
from seedbed.release.gates.max_change import MaxChange, drift
from seedbed.release.review.review import approve
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Digest

DESK: dict[str, Any] = {
    "roles": {"writer": {"system": "Answer in one short sentence."}},
    "parameters": {"warmth": {"value": 0.5, "low": 0, "high": 1}, "words": {"value": 60, "low": 0, "high": 200}},
}


@pytest.fixture
def library() -> Library:
    return Library(MemoryStore(), by="anna")


@pytest.fixture
def start(library: Library) -> Digest:
    return library.keep(Playbook.from_document(DESK), because="start")


def put(library: Library, digest: Digest, *gates: Gate) -> None:
    asyncio.run(release(library, "production", digest, gates, verdict=None, because="try"))


def child(library: Library, start: Digest, **values: object) -> Digest:
    return library.derive(start, {path.replace("__", "."): value for path, value in values.items()}, because="try")


def test_numbers_may_move_by_a_share_of_their_range(library: Library, start: Digest) -> None:
    put(library, start)
    step = child(library, start, parameters__warmth=0.55, parameters__words=70)
    put(library, step, MaxChange(number=0.05))
    with pytest.raises(ReleaseRefused, match=r"parameters.warmth: 0.55 → 0.61.*in smaller steps") as caught:
        put(library, child(library, step, parameters__warmth=0.61), MaxChange(number=0.05))
    assert "texts" not in str(caught.value)


def test_texts_may_change_by_some_characters(library: Library, start: Digest) -> None:
    put(library, start)
    reworded = child(library, start, roles__writer__system="Answer in two short sentences.")
    with pytest.raises(ReleaseRefused, match="13 edited characters"):
        put(library, reworded, MaxChange(text=12))
    put(library, reworded, MaxChange(text=13))


def test_a_first_release_has_nothing_to_change(library: Library, start: Digest) -> None:
    put(library, start, MaxChange(number=0, text=0), Cooldown(timedelta(days=7)))


def test_releases_wait_for_each_other_and_rollbacks_for_nothing(library: Library, start: Digest) -> None:
    put(library, start)
    week = timedelta(days=7)
    second = child(library, start, parameters__warmth=0.6)
    with pytest.raises(ReleaseRefused, match=r"7 days between two.*Wait until"):
        put(library, second, Cooldown(week))
    later = datetime.now(UTC) + week
    put(library, second, Cooldown(week, clock=lambda: later))
    rollback(library, "production", because="worse")
    third = child(library, start, parameters__warmth=0.7)
    with pytest.raises(ReleaseRefused, match="cooldown"):
        put(library, third, Cooldown(timedelta(hours=1)))


def test_the_wait_ends_at_its_very_end(library: Library, start: Digest) -> None:
    put(library, start)
    ref = library.store.ref("channels/production")
    assert ref
    change = ReleaseRequest("production", start, start, None, library)
    hour = timedelta(hours=1)
    early = Cooldown(hour, clock=lambda: ref.at + hour - timedelta(microseconds=1))
    assert asyncio.run(early(change))
    assert asyncio.run(Cooldown(hour, clock=lambda: ref.at + hour)(change)) is None


def test_small_steps_do_not_lead_far_from_what_was_reviewed(library: Library, start: Digest) -> None:
    gate = MaxChange(number=0.1, since_last_review=0.15)
    put(library, start, gate)
    step = child(library, start, parameters__warmth=0.6)
    put(library, step, gate)
    far = child(library, start, parameters__warmth=0.7)
    with pytest.raises(ReleaseRefused, match=r"parameters.warmth: 20% away from .*at most 15%.*seedbed review request"):
        put(library, far, gate)
    approve(replace(library, by="ben"), "production", step, because="read it")
    put(library, far, gate)


def test_who_reviewed_the_drift_itself_lets_it_pass(library: Library, start: Digest) -> None:
    gate = MaxChange(since_last_review=0.15)
    put(library, start, gate)
    far = child(library, start, roles__writer__system="Answer in many long and winding sentences.")
    with pytest.raises(ReleaseRefused, match=r"roles\.writer\.system"):
        put(library, far, gate)
    approve(replace(library, by="ben"), "production", far, because="as we want it")
    put(library, far, gate)


def test_a_gene_that_is_new_or_gone_has_drifted_all_the_way(library: Library, start: Digest) -> None:
    shorter = Playbook.from_document({**DESK, "parameters": {"warmth": DESK["parameters"]["warmth"]}})
    assert drift(library.get(start), shorter)["parameters.words"] == 1
    assert not any(drift(shorter, shorter).values())
