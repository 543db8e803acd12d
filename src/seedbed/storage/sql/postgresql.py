"""A PostgreSQL server by way of SQLAlchemy, whose pool knows lost connections."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, CursorResult, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from seedbed.errors import StoreError, StoreUnavailable
from seedbed.storage.paths import without_password
from seedbed.storage.sql.database import Database, SqlConnection, unusable, words_in
from seedbed.storage.sql.rows import CONTENT, FACT, SqlRow

_UNKNOWN_TRANSACTION = "22023"
"""What PostgreSQL answers when asked about a transaction that it has not begun."""

_HINT = re.compile(r" INDEXED BY \w+| NOT INDEXED|\+(?=f\.)")

# To find the parameters in a statement takes a fifth of the time of a small query, and there are few statements.
_statement = lru_cache(maxsize=512)(text)


class PostgresConnection:
    """Sends statements with `:name` parameters through SQLAlchemy, and others as they are, for the driver."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.commit = connection.commit
        self.rollback = connection.rollback

    def execute(self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = (), /) -> CursorResult[Any]:
        if isinstance(parameters, Mapping):
            return self._connection.execute(_statement(sql), parameters)
        return self._connection.exec_driver_sql(sql, tuple(parameters) or None)

    def executemany(self, sql: str, rows: Sequence[Any], /) -> CursorResult[Any]:
        return self._connection.execute(_statement(sql), rows)


class PostgresDatabase(Database):
    """The database at `postgresql://USER@HOST/DATABASE`."""

    dialect = "postgresql"
    errors = DBAPIError
    begin = "BEGIN"
    # Of the catalogue itself: what PostgreSQL remembers of it may be older than the lock for which we waited.
    migrated = "SELECT count(*) FROM pg_class WHERE relname = 'migrations' AND pg_table_is_visible(oid)"
    parents = "json_array_elements_text(f.parents::json) AS p(value)"
    match = "search.words @@ CAST(:words AS tsquery)"
    texts = "= ANY(CAST(:{} AS text[]))"
    numbers = "= ANY(CAST(:{} AS bigint[]))"
    chain = 7_333_332_633_264
    """The number of the advisory lock: `seedbed` on a telephone keypad."""

    def __init__(self, url: str) -> None:
        self.name = without_password(url)
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):  # the latter is about a port
            expected, remedy = "the URL of a database", "Use sqlite:///FILE or postgresql://USER@HOST/DATABASE."
            raise unusable(url, expected, remedy) from None
        here = platform.node() if parsed.host in (None, "", "localhost", "127.0.0.1", "::1") else ""
        self.place = f"{self.name} {here}"
        self._engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            isolation_level="AUTOCOMMIT",
            connect_args={"client_encoding": "utf8"},
            use_native_hstore=False,
            pool_size=10,
            max_overflow=20,
            pool_timeout=60,
        )

        @event.listens_for(self._engine, "connect")
        def prepare(connection: Any, _: object) -> None:
            # A plan for the actual words and dates beats a generic one, and random reads are fast on today's disks.
            connection.execute("SET plan_cache_mode = force_custom_plan; SET jit = off; SET random_page_cost = 1.1")

    @contextmanager
    def connect(self) -> Iterator[SqlConnection]:
        with self._engine.connect() as connection:
            yield PostgresConnection(connection)

    def close(self) -> None:
        self._engine.dispose()

    def lock_chain(self, db: SqlConnection) -> None:
        db.execute("SELECT pg_advisory_xact_lock(%s)", (self.chain,))

    def add_contents(self, db: SqlConnection, rows: Sequence[SqlRow]) -> None:
        texts = [(*row, words_in(row[2])) for row in rows]
        db.execute(
            f"WITH input AS MATERIALIZED ({_unnest((*CONTENT, 'words'))}),"
            " added AS (INSERT INTO content (digest, kind, body, at)"
            "  SELECT digest, kind, body, at FROM input ORDER BY position ON CONFLICT DO NOTHING RETURNING id, digest)"
            " INSERT INTO search (rowid, words) SELECT id, array_to_tsvector(string_to_array(input.words, ' '))"
            " FROM added JOIN input USING (digest) ON CONFLICT DO NOTHING",
            _columns(texts),
        )

    def add_facts(self, db: SqlConnection, rows: Sequence[SqlRow]) -> int:
        names = ", ".join(FACT)
        added = db.execute(
            f"WITH input AS ({_unnest(FACT)}),"
            f" added AS (INSERT INTO facts ({names}) SELECT {names} FROM input ORDER BY position"
            "  ON CONFLICT DO NOTHING RETURNING number, kind, tags),"
            " tagged AS (INSERT INTO fact_tags (tag, kind, number)"
            "  SELECT tag, kind, number FROM added, json_array_elements_text(tags::json) AS tag ON CONFLICT DO NOTHING)"
            " SELECT count(*) FROM added",
            _columns(rows),
        )
        return int(added.fetchone()[0])

    def discard(self, db: SqlConnection, digests: Sequence[str]) -> int:
        forget = "WITH gone AS (DELETE FROM content WHERE digest = ANY(%s) RETURNING id) DELETE FROM search USING gone"
        return db.execute(f"{forget} WHERE search.rowid = gone.id", (list(digests),)).rowcount

    def index(self, db: SqlConnection) -> None:
        last = 0
        page = "SELECT id, body FROM content WHERE id > %s ORDER BY id LIMIT 1000"
        while rows := db.execute(page, (last,)).fetchall():
            db.execute(
                "INSERT INTO search (rowid, words) SELECT id, array_to_tsvector(string_to_array(words, ' '))"
                f" FROM ({_unnest(('id', 'words'))}) AS input",
                _columns([(number, words_in(body)) for number, body in rows]),
            )
            last = rows[-1][0]
        db.execute(
            "INSERT INTO fact_tags (tag, kind, number) SELECT tag, kind, number"
            " FROM facts, json_array_elements_text(tags::json) AS tag ON CONFLICT DO NOTHING"
        )

    def analyze(self, db: SqlConnection, loaded: int) -> None:
        known = db.execute("SELECT reltuples FROM pg_class WHERE oid = 'facts'::regclass").fetchone()[0]
        if loaded > max(known, 0) / 10:
            db.execute("ANALYZE content, facts, fact_tags, search")

    def list_parameter(self, values: Sequence[object]) -> object:
        return list(values)

    def match_all(self, words: Sequence[str]) -> str:
        return " & ".join(f"'{word}'" for word in dict.fromkeys(words))

    def pin(self, path: str) -> str:
        return _HINT.sub("", path)

    def ticket(self, db: SqlConnection) -> str | None:
        return str(db.execute("SELECT pg_current_xact_id()").fetchone()[0])

    def was_committed(self, db: SqlConnection, ticket: str) -> bool:
        ask = "SELECT pg_xact_status(%s::xid8)"
        try:
            while (status := db.execute(ask, (ticket,)).fetchone()[0]) == "in progress":
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

    def explain(self, error: DBAPIError) -> StoreError:
        what = f"{self.name}: {' '.join(str(error.orig).split())}"
        if self.is_transient(error):
            return StoreUnavailable(f"{what}. Check that the server is up and that the URL is right")
        return StoreError(f"{what}. Nothing was written")


def _unreachable(error: DBAPIError) -> bool:
    """Whether no connection could be made, or the server is not ready for one."""
    return error.statement is None and getattr(error.orig, "sqlstate", None) in {None, "57P03", "53300"}


_TYPES = {"at": "bigint", "id": "bigint", "value": "float8"}


def _unnest(names: Sequence[str]) -> str:
    """Rows passed to PostgreSQL as one array per column: as fast as COPY, without a table to copy into."""
    arrays = ", ".join(f"%b::{_TYPES.get(name, 'text')}[]" for name in names)
    return f"SELECT * FROM unnest({arrays}) WITH ORDINALITY AS input({', '.join(names)}, position)"


def _columns(rows: Sequence[SqlRow]) -> tuple[list[Any], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))
