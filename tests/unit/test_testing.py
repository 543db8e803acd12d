"""A store that breaks a promise does not pass the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, Ref, Target
from seedbed.testing import StoreContract


class Repeating(MemoryStore):
    """Adds a key that it knows once more, under another name."""

    def append(self, facts: Iterable[Fact]) -> int:
        given = list(facts)
        return super().append([*given, *(replace(fact, key=f"{fact.key}!") for fact in given)])


class HalfWay(MemoryStore):
    """Writes what comes before something unfit."""

    def append(self, facts: Iterable[Fact]) -> int:
        return sum(super(HalfWay, self).append([fact]) for fact in facts)


class Careless(MemoryStore):
    """Moves a ref whoever has moved it before."""

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        return super().move(name, to, expected=self.ref(name), because=because, by=by)


class Short(MemoryStore):
    """Forgets the end of a long answer."""

    def facts(self, query: Query) -> Iterator[Fact]:
        return islice(super().facts(query), 100)


contract = StoreContract()
PROMISES: dict[str, tuple[type[MemoryStore], Any]] = {
    "a key is added once": (
        Repeating,
        lambda store: contract.test_a_key_is_not_added_twice_nor_a_fact_that_gives_way(store, lambda: store),
    ),
    "all or none": (HalfWay, lambda store: contract.test_nothing_is_added_if_the_facts_fail_to_arrive(store)),
    "compare and swap": (
        Careless,
        lambda store: contract.test_a_move_that_expects_another_target_is_refused(store, lambda: store),
    ),
    "a thousand generations": (
        Short,
        lambda store: contract.test_following_goes_back_a_thousand_generations_and_ends_even_in_a_circle(store),
    ),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_a_broken_promise_is_noticed_and_a_kept_one_passes(promise: str) -> None:
    broken, check = PROMISES[promise]
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(broken())
    check(MemoryStore())
