"""News: what a store holds that it did not hold before, for those who follow it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from seedbed.storage.store import Fact, Query, Store

LATE_SECONDS = 5.0
"""How long a fact may be on its way: where many write at a time, numbers are given before they can be read."""


class Feed:
    """What the answers to some queries have not held before, in the order of the store."""

    def __init__(self, store: Store, queries: Sequence[Query], after: int) -> None:
        self._store = store
        self._queries = queries
        self._after = after
        self._seen: set[int] = set()
        self._marks: deque[tuple[float, int]] = deque()

    def read(self) -> list[Fact]:
        now = time.monotonic()
        while self._marks and self._marks[0][0] < now - LATE_SECONDS:
            self._after = self._marks.popleft()[1]
        self._seen = {number for number in self._seen if number > self._after}
        queries = (replace(query, after=self._after) for query in self._queries)
        facts = (fact for query in queries for fact in self._store.facts(query))
        found = sorted((fact for fact in facts if fact.number not in self._seen), key=lambda fact: fact.number)
        if found:
            self._seen.update(fact.number for fact in found)
            self._marks.append((now, max(self._seen)))
        return found
