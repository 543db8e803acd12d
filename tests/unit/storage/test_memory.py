"""MemoryStore beyond the contract: its clock, its iterators, its walks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seedbed.errors import StoreError
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Content, Fact, Query
from seedbed.storage.upkeep import verify

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def fact(key: str, parents: tuple[str, ...] = ()) -> Fact:
    return Fact(kind="cell", key=key, subject="thing", at=NOON, by="ann", parents=parents)


def test_memory_stores_are_opened_by_url_and_share_nothing() -> None:
    open_store("memory:").put("note", {"a": 1})
    assert list(open_store("memory:").contents()) == []


def test_moves_are_dated_by_the_clock_given() -> None:
    days = (NOON + timedelta(days=n) for n in range(2))
    store = MemoryStore(clock=lambda: next(days))
    first = store.move("main", "one", expected=None, because="test", by="ann")
    second = store.move("main", "two", expected=first, because="test", by="ann")
    assert [first.at, second.at] == [NOON, NOON + timedelta(days=1)]
    assert [told.at for told in store.facts(Query(kind="move"))] == [first.at, second.at]


def test_moves_are_dated_now_in_utc_unless_told_otherwise() -> None:
    before = datetime.now(UTC)
    ref = MemoryStore().move("main", "one", expected=None, because="test", by="ann")
    assert before <= ref.at <= datetime.now(UTC)


def test_an_iterator_goes_on_over_what_was_there_when_it_was_asked_for() -> None:
    store = MemoryStore()
    names = [store.put("note", {"n": n}) for n in range(2)]
    store.append([fact("a"), fact("b")])
    facts, contents = store.facts(Query(kind="cell")), store.contents()
    store.append([fact("c")])
    store.put("note", {"n": 2})
    store.discard(names)
    assert [told.key for told in facts] == ["a", "b"]
    assert [content.digest for content in contents] == names


def test_a_load_that_fails_loads_nothing() -> None:
    store = MemoryStore()
    broken = Fact(kind="cell", key="a", subject="s", at=NOON, by="ann", body={"a": b""})
    with pytest.raises(StoreError, match="bytes"):
        store.load([Content("note", "b2:" + "0" * 64, {})], [fact("b"), broken])
    assert list(store.contents()) == []
    assert store.kinds() == {}
    assert verify(store).problems == ()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sets(st.integers(0, 30), max_size=4), max_size=30), st.integers(0, 30), st.integers(1, 7))
def test_following_finds_all_ancestors_and_no_others_in_pages_of_any_size(
    grown_from: list[set[int]], start: int, size: int
) -> None:
    store = MemoryStore()
    store.append(fact(f"{n}", tuple(f"{parent}" for parent in parents)) for n, parents in enumerate(grown_from))

    ancestors: set[int] = set()
    ahead = [start]
    while ahead:
        n = ahead.pop()
        if n < len(grown_from) and n not in ancestors:
            ancestors.add(n)
            ahead.extend(grown_from[n])

    walked: list[Fact] = []
    after = None
    while page := list(store.facts(Query(kind="cell", key=f"{start}", follow=True, limit=size, after=after))):
        walked += page
        after = page[-1].number
    assert [int(told.key) for told in walked] == sorted(ancestors, reverse=True)
