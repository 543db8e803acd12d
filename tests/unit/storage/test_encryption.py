"""Bodies are secret, edits are found, keys can be changed, and nothing gives the key away."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import SettingsError, StoreDamaged, StoreError
from seedbed.storage.encryption import KEYRING, EncryptedStore, MasterKey
from seedbed.storage.memory import MemoryStore
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Content, Fact, Json, Query, UpkeptStore, is_sealed, short
from seedbed.storage.upkeep import verify

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
KEY = b64encode(bytes(range(32))).decode()
NEW_KEY = b64encode(bytes(range(32, 64))).decode()
CANARY = "the canary sings at noon"
CELLS = Query(kind="cell")


def cell(key: str, **changes: Any) -> Fact:
    return Fact(**{"kind": "cell", "key": key, "subject": "thing", "at": NOON, "by": "ann"} | changes)


def rewritten(
    inner: UpkeptStore,
    content: Callable[[Content], Content | None] = lambda content: content,
    fact: Callable[[Fact], Fact] = lambda fact: fact,
) -> EncryptedStore:
    """The store after somebody has edited its rows."""
    edited = MemoryStore()
    contents = [new for old in inner.contents() if (new := content(old))]
    edited.load(contents, [fact(old) for kind in inner.kinds() for old in inner.facts(Query(kind=kind))])
    return EncryptedStore(edited, MasterKey(KEY))


class Meddled(MemoryStore):
    """A store in which something else happens just before the next load."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        super().load(contents, facts)


@pytest.fixture
def inner() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def store(inner: MemoryStore) -> EncryptedStore:
    return EncryptedStore(inner, MasterKey(KEY))


# Secrecy


def test_bodies_come_back_and_are_sealed_within(store: EncryptedStore, inner: MemoryStore) -> None:
    name = store.put("playbook", {"text": CANARY})
    store.append([cell("a", body={"text": CANARY})])
    assert store.get(name) == {"text": CANARY}
    assert [fact.body for fact in store.facts(CELLS)] == [{"text": CANARY}]
    assert is_sealed(inner.get(name))
    assert all(is_sealed(fact.body) for fact in inner.facts(CELLS))


def test_no_body_can_be_read_in_the_file(tmp_path: Path) -> None:
    def leaks(folder: Path, wrap: Callable[[UpkeptStore], UpkeptStore]) -> list[str]:
        folder.mkdir()
        found = []

        def look() -> None:
            found.extend(file.name for file in folder.iterdir() if b"canary" in file.read_bytes())

        with closing(wrap(SqlStore(f"sqlite:///{folder}/x.db"))) as opened:
            name = opened.put("playbook", {CANARY: CANARY})
            opened.append([cell(f"{n}", subject=name, body={"said": CANARY, "n": n}) for n in range(50)])
            assert len(list(opened.facts(Query(kind="cell", text="canary sings")))) == 50
            look()
        look()
        return found

    assert "x.db-wal" in leaks(tmp_path / "plain", lambda plain: plain)
    assert leaks(tmp_path / "sealed", lambda plain: EncryptedStore(plain, MasterKey(KEY))) == []


def test_who_when_about_what_and_numbers_stay_readable_and_so_does_the_audit_log(
    store: EncryptedStore, inner: MemoryStore
) -> None:
    told = cell("a", value=0.5, parents=("z",), tags=("t",), body={"text": CANARY})
    store.append([told, cell("yes", kind="approval", body={"because": "fine"})])
    store.move("main", "b2:1", expected=None, because="test", by="ann")
    (kept,) = inner.facts(Query(kind="cell", tag="t"))
    assert replace(kept, body=told.body) == replace(told, number=kept.number)
    assert [fact.body["because"] for kind in ("approval", "move") for fact in inner.facts(Query(kind=kind))] == [
        "fine",
        "test",
    ]


def test_the_same_body_is_sealed_differently_each_time(store: EncryptedStore, inner: MemoryStore) -> None:
    store.append([cell(f"{n}", body={"same": 1}) for n in range(100)])
    nonces = {fact.body["sealed"][:18] for fact in inner.facts(CELLS)}
    assert len(nonces) == 100


def test_content_that_is_there_is_not_sealed_again(store: EncryptedStore, inner: MemoryStore) -> None:
    name = store.put("playbook", {"a": 1})
    kept = inner.get(name)
    meddled = Meddled()
    meddled.load(inner.contents(), [])
    meddled.meanwhile = lambda: pytest.fail("wrote again")
    assert EncryptedStore(meddled, MasterKey(KEY)).put("playbook", {"a": 1.0}) == name
    assert meddled.get(name) == kept


# Edits


def test_an_edit_of_any_letter_of_a_sealed_body_is_found(store: EncryptedStore, inner: MemoryStore) -> None:
    name = store.put("playbook", {"a": 1})
    store.append([cell("a", body={"b": 2})])

    def edits(body: Json) -> list[Json]:
        text = body["sealed"]
        changed = [
            text[:n] + other + text[n + 1 :] for n in range(len(text)) for other in "AB2:=*é" if text[n] != other
        ]
        return [{"sealed": edit} for edit in (*changed, text[:-1], text + "=", text + "A", text[:6], "")]

    for body in (*edits(inner.get(name)), {"sealed": None}, {"sealed": {}}):
        edited = rewritten(inner, content=lambda old, body=body: replace(old, body=body) if old.digest == name else old)
        with pytest.raises(StoreDamaged, match=name[3:13]):
            edited.get(name)
        assert any(name[3:13] in str(problem) for problem in verify(edited).problems)
    for body in edits(next(inner.facts(CELLS)).body):
        edited = rewritten(inner, fact=lambda old, body=body: replace(old, body=body))
        with pytest.raises(StoreDamaged, match='cell fact "a"'):
            list(edited.facts(CELLS))


def test_spare_bits_of_base64_are_no_hiding_place(store: EncryptedStore, inner: MemoryStore) -> None:
    name = next(name for n in range(9) if inner.get(name := store.put("note", {"n": "x" * n}))["sealed"].endswith("="))
    text = inner.get(name)["sealed"].rstrip("=")
    pad = "=" * (len(inner.get(name)["sealed"]) - len(text))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    neighbour = letters[letters.index(text[-1]) + 1]
    edited = rewritten(
        inner,
        content=lambda old: replace(old, body={"sealed": text[:-1] + neighbour + pad}) if old.digest == name else old,
    )
    with pytest.raises(StoreDamaged):
        edited.get(name)


def test_swapped_bodies_are_found(store: EncryptedStore, inner: MemoryStore) -> None:
    one, two = store.put("note", {"n": 1}), store.put("note", {"n": 2})
    store.append([cell("a", body={"n": 1}), cell("b", body={"n": 2}), cell("a", kind="turn", body={"n": 3})])
    bodies = {content.digest: content.body for content in inner.contents()}
    other = {one: bodies[two], two: bodies[one]}
    swapped = rewritten(inner, content=lambda old: replace(old, body=other.get(old.digest, old.body)))
    for name in (one, two):
        with pytest.raises(StoreDamaged):
            swapped.get(name)
    a, b = inner.facts(CELLS)
    (turn,) = inner.facts(Query(kind="turn"))
    for place, body in ((a, b.body), (b, a.body), (a, turn.body), (turn, a.body), (a, bodies[one])):
        moved = rewritten(
            inner, fact=lambda old, place=place, body=body: replace(old, body=body) if old == place else old
        )
        with pytest.raises(StoreDamaged):
            list(moved.facts(Query(kind=place.kind)))


def test_a_plain_body_in_place_of_a_sealed_one_is_found(store: EncryptedStore, inner: MemoryStore) -> None:
    name = store.put("note", {"n": 1})
    store.append([cell("a", body={"score": 0.1})])
    forged = rewritten(
        inner,
        content=lambda old: replace(old, body={"n": 1}) if old.digest == name else old,
        fact=lambda old: replace(old, body={"score": 0.9}),
    )
    with pytest.raises(StoreDamaged, match="expected a sealed one"):
        forged.get(name)
    with pytest.raises(StoreDamaged, match="expected a sealed one"):
        list(forged.facts(CELLS))


def test_content_under_another_kind_is_found(store: EncryptedStore, inner: MemoryStore) -> None:
    name = store.put("note", {"n": 1})
    renamed = rewritten(inner, content=lambda old: replace(old, kind="rule") if old.digest == name else old)
    assert [problem.path for problem in verify(renamed).problems] == [f"rule {name}"]


# Keys


def test_the_wrong_key_opens_nothing_and_says_no_more_than_that(store: EncryptedStore, inner: MemoryStore) -> None:
    store.put("note", {"n": 1})
    with pytest.raises(StoreError) as refused:
        EncryptedStore(inner, MasterKey(NEW_KEY))
    assert str(refused.value) == "cannot open: wrong key"
    assert type(refused.value) is StoreError
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_an_empty_store_takes_the_key_it_is_first_written_with(store: EncryptedStore, inner: MemoryStore) -> None:
    other = EncryptedStore(inner, MasterKey(NEW_KEY))
    assert list(inner.contents()) == []
    name = store.put("note", {"n": 1})
    for use in (lambda: other.put("note", {"n": 2}), lambda: other.get(name), lambda: other.append([cell("a")])):
        with pytest.raises(StoreError, match="cannot open: wrong key"):
            use()
    assert [content.digest for content in store.contents()] == [name]


def test_the_key_comes_from_the_environment(inner: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDBED_KEY", KEY + "\n")
    name = EncryptedStore(inner, MasterKey.from_environment()).put("note", {"n": 1})
    assert EncryptedStore(inner, MasterKey(KEY)).get(name) == {"n": 1}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "nothing"),
        ("", "nothing"),
        ("c2VjcmV0", "base64 of 6 bytes"),
        (KEY + KEY, "not base64"),
        (b64encode(bytes(33)).decode(), "base64 of 33 bytes"),
        ("secret pass phrase", "not base64"),
        ("geheimnisträger", "not base64"),
    ],
)
def test_a_missing_or_malformed_key_is_explained_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, value: str | None, found: str
) -> None:
    monkeypatch.delenv("SEEDBED_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SEEDBED_KEY", value)
    with pytest.raises(SettingsError) as refused:
        MasterKey.from_environment()
    for part in ("SEEDBED_KEY", found, "base64 of 32 random bytes", "python -c"):
        assert part in str(refused.value)
    assert not value or value not in repr(refused.value) + str(refused.value)


def test_the_advice_on_making_a_key_makes_one() -> None:
    with pytest.raises(SettingsError) as refused:
        MasterKey("")
    code = str(refused.value).partition("python -c '")[2].partition("'")[0]
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    store = EncryptedStore(MemoryStore(), MasterKey(made))
    assert store.get(store.put("note", {"n": 1})) == {"n": 1}


def test_no_key_shows_in_what_is_printed(store: EncryptedStore) -> None:
    master = MasterKey(KEY)
    store.put("note", {"n": 1})
    shown = " ".join(map(repr, (store, master, vars(store), store._ring))) + f"{store} {master}"
    secrets = [*store._ring.keys.values(), bytes(range(32))]
    for secret in secrets:
        assert all(text not in shown for text in (repr(secret), secret.hex(), b64encode(secret).decode()))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(SettingsError, match=r"pip install 'seedbed\[encryption\]'"):
        MasterKey(KEY)


def test_the_package_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, seedbed.storage.encryption; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_store_begun_without_encryption_is_refused(inner: MemoryStore) -> None:
    inner.move("main", "b2:1", expected=None, because="test", by="ann")
    EncryptedStore(inner, MasterKey(KEY))
    inner.append([cell("a")])
    with pytest.raises(StoreError, match="Copy a plain store into a new encrypted one"):
        EncryptedStore(inner, MasterKey(KEY))
    plain = MemoryStore()
    plain.put("note", {"n": 1})
    with pytest.raises(StoreError, match="without a keyring"):
        EncryptedStore(plain, MasterKey(KEY))


def test_a_store_that_lost_its_keyring_is_refused_and_not_begun_anew(store: EncryptedStore, inner: MemoryStore) -> None:
    store.put("note", {"n": 1})
    with pytest.raises(StoreError, match="without a keyring"):
        rewritten(inner, content=lambda old: None if old.kind == KEYRING else old)


# Changing keys


def test_after_a_change_of_keys_the_new_one_opens_everything_and_the_old_one_nothing(
    store: EncryptedStore, inner: MemoryStore
) -> None:
    before = store.put("note", {"n": 1})
    store.append([cell("before", body={"n": 1})])
    store.rotate(MasterKey(NEW_KEY), by="bob")
    after = store.put("note", {"n": 2})
    store.append([cell("after", body={"n": 2})])
    for opened in (store, EncryptedStore(inner, MasterKey(NEW_KEY))):
        assert [opened.get(name)["n"] for name in (before, after)] == [1, 2]
        assert [fact.body["n"] for fact in opened.facts(CELLS)] == [1, 2]
        assert [content.digest for content in opened.contents()] == [before, after]
    assert [inner.get(name)["sealed"].partition(":")[0] for name in (before, after)] == ["1", "2"]
    with pytest.raises(StoreError, match="cannot open: wrong key"):
        EncryptedStore(inner, MasterKey(KEY))


def test_whoever_has_the_file_and_the_old_key_gets_at_what_was_sealed_before_and_at_nothing_since(
    store: EncryptedStore, inner: MemoryStore
) -> None:
    before = store.put("note", {"n": 1})
    store.rotate(MasterKey(NEW_KEY))
    after = store.put("note", {"n": 2})
    newest = list(inner.contents(KEYRING))[-1]

    def forged(old: Content) -> Content | None:
        """The store set back to its old keyring, new bodies passed off as sealed with the old data key."""
        return None if old == newest else replace(old, body={"sealed": old.body["sealed"].replace("2:", "1:")})

    broken_into = rewritten(inner, content=forged)
    assert broken_into.get(before) == {"n": 1}
    with pytest.raises(StoreDamaged):
        broken_into.get(after)


def test_keys_can_be_changed_again_and_again(store: EncryptedStore, inner: MemoryStore) -> None:
    names = [store.put("note", {"n": 0})]
    for n in range(1, 5):
        store.rotate(MasterKey(NEW_KEY if n % 2 else KEY))
        names.append(store.put("note", {"n": n}))
    assert [EncryptedStore(inner, MasterKey(KEY)).get(name)["n"] for name in names] == list(range(5))


def test_a_change_of_keys_is_logged_in_the_chain_and_tells_no_key(store: EncryptedStore, inner: MemoryStore) -> None:
    store.put("note", {"n": 1})
    store.move("main", "x", expected=None, because="test", by="ann")
    store.rotate(MasterKey(NEW_KEY), by="bob")
    store.rotate(MasterKey(NEW_KEY), by="eve")
    logged = list(store.facts(Query(kind="key")))
    assert [(fact.by, fact.subject, fact.body) for fact in logged] == [
        ("bob", "keyring", {"generation": 2}),
        ("eve", "keyring", {"generation": 3}),
    ]
    assert list(store.facts(Query(kind="key", text="keyring"))) == []
    assert verify(store).problems == verify(inner).problems == ()


def test_an_older_keyring_in_place_of_the_newest_is_refused(store: EncryptedStore, inner: MemoryStore) -> None:
    store.put("note", {"n": 1})
    store.rotate(MasterKey(KEY))
    old, new = inner.contents(KEYRING)
    with pytest.raises(StoreError, match="cannot open: wrong key"):
        rewritten(inner, content=lambda each: replace(each, body=old.body) if each == new else each)


def test_a_handle_opened_before_a_change_still_reads_the_past_and_not_what_came_after(
    store: EncryptedStore, inner: MemoryStore
) -> None:
    before = store.put("note", {"n": 1})
    stale = EncryptedStore(inner, MasterKey(KEY))
    store.rotate(MasterKey(NEW_KEY))
    after = store.put("note", {"n": 2})
    assert stale.get(before) == {"n": 1}
    with pytest.raises(StoreError, match="cannot open: wrong key"):
        stale.get(after)
    with pytest.raises(StoreError, match="cannot open: wrong key"):
        stale.rotate(MasterKey(KEY))
    assert store.get(stale.put("note", {"n": 3})) == {"n": 3}


def test_a_handle_learns_of_fresh_data_keys_under_its_own_master_key(store: EncryptedStore, inner: MemoryStore) -> None:
    other = EncryptedStore(inner, MasterKey(KEY))
    for n in range(3):
        assert other.get(store.put("note", {"n": n})) == {"n": n}
        store.rotate(MasterKey(KEY))


def test_of_two_who_change_the_key_at_once_one_wins_and_the_other_is_told() -> None:
    inner = Meddled()
    loser, winner = EncryptedStore(inner, MasterKey(KEY)), EncryptedStore(inner, MasterKey(KEY))
    name = loser.put("note", {"n": 1})
    inner.meanwhile = lambda: winner.rotate(MasterKey(NEW_KEY), by="winner")
    with pytest.raises(StoreError, match="someone else changed the key first"):
        loser.rotate(MasterKey(b64encode(b"l" * 32).decode()), by="loser")
    assert EncryptedStore(inner, MasterKey(NEW_KEY)).get(name) == loser.get(name) == {"n": 1}
    assert [fact.by for fact in inner.facts(Query(kind="key"))] == ["winner"]


# Beginning


def test_of_two_who_make_the_first_key_at_once_both_use_the_one_that_was_kept() -> None:
    inner = Meddled()
    first, second = EncryptedStore(inner, MasterKey(KEY)), EncryptedStore(inner, MasterKey(KEY))
    inner.meanwhile = lambda: second.append([cell("b", body={"n": 2})])
    first.append([cell("a", body={"n": 1})])
    assert len(list(inner.contents(KEYRING))) == 1
    for opened in (first, second, EncryptedStore(inner, MasterKey(KEY))):
        assert {fact.key: fact.body["n"] for fact in opened.facts(CELLS)} == {"a": 1, "b": 2}


def begin(url: str, worker: int, ready: Any) -> None:
    """Open an empty store and, once all have done so, write to it."""
    with closing(EncryptedStore(SqlStore(url), MasterKey(KEY))) as opened:
        ready.wait(60)
        opened.append([cell(f"{worker}", body={"worker": worker})])
        opened.put("note", {"worker": worker})


def test_processes_that_make_the_first_key_at_once_end_with_one_usable_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    SqlStore(url).close()
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    workers = [context.Process(target=begin, args=(url, worker, ready)) for worker in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    with closing(SqlStore(url)) as inner:
        store = EncryptedStore(inner, MasterKey(KEY))
        assert len(list(inner.contents(KEYRING))) == 1
        assert sorted(fact.body["worker"] for fact in store.facts(CELLS)) == [0, 1, 2]
        assert sorted(content.body["worker"] for content in store.contents()) == [0, 1, 2]


# Verdicts and trials


@pytest.mark.parametrize("kind", ["verdict", "trial"])
def test_a_verdict_or_trial_is_proven_without_the_key_and_found_edited(
    store: EncryptedStore, inner: MemoryStore, kind: str
) -> None:
    store.put("note", {"n": 1})
    store.append([cell(f"{n}", kind=kind, body={"finding": "worse"}) for n in range(2)])
    assert [fact.body for fact in inner.facts(Query(kind=kind))] == [{"finding": "worse"}] * 2
    assert verify(inner).problems == verify(store).problems == ()
    assert verify(inner).chained == 2
    edited = rewritten(inner, fact=lambda old: replace(old, body={"finding": "better"}) if old.key == "0" else old)
    assert [problem.path for problem in verify(edited).problems] == [f"{kind} fact 0"]


def test_every_body_that_cannot_be_opened_is_listed(store: EncryptedStore, inner: MemoryStore) -> None:
    names = [store.put("note", {"n": n}) for n in range(4)]
    spoilt = {names[1]: {"sealed": "1:x"}, names[2]: {"n": 2}}
    edited = rewritten(inner, content=lambda old: replace(old, body=spoilt.get(old.digest, old.body)))
    report = verify(edited)
    assert [short(name) in str(problem) for name, problem in zip(spoilt, report.problems, strict=True)] == [True, True]
    assert report.contents == 2
