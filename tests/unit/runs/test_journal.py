"""Facts of many runs become durable together."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import count

import pytest

from seedbed.errors import StoreError, StoreUnavailable
from seedbed.runs.journal import AT_ONCE, Journal
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
    assert await other
    with pytest.raises(asyncio.CancelledError):
        await one
    assert keys(store) == ["a", "b"]


async def test_what_was_handed_in_is_stored_though_nobody_waits_for_it_any_more() -> None:
    store = Waiting()
    journal = Journal(store)
    first = asyncio.ensure_future(journal.add(fact("a")))
    await asyncio.sleep(0.01)
    paid = asyncio.ensure_future(journal.add(fact("b")))
    await asyncio.sleep(0.01)
    paid.cancel()
    await asyncio.sleep(0.01)
    assert not paid.done()
    store.moved.set()
    with pytest.raises(asyncio.CancelledError):
        await paid
    assert await first
    assert keys(store) == ["a", "b"]


class Waiting(Counting):
    """A store whose disk stands still until somebody else has done something."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = threading.Event()

    def append(self, facts: Iterable[Fact]) -> int:
        assert self.moved.wait(20), "the event loop waits for the store"
        return super().append(facts)


async def test_the_event_loop_does_not_wait_for_the_disk() -> None:
    store = Waiting()
    journal = Journal(store)
    adding = [asyncio.ensure_future(journal.add(fact(f"{number:02}"))) for number in range(3)]
    await asyncio.sleep(0.01)
    adding += [asyncio.ensure_future(journal.add(fact(f"{number:02}"))) for number in range(3, 60)]
    await asyncio.sleep(0.01)
    assert not any(each.done() for each in adding)
    store.moved.set()
    assert await asyncio.gather(*adding) == [True] * 60
    assert store.batches == [3, 57]


async def test_a_store_that_is_gone_is_asked_once_for_all_who_wait() -> None:
    class Gone(Counting):
        def append(self, facts: Iterable[Fact]) -> int:
            self.batches.append(len(list(facts)))
            raise StoreUnavailable("no connection")

    store = Gone()
    journal = Journal(store)
    outcomes = await asyncio.gather(*(journal.add(fact(key)) for key in "abc"), return_exceptions=True)
    assert [str(each) for each in outcomes] == ["no connection"] * 3
    assert store.batches == [3]


def test_an_event_loop_ends_when_what_was_handed_in_is_stored() -> None:
    store = Waiting()
    journal = Journal(store)

    async def leave() -> None:
        asyncio.ensure_future(journal.add(fact("a")))  # noqa: RUF006 - it is abandoned on purpose
        await asyncio.sleep(0.01)

    threading.Timer(0.1, store.moved.set).start()
    asyncio.run(leave())
    assert keys(store) == ["a"]
    asyncio.run(journal.add(fact("b")))
    assert keys(store) == ["a", "b"]


def test_a_journal_serves_one_event_loop_after_the_other() -> None:
    store = Counting()
    journal = Journal(store)
    for key in "ab":
        asyncio.run(journal.add(fact(key)))
    assert keys(store) == ["a", "b"]


async def test_few_go_on_in_one_round_of_the_loop_however_many_transactions_have_ended() -> None:
    loop, rounds, went_on = asyncio.get_running_loop(), count(), Counter[int]()
    now = 0

    def next_round() -> None:
        nonlocal now, ticking
        now, ticking = next(rounds), loop.call_soon(next_round)

    ticking = loop.call_soon(next_round)
    journal = Journal(Counting())

    async def run(number: int) -> None:
        for step in range(20):
            await journal.add(fact(f"{number}/{step}"))
            went_on[now] += 1

    await asyncio.gather(*(run(number) for number in range(200)))
    ticking.cancel()
    assert max(went_on.values()) <= 2 * AT_ONCE  # a round may end in the middle of ours
