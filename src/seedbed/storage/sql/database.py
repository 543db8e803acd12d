"""Database: a SQLite file or a PostgreSQL server. They differ in connecting, locking, bulk writes and search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from seedbed.errors import Problem, SettingsError, StoreError, shown
from seedbed.storage.content import words_of
from seedbed.storage.paths import without_password
from seedbed.storage.sql.rows import SqlRow


class SqlCursor(Protocol):
    """What a statement returned. Rows are tuples."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Sequence[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """As a connection of `sqlite3` is: statements that both databases understand name their parameters `:name`."""

    def execute(self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = ..., /) -> SqlCursor: ...

    def executemany(self, sql: str, rows: Sequence[Any], /) -> SqlCursor: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class Database(Protocol):
    """Everything the store and its migrations need from a database beyond plain SQL."""

    name: str
    """Its URL as it may be shown."""
    place: str
    """Where it is, seen from any machine."""
    dialect: str
    """Which SQL of a migration it takes."""
    errors: type[Exception]
    """What its driver raises."""
    begin: str
    """Begins a transaction that writes."""
    migrated: str
    """Counts the tables called `migrations`."""
    parents: str
    """The parents of a fact `f`, as a table `p(value)`."""
    match: str
    """The condition that a row of `search` has all the words in `:words`."""
    texts: str
    """The condition that a column is one of many texts, which are one parameter; format it with its name."""
    numbers: str
    """The same for numbers."""

    def connect(self) -> AbstractContextManager[SqlConnection]:
        """A connection of one's own, in autocommit; what is not committed at the end is undone."""

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""

    def lock_chain(self, db: SqlConnection) -> None:
        """Until the transaction ends, nobody else adds chained facts, moves refs or migrates."""

    def add_contents(self, db: SqlConnection, rows: Sequence[SqlRow]) -> None:
        """Insert `CONTENT` rows that are not there yet, and index their words."""

    def add_facts(self, db: SqlConnection, rows: Sequence[SqlRow]) -> int:
        """Insert `FACT` rows whose keys are not there yet, with their tags, and count them."""

    def discard(self, db: SqlConnection, digests: Sequence[str]) -> int: ...

    def index(self, db: SqlConnection) -> None:
        """Fill the empty search and tags from all content and facts."""

    def analyze(self, db: SqlConnection, loaded: int) -> None:
        """After so many facts were loaded, update the statistics of the query planner if it is worth it."""

    def list_parameter(self, values: Sequence[object]) -> object:
        """The parameter of `texts` or `numbers`."""

    def match_all(self, words: Sequence[str]) -> str:
        """The parameter of `match`."""

    def pin(self, path: str) -> str:
        """SQL with its index hints, `INDEXED BY` and a plus against one, where the database supports them (SQLite)."""
        return path

    def ticket(self, db: SqlConnection) -> str | None:
        """The id of the open transaction, to ask later whether it was committed."""
        return None

    def was_committed(self, db: SqlConnection, ticket: str) -> bool:
        """Whether the transaction with this id was committed; waits until that is decided."""
        return False

    def is_transient(self, error: Any) -> bool:
        """Whether the same work may soon succeed on another connection."""
        return False

    def explain(self, error: Any) -> StoreError:
        """An error of its driver as a user should see it."""


def words_in(text: str) -> str:
    """The words of a JSON text, separated by single spaces; none if it is damaged."""
    try:
        return " ".join(words_of(json.loads(text)))
    except ValueError:
        return ""


def unusable(url: str, expected: str, remedy: str) -> SettingsError:
    return SettingsError([Problem("store", shown(without_password(url)), expected, remedy)])
