"""Schemas come and go step by step, and nothing is lost on the way, not even by a process that is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count, pairwise
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from watched_database import watched

from seedbed.errors import StoreError, StoreTooNew
from seedbed.storage import open_store
from seedbed.storage.sql import open_database
from seedbed.storage.sql.database import SqlConnection
from seedbed.storage.sql.migrations import MIGRATIONS, NEWEST, migrate, version
from seedbed.storage.sql.store import SqlStore, migrate_to
from seedbed.storage.store import Query
from seedbed.storage.upkeep import verify
from seedbed.testing import BODIES, everything, fact, keys, move

processes = multiprocessing.get_context("forkserver")


@contextmanager
def connected(url: str) -> Iterator[SqlConnection]:
    with closing(open_database(url)) as database, database.connect() as db:
        yield db


def rows(url: str) -> list[list[Any]]:
    """Everything that must never be lost, as the tables hold it."""
    with connected(url) as db:
        columns = "number, kind, key, subject, at, by, value, body, parents, tags"  # what binds them is derived again
        tables = ("* FROM content ORDER BY id", f"{columns} FROM facts ORDER BY number", "* FROM refs ORDER BY name")
        return [list(db.execute(f"SELECT {table}")) for table in tables]


def schema(url: str) -> tuple[int, list[Any]]:
    """The version a database says it has, and all that is defined in it."""
    asked = {
        "sqlite": "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name <> 'sqlite_sequence' ORDER BY 1, 2",
        "postgresql": "SELECT 'index', indexname, tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        " UNION ALL SELECT 'view', viewname, '', definition FROM pg_views WHERE schemaname = 'public'"
        " UNION ALL SELECT 'column', column_name, table_name, data_type || ' ' || is_nullable"
        " FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2, 3, 4",
    }
    with closing(open_database(url)) as database, database.connect() as db:
        return version(database, db), list(db.execute(asked[database.dialect]))


def fill(store: SqlStore) -> None:
    names = [store.put("playbook", body) for body in BODIES.values()]
    store.append(fact(f"{n}", subject=names[n % 8], value=n / 3, tags=(f"t{n % 5}", "all")) for n in range(60))
    store.append([fact(f"{n}", "approval", parents=("x",), body=BODIES["control"]) for n in range(3)])
    move(store, "main", {"stable": names[1]})
    move(store, "gone", None, move(store, "gone", names[2]))


@pytest.fixture
def filled(empty_sql_url: str) -> str:
    """A database with some of everything."""
    with closing(SqlStore(empty_sql_url)) as store:
        fill(store)
    return empty_sql_url


# Up and down


def test_every_step_down_and_up_again_keeps_content_facts_and_refs(filled: str) -> None:
    with closing(SqlStore(filled)) as store:
        before = everything(store)
    kept, new = rows(filled), schema(filled)
    way = [*range(NEWEST, 0, -1), *range(2, NEWEST + 1)]
    assert len(way) == 2 * NEWEST - 1
    for here, there in pairwise(way):
        assert migrate_to(filled, there) == (here, there)
        assert schema(filled)[0] == there
        assert rows(filled) == kept
    assert schema(filled) == new
    with closing(SqlStore(filled)) as store:
        assert everything(store) == before
        assert verify(store).problems == ()
        assert len(list(store.facts(Query(kind="cell", text="ÜBUNG")))) == 8
        assert len(list(store.facts(Query(kind="cell", tag="t3")))) == 12
        assert store.append([fact("later"), fact("0")]) == 1


def test_an_older_database_is_brought_up_to_date_by_opening_it_and_what_it_got_meanwhile_is_found(filled: str) -> None:
    migrate_to(filled, 1)
    with connected(filled) as db:  # an older seedbed knows neither search nor tags as tables
        db.execute("INSERT INTO content (digest, kind, body, at) VALUES ('d', 'note', '{\"a\":\"Later\"}', 0)")
        db.execute(
            "INSERT INTO facts (kind, key, subject, at, by, body, tags)"
            " VALUES ('cell', 'old', 'd', 0, 'ann', '{}', '[\"late\",\"all\"]')"
        )
    with closing(SqlStore(filled)) as store:
        assert keys(store.facts(Query(kind="cell", text="later"))) == ["old"]
        assert keys(store.facts(Query(kind="cell", tag="late"))) == ["old"]
        assert len(list(store.facts(Query(kind="cell", tag="all")))) == 61


def test_an_empty_store_goes_back_to_nothing_and_a_filled_one_refuses_to(empty_sql_url: str) -> None:
    SqlStore(empty_sql_url).close()
    new = schema(empty_sql_url)
    assert migrate_to(empty_sql_url, 0) == (NEWEST, 0)
    assert schema(empty_sql_url) == (0, [])
    with closing(SqlStore(empty_sql_url)) as store:
        assert schema(empty_sql_url) == new
        store.append([fact("only")])
    with pytest.raises(StoreError, match="rows in facts"):
        migrate_to(empty_sql_url, 0)
    with closing(SqlStore(empty_sql_url)) as store:
        assert keys(store.facts(Query(kind="cell"))) == ["only"]


def test_a_dry_run_says_the_way_and_goes_nowhere(filled: str) -> None:
    before = schema(filled)
    assert migrate_to(filled, 1, dry_run=True) == (NEWEST, 1)
    assert schema(filled) == before


@pytest.mark.parametrize("to", [-1, NEWEST + 1])
def test_a_version_that_does_not_exist_is_refused(filled: str, to: int) -> None:
    before = schema(filled)
    with pytest.raises(StoreError, match=f"found schema version {to}; expected one of 0 to {NEWEST}"):
        migrate_to(filled, to)
    assert schema(filled) == before


def test_steps_are_numbered_without_gaps() -> None:
    assert [step.number for step in MIGRATIONS] == list(range(1, NEWEST + 1))


# A newer version


def test_a_database_of_a_newer_version_is_refused_and_left_untouched(filled: str) -> None:
    with connected(filled) as db:
        db.execute("INSERT INTO migrations (number, name, at) VALUES (99, 'm099_tomorrow', 0)")
    before = rows(filled), schema(filled)
    file = Path(filled.removeprefix("sqlite:///"))
    contents = file.read_bytes() if file.exists() else b""
    for attempt in (lambda: open_store(filled), lambda: migrate_to(filled), lambda: migrate_to(filled, 1)):
        with pytest.raises(StoreTooNew, match=rf"version 99; this seedbed knows versions up to {NEWEST}\. Upgrade"):
            attempt()
    assert (rows(filled), schema(filled)) == before
    assert contents == (file.read_bytes() if file.exists() else b"")


# Processes


def migrate_and_die(url: str, goals: list[int], last: int) -> None:
    """Go from version to version, and be killed before the last statement or commit."""
    seen = count(1)

    def step(*_: object) -> None:
        if next(seen) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with closing(open_database(url)) as database, watched(database, step):
        for goal in goals:
            migrate(database, goal)


@pytest.mark.parametrize("lowest", [0, 1])
def test_a_migration_killed_at_any_statement_has_taken_whole_steps_and_is_completed_by_the_next_to_open(
    empty_sql_url: str, lowest: int
) -> None:
    with closing(SqlStore(empty_sql_url)) as store:
        if lowest:  # further down, only an empty store goes
            fill(store)
        before = everything(store)
    known = {NEWEST: schema(empty_sql_url)}
    for goal in range(NEWEST - 1, lowest - 1, -1):
        migrate_to(empty_sql_url, goal)
        known[goal] = schema(empty_sql_url)
    migrate_to(empty_sql_url)
    killed = 0
    for last in count(1, 12):
        writer = processes.Process(target=migrate_and_die, args=(empty_sql_url, [lowest, NEWEST], last))
        writer.start()
        writer.join()
        found = schema(empty_sql_url)
        assert found == known[found[0]]
        with closing(SqlStore(empty_sql_url)) as store:
            assert everything(store) == before
        assert schema(empty_sql_url) == known[NEWEST]
        if writer.exitcode == 0:
            break
        assert writer.exitcode == -signal.SIGKILL
        killed += 1
    assert killed > 5


def open_and_write(url: str, worker: int, ready: Barrier) -> None:
    ready.wait(60)
    with closing(open_store(url)) as store:
        store.append([fact(f"{worker}")])


def test_processes_that_open_a_new_database_at_once_make_one_store(empty_sql_url: str) -> None:
    SqlStore(empty_sql_url).close()
    new = schema(empty_sql_url)
    for _ in range(3):
        clear(empty_sql_url)
        ready = processes.Barrier(8)
        writers = [processes.Process(target=open_and_write, args=(empty_sql_url, n, ready)) for n in range(8)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [writer.exitcode for writer in writers] == [0] * 8
        assert schema(empty_sql_url) == new
        with closing(SqlStore(empty_sql_url)) as store:
            assert sorted(keys(store.facts(Query(kind="cell")))) == [f"{n}" for n in range(8)]


def test_a_new_file_that_somebody_else_is_writing_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE theirs (a)")
    other.execute("BEGIN IMMEDIATE")
    done = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    done.start()
    with closing(SqlStore(f"sqlite:///{file}")) as store:
        store.append([fact("mine")])
        assert keys(store.facts(Query(kind="cell"))) == ["mine"]
    done.join()
    other.close()


def clear(url: str) -> None:
    """The database as if nobody had ever opened it."""
    if url.startswith("sqlite"):
        for file in Path(url.removeprefix("sqlite:///")).parent.glob("x.db*"):
            file.unlink()
    else:
        with connected(url) as db:
            db.execute("DROP SCHEMA public CASCADE")
            db.execute("CREATE SCHEMA public")
