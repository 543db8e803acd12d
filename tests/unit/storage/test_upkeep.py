"""What verify finds, what a copy refuses, what is cleaned away and what never is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import StoreDamaged, StoreError
from seedbed.storage.chain import GENESIS
from seedbed.storage.files import FilesStore
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Content, Fact, Query, Ref, UpkeptStore, digest
from seedbed.storage.upkeep import Stats, Verification, copy, gc, stats, verify

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def fact(key: str, kind: str = "cell", **changes: Any) -> Fact:
    told: dict[str, Any] = {"subject": "thing", "at": NOON, "by": "ann"} | changes
    return Fact(kind=kind, key=key, **told)


def move(store: UpkeptStore, name: str, to: Any) -> None:
    store.move(name, to, expected=store.ref(name), because="test", by="ann")


def found(store: UpkeptStore) -> list[str]:
    return [problem.path for problem in verify(store).problems]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(clock=lambda: NOON)


# verify


def test_an_empty_store_is_clean(store: MemoryStore) -> None:
    report = verify(store)
    assert report == Verification(problems=(), contents=0, sealed=0, facts=0, chained=0, refs=0, head=GENESIS)
    assert report.clean


def test_a_report_counts_what_was_looked_at(store: MemoryStore) -> None:
    name = store.put("note", {"a": 1})
    store.load([Content("note", digest("note", {"b": 1}), {"sealed": "x"})], [])
    store.append([fact("a"), fact("b", "approval")])
    move(store, "main", name)
    move(store, "gone", name)
    move(store, "gone", None)
    head = [told.link for told in store.facts(Query(kind="move"))][-1]
    assert verify(store) == Verification(problems=(), contents=2, sealed=1, facts=5, chained=5, refs=1, head=head)


def test_altered_content_is_found_and_looking_goes_on(store: MemoryStore) -> None:
    names = [digest("note", {"n": n}) for n in range(4)]
    store.load([Content("note", name, {"n": n // 3}) for n, name in enumerate(names)], [])
    report = verify(store)
    assert [problem.path for problem in report.problems] == [f"note {names[1]}", f"note {names[2]}", f"note {names[3]}"]
    assert not report.clean
    assert report.contents == 4


def lines_of(folder: Path, kind: str) -> list[str]:
    return (folder / "facts" / f"{kind}.jsonl").read_text().splitlines(keepends=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of four moves and two approvals."""
    store = FilesStore(tmp_path, clock=lambda: NOON)
    for n in range(2):
        for name in ("main", "other"):
            move(store, name, f"target{n}")
        store.append([fact(f"{n}", "approval", body={"said": "yes"})])
    return tmp_path


def edit_reason(folder: Path) -> list[str]:
    lines = lines_of(folder, "move")
    return [*lines[:1], lines[1].replace("test", "fake"), *lines[2:]]


def forget_one(folder: Path) -> list[str]:
    lines = lines_of(folder, "move")
    return [*lines[:1], *lines[2:]]


def forge_link(folder: Path) -> list[str]:
    lines = lines_of(folder, "move")
    return [*lines[:1], lines[1].replace(json.loads(lines[1])["link"], GENESIS), *lines[2:]]


@pytest.mark.parametrize(
    ("damage", "problems"),
    [
        (edit_reason, ["move fact other@1"]),
        (forget_one, ["approval fact 0"]),
        (forge_link, ["move fact other@1", "approval fact 0"]),
    ],
)
def test_a_broken_chain_is_found_where_it_broke(
    folder: Path, damage: Callable[[Path], list[str]], problems: list[str]
) -> None:
    assert found(FilesStore(folder)) == []
    (folder / "facts/move.jsonl").write_text("".join(damage(folder)))
    assert found(FilesStore(folder)) == problems


def test_an_edited_byte_of_any_chained_fact_is_found(folder: Path) -> None:
    path = folder / "facts/approval.jsonl"
    text = path.read_bytes()
    for place in range(len(text)):
        path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])
        # The position of the very last fact is all that nothing vouches for.
        assert found(FilesStore(folder)) or place == text.rindex(b'"number":6') + len('"number":'), place
    path.write_bytes(text)
    assert found(FilesStore(folder)) == []


def test_a_cut_off_end_of_the_chain_shows_in_the_refs_and_in_the_head(folder: Path) -> None:
    head = verify(FilesStore(folder)).head
    (folder / "facts/approval.jsonl").write_text("".join(lines_of(folder, "approval")[:-1]))
    assert verify(FilesStore(folder)).head != head
    (folder / "facts/move.jsonl").write_text("".join(lines_of(folder, "move")[:-1]))
    assert found(FilesStore(folder)) == ["ref other"]


def test_facts_with_the_same_number_are_found(folder: Path) -> None:
    (folder / "facts/cell.jsonl").write_text(lines_of(folder, "approval")[0])
    assert set(found(FilesStore(folder))) == {"cell fact 0"}


def test_a_ref_to_content_that_is_not_there_is_found(store: MemoryStore) -> None:
    here, gone, canary = (store.put("note", {"n": n}) for n in range(3))
    move(store, "a", here)
    move(store, "b", gone)
    move(store, "c", {"stable": here, "canary": {"to": canary, "share": 0.1}})
    move(store, "d", "not a digest")
    store.discard([gone, canary])
    assert found(store) == ["ref b", "ref c"]


def test_a_move_that_says_nothing_is_found(store: MemoryStore) -> None:
    store.load([], [fact("main@1", "move", subject="main")])
    assert "move fact main@1" in found_despite_unreadable_refs(store)


def found_despite_unreadable_refs(store: MemoryStore) -> list[str]:
    with pytest.raises(StoreDamaged):
        store.refs()
    return [problem.path for problem in verify(store).problems] + [
        problem.found.partition(":")[0] for problem in verify(store).problems
    ]


class BusyStore(MemoryStore):
    """A store in which somebody else acts each time the refs or the contents are read."""

    act: Callable[[], None] = staticmethod(lambda: None)

    def refs(self, prefix: str = "") -> list[Ref]:
        refs = super().refs(prefix)
        self.act()
        return refs

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        contents = super().contents(kind)
        self.act()
        return contents


def test_a_ref_that_moves_meanwhile_is_not_a_problem() -> None:
    store = BusyStore()
    move(store, "main", "one")

    def act() -> None:
        move(store, "main", "more")
        move(store, f"new/{len(MemoryStore.refs(store))}", "more")
        store.append([fact(f"{store.kinds()}", "approval")])

    store.act = act
    assert found(store) == []


# copy


def test_a_copy_says_how_far_it_is(store: MemoryStore) -> None:
    for n in range(5):
        store.put("note", {"n": n})
    store.append(fact(f"{n}") for n in range(2500))
    heard: list[int] = []
    copy(store, MemoryStore(), heard.append)
    assert heard == [5, 1005, 2005, 2505]


def test_a_copy_takes_no_fact_whose_content_it_may_have_missed() -> None:
    source, target = BusyStore(), MemoryStore()
    source.append([fact("early")])

    def act() -> None:
        source.append([fact("late", subject=source.put("note", {"late": True}))])

    source.act = act
    copy(source, target)
    assert [told.key for told in target.facts(Query(kind="cell"))] == ["early"]
    copy(source, target)
    assert [told.key for told in target.facts(Query(kind="cell"))] == ["early", "late"]
    assert target.get(next(target.facts(Query(kind="cell", newest=True))).subject) == {"late": True}


def test_a_copy_does_not_merge_into_a_target_that_has_other_facts(store: MemoryStore) -> None:
    """Each fact is bound to all before it, so two histories cannot become one."""
    target = MemoryStore()
    target.append([fact("theirs")])
    store.append([fact("ours")])
    with pytest.raises(StoreError, match="the target has the cell theirs by ann, the source the cell ours"):
        copy(store, target)
    assert [told.key for told in target.facts(Query(kind="cell"))] == ["theirs"]


def test_a_copy_refuses_a_target_with_another_history(store: MemoryStore) -> None:
    target = MemoryStore()
    target.append([fact("yes", "approval", by="bob")])
    with pytest.raises(StoreError, match="the target has the approval yes by bob, the source nothing in its place"):
        copy(store, target)
    store.append([fact("no", "approval"), fact("yes", "approval", by="bob")])
    with pytest.raises(StoreError, match="approval yes by bob, the source the approval no by ann in its place"):
        copy(store, target)


# stats


def test_stats_count_by_kind(store: MemoryStore) -> None:
    store.put("playbook", {"a": 1})
    for n in range(2):
        store.put("dataset", {"n": n})
    store.append([fact("a"), fact("b"), fact("a", "turn")])
    move(store, "main", "one")
    assert stats(store) == Stats({"dataset": 2, "playbook": 1}, {"cell": 2, "move": 1, "turn": 1}, 1)


# gc


@pytest.fixture
def mentioned(store: MemoryStore) -> dict[str, str]:
    """Content that something speaks of, each in another way."""
    names = {way: store.put("note", {"way": way}) for way in ("subject", "body", "key", "tag", "ref", "share", "past")}
    names["deepest"] = store.put("note", {"way": "deepest"})
    names["deeper"] = store.put("note", {"extends": f"see {names['deepest']}!"})
    names["deep"] = store.put("note", {names["deeper"]: "as a key"})
    store.append([fact("a", subject=names["subject"], body={"list": [{"at": names["body"]}]}, tags=(names["tag"],))])
    store.append([fact(names["key"]), fact("b", body={"of": names["deep"]})])
    move(store, "main", names["past"])
    move(store, "main", names["ref"])
    move(store, "channel", {"canary": {"to": names["share"]}})
    return names


def test_only_content_that_nothing_mentions_is_discarded(store: MemoryStore, mentioned: dict[str, str]) -> None:
    leaf = store.put("note", {"alone": 1})
    root = store.put("dataset", {"extends": leaf})
    assert gc(store, dry_run=False) == {leaf: "note", root: "dataset"}
    assert {content.digest for content in store.contents()} == set(mentioned.values())
    assert gc(store, dry_run=False) == {}


def test_a_dry_run_discards_nothing(store: MemoryStore) -> None:
    name = store.put("note", {"alone": 1})
    assert gc(store, dry_run=True) == {name: "note"}
    assert store.get(name) == {"alone": 1}


def test_content_put_or_mentioned_between_the_two_looks_stays() -> None:
    store = BusyStore()
    slow, alone = store.put("note", {"n": 1}), store.put("note", {"n": 2})
    looks = 0

    def act() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            store.append([fact("late", subject=slow)])
            store.put("note", {"n": 3})

    store.act = act
    assert gc(store, dry_run=False) == {alone: "note"}
    assert [content.body["n"] for content in store.contents()] == [1, 3]


@pytest.mark.parametrize("where", ["content", "fact"])
def test_sealed_bodies_are_not_cleaned_around(store: MemoryStore, where: str) -> None:
    name = store.put("note", {"alone": 1})
    if where == "content":
        store.load([Content("note", digest("note", {"a": 1}), {"sealed": "x"})], [])
    else:
        store.append([replace(fact("a"), body={"sealed": "x"})])
    with pytest.raises(StoreError, match="Open the store with its key"):
        gc(store, dry_run=False)
    assert store.get(name) == {"alone": 1}
