"""A query has one answer, whatever finds it; and on SQLite nothing is found by reading everything."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watched_database import watched

from seedbed.storage.encryption import EncryptedStore, MasterKey
from seedbed.storage.memory import MemoryStore
from seedbed.storage.sql import query as search
from seedbed.storage.sql import store as sql
from seedbed.storage.sql.query import prefix_condition
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Fact, Query, Store, UpkeptStore, digest
from seedbed.testing import NOON

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
LAST = "\U0010ffff"
TEXTS = ("Red fox", "red hen, red fox", "blue_fox", "Straße 4", "nul \0 red", "x" * 3000, "")
TIMES = [NOON + timedelta(seconds=second) for second in range(4)]

# Letters that a database might take for something else, and the ends of the alphabet.
LETTERS = ("a", "A", "ß", "'", "%", "_", "\\", "\ud7ff", "\ue000", LAST)
names = st.text(st.sampled_from(LETTERS), min_size=1, max_size=2)
subjects = st.integers(0, len(TEXTS))
authors = st.sampled_from(["ann", "Ann", ""])
tags = st.sampled_from(["x", "X", "a b", "", LAST])
times = st.sampled_from(TIMES)

rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": names,
            "subject": subjects,
            "by": authors,
            "at": times,
            "tags": st.lists(tags, max_size=3).map(tuple),
            "parents": st.lists(names, max_size=2).map(tuple),
            "value": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        }
    ),
    min_size=5,
    max_size=20,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "key": names,
    "keys": st.lists(names, max_size=4),
    "key_from": names | st.sampled_from(["", "a", LAST]),
    "subject": subjects,
    "by": authors,
    "tag": tags,
    "text": st.sampled_from(["red", "RED fox", "fox hen", "STRASSE", "4", "x" * 2400, "none", "!", "", "red " * 400]),
    "since": times,
    "until": times,
    "newest": st.booleans(),
    "limit": st.integers(0, 4),
}


@st.composite
def some_queries(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Queries by a few fields each, among them dates and words together more often than by chance."""
    usual = st.sets(st.sampled_from(sorted(FIELDS)), max_size=4)
    chosen = draw(st.lists(usual | usual.map({"text", "since", "newest"}.union), min_size=3, max_size=8))
    asked = [{field: draw(FIELDS[field]) for field in sorted(fields)} for fields in chosen]
    return [query | ({"follow": draw(st.booleans())} if "key" in query else {}) for query in asked]


@pytest.fixture(scope="module")
def stores(postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, UpkeptStore]]:
    """One of each, for all examples: every example has a kind of fact of its own."""
    made: dict[str, UpkeptStore] = {
        "memory": MemoryStore(),
        "encrypted": EncryptedStore(MemoryStore(), MasterKey(KEY)),
        "sqlite": SqlStore(f"sqlite:///{tmp_path_factory.mktemp('search')}/x.db"),
        "postgresql": SqlStore(postgres.get_uri()),  # the server's own database, where no other test writes
    }
    with ExitStack() as stack:
        for store in made.values():
            stack.enter_context(closing(store))
            for text in TEXTS:
                store.put("note", {"text": text})
        yield made


def answer(store: Store, query: Query) -> list[Fact]:
    return [replace(fact, number=0) for fact in store.facts(query)]


def paged(store: Store, query: Query, size: int) -> list[Fact]:
    seen: list[Fact] = []
    while page := list(store.facts(replace(query, limit=size, after=seen[-1].number if seen else None))):
        seen += page
    return [replace(fact, number=0) for fact in seen]


kinds = (f"kind{number}" for number in range(10**9))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rows, some_queries(), st.sampled_from([0, 3, 6, 10_000]), st.sampled_from([0, 13]), st.integers(1, 3))
def test_every_query_has_the_same_answer_in_every_store_whole_and_in_pages(
    stores: dict[str, UpkeptStore],
    told: list[dict[str, Any]],
    asked: list[dict[str, Any]],
    few: int,
    worth: int,
    size: int,
) -> None:
    kind = next(kinds)
    about = [*(digest("note", {"text": text}) for text in TEXTS), "no content"]
    for store in stores.values():
        store.append(Fact(kind=kind, **{**row, "subject": about[row["subject"]]}) for row in told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "FEW", few)
        patch.setattr(search, "MANY", few)
        patch.setattr(search, "WORTH", worth)
        patch.setattr(sql, "PAGE", 2)
        patch.setattr(sql, "WALK", 3)
        for fields in asked:
            subject = {"subject": about[fields["subject"]]} if "subject" in fields else {}
            query = Query(kind=kind, **fields | subject)
            expected = answer(stores["memory"], query)
            unlimited = answer(stores["memory"], replace(query, limit=None))
            for name, store in stores.items():
                assert answer(store, query) == expected, name
                assert paged(store, query, size) == unlimited, name


@pytest.mark.parametrize("few", [0, 6, 12, 24, 10_000])
def test_dates_words_authors_and_tags_hold_together_however_few_each_of_them_leaves(
    stores: dict[str, UpkeptStore], monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(search, "FEW", few)
    about = [digest("note", {"text": text}) for text in TEXTS[:3]]
    kind = next(kinds)
    facts = [
        Fact(kind=kind, key=f"{n}", subject=subject, by=by, tags=words, at=at)
        for n, (subject, by, words, at) in enumerate(product(about, ("ann", "bob"), (("x",), ("x", "y")), TIMES))
    ]
    for store in stores.values():
        store.append(facts)
    given = product((None, "red", "hen", "fox"), (None, TIMES[1]), (None, TIMES[3]), (None, "bob"), (None, "y"))
    for text, since, until, by, tag in given:
        for newest in (False, True):
            query = Query(kind=kind, text=text, since=since, until=until, by=by, tag=tag, newest=newest)
            expected = answer(stores["memory"], query)
            for name in ("sqlite", "postgresql"):
                assert answer(stores[name], query) == expected, (name, query)


# Beginnings


def test_a_range_holds_exactly_the_names_that_begin_so() -> None:
    found = [
        "".join(letters)
        for length in range(4)
        for letters in product(("a", "b", "\ud7ff", "\ue000", LAST), repeat=length)
    ]
    for prefix in found:
        _, bounds = prefix_condition("name", prefix)
        low, high = bounds["beginning"].encode(), bounds.get("beyond", "").encode()
        within = [name for name in found if low <= name.encode() and (not high or name.encode() < high)]
        assert within == [name for name in found if name.startswith(prefix)], prefix


# Plans


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """Some thousand facts of two kinds with their content, lineage and refs."""
    chance = random.Random(1)
    with closing(SqlStore(f"sqlite:///{tmp_path_factory.mktemp('plans')}/x.db")) as store:
        names = [store.put("note", {"text": f"all {'some' if n % 9 == 0 else ''} {n}"}) for n in range(300)]
        for kind in ("cell", "turn"):
            store.append(
                Fact(
                    kind=kind,
                    key=f"{n}",
                    subject=names[n % 300],
                    at=NOON + timedelta(minutes=n),
                    by=f"by{n % 7}",
                    tags=(f"t{n % 5}",),
                    parents=(f"{chance.randrange(n)}",) if n else (),
                )
                for n in range(3000)
            )
        for n in range(50):
            store.move(f"branches/{n}", names[n], expected=None, because="test", by="ann")
        with store._database.connect() as db:
            db.execute("ANALYZE")
        yield store


ASKED: dict[str, tuple[Any, set[str]]] = {
    "a page": ({}, {"facts_kind"}),
    "a page by author": ({"by": "by3"}, {"facts_by"}),
    "a page by author and date": ({"by": "by3", "since": NOON}, {"facts_by", "facts_at"}),
    "a page by tag": ({"tag": "t2"}, {"PRIMARY KEY", "INTEGER PRIMARY KEY"}),
    "a page by tag and author": ({"tag": "t2", "by": "by1"}, {"PRIMARY KEY", "INTEGER PRIMARY KEY"}),
    "a page by a few days": ({"since": NOON, "until": NOON + timedelta(hours=1)}, {"facts_at", "INTEGER PRIMARY KEY"}),
    "a page by many days": ({"since": NOON}, {"facts_at", "facts_kind"}),
    "a page by a rare word": ({"text": "some 9"}, {"facts_subject", "INTEGER PRIMARY KEY"}),
    "a page by a common word": ({"text": "all"}, {"facts_kind", "sqlite_autoindex_content_1"}),
    "a key": ({"key": "7"}, {"facts_key"}),
    "keys": ({"keys": ["7", "8"]}, {"facts_key"}),
    "keys by their beginning": ({"key_from": "12"}, {"facts_key"}),
    "a subject": ({"subject": "s"}, {"facts_subject"}),
    "an ancestry": ({"key": "2999", "follow": True}, {"facts_key"}),
    "an ancestry by author": ({"key": "2999", "follow": True, "by": "by1"}, {"facts_key"}),
}
SORTED_BY_INDEX = {"a page", "a page by author", "a page by tag", "a page by many days", "a subject"}


def plans(store: SqlStore, ask: Any) -> list[str]:
    """What SQLite does for each statement that was sent."""
    sent: list[tuple[str, Any]] = []
    with watched(store._database, lambda sql, parameters: sent.append((sql, parameters))):
        ask()
    with store._database.connect() as db:
        return [step for sql, each in sent for *_, step in db.execute(f"EXPLAIN QUERY PLAN {sql}", each)]


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("asked", ASKED)
def test_no_query_reads_all_facts_on_sqlite(
    large: SqlStore, monkeypatch: pytest.MonkeyPatch, asked: str, newest: bool
) -> None:
    monkeypatch.setattr(search, "FEW", 100)
    given, indexes = ASKED[asked]
    steps = plans(large, lambda: list(large.facts(Query(kind="cell", newest=newest, limit=50, **given))))
    harmless = ("SCAN walk", "SCAN CONSTANT ROW")
    assert [step for step in steps if re.match(r"SCAN (?!.+VIRTUAL TABLE)", step) and step not in harmless] == []
    used = {name for step in steps for name in re.findall(r"USING (?:COVERING )?(?:INDEX )?(.+?) \(", step)}
    assert used == indexes
    if asked in SORTED_BY_INDEX:
        assert not any("TEMP B-TREE" in step for step in steps), steps


def test_refs_and_content_are_found_by_their_names_on_sqlite(large: SqlStore) -> None:
    digest = next(large.contents()).digest
    for ask in (lambda: large.get(digest), lambda: large.ref("branches/1"), lambda: large.refs("branches/1")):
        steps = plans(large, ask)
        assert steps
        assert all(step.startswith("SEARCH") for step in steps), steps
