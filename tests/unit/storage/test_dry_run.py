"""A store in which everything can be tried and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from seedbed.errors import NotFound, RefMoved
from seedbed.storage.dry_run import DryRunStore
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query
from seedbed.testing import everything

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def fact(key: str, **more: Any) -> Fact:
    return Fact(kind="note", key=key, subject="thing", at=NOON, by="ann", **more)


def keys(store: DryRunStore, **query: Any) -> list[str]:
    return [each.key for each in store.facts(Query(kind="note", **query))]


@pytest.fixture
def within() -> Iterator[MemoryStore]:
    """A store that must be the same afterwards."""
    store = MemoryStore()
    store.put("note", {"text": "there"})
    store.append([fact("a"), fact("b", parents=("a",))])
    store.move("main", store.put("note", {"text": "one"}), expected=None, because="test", by="ann")
    before = everything(store)
    yield store
    assert everything(store) == before


def test_what_is_put_can_be_read_and_is_not_kept(within: MemoryStore) -> None:
    store = DryRunStore(within)
    digest = store.put("note", {"text": "new"})
    assert store.get(digest) == {"text": "new"}
    with pytest.raises(NotFound):
        within.get(digest)
    with pytest.raises(NotFound):
        store.get("b2:" + "0" * 64)


def test_added_facts_come_after_those_of_the_store(within: MemoryStore) -> None:
    store = DryRunStore(within)
    assert store.append([fact("c"), fact("a")]) == 1
    assert keys(store) == ["a", "b", "c"]
    assert keys(store, newest=True) == ["c", "b", "a"]
    assert keys(store, newest=True, limit=2) == ["c", "b"]
    assert keys(store, limit=1) == ["a"]
    assert keys(store, key="c") == ["c"]


def test_a_walk_leads_from_added_facts_into_the_store(within: MemoryStore) -> None:
    store = DryRunStore(within)
    store.append([fact("c", parents=("b",)), fact("d", parents=("c", "a"))])
    assert sorted(keys(store, key="d", follow=True)) == ["a", "b", "c", "d"]
    assert keys(store, key="d", follow=True)[0] == "d"
    assert keys(store, key="b", follow=True) == ["b", "a"]


def test_a_move_is_seen_here_only(within: MemoryStore) -> None:
    store = DryRunStore(within)
    digest = store.put("note", {"text": "two"})
    moved = store.move("main", digest, expected=store.ref("main"), because="try", by="ann")
    assert (moved.version, store.ref("main"), store.refs()) == (2, moved, [moved])
    assert [each.body["because"] for each in store.facts(Query(kind="move", subject="main"))] == ["test", "try"]


def test_a_new_name_and_a_removed_one_are_seen(within: MemoryStore) -> None:
    store = DryRunStore(within)
    digest = store.put("note", {"text": "two"})
    store.move("extra/x", digest, expected=None, because="try", by="ann")
    store.move("main", None, expected=store.ref("main"), because="try", by="ann")
    assert store.ref("main") is None
    assert [ref.name for ref in store.refs()] == ["extra/x"]
    assert store.refs("main") == []


def test_a_name_that_comes_back_goes_on_counting(within: MemoryStore) -> None:
    store = DryRunStore(within)
    digest = store.put("note", {"text": "two"})
    store.move("main", None, expected=store.ref("main"), because="try", by="ann")
    assert store.move("main", digest, expected=None, because="again", by="ann").version == 3
    assert len(list(store.facts(Query(kind="move", subject="main")))) == 3


def test_a_move_that_would_be_refused_is_refused(within: MemoryStore) -> None:
    store = DryRunStore(within)
    with pytest.raises(RefMoved):
        store.move("main", store.put("note", {}), expected=None, because="try", by="ann")
    stale = store.ref("main")
    store.move("main", store.put("note", {"n": 1}), expected=stale, because="try", by="ann")
    with pytest.raises(RefMoved):
        store.move("main", store.put("note", {"n": 2}), expected=stale, because="try", by="ann")
