"""Every fact is bound to all before it, by its columns and a commitment to its body."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from seedbed.storage.chain import GENESIS, GROUP, Chain, bind, broken, commitment, first_link, leaf, merkle_root
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, canonical
from seedbed.storage.upkeep import verify

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FACT = Fact(kind="cell", key="k", subject="s", at=NOON, by="ann", body={"a": 1}, value=1, parents=("p",), tags=("t",))


def chained(facts: list[Fact], previous: str = GENESIS, unbound: int = 0) -> list[Fact]:
    bindings = bind(facts, [canonical(fact.body) for fact in facts], previous, unbound)
    return [replace(fact, **each._asdict()) for fact, each in zip(facts, bindings, strict=True)]


def problems(facts: list[Fact]) -> list[str]:
    return [name for name, _ in broken(facts)]


def cells(count: int) -> list[Fact]:
    return chained([replace(FACT, key=f"{n}") for n in range(count)])


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "turn"},
        {"key": "l"},
        {"subject": "t"},
        {"at": NOON + timedelta(microseconds=1)},
        {"by": "bob"},
        {"body": {"a": 2}},
        {"value": None},
        {"parents": ()},
        {"tags": ("t", "u")},
        {"commitment": "00" * 32},
        {"salt": "00" * 16},
        {"salt": "no salt"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_change_of_anything_in_a_fact_is_named(changes: dict[str, Any]) -> None:
    facts = cells(3)
    assert problems(facts) == []
    changed = replace(facts[1], **changes)
    found = problems([facts[0], changed, facts[2]])
    assert found
    assert {f"{changed.kind} fact {changed.key}", "cell fact 0 to cell fact 2"} >= {*found}


def test_what_the_store_gives_and_how_a_time_is_written_make_no_difference() -> None:
    tokyo = timezone(timedelta(hours=9))
    assert leaf(replace(FACT, number=7, link="x", at=NOON.astimezone(tokyo), value=1.0), "c") == leaf(FACT, "c")
    assert leaf(replace(FACT, value=-0.0), "c") == leaf(replace(FACT, value=0), "c")


@pytest.mark.parametrize("count", [1, 2, GROUP, GROUP + 1, 3 * GROUP])
def test_facts_share_links_in_groups(count: int) -> None:
    facts = cells(count)
    assert problems(facts) == []
    assert sum(bool(fact.link) for fact in facts) == -(-count // GROUP)
    assert facts[-1].link


def test_a_fact_that_decides_a_release_has_a_link_of_its_own() -> None:
    facts = chained(
        [replace(FACT, key=key, kind=kind) for key, kind in zip("abc", ("cell", "move", "cell"), strict=True)]
    )
    assert [bool(fact.link) for fact in facts] == [False, True, True]
    assert problems(facts) == []


def test_removed_added_and_swapped_facts_are_found() -> None:
    facts = cells(GROUP + 5)
    assert problems(facts[1:])
    assert problems([*facts[:7], *facts[8:]]) == ["cell fact 0 to cell fact 99"]
    assert problems([facts[1], facts[0], *facts[2:]])
    assert problems([*facts, replace(FACT, key="more", commitment=facts[0].commitment, salt=facts[0].salt)])
    assert problems([*facts, replace(FACT, key="unsealed")]) == ["cell fact unsealed"]


def test_an_erased_body_leaves_the_chain_as_it_is() -> None:
    facts = cells(3)
    erased = replace(facts[1], body={}, salt="")
    chain = Chain()
    found = [wrong for fact in (facts[0], erased, facts[2]) for wrong in chain.follow(fact)]
    assert found == [("cell fact 1", "a body that was changed")]
    assert chain.head == facts[-1].link


def test_equal_bodies_have_different_commitments_and_none_can_be_guessed_without_the_salt() -> None:
    first, second = cells(2)
    assert first.commitment != second.commitment
    assert first.commitment == commitment(first.salt, canonical(first.body))
    assert hashlib.blake2b(canonical(first.body).encode(), digest_size=32).hexdigest() != first.commitment


def test_a_chain_of_older_versions_goes_on_and_nothing_can_be_added_to_its_past() -> None:
    old = replace(FACT, kind="approval", link="")
    old = replace(old, link=first_link(GENESIS, old))
    loose = replace(FACT, key="loose")
    new = chained([replace(FACT, key="new")], old.link, unbound=2)
    assert problems([old, loose, *new]) == []
    assert problems([old, *new]) == ["cell fact new"]
    assert problems([loose, replace(FACT, key="forged"), old, *new]) == ["cell fact new"]
    assert problems([replace(old, by="eve"), loose, *new]) == ["approval fact k"]


def test_a_store_of_an_older_version_goes_on() -> None:
    store = MemoryStore(clock=lambda: NOON)
    old = replace(FACT, kind="approval", link="")
    store.load([], [replace(old, link=first_link(GENESIS, old)), replace(FACT, key="loose")])
    store.append([replace(FACT, key="a"), replace(FACT, key="b")])
    store.append([replace(FACT, key="c")])
    report = verify(store)
    assert report.clean
    assert (report.facts, report.chained) == (5, 4)
    [last] = store.facts(Query(kind="cell", key="c"))
    assert report.head == last.link


@pytest.mark.parametrize("count", range(9))
def test_a_merkle_root_has_the_shape_of_the_standard(count: int) -> None:
    """By the recursive definition of RFC 6962, with BLAKE2b."""

    def hashed(*parts: bytes) -> bytes:
        return hashlib.blake2b(b"".join(parts), digest_size=32).digest()

    def root(items: list[bytes]) -> bytes:
        if len(items) < 2:
            return hashed(b"\0", *items) if items else hashed()
        split = 1 << (len(items) - 1).bit_length() - 1
        return hashed(b"\1", root(items[:split]), root(items[split:]))

    items = [f"{n}".encode() for n in range(count)]
    assert merkle_root(items) == f"b2:{root(items).hex()}"
