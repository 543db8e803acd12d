"""A SQLite file by way of Python's own driver."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from seedbed.errors import StoreDamaged, StoreError, StoreUnavailable
from seedbed.storage.paths import missing, writable
from seedbed.storage.sql.database import Database, SqlConnection, unusable, words_in
from seedbed.storage.sql.rows import CONTENT, FACT, SqlRow

_TAGS = FACT.index("tags")

_PATIENCE = 30
"""How many seconds a writer waits for another one."""

_IDLE = 8
"""So many connections stay open while nothing uses them."""


class SqliteDatabase(Database):
    """The file at `sqlite:///FILE`, created if there is none; without `create`, NotFound is raised instead."""

    dialect = "sqlite"
    errors = sqlite3.Error
    begin = "BEGIN IMMEDIATE"
    migrated = "SELECT count(*) FROM sqlite_master WHERE name = 'migrations'"
    parents = "json_each(f.parents) p"
    match = "search MATCH :words"
    texts = numbers = "IN (SELECT value FROM json_each(:{}))"

    def __init__(self, url: str, *, create: bool = True) -> None:
        path = url.removeprefix("sqlite:///")
        if path in (url, "", ":memory:"):
            raise unusable(url, "a file, as in sqlite:///seedbed.db", "For a store in memory use memory:")
        self.name = url
        self._file = file = Path(path).absolute()
        self.place = f"{os.path.realpath(file)} {platform.node()}"
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
        self._reading = there and not (writable(file) and writable(file.parent))
        self._logged = not create or self._reading  # the file remembers how it is written
        self._idle: list[sqlite3.Connection] = []

    @contextmanager
    def connect(self) -> Iterator[SqlConnection]:
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._open()
        try:
            yield connection
        finally:
            with suppress(sqlite3.Error):  # closing undoes it, too
                connection.rollback()
            # A reader opens a new one each time, to see whether somebody has begun to write.
            reuse = idle is self._idle and len(idle) < _IDLE and not (self._reading or connection.in_transaction)
            idle.append(connection) if reuse else connection.close()

    def close(self) -> None:
        idle, self._idle = self._idle, []
        with suppress(IndexError):  # another thread may take one at the same moment
            while True:
                idle.pop().close()

    def _open(self) -> sqlite3.Connection:
        url, options = self._file.as_uri(), ""
        if self._reading:
            # Readers create the write-ahead log if it is missing, which we may not do in a read-only folder. But
            # without a log nobody is writing, so the file can be opened as immutable.
            log = self._file.with_name(f"{self._file.name}-wal")
            options = "?mode=ro" if log.exists() or writable(self._file.parent) else "?immutable=1"
        connection = sqlite3.connect(
            url + options, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            if not self._logged:
                _use_write_ahead_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute("PRAGMA mmap_size = 2147418112")
            connection.create_function("words_in", 1, words_in, deterministic=True)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def lock_chain(self, db: SqlConnection) -> None:
        """BEGIN IMMEDIATE locked the whole file already."""

    def add_contents(self, db: SqlConnection, rows: Sequence[SqlRow]) -> None:
        last = self._last(db, "content", "id")
        db.executemany(_insert("content", CONTENT), rows)
        self._index_words(db, last)

    def add_facts(self, db: SqlConnection, rows: Sequence[SqlRow]) -> int:
        tagged = any(row[_TAGS] for row in rows)
        last = self._last(db, "facts", "number") if tagged else 0
        added = db.executemany(_insert("facts", FACT), rows).rowcount
        if tagged:
            self._index_tags(db, last)
        return added

    def discard(self, db: SqlConnection, digests: Sequence[str]) -> int:
        among, parameters = "digest IN (SELECT value FROM json_each(?))", (json.dumps(digests),)
        # A contentless index deletes a row only by the words it had.
        forget = "INSERT INTO search(search, rowid, words) SELECT 'delete', id, words_in(body) FROM content WHERE "
        db.execute(forget + among, parameters)
        return db.execute(f"DELETE FROM content WHERE {among}", parameters).rowcount

    def index(self, db: SqlConnection) -> None:
        self._index_words(db, 0)
        self._index_tags(db, 0)

    def analyze(self, db: SqlConnection, loaded: int) -> None:
        """Not needed: every query names its index."""

    def list_parameter(self, values: Sequence[object]) -> object:
        return json.dumps(list(values))

    def match_all(self, words: Sequence[str]) -> str:
        return " ".join(f'"{word}"' for word in dict.fromkeys(words))

    def explain(self, error: sqlite3.Error) -> StoreError:
        # The lower byte of an extended code is its kind.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "Could not decode" in str(error):
            return StoreDamaged(f"{self.name}: {error}. Restore it from a copy of the store")
        remedies = {
            sqlite3.SQLITE_BUSY: f"Another process has been writing for {_PATIENCE} seconds; try again when it is done",
            sqlite3.SQLITE_FULL: "Nothing was written; free some space and try again",
            sqlite3.SQLITE_IOERR: "Nothing was written; check the disk and try again",
            sqlite3.SQLITE_READONLY: "Check the permissions of the file and its folder",
            sqlite3.SQLITE_CANTOPEN: "Check the path and the permissions of the folder",
        }
        if remedy := remedies.get(kind):
            return StoreUnavailable(f"{self.name}: {error}. {remedy}")
        return StoreError(f"{self.name}: {error}. Nothing was written")

    @staticmethod
    def _last(db: SqlConnection, table: str, column: str) -> int:
        return int(db.execute(f"SELECT coalesce(max({column}), 0) FROM {table}").fetchone()[0])

    @staticmethod
    def _index_words(db: SqlConnection, after: int) -> None:
        fill = "INSERT INTO search(rowid, words) SELECT id, words_in(body) FROM content WHERE id > ? ORDER BY id"
        db.execute(fill, (after,))

    @staticmethod
    def _index_tags(db: SqlConnection, after: int) -> None:
        db.execute(
            "INSERT OR IGNORE INTO fact_tags(tag, kind, number) SELECT t.value, f.kind, f.number"
            " FROM facts f CROSS JOIN json_each(f.tags) t WHERE f.number > ? AND f.tags IS NOT NULL",
            (after,),
        )


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
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
    """The statement that adds a row if it is not there yet."""
    return f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
