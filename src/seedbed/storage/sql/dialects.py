"""Where SQLite and PostgreSQL differ: connecting, locking, bulk writes, search."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from seedbed.errors import Problem, SettingsError, StoreDamaged, StoreError, StoreUnavailable, shown
from seedbed.storage.content import words_of
from seedbed.storage.paths import missing, reader, without_password, writable
from seedbed.storage.sql.rows import CONTENT, FACT, SqlRow

_TAGS = FACT.index("tags")

_UNKNOWN_TRANSACTION = "22023"
"""What PostgreSQL answers when asked about a transaction that it has not begun."""

_PATIENCE = 30
"""How many seconds a writer waits for another one."""
_HINT = re.compile(r" INDEXED BY \w+| NOT INDEXED|\+(?=f\.)")


def words_in(text: str) -> str:
    """The words of a JSON text, separated by single spaces; none if it is damaged."""
    try:
        return " ".join(words_of(json.loads(text)))
    except ValueError:
        return ""


class Dialect(Protocol):
    """Everything the store and its migrations need from a database beyond plain SQL."""

    name: str
    begin: str
    """Begins a transaction that writes."""
    parents: str
    """The parents of a fact `f`, as a table `p(value)`."""
    match: str
    """The condition that a row of `search` has all the words in `:words`."""
    texts: str
    """The condition that a column is one of many texts, which are one parameter; format it with its name."""
    numbers: str
    """The same for numbers."""

    def engine(self, url: URL, *, create: bool = True) -> Engine:
        """Connections to the database. Raises NotFound if there is no file and `create` is false."""

    def lock_chain(self, db: Connection) -> None:
        """Until the transaction ends, nobody else adds chained facts, moves refs or migrates."""

    def add_contents(self, db: Connection, rows: Sequence[SqlRow]) -> None:
        """Insert `CONTENT` rows that are not there yet, and index their words."""

    def add_facts(self, db: Connection, rows: Sequence[SqlRow]) -> int:
        """Insert `FACT` rows whose keys are not there yet, with their tags, and count them."""

    def discard(self, db: Connection, digests: Sequence[str]) -> int: ...

    def index(self, db: Connection) -> None:
        """Fill the empty search and tags from all content and facts."""

    def analyze(self, db: Connection, loaded: int) -> None:
        """After so many facts were loaded, update the statistics of the query planner if it is worth it."""

    def list_parameter(self, values: Sequence[object]) -> object:
        """The parameter of `texts` or `numbers`."""

    def match_all(self, words: Sequence[str]) -> str:
        """The parameter of `match`."""

    def pin(self, path: str) -> str:
        """SQL with its index hints, `INDEXED BY` and a plus against one, where the database supports them (SQLite)."""
        return path

    def ticket(self, db: Connection) -> str | None:
        """The id of the open transaction, to ask later whether it was committed."""
        return None

    def was_committed(self, db: Connection, ticket: str) -> bool:
        """Whether the transaction with this id was committed; waits until that is decided."""
        return False

    def is_transient(self, error: DBAPIError) -> bool:
        """Whether the same work may soon succeed on another connection."""
        return False

    def explain(self, error: DBAPIError, name: str) -> StoreError:
        """The error as a user should see it."""


class Sqlite(Dialect):
    name = "sqlite"
    begin = "BEGIN IMMEDIATE"
    parents = "json_each(f.parents) p"
    match = "search MATCH :words"
    texts = numbers = "IN (SELECT value FROM json_each(:{}))"

    def engine(self, url: URL, *, create: bool = True) -> Engine:
        if not url.database or url.database == ":memory:":
            raise _unusable(url, "a file, as in sqlite:///seedbed.db", "For a store in memory use memory:")
        file = Path(url.database)
        try:
            there = file.is_file()
            if not create and (not file.exists() or (there and not file.stat().st_size)):
                raise missing(url)
            file.parent.mkdir(parents=True, exist_ok=True)
            if create and not there:  # private from the start; SQLite gives its log and index the same rights
                with suppress(OSError):  # which SQLite explains better
                    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise StoreError(f"{url}: {error}; expected a folder that can be made. Check the path") from error
        reading = there and not (writable(file) and writable(file.parent))
        if reading:
            # A connection per call, to see whether somebody has begun to write.
            engine = create_engine(url, isolation_level="AUTOCOMMIT", creator=lambda: reader(file), poolclass=NullPool)
        else:
            engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=8, max_overflow=-1)

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            connection.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1000}")
            if create and not reading:  # the file remembers it
                _use_write_ahead_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute("PRAGMA mmap_size = 2147418112")
            connection.create_function("words_in", 1, words_in, deterministic=True)

        return engine

    def lock_chain(self, db: Connection) -> None:
        """BEGIN IMMEDIATE locked the whole file already."""

    def add_contents(self, db: Connection, rows: Sequence[SqlRow]) -> None:
        last = self._last(db, "content", "id")
        db.exec_driver_sql(_insert("content", CONTENT), list(rows))
        self._index_words(db, last)

    def add_facts(self, db: Connection, rows: Sequence[SqlRow]) -> int:
        tagged = any(row[_TAGS] for row in rows)
        if len(rows) == 1 and not tagged:
            return self._add_fact(db, rows[0])
        last = self._last(db, "facts", "number") if tagged else 0
        added = db.exec_driver_sql(_insert("facts", FACT), list(rows)).rowcount
        if tagged:
            self._index_tags(db, last)
        return added

    def discard(self, db: Connection, digests: Sequence[str]) -> int:
        among, parameters = "digest IN (SELECT value FROM json_each(?))", (json.dumps(digests),)
        # A contentless index deletes a row only by the words it had.
        forget = "INSERT INTO search(search, rowid, words) SELECT 'delete', id, words_in(body) FROM content WHERE "
        db.exec_driver_sql(forget + among, parameters)
        return db.exec_driver_sql(f"DELETE FROM content WHERE {among}", parameters).rowcount

    def index(self, db: Connection) -> None:
        self._index_words(db, 0)
        self._index_tags(db, 0)

    def analyze(self, db: Connection, loaded: int) -> None:
        """Not needed: every query names its index."""

    def list_parameter(self, values: Sequence[object]) -> object:
        return json.dumps(list(values))

    def match_all(self, words: Sequence[str]) -> str:
        return " ".join(f'"{word}"' for word in dict.fromkeys(words))

    def explain(self, error: DBAPIError, name: str) -> StoreError:
        # The lower byte of an extended code is its kind.
        kind = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "Could not decode" in str(error.orig):
            return StoreDamaged(f"{name}: {error.orig}. Restore it from a copy of the store")
        remedies = {
            sqlite3.SQLITE_BUSY: "Another process has been writing for 30 seconds; try again when it is done",
            sqlite3.SQLITE_FULL: "Nothing was written; free some space and try again",
            sqlite3.SQLITE_IOERR: "Nothing was written; check the disk and try again",
            sqlite3.SQLITE_READONLY: "Check the permissions of the file and its folder",
            sqlite3.SQLITE_CANTOPEN: "Check the path and the permissions of the folder",
        }
        if remedy := remedies.get(kind):
            return StoreUnavailable(f"{name}: {error.orig}. {remedy}")
        return StoreError(f"{name}: {error.orig}. Nothing was written")

    @staticmethod
    def _add_fact(db: Connection, row: SqlRow) -> int:
        """Without SQLAlchemy, whose cursor takes as long as the insert: a run adds its facts one by one."""
        sql = _insert("facts", FACT)
        connection: sqlite3.Connection = db.connection.driver_connection  # type: ignore[assignment]
        try:
            return connection.execute(sql, row).rowcount
        except sqlite3.Error as error:
            raise DBAPIError.instance(sql, row, error, sqlite3.Error) from error

    @staticmethod
    def _last(db: Connection, table: str, column: str) -> int:
        return int(db.exec_driver_sql(f"SELECT coalesce(max({column}), 0) FROM {table}").scalar_one())

    @staticmethod
    def _index_words(db: Connection, after: int) -> None:
        fill = "INSERT INTO search(rowid, words) SELECT id, words_in(body) FROM content WHERE id > ? ORDER BY id"
        db.exec_driver_sql(fill, (after,))

    @staticmethod
    def _index_tags(db: Connection, after: int) -> None:
        db.exec_driver_sql(
            "INSERT OR IGNORE INTO fact_tags(tag, kind, number) SELECT t.value, f.kind, f.number"
            " FROM facts f CROSS JOIN json_each(f.tags) t WHERE f.number > ? AND f.tags IS NOT NULL",
            (after,),
        )


class Postgresql(Dialect):
    name = "postgresql"
    begin = "BEGIN"
    parents = "json_array_elements_text(f.parents::json) AS p(value)"
    match = "search.words @@ CAST(:words AS tsquery)"
    texts = "= ANY(CAST(:{} AS text[]))"
    numbers = "= ANY(CAST(:{} AS bigint[]))"
    chain = 7_333_332_633_264
    """The number of the advisory lock: `seedbed` on a telephone keypad."""

    def engine(self, url: URL, *, create: bool = True) -> Engine:
        try:
            engine = create_engine(
                url.set(drivername="postgresql+psycopg"),
                isolation_level="AUTOCOMMIT",
                connect_args={"client_encoding": "utf8"},
                use_native_hstore=False,
                pool_size=10,
                max_overflow=20,
                pool_timeout=60,
            )
        except ModuleNotFoundError:
            remedy = "Run pip install 'seedbed[postgres]'"
            raise _unusable(url, "the PostgreSQL driver psycopg to be installed", remedy) from None

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            # A plan for the actual words and dates beats a generic one, and random reads are fast on today's disks.
            connection.execute("SET plan_cache_mode = force_custom_plan; SET jit = off; SET random_page_cost = 1.1")

        return engine

    def lock_chain(self, db: Connection) -> None:
        db.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (self.chain,))

    def add_contents(self, db: Connection, rows: Sequence[SqlRow]) -> None:
        texts = [(*row, words_in(row[2])) for row in rows]
        db.exec_driver_sql(
            f"WITH input AS MATERIALIZED ({_unnest((*CONTENT, 'words'))}),"
            " added AS (INSERT INTO content (digest, kind, body, at)"
            "  SELECT digest, kind, body, at FROM input ORDER BY position ON CONFLICT DO NOTHING RETURNING id, digest)"
            " INSERT INTO search (rowid, words) SELECT id, array_to_tsvector(string_to_array(input.words, ' '))"
            " FROM added JOIN input USING (digest) ON CONFLICT DO NOTHING",
            _columns(texts),
        )

    def add_facts(self, db: Connection, rows: Sequence[SqlRow]) -> int:
        names = ", ".join(FACT)
        added = db.exec_driver_sql(
            f"WITH input AS ({_unnest(FACT)}),"
            f" added AS (INSERT INTO facts ({names}) SELECT {names} FROM input ORDER BY position"
            "  ON CONFLICT DO NOTHING RETURNING number, kind, tags),"
            " tagged AS (INSERT INTO fact_tags (tag, kind, number)"
            "  SELECT tag, kind, number FROM added, json_array_elements_text(tags::json) AS tag ON CONFLICT DO NOTHING)"
            " SELECT count(*) FROM added",
            _columns(rows),
        )
        return int(added.scalar_one())

    def discard(self, db: Connection, digests: Sequence[str]) -> int:
        forget = "WITH gone AS (DELETE FROM content WHERE digest = ANY(%s) RETURNING id) DELETE FROM search USING gone"
        return db.exec_driver_sql(f"{forget} WHERE search.rowid = gone.id", (list(digests),)).rowcount

    def index(self, db: Connection) -> None:
        last = 0
        page = "SELECT id, body FROM content WHERE id > %s ORDER BY id LIMIT 1000"
        while rows := db.exec_driver_sql(page, (last,)).all():
            db.exec_driver_sql(
                "INSERT INTO search (rowid, words) SELECT id, array_to_tsvector(string_to_array(words, ' '))"
                f" FROM ({_unnest(('id', 'words'))}) AS input",
                _columns([(row.id, words_in(row.body)) for row in rows]),
            )
            last = rows[-1].id
        db.exec_driver_sql(
            "INSERT INTO fact_tags (tag, kind, number) SELECT tag, kind, number"
            " FROM facts, json_array_elements_text(tags::json) AS tag ON CONFLICT DO NOTHING"
        )

    def analyze(self, db: Connection, loaded: int) -> None:
        known = db.exec_driver_sql("SELECT reltuples FROM pg_class WHERE oid = 'facts'::regclass").scalar_one()
        if loaded > max(known, 0) / 10:
            db.exec_driver_sql("ANALYZE content, facts, fact_tags, search")

    def list_parameter(self, values: Sequence[object]) -> object:
        return list(values)

    def match_all(self, words: Sequence[str]) -> str:
        return " & ".join(f"'{word}'" for word in dict.fromkeys(words))

    def pin(self, path: str) -> str:
        return _HINT.sub("", path)

    def ticket(self, db: Connection) -> str | None:
        return str(db.exec_driver_sql("SELECT pg_current_xact_id()").scalar_one())

    def was_committed(self, db: Connection, ticket: str) -> bool:
        ask = "SELECT pg_xact_status(%s::xid8)"
        try:
            while (status := db.exec_driver_sql(ask, (ticket,)).scalar_one()) == "in progress":
                time.sleep(0.05)
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _UNKNOWN_TRANSACTION:
                raise
            db.rollback()  # the server crashed before anything of it reached its log
            return False
        return bool(status == "committed")

    def is_transient(self, error: DBAPIError) -> bool:
        """Lost connections, a server that starts or stops, and transactions that the server rolled back for another."""
        state = getattr(error.orig, "sqlstate", None)
        return error.connection_invalidated or _unreachable(error) or state in {"40001", "40P01", "57P01", "57P02"}

    def explain(self, error: DBAPIError, name: str) -> StoreError:
        what = f"{name}: {' '.join(str(error.orig).split())}"
        if self.is_transient(error):
            return StoreUnavailable(f"{what}. Check that the server is up and that the URL is right")
        return StoreError(f"{what}. Nothing was written")


def _unreachable(error: DBAPIError) -> bool:
    """Whether no connection could be made, or the server is not ready for one."""
    return error.statement is None and getattr(error.orig, "sqlstate", None) in {None, "57P03", "53300"}


def dialect(url: str) -> tuple[Dialect, URL]:
    """The dialect for the URL of a store. Raises SettingsError if there is none."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # the latter is about a port
        remedy = "Use sqlite:///FILE or postgresql://USER@HOST/DATABASE."
        problem = Problem("store", shown(without_password(url)), "the URL of a database", remedy)
        raise SettingsError([problem]) from None
    if parsed.drivername == "sqlite":
        return Sqlite(), parsed
    if parsed.drivername == "postgresql":
        return Postgresql(), parsed
    raise _unusable(parsed, "sqlite:///FILE or postgresql://USER@HOST/DATABASE", "Change the store in seedbed.yaml")


def _unusable(url: URL, expected: str, remedy: str) -> SettingsError:
    return SettingsError([Problem("store", without_password(str(url)), expected, remedy)])


def _use_write_ahead_log(connection: Any) -> None:
    """Switch the file to a write-ahead log, and wait for the lock that this needs, which SQLite does not do itself."""
    for attempt in count():
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or attempt > 200 * _PATIENCE:
                raise
            time.sleep(0.005)


def _insert(table: str, columns: Sequence[str]) -> str:
    """The statement that adds a row to a table of SQLite, if it is not there yet."""
    return f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


_TYPES = {"at": "bigint", "id": "bigint", "value": "float8"}


def _unnest(names: Sequence[str]) -> str:
    """Rows passed to PostgreSQL as one array per column: as fast as COPY, without a table to copy into."""
    arrays = ", ".join(f"%b::{_TYPES.get(name, 'text')}[]" for name in names)
    return f"SELECT * FROM unnest({arrays}) WITH ORDINALITY AS input({', '.join(names)}, position)"


def _columns(rows: Sequence[SqlRow]) -> tuple[list[Any], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))
