"""What failed in a search stays failed."""

from __future__ import annotations

from dataclasses import replace

from pool_samples import book, cell

from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import now

FAILED = replace(cell(book(1), "t0", None, 2), reason="it broke down", run="r1", cost_usd=0.25)
FINE = cell(book(1), "t1", 0.0)


def test_only_what_failed_is_a_lapse_and_only_once() -> None:
    lapses = FailedRuns(MemoryStore(), "b2:search")
    facts = lapses.new([FAILED, FINE], now(), "ann")
    assert [(fact.subject, fact.body["cell"], fact.body["reason"]) for fact in facts] == [
        ("b2:search", FAILED.key, "it broke down")
    ]
    assert lapses.new([FAILED, FINE], now(), "ann") == []


def test_it_is_known_as_it_was_wherever_the_search_goes_on() -> None:
    store = MemoryStore()
    store.append(FailedRuns(store, "b2:search").new([FAILED], now(), "ann"))
    again = FailedRuns(store, "b2:search")
    assert FAILED.key in again
    assert FINE.key not in again
    assert again[FAILED.key] == FAILED


def test_another_search_may_try_it_again() -> None:
    store = MemoryStore()
    store.append(FailedRuns(store, "b2:search").new([FAILED], now(), "ann"))
    assert FAILED.key not in FailedRuns(store, "b2:other")
