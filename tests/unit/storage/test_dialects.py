"""What goes wrong in a database is explained: what was found, what to do, and never a password."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from seedbed.errors import SeedbedError, SettingsError, StoreDamaged, StoreError
from seedbed.storage import open_store
from seedbed.storage.sql.dialects import words_in
from seedbed.storage.sql.store import SqlStore, migrate_to
from seedbed.storage.store import Query
from seedbed.storage.upkeep import verify
from seedbed.testing import fact, keys

SECRET = "correct-horse"


def told(error: pytest.ExceptionInfo[SeedbedError]) -> str:
    """All that a user or a log gets to see."""
    return "".join(traceback.format_exception(error.value)) + repr(error.value)


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "",
        "files:",
        "sqlite:",
        "sqlite://",
        "sqlite:///:memory:",
        f"postgres://ann:{SECRET}@host/db",
        f"mysql://ann:{SECRET}@host/db",
        f"postgresql+asyncpg://ann:{SECRET}@host/db",
        f"postgresql://ann:{SECRET}@host:port/db",
        f"postgresql:/ann:{SECRET}@host/db",
    ],
)
def test_a_url_of_no_store_is_refused_with_what_to_give_and_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match=r"Use |Change |use ") as error:
        open_store(url)
    assert SECRET not in told(error)


def test_without_the_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingsError, match=r"pip install 'seedbed\[postgres\]'") as error:
        open_store(f"postgresql://ann:{SECRET}@host/db")
    assert SECRET not in told(error)


# SQLite


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
    """Set it on every connection from now on."""
    store._engine.dispose()
    event.listen(store._engine, "connect", lambda connection, _: connection.execute(f"PRAGMA {setting}"))


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


# PostgreSQL


def test_a_server_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Check that the server is up and that the URL is right") as error:
        open_store(f"postgresql://ann:{SECRET}@/db?host={tmp_path}")
    assert SECRET not in told(error)
    assert "postgresql://ann:***@/db" in str(error.value)


def test_a_database_that_is_not_there_is_explained(postgres: Any) -> None:
    with pytest.raises(StoreError, match='database "nowhere" does not exist'):
        open_store(postgres.get_uri(database="nowhere"))


@pytest.fixture
def guarded(postgres: Any, postgres_url: str) -> Iterator[str]:
    """A database in which the user eva must give a password: its URL, less what comes before the @."""
    rules = Path(postgres.pgdata) / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(postgres.get_uri(), autocommit=True) as db:
        db.execute(f"CREATE ROLE eva LOGIN PASSWORD '{SECRET}' SUPERUSER")
        rules.write_text(f"local all eva scram-sha-256\n{before}")
        db.execute("SELECT pg_reload_conf()")
        place = postgres_url.partition("@")[2]
        while True:  # the server reloads when it gets around to it
            try:
                psycopg.connect(f"postgresql://eva@{place}").close()
            except psycopg.OperationalError:
                break
        yield place
        rules.write_text(before)
        db.execute("SELECT pg_reload_conf()")
        db.execute(f"REASSIGN OWNED BY eva TO {db.info.user}")
    name = place.partition("?")[0].strip("/")
    with psycopg.connect(postgres.get_uri(database=name), autocommit=True) as db:
        db.execute(f"REASSIGN OWNED BY eva TO {db.info.user}")
        db.execute("DROP ROLE eva")


def test_the_right_password_opens_and_a_wrong_one_is_explained_and_not_shown(guarded: str) -> None:
    with closing(open_store(f"postgresql://eva:{SECRET}@{guarded}")) as store:
        assert store.append([fact("a")]) == 1
    wrong = "battery-staple"
    for url in (f"postgresql://eva:{wrong}@{guarded}", f"postgresql://eva@{guarded}&password={wrong}"):
        for attempt in (open_store, migrate_to):
            with pytest.raises(StoreError, match=r"password authentication failed.*the URL is right") as error:
                attempt(url)
            assert wrong not in told(error)


# Words


def test_a_damaged_text_has_no_words() -> None:
    assert words_in('{"text": "red fox"}') == "red fox"
    assert words_in('{"text": "red') == ""
