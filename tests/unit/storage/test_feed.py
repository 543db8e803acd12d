"""What a store holds that it did not hold before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seedbed.storage import open_store
from seedbed.storage import store as stores
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Feed, Query

AT = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = [Query(kind="turn"), Query(kind="call")]


def fact(key: int, kind: str = "turn", subject: str = "r") -> Fact:
    return Fact(kind=kind, key=f"{key}", subject=subject, at=AT, by="ada")


@pytest.fixture(params=["memory", "sqlite", "files", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/x.db", "files": f"files:{tmp_path}/x"}[request.param]


def keys(found: Feed) -> list[str]:
    return [each.key for each in found.read()]


def test_what_several_questions_find_is_told_once_in_the_order_of_the_store(url: str) -> None:
    with closing(open_store(url)) as store:
        found = Feed(store, KINDS, 0)
        assert keys(found) == []
        store.append([fact(1), fact(2, "call"), fact(3), fact(4, "remark")])
        assert keys(found) == ["1", "2", "3"]
        assert keys(found) == []
        store.append([fact(5, "call")])
        assert keys(found) == ["5"]


def test_what_was_there_before_is_no_news(url: str) -> None:
    with closing(open_store(url)) as store:
        store.append([fact(1), fact(2)])
        last = max(each.number for each in store.facts(KINDS[0]))
        found = Feed(store, KINDS, last)
        store.append([fact(3)])
        assert keys(found) == ["3"]


def test_a_fact_that_can_be_read_only_after_later_ones_is_told_all_the_same(postgres_url: str) -> None:
    with closing(open_store(postgres_url)) as store, psycopg.connect(postgres_url) as slow:
        found = Feed(store, KINDS, 0)
        slow.execute("INSERT INTO facts (kind, key, subject, at, by, body) VALUES ('turn', '1', 'r', 0, 'b', '{}')")
        store.append([fact(2)])
        assert keys(found) == ["2"]
        slow.commit()
        assert keys(found) == ["1"]
        assert keys(found) == []


class Watched:
    """A store that tells what it was asked."""

    def __init__(self) -> None:
        self.within = MemoryStore()
        self.asked: list[int | None] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)

    def facts(self, query: Query) -> Iterator[Fact]:
        self.asked.append(query.after)
        return self.within.facts(query)


def test_what_cannot_be_late_any_more_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each look would take longer than the one before."""
    monkeypatch.setattr(stores, "LATE_SECONDS", -1.0)
    store = Watched()
    found = Feed(store, KINDS[:1], 0)  # type: ignore[arg-type]
    for number in range(1, 4):
        store.append([fact(number)])
        assert keys(found) == [str(number)]
    assert store.asked == [0, 1, 2]
