"""The two databases a SQL store can be in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from seedbed.storage.sql.store import SqlStore


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store in which nothing is yet."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/x.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a table."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("empty_postgres_url"))
    return f"sqlite:///{tmp_path}/x.db"


@pytest.fixture
def sql_store(sql_url: str) -> Iterator[SqlStore]:
    with closing(SqlStore(sql_url)) as store:
        yield store
