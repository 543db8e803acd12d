"""What goes wrong in a SQLite file is explained: what was found and what to do. Connections are kept and given back."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from seedbed.errors import StoreDamaged, StoreError
from seedbed.storage import open_store
from seedbed.storage.sql.store import SqlStore, migrate_to
from seedbed.storage.store import Query
from seedbed.storage.upkeep import verify
from seedbed.testing import fact, keys


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store of one content and one fact."""
    path = tmp_path / "x.db"
    with closing(SqlStore(f"sqlite:///{path}")) as store:
        store.put("note", {"text": "whole " * 2000})
        store.append([fact("a")])
    return path


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ann, " * 1000)
    for attempt in (open_store, migrate_to):
        with pytest.raises(StoreDamaged, match=r"letter\.txt: file is not a database\. Restore it"):
            attempt(f"sqlite:///{path}")
    assert path.read_text() == "Dear Ann, " * 1000


def read(url: str) -> None:
    with closing(open_store(url)) as store:
        list(store.contents())
        list(store.facts(Query(kind="cell")))


def test_a_damaged_file_is_named(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[4096 * 2 :] = b"\xff" * (len(whole) - 4096 * 2)
    file.write_bytes(whole)
    with pytest.raises(StoreDamaged, match=r"x\.db: .*malformed.*Restore it"):
        read(f"sqlite:///{file}")


def test_missing_folders_are_made(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/some/where/x.db").close()
    assert (tmp_path / "some/where/x.db").exists()


@pytest.mark.parametrize("place", ["letter.txt/x.db", "letter.txt/deeper/x.db", "."])
def test_a_place_that_cannot_hold_a_database_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann")
    with pytest.raises(StoreError, match=r"Check the path") as error:
        open_store(f"sqlite:///{tmp_path}/{place}")
    assert str(tmp_path) in str(error.value)


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


@pytest.fixture
def public() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)
        Path(folder).chmod(0o777)


def write(url: str) -> None:
    with closing(open_store(url)) as store:
        store.append([fact("b")])


def test_a_file_that_must_not_be_written_is_explained(public: Path) -> None:
    with closing(SqlStore(f"sqlite:///{public}/x.db")) as store:
        store.append([fact("a")])
    (public / "x.db").chmod(0o444)
    public.chmod(0o555)
    with as_nobody(), pytest.raises(StoreError, match=r"x\.db: .+\. Check the .*permissions"):
        write(f"sqlite:///{public}/x.db")
    public.chmod(0o777)
    (public / "x.db").chmod(0o666)
    with closing(SqlStore(f"sqlite:///{public}/x.db")) as store:
        assert keys(store.facts(Query(kind="cell"))) == ["a"]


def test_a_folder_that_must_not_be_written_is_explained(public: Path) -> None:
    public.chmod(0o555)
    with as_nobody(), pytest.raises(StoreError, match="Check the path"):
        open_store(f"sqlite:///{public}/new/x.db")
    with as_nobody(), pytest.raises(StoreError, match=r"Check the path and the permissions of the folder"):
        open_store(f"sqlite:///{public}/x.db")
    assert list(public.iterdir()) == []


def pragma(store: SqlStore, setting: str) -> None:
    """Set it on the connection that the store uses from now on."""
    with store._database.connect() as db:
        db.execute(f"PRAGMA {setting}")


def test_a_full_disk_is_explained_and_nothing_is_written(file: Path) -> None:
    with closing(SqlStore(f"sqlite:///{file}")) as store:
        pragma(store, "max_page_count = 1")  # as small as it is now
        with pytest.raises(StoreError, match=r"x\.db: .*full\. Nothing was written; free some space"):
            store.put("note", {"text": "large " * 100_000})
        with pytest.raises(StoreError, match="free some space"):
            store.append(fact(f"{n}", body={"text": "large " * 1000}) for n in range(100))
        pragma(store, "max_page_count = 1000000")
        assert store.kinds() == {"cell": 1}
        assert len(list(store.contents())) == 1
        store.append([fact("b")])
        assert verify(store).problems == ()


def test_a_writer_that_never_ends_is_explained(file: Path) -> None:
    with closing(SqlStore(f"sqlite:///{file}")) as store, closing(sqlite3.connect(file, isolation_level=None)) as other:
        pragma(store, "busy_timeout = 20")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="Another process has been writing"):
            store.append([fact("b")])
        assert keys(store.facts(Query(kind="cell"))) == ["a"]  # readers do not wait
        other.execute("ROLLBACK")
        assert store.append([fact("b")]) == 1


def open_files(path: Path) -> int:
    """How often this process has the file open."""
    descriptors = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(descriptor) == str(path) for descriptor in descriptors)


@pytest.mark.skipif(sys.platform != "linux", reason="sees open files")
def test_connections_are_used_again_and_closed_with_the_store_even_those_in_use(file: Path) -> None:
    store = SqlStore(f"sqlite:///{file}")
    for _ in range(3):
        list(store.facts(Query(kind="cell")))
    assert open_files(file) == 1
    with store._database.connect() as db:
        with store._database.connect(), store._database.connect():
            assert open_files(file) == 3
        store.close()
        assert db.execute("SELECT count(*) FROM facts").fetchone() == (1,)
    assert open_files(file) == 0


def test_what_was_not_committed_is_undone_and_locks_nobody_out(file: Path) -> None:
    with closing(SqlStore(f"sqlite:///{file}")) as store, closing(SqlStore(f"sqlite:///{file}")) as other:
        with store._database.connect() as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM facts")
        with store._database.connect() as db:
            assert db.execute("SELECT count(*) FROM facts").fetchone() == (1,)
        assert other.append([fact("b")]) == 1


def test_a_store_stays_where_it_is_when_its_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(SqlStore("sqlite:///x.db")) as store:
        identity = store.identity
        store.close()
        monkeypatch.chdir("elsewhere")
        store.append([fact("a")])
        assert store.identity == identity
    assert list((tmp_path / "elsewhere").iterdir()) == []
