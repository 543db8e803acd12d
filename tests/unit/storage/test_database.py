"""A URL that names no database is refused with what to do, and never with its password; what is in one has words."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from seedbed.errors import SettingsError
from seedbed.storage import open_store
from seedbed.storage.sql.database import words_in

SECRET = "correct-horse"


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "",
        "files:",
        "sqlite:",
        "sqlite://",
        "sqlite:///:memory:",
        f"postgres://ann:{SECRET}@host/db",
        f"mysql://ann:{SECRET}@host/db",
        f"postgresql+asyncpg://ann:{SECRET}@host/db",
        f"postgresql://ann:{SECRET}@host:port/db",
        f"postgresql:/ann:{SECRET}@host/db",
    ],
)
def test_a_url_of_no_store_is_refused_with_what_to_give_and_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match=r"Use |Change |use ") as error:
        open_store(url)
    assert SECRET not in "".join(traceback.format_exception(error.value)) + repr(error.value)


def test_without_the_driver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingsError, match=r"pip install 'seedbed\[postgres\]'") as error:
        open_store(f"postgresql://ann:{SECRET}@host/db")
    assert SECRET not in "".join(traceback.format_exception(error.value)) + repr(error.value)


def test_a_damaged_text_has_no_words() -> None:
    assert words_in('{"text": "red fox"}') == "red fox"
    assert words_in('{"text": "red') == ""


@pytest.mark.parametrize("missing", ["psycopg", "sqlalchemy"])
def test_a_sqlite_store_needs_no_package_of_its_own(missing: str, tmp_path: Path) -> None:
    script = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from seedbed.errors import SettingsError\n"
        "from seedbed.storage import open_store\n"
        "open_store(sys.argv[1]).close()\n"
        "try: open_store('postgresql://host/db')\n"
        "except SettingsError as error: print(error)"
    )
    command = [sys.executable, "-c", script, f"sqlite:///{tmp_path}/x.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"no package {missing}" in done.stdout
    assert "pip install 'seedbed[postgres]'" in done.stdout
