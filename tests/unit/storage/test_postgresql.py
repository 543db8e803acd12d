"""What goes wrong on the way to a PostgreSQL server is explained: what was found, what to do, and never a password."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seedbed.errors import SeedbedError, StoreError
from seedbed.storage import open_store
from seedbed.storage.sql.store import migrate_to
from seedbed.testing import fact

SECRET = "correct-horse"


def told(error: pytest.ExceptionInfo[SeedbedError]) -> str:
    """All that a user or a log gets to see."""
    return "".join(traceback.format_exception(error.value)) + repr(error.value)


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
