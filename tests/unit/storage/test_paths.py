"""Opening a store to read it makes none, needs no right to write, and never takes a sealed one for a plain one."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

from seedbed.errors import NotFound, SettingsError, StoreError
from seedbed.storage import open_store
from seedbed.storage.encryption import EncryptedStore, MasterKey, expect_plain
from seedbed.storage.memory import MemoryStore
from seedbed.storage.paths import shared
from seedbed.storage.store import Query, UpkeptStore
from seedbed.storage.upkeep import copy, verify
from seedbed.testing import everything, fact, move

KEY, OTHER_KEY = (b64encode(bytes(range(n, n + 32))).decode() for n in (0, 32))


def fill(store: UpkeptStore) -> None:
    name = store.put("note", {"text": "to be read"})
    store.append([fact("a", subject=name, tags=("t",)), fact("v", "verdict")])
    move(store, "main", name)


@pytest.mark.parametrize("url", [None, 7, Path("seedbed.db"), b"memory:"])
def test_what_is_no_url_is_refused_with_what_to_give(url: Any) -> None:
    with pytest.raises(SettingsError, match=r"store: .*Use one of memory:"):
        open_store(url)


# Without making one


@pytest.mark.parametrize("url", ["sqlite:///{}/no/x.db", "sqlite:///{}/x.db", "files:{}/no", "files:{}"])
def test_where_there_is_no_store_none_is_made_to_read_it(tmp_path: Path, url: str) -> None:
    with pytest.raises(NotFound, match=r"found no store; expected one to read\. Check .* or create one") as error:
        open_store(url.format(tmp_path), create=False)
    assert str(tmp_path) in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_no_store_to_read(empty_sql_url: str, tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    with pytest.raises(NotFound, match="found no store"):
        open_store(empty_sql_url, create=False)
    assert (tmp_path / "x.db").read_bytes() == b""
    open_store(empty_sql_url).close()
    open_store(empty_sql_url, create=False).close()


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.execute("CREATE TABLE letters (text)")
    before = (tmp_path / "x.db").read_bytes()
    with pytest.raises(NotFound, match=r"x\.db: found no store"):
        open_store(f"sqlite:///{tmp_path}/x.db", create=False)
    assert (tmp_path / "x.db").read_bytes() == before


@pytest.mark.parametrize("url", ["sqlite:///{}/x.db", "files:{}/store"])
def test_a_store_that_is_there_is_opened_to_read_and_to_write(tmp_path: Path, url: str) -> None:
    for create in (True, False):
        with closing(open_store(url.format(tmp_path), create=create)) as store:
            store.append([fact(f"{create}")])
    assert store.kinds() == {"cell": 2}


# Without the right to write


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, whom no permission stops."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture(params=["sqlite:///{}/x.db", "files:{}/store"], ids=["sqlite", "files"])
def guarded(request: pytest.FixtureRequest) -> Iterator[tuple[str, Callable[[int], None]]]:
    """The URL of a full store, and what sets the rights to all of it."""
    with tempfile.TemporaryDirectory() as folder:

        def allow(rights: int) -> None:
            for path in (Path(folder), *Path(folder).rglob("*")):
                path.chmod(rights if path.is_dir() else rights & 0o666)

        url = request.param.format(folder)
        with closing(open_store(url)) as store:
            fill(store)
        allow(0o555)
        yield url, allow
        allow(0o777)


@pytest.mark.parametrize("create", [True, False])
def test_what_may_not_be_written_can_be_read_and_verified(guarded: tuple[str, Any], create: bool) -> None:
    with closing(open_store(guarded[0])) as store:
        expected = everything(store)
    with as_nobody(), closing(open_store(guarded[0], create=create)) as store:
        assert everything(store) == expected
        assert verify(store).problems == ()
        assert [found.key for found in store.facts(Query(kind="cell", text="read", tag="t"))] == ["a"]
        for write in (lambda: store.append([fact("b")]), lambda: store.put("note", {}), lambda: move(store, "x", "y")):
            with pytest.raises(StoreError, match=r"[pP]ermission"):
                write()
        assert everything(store) == expected


def test_who_may_not_write_sees_what_others_write_meanwhile(guarded: tuple[str, Any]) -> None:
    url, allow = guarded
    with as_nobody():
        reader = open_store(url, create=False)
        assert reader.kinds()["cell"] == 1
    allow(0o755)
    with closing(open_store(url)) as writer:
        for key in ("b", "c"):
            writer.append([fact(key)])
            with as_nobody():
                assert [told.key for told in reader.facts(Query(kind="cell"))][-1] == key
                assert verify(reader).problems == ()
    reader.close()


def test_a_database_that_may_not_be_written_in_a_folder_that_may_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        with closing(open_store(f"sqlite:///{folder}/odd %41?#.db")) as store:
            fill(store)
        [file] = Path(folder).iterdir()
        assert file.name == "odd %41?#.db"
        file.chmod(0o444)
        with as_nobody(), closing(open_store(f"sqlite:///{file}", create=False)) as store:
            assert verify(store).problems == ()
            assert store.kinds() == {"cell": 1, "move": 1, "verdict": 1}


def test_who_may_only_read_a_folder_and_who_writes_to_it_wait_for_each_other(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    with shared(lock):
        assert list(tmp_path.iterdir()) == []
    with FileLock(lock):
        pass
    with shared(lock), pytest.raises(Timeout):
        FileLock(lock).acquire(timeout=0)


def test_half_a_batch_is_not_shown_to_those_who_may_not_undo_it() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(open_store(f"files:{folder}"))
        lines = Path(folder, "facts/cell.jsonl")
        journal = {"facts": {"cell": lines.stat().st_size}, "refs": {}}
        lines.write_bytes(lines.read_bytes() + b"half a li")
        Path(folder, "pending.json").write_text(json.dumps(journal))
        Path(folder).chmod(0o555)
        with as_nobody(), pytest.raises(StoreError, match="expected a folder that can be read and written"):
            open_store(f"files:{folder}", create=False)
        Path(folder).chmod(0o755)
        assert verify(open_store(f"files:{folder}")).problems == ()


# Sealed or plain


def test_a_sealed_store_is_not_taken_for_a_plain_one(sql_url: str) -> None:
    with closing(open_store(sql_url)) as inner:
        expect_plain(inner)
        store = EncryptedStore(inner, MasterKey(KEY))
        expect_plain(inner)
        store.append([fact("a")])
        with pytest.raises(StoreError, match=r"found an encrypted store.*encrypted: true.*SEEDBED_KEY"):
            expect_plain(inner)


def test_a_plain_store_is_not_copied_into_a_sealed_one_as_it_is_nor_the_other_way_round() -> None:
    plain, inner, other = MemoryStore(), MemoryStore(), MemoryStore()
    for store in (plain, EncryptedStore(inner, MasterKey(KEY)), EncryptedStore(other, MasterKey(OTHER_KEY))):
        store.put("note", {"n": 1})
    fresh = EncryptedStore(MemoryStore(), MasterKey(KEY))
    for source, target in ((plain, inner), (other, inner), (inner, plain), (inner, fresh)):
        before = everything(target)
        with pytest.raises(StoreError, match="expected both plain, or both sealed with the same keys"):
            copy(source, target)
        assert everything(target) == before
    backup = MemoryStore()
    for _ in range(2):
        copy(inner, backup)
    copy(plain, EncryptedStore(inner, MasterKey(KEY)))
    copy(EncryptedStore(inner, MasterKey(KEY)), plain)
    assert everything(backup) == everything(inner)
