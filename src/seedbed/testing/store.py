"""The contract of a store. To test yours, inherit StoreContract and add two fixtures:

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path): return MyStore(tmp_path)
    @pytest.fixture
    def reopen(self, tmp_path): return lambda: MyStore(tmp_path)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from itertools import chain, combinations, product
from typing import Any

import pytest

from seedbed.errors import NotFound, RefMoved, StoreDamaged, StoreError
from seedbed.storage.chain import broken
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Content, Fact, Query, Ref, Upkeep, UpkeptStore, digest, in_brief
from seedbed.storage.upkeep import copy, verify

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)

BODIES: dict[str, Any] = {
    "empty": {},
    "unicode": {"text": "naïve Übung Ελλάδα 日本語 עברית", "ключ": "значение"},
    "emoji": {"text": "👩‍🚀 🇺🇦 🏳️‍🌈", "🔑": "🚪"},
    "control": {"text": "nul \x00 bell \x07 escape \x1b delete \x7f", "nul\x00key": "\u2028\u2029\x85\r\n\t"},
    "quotes": {"text": "'; DROP TABLE facts; -- \\ \" %s :name {x} $1", "": "empty key"},
    "long": {"text": "seventeen letters " * 60_000},
    "numbers": {"numbers": [0, -1, 2**63, -(2**70), 0.1, 1e-300, 1.7976931348623157e308, 1e16, True, False, None]},
    "nested": {"a": {"b": [{"c": [[[]]]}, {}, ""]}},
}
CIRCLE: dict[str, Any] = {}
CIRCLE["itself"] = CIRCLE
UNFIT: list[Any] = [{"nan": math.nan}, {"inf": [math.inf]}, {"bytes": b""}, {"surrogate": "\ud800"}, {1: "key"}, CIRCLE]
WRONG: Any = {"value": math.nan, "by": b"", "key": "\0", "tags": ("\0",), "subject": "\ud800", "kind": "move"}
CELLS = Query(kind="cell")
UNMOVED: Any = [{"name": ""}, {"because": " \n"}, {"because": "n\0"}, {"by": ""}, {"by": "\0"}, {"to": ""}, {"to": {}}]


def fact(key: str, kind: str = "cell", **changes: Any) -> Fact:
    return replace(Fact(kind=kind, key=key, subject="thing", at=NOON, by="ann"), **changes)


def keys(facts: Iterable[Fact]) -> list[str]:
    return [fact.key for fact in facts]


def move(store: UpkeptStore, name: str, to: Any, expected: Ref | None = None, by: str = "ann") -> Ref:
    return store.move(name, to, expected=expected, because="test", by=by)


def everything(store: UpkeptStore) -> tuple[list[Content], list[Fact], list[Ref]]:
    """The contents, facts in order without their numbers, and refs of a store, to compare it with another."""
    facts = sorted((fact for kind in store.kinds() for fact in store.facts(Query(kind=kind))), key=lambda f: f.number)
    return list(store.contents()), [replace(fact, number=0) for fact in facts], store.refs()


class StoreContract:
    """The promises of Store and Upkeep, one test each.

    A subclass adds two fixtures: `store`, an empty one, and `reopen`, which opens the same data a second time. It sets
    `shared = False` instead where that is impossible.
    """

    shared = True

    @pytest.fixture
    def store(self) -> UpkeptStore:
        raise NotImplementedError("add a fixture called store: an empty store")

    @pytest.fixture
    def reopen(self, store: UpkeptStore) -> Callable[[], UpkeptStore]:
        if self.shared:
            raise NotImplementedError("add a fixture called reopen, or set shared = False")
        return lambda: store

    # Content

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    def test_content_comes_back_as_it_was_put(self, store: UpkeptStore, reopen: Any, body: Any) -> None:
        name = store.put("playbook", body)
        assert store.get(name) == body
        assert reopen().get(name) == body
        assert list(store.contents()) == [Content("playbook", name, body)]

    def test_the_same_content_again_is_the_same_digest_and_changes_nothing(self, store: UpkeptStore) -> None:
        first = store.put("playbook", {"a": 1, "b": [1.0, {"c": 2, "d": 3}]})
        again = store.put("playbook", {"b": [1, {"d": 3, "c": 2.0}], "a": 1.0})
        assert first == again == digest("playbook", {"a": 1, "b": [1, {"c": 2, "d": 3}]})
        assert len(list(store.contents())) == 1

    def test_content_of_another_kind_is_other_content(self, store: UpkeptStore) -> None:
        assert store.put("playbook", {"a": 1}) != store.put("dataset", {"a": 1})
        assert [content.kind for content in store.contents()] == ["playbook", "dataset"]

    @pytest.mark.parametrize("name", ["b2:" + "0" * 64, "b2:12", "", "branches/main", "../../etc/passwd", "%"])
    def test_content_that_is_not_there_is_not_found(self, store: UpkeptStore, name: str) -> None:
        store.put("playbook", {"a": 1})
        with pytest.raises(NotFound, match="expected a full digest"):
            store.get(name)

    def test_content_that_does_not_match_its_name_is_damaged(self, store: UpkeptStore) -> None:
        name = digest("playbook", {"a": 1})
        store.load([Content("playbook", name, {"a": 2})], [])
        with pytest.raises(StoreDamaged, match=name[3:13]):
            store.get(name)
        assert [problem.path for problem in verify(store).problems] == [f"playbook {name}"]

    @pytest.mark.parametrize("body", UNFIT, ids=["nan", "infinite", "bytes", "surrogate", "key", "circle"])
    def test_what_json_cannot_hold_is_refused(self, store: UpkeptStore, body: Any) -> None:
        with pytest.raises(StoreError):
            store.put("playbook", body)
        with pytest.raises(StoreError):
            store.append([fact("fine"), fact("unfit", body=body)])
        with pytest.raises(StoreError):
            move(store, "main", body)
        assert everything(store) == ([], [], [])

    def test_what_is_handed_in_or_out_may_be_altered_and_the_store_is_not(self, store: UpkeptStore) -> None:
        body: dict[str, Any] = {"list": [1]}
        name = store.put("playbook", body)
        store.append([fact("a", body=body)])
        move(store, "main", body)
        body["list"].append(2)
        handed: list[Any] = [store.get(name), next(store.contents()).body, next(store.facts(Query(kind="cell"))).body]
        handed += [ref.target for ref in (store.ref("main"), *store.refs()) if ref]
        for document in handed:
            document["list"].append(3)
        contents, facts, refs = everything(store)
        assert store.get(name) == contents[0].body == facts[0].body == refs[0].target == {"list": [1]}

    # Facts

    def test_a_fact_comes_back_as_it_was_added(self, store: UpkeptStore, reopen: Any) -> None:
        tokyo = datetime(1969, 1, 1, 3, 4, 5, 678901, timezone(timedelta(hours=9)))
        full = fact("ключ", at=tokyo, body=BODIES["emoji"] | BODIES["control"], value=-0.1, tags=("a b", "ß", ""))
        full = replace(full, subject="ü '%_ 🚪", by="зоя", parents=("p 1", "p,2"))
        bare = fact("bare", subject="", by="")
        assert store.append([full, bare]) == 2
        assert list(reopen().facts(Query(kind="cell"))) == [replace(full, number=1), replace(bare, number=2)]
        assert all(fact.at.tzinfo == UTC for fact in store.facts(Query(kind="cell")))

    @pytest.mark.parametrize("value", [0.0, 1, -1e308, 5e-324, 1 / 3, 2.0**60])
    def test_values_are_kept_exactly(self, store: UpkeptStore, value: float) -> None:
        store.append([fact("a", value=value)])
        assert [fact.value for fact in store.facts(Query(kind="cell"))] == [value]

    def test_a_key_is_not_added_twice_nor_a_fact_that_gives_way(self, store: UpkeptStore, reopen: Any) -> None:
        assert store.append([fact("a", value=1), fact("b"), fact("a", value=2)]) == 2
        assert (reopen().append([fact("b"), fact("c"), fact("a", value=3)]), store.append([])) == (1, 0)
        assert [(cell.key, cell.value) for cell in store.facts(Query(kind="cell"))][:2] == [("a", 1), ("b", None)]
        late = [fact("b", "turn"), replace(fact("late"), unless=(("turn", "c"), ("turn", "b")))]
        assert (store.append([fact("a", "turn")]), store.append(late), store.append(late[1:])) == (1, 1, 0)
        assert store.kinds() == {"cell": 3, "turn": 2}

    @pytest.mark.parametrize("unfit", WRONG)
    def test_facts_are_added_all_or_none(self, store: UpkeptStore, unfit: str) -> None:
        store.append([fact("before")])
        with pytest.raises(StoreError):
            store.append([fact("a"), fact("b", "approval"), replace(fact("c"), **{unfit: WRONG[unfit]}), fact("d")])
        assert keys(everything(store)[1]) == ["before"]

    def test_nothing_is_added_if_the_facts_fail_to_arrive(self, store: UpkeptStore) -> None:
        def interrupted() -> Iterator[Fact]:
            yield fact("a")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.append(interrupted())
        assert store.kinds() == {}

    def test_numbers_rise_and_are_given_by_the_store(self, store: UpkeptStore, reopen: Any) -> None:
        store.append(fact(f"{n}", kind=("cell", "turn")[n % 2], number=77, link="mine") for n in range(2500))
        reopen().append([fact("last", number=1)])
        assert keys(everything(store)[1]) == [*(f"{n}" for n in range(2500)), "last"]
        numbered = [fact for kind in ("cell", "turn") for fact in store.facts(Query(kind=kind))]
        assert len({fact.number for fact in numbered}) == 2501
        assert "mine" not in {fact.link for fact in numbered}

    def test_facts_are_bound_to_all_before(self, store: UpkeptStore, reopen: Any) -> None:
        store.append([fact("a", kind="approval", value=2), fact("noise"), fact("k", kind="key", body={"x": 1.0})])
        reopen().append([*(fact(key, kind="approval") for key in "abb"), fact("noise"), fact("sound"), fact("silence")])
        facts = everything(store)[1]
        assert broken(facts) == []
        assert [each.key for each in facts if each.link] == ["a", "k", "b", "silence"]
        for at, one in enumerate(facts):
            for instead in ([], [replace(one, value=0.5)], [replace(one, body={"other": 1})]):
                assert broken([*facts[:at], *instead, *facts[at + 1 :]])

    # Queries

    @pytest.fixture
    def filled(self, store: UpkeptStore) -> list[Fact]:
        """48 cells in all combinations of subject, author, tags and times, as they were added."""
        subjects = [store.put("note", {"text": text}) for text in ("Red fox", "red hen", "blue fox")]
        combinations = product(subjects, ("ann", "bob"), ((), ("x",), ("x", "y"), ("xy",)), range(2))
        cells = [
            fact(f"k{n}", subject=subject, by=by, tags=tags, at=NOON + timedelta(hours=n % 5, microseconds=later))
            for n, (subject, by, tags, later) in enumerate(combinations)
        ]
        store.append(cells)
        store.append(replace(cell, kind="turn") for cell in cells)
        return cells

    def test_every_filter_of_a_query_must_hold(self, store: UpkeptStore, filled: list[Fact]) -> None:
        early, late = NOON + timedelta(hours=1), NOON + timedelta(hours=3)
        red_fox, red_hen = filled[0].subject, filled[16].subject
        filters: list[tuple[str, Callable[[Query], Query], Callable[[Fact], bool]]] = [
            ("key", lambda query: replace(query, key="k3"), lambda fact: fact.key == "k3"),
            ("keys", lambda query: replace(query, keys=["k9", "k3", "no"]), lambda fact: fact.key in ("k3", "k9")),
            ("subject", lambda query: replace(query, subject=red_fox), lambda fact: fact.subject == red_fox),
            ("by", lambda query: replace(query, by="bob"), lambda fact: fact.by == "bob"),
            ("tag", lambda query: replace(query, tag="x"), lambda fact: "x" in fact.tags),
            ("tag", lambda query: replace(query, tag="y"), lambda fact: "y" in fact.tags),
            ("text", lambda query: replace(query, text="RED"), lambda fact: fact.subject in (red_fox, red_hen)),
            ("text", lambda query: replace(query, text="fox, red"), lambda fact: fact.subject == red_fox),
            ("since", lambda query: replace(query, since=early), lambda fact: fact.at >= early),
            ("until", lambda query: replace(query, until=late), lambda fact: fact.at < late),
        ]
        for chosen in chain.from_iterable(combinations(filters, size) for size in range(9)):
            if len({name for name, *_ in chosen}) < len(chosen):
                continue
            query = reduce(lambda query, each: each[1](query), chosen, CELLS)
            expected = [cell.key for cell in filled if all(holds(cell) for *_, holds in chosen)]
            assert keys(store.facts(query)) == expected, query
            assert [key for key, *_ in in_brief(store, query)] == expected, query
            assert keys(store.facts(replace(query, newest=True, limit=5))) == expected[::-1][:5], query

    def test_an_empty_filter_matches_nothing(self, store: UpkeptStore, filled: list[Fact]) -> None:
        empty = [replace(CELLS, keys=[]), replace(CELLS, limit=0), replace(CELLS, subject=""), replace(CELLS, key="")]
        for each in (*empty, replace(CELLS, tag=""), replace(CELLS, text="!")):
            assert filled != list(store.facts(each)) == [], each

    def test_a_query_may_have_many_keys(self, store: UpkeptStore) -> None:
        store.append(fact(f"{n}") for n in range(3000))
        wanted = [f"{n}" for n in range(0, 40_000, 2)]
        assert keys(store.facts(Query(kind="cell", keys=wanted[::-1]))) == wanted[:1500]

    def test_in_brief_they_are_the_same_facts(self, store: UpkeptStore) -> None:
        store.append(fact(f"body {name}", value=1 / 3, body=body) for name, body in BODIES.items())
        store.append(fact(f"{n}", parents=(f"{n - 1}",), body={"n": n}) for n in range(2500))
        queries = [CELLS, replace(CELLS, limit=1500), replace(CELLS, newest=True, limit=3), replace(CELLS, key="\0")]
        queries += [replace(CELLS, key="70", follow=True), replace(CELLS, keys=["9", "no", "\0"])]
        for query in queries:
            briefly = [(key, value, json.loads(body)) for key, value, body in in_brief(store, query)]
            assert briefly == [(fact.key, fact.value, fact.body) for fact in store.facts(query)], query

    @pytest.mark.parametrize("newest", [False, True])
    @pytest.mark.parametrize("size", [1, 7, 48])
    def test_pages_are_complete_and_without_repeats(
        self, store: UpkeptStore, filled: list[Fact], size: int, newest: bool
    ) -> None:
        for by in (None, "bob"):
            seen: list[Fact] = []
            query = Query(kind="cell", by=by, newest=newest, limit=size)
            while page := list(store.facts(replace(query, after=seen[-1].number if seen else None))):
                assert len(page) <= size
                seen += page
            expected = [cell.key for cell in filled if by in (None, cell.by)]
            assert keys(seen) == (expected[::-1] if newest else expected)

    def test_text_finds_whole_words_in_any_case(self, store: UpkeptStore) -> None:
        text = "The Quick-brown fox: it's über Straße, 日本 4."
        about = store.put("note", {"text": text, "field": [{"x": ["deep\x00er"]}], "red": 7})
        store.append([fact("found", subject=about), fact("other", subject="quick brown")])
        for there in ("QUICK", "brown, quick!", "ÜBER", "STRASSE", "日本", "deep", "it's", "4", "fox*"):
            assert keys(store.facts(Query(kind="cell", text=there))) == ["found"], there
        for missing in ("qui", "quick red", "field", "quick OR red", '"', "fox -hen"):
            assert keys(store.facts(Query(kind="cell", text=missing))) == [], missing

    def test_following_visits_each_ancestor_once_newest_first(self, store: UpkeptStore) -> None:
        grown = {"a": "", "b": "a", "c": "a", "d": "bc", "e": "d", "f": "de", "other": "a", "g": "fcx"}
        authors = {"b": "bob", "f": "bob"}
        store.append(fact(key, parents=tuple(grown[key]), by=authors.get(key, "ann")) for key in grown)
        store.append([fact("x", kind="turn"), fact("g", kind="turn", parents=("x",))])
        query = Query(kind="cell", key="g", follow=True)
        walked = list(store.facts(query))
        assert keys(walked) == ["g", "f", "e", "d", "c", "b", "a"]
        assert keys(store.facts(replace(query, by="bob"))) == ["f", "b"]
        assert keys(store.facts(replace(query, limit=2, after=walked[1].number))) == ["e", "d"]
        assert keys(store.facts(replace(query, kind="turn"))) == ["g", "x"]
        assert keys(store.facts(replace(query, key="none"))) == []

    def test_following_goes_back_a_thousand_generations_and_ends_even_in_a_circle(self, store: UpkeptStore) -> None:
        store.append(fact(f"{n}", parents=(f"{n - 1}", f"{n - 2}")) for n in range(1000))
        assert keys(store.facts(Query(kind="cell", key="999", follow=True))) == [f"{n}" for n in reversed(range(1000))]
        store.append([fact("hen", parents=("egg",)), fact("egg", parents=("hen", "egg"))])
        assert keys(store.facts(Query(kind="cell", key="hen", follow=True))) == ["egg", "hen"]

    # Refs

    def test_a_ref_is_where_it_was_moved(self, store: UpkeptStore, reopen: Any) -> None:
        assert (store.ref("main"), store.refs()) == (None, [])
        first = store.move("main", "one", expected=None, because="first", by="ann")
        second = reopen().move("main", {"stable": "two", "share": 0.5}, expected=first, because="second", by="bob")
        assert (first.target, first.version) == ("one", 1)
        assert (second.target, second.version) == ({"stable": "two", "share": 0.5}, 2)
        assert (second.name, second.by, second.because, second.at.tzinfo) == ("main", "bob", "second", UTC)
        assert store.ref("main") == second
        assert store.refs() == reopen().refs() == [second]

    def test_a_move_that_expects_another_target_is_refused(self, store: UpkeptStore, reopen: Any) -> None:
        first = move(store, "main", "one")
        second = move(reopen(), "main", "two", first, by="bob")
        before = everything(store)
        for name, expected in (("main", first), ("main", None), ("new", first)):
            with pytest.raises(RefMoved, match="Read the ref again"):
                move(store, name, "three", expected)
        assert everything(store) == before
        assert store.ref("main") == second

    def test_a_removed_ref_keeps_its_history_and_counts_on(self, store: UpkeptStore) -> None:
        gone = move(store, "main", None, move(store, "main", "one"))
        assert (gone.version, gone.target) == (2, "")
        assert (store.ref("main"), store.refs()) == (None, [])
        with pytest.raises(RefMoved):
            move(store, "main", "two", gone)
        assert move(store, "main", "two").version == 3
        assert keys(store.facts(Query(kind="move", subject="main"))) == ["main@1", "main@2", "main@3"]

    def test_each_move_is_a_fact(self, store: UpkeptStore) -> None:
        first = store.move("main", "one", expected=None, because="start", by="ann")
        second = store.move("main", {"stable": "two"}, expected=first, because="better", by="bob")
        moves = list(store.facts(Query(kind="move", subject="main")))
        assert moves[0].body == {"from": None, "to": "one", "because": "start"}
        assert moves[1].body == {"from": "one", "to": {"stable": "two"}, "because": "better"}
        assert [(fact.by, fact.at) for fact in moves] == [("ann", first.at), ("bob", second.at)]

    def test_refs_are_listed_by_name_under_a_prefix(self, store: UpkeptStore) -> None:
        names = ["a", "a/b", "a/c_d/e", "a/cxd/e", "a%b", "B", "Z/1", "versions/debate/2.0.0", "é", "日本/語"]
        for name in reversed(names):
            move(store, name, "target")
        for prefix in ("", "a", "a/", "a/c_", "a%", "A", "b", "versions/debate/", "日", "none"):
            expected = sorted(name for name in names if name.startswith(prefix))
            assert [ref.name for ref in store.refs(prefix)] == expected, prefix

    @pytest.mark.parametrize("changes", UNMOVED)
    def test_a_move_needs_name_target_reason_and_author(self, store: UpkeptStore, changes: dict[str, Any]) -> None:
        with pytest.raises(StoreError):
            store.move(**{"name": "main", "to": "one", "expected": None, "because": "test", "by": "ann"} | changes)
        assert everything(store) == ([], [], [])

    def test_threads_lose_nothing_and_each_version_has_one_winner(self, store: UpkeptStore) -> None:
        def work(worker: int) -> list[int]:
            won = []
            for n in range(10):
                store.append([fact(f"{worker}-{n}"), fact(f"{worker}-{n}", kind="approval")])
                with suppress(RefMoved):
                    won.append(move(store, "main", f"{worker}", store.ref("main")).version)
            return won

        with ThreadPoolExecutor(8) as pool:
            won = sorted(version for versions in pool.map(work, range(8)) for version in versions)
        assert won == list(range(1, len(won) + 1)) != []
        assert store.kinds() == {"approval": 80, "cell": 80, "move": len(won)}
        assert verify(store).problems == ()

    # Upkeep

    def test_contents_are_listed_oldest_first_and_by_kind(self, store: UpkeptStore) -> None:
        names = [store.put("playbook" if n % 3 else "dataset", {"n": n}) for n in range(30)]
        assert isinstance(store, Upkeep)
        assert [content.digest for content in store.contents()] == names
        assert [content.body["n"] for content in store.contents("dataset")] == list(range(0, 30, 3))
        assert list(store.contents("unknown")) == []

    def test_a_copy_loses_nothing_and_can_be_gone_on_from(self, store: UpkeptStore, reopen: Any) -> None:
        first, second = MemoryStore(lambda: NOON), MemoryStore()
        names = [first.put("playbook", body) for body in BODIES.values()]
        first.append([fact("a", subject=names[1], value=0.1, parents=("z",), tags=("t",)), fact("k", kind="approval")])
        ref = move(first, "main", {"stable": names[1]})
        move(first, "gone", None, move(first, "gone", names[2]))
        for _ in range(2):
            copy(first, store)
            copy(reopen(), second)
            assert everything(store) == everything(second) == everything(first)
        assert move(store, "gone", names[3], by="bob").version == 3
        move(store, "main", names[4], ref)
        assert keys(store.facts(Query(kind="cell", text="ÜBUNG"))) == ["a"]
        assert verify(reopen()).problems == ()

    def test_discarded_content_is_gone_and_can_be_put_again(self, store: UpkeptStore, reopen: Any) -> None:
        name, other = store.put("note", {"text": "one"}), store.put("note", {"text": "two"})
        store.append([fact("a", subject=name)])
        assert [store.discard(names) for names in ([name, "b2:" + "0" * 64, "nonsense"], [name])] == [1, 0]
        assert [content.digest for content in reopen().contents()] == [other]
        assert keys(store.facts(Query(kind="cell", text="one"))) == []
        assert store.put("note", {"text": "one"}) == name
        assert keys(store.facts(Query(kind="cell", text="one"))) == ["a"]
