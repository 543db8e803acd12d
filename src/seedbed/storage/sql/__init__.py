"""Stores in SQL databases. Only PostgreSQL needs packages that do not come with Python."""

from __future__ import annotations

from seedbed import plugins
from seedbed.storage.sql.database import Database, unusable
from seedbed.storage.sql.sqlite import SqliteDatabase

_POSTGRESQL = ("psycopg", "seedbed.storage.sql.postgresql")


def open_database(url: str, *, create: bool = True) -> Database:
    """The database at a URL. Raises SettingsError if it names none, and NotFound if a file may not be created.

    Connections are made as they are needed.
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        return SqliteDatabase(url, create=create)
    if scheme != "postgresql":
        expected = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        raise unusable(url, expected, "Change the store in seedbed.yaml")
    _, loaded = (plugins.optional(module, extra="postgres", needed_for="store") for module in _POSTGRESQL)
    database: Database = loaded.PostgresDatabase(url)
    return database
