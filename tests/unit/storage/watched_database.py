"""A database whose statements are seen before it gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from seedbed.storage.sql.database import Database, SqlConnection, SqlCursor


class WatchedConnection:
    """Reports each statement and commit before it is sent."""

    def __init__(self, connection: SqlConnection, report: Callable[[str, Any], object]) -> None:
        self._connection = connection
        self._report = report

    def execute(self, sql: str, parameters: Any = (), /) -> SqlCursor:
        self._report(sql, parameters)
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Any, /) -> SqlCursor:
        self._report(sql, rows)
        return self._connection.executemany(sql, rows)

    def commit(self) -> None:
        self._report("COMMIT", ())
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()


@contextmanager
def watched(database: Database, report: Callable[[str, Any], object]) -> Iterator[None]:
    connect = database.connect

    @contextmanager
    def watching() -> Iterator[WatchedConnection]:
        with connect() as connection:
            yield WatchedConnection(connection, report)

    database.connect = watching  # type: ignore[method-assign]
    try:
        yield
    finally:
        database.connect = connect  # type: ignore[method-assign]
