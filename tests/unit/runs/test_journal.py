"""Facts of many runs become durable together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from seedbed.errors import StoreError
from seedbed.runs.journal import Journal
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query


class Counting(MemoryStore):
    batches: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.batches = []

    def append(self, facts: Iterable[Fact]) -> int:
        given = list(facts)
        self.batches.append(len(given))
        return super().append(given)


def fact(key: str, kind: str = "turn") -> Fact:
    return Fact(kind=kind, key=key, subject="run", at=datetime(2026, 1, 1, tzinfo=UTC), by="ada")


def keys(store: MemoryStore) -> list[str]:
    return [each.key for each in store.facts(Query(kind="turn"))]


async def test_a_fact_is_there_when_its_writer_goes_on() -> None:
    store = Counting()
    await Journal(store).add(fact("a"))
    assert keys(store) == ["a"]


async def test_what_comes_together_is_written_together_and_in_order() -> None:
    store = Counting()
    journal = Journal(store)
    await asyncio.gather(*(journal.add(fact(f"{number:03}")) for number in range(100)))
    assert store.batches == [100]
    assert keys(store) == [f"{number:03}" for number in range(100)]
    await journal.add(fact("later"))
    assert store.batches == [100, 1]


async def test_a_fact_that_is_refused_fails_alone() -> None:
    store = Counting()
    journal = Journal(store)
    told = await asyncio.gather(
        journal.add(fact("a")), journal.add(fact("b", kind="move")), journal.add(fact("c")), return_exceptions=True
    )
    assert [type(each) for each in told] == [bool, StoreError, bool]
    assert keys(store) == ["a", "c"]


async def test_trouble_of_any_kind_reaches_everybody_who_waits() -> None:
    class Broken(MemoryStore):
        def append(self, facts: Iterable[Fact]) -> int:
            raise OSError("no space left")

    journal = Journal(Broken())
    told = await asyncio.gather(*(journal.add(fact(key)) for key in "ab"), return_exceptions=True)
    assert [str(each) for each in told] == ["no space left"] * 2


async def test_who_stops_waiting_does_not_stop_the_others() -> None:
    store = Counting()
    journal = Journal(store)
    one, other = (asyncio.ensure_future(journal.add(fact(key))) for key in "ab")
    await asyncio.sleep(0)
    one.cancel()
    await other
    with pytest.raises(asyncio.CancelledError):
        await one
    assert keys(store) == ["a", "b"]


def test_a_journal_serves_one_event_loop_after_the_other() -> None:
    store = Counting()
    journal = Journal(store)
    for key in "ab":
        asyncio.run(journal.add(fact(key)))
    assert keys(store) == ["a", "b"]
