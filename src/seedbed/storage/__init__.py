"""Stores: one protocol, and four implementations that `open_store` picks by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seedbed import plugins
from seedbed.errors import Problem, SettingsError, shown
from seedbed.storage.paths import without_password

if TYPE_CHECKING:
    from seedbed.storage.store import UpkeptStore

__all__ = ["open_store"]

_MEMORY = "seedbed.storage.memory:MemoryStore"
_FILES = "seedbed.storage.files:FilesStore"
_SQL = "seedbed.storage.sql.store:SqlStore"


def open_store(url: str, *, create: bool = True) -> UpkeptStore:
    """The store at a URL, created if there is none; without `create`, NotFound is raised instead.

    `memory:` · `files:some/folder` · `sqlite:///some/file.db` · `postgresql://user@host/database`

    A file or folder that we may not write to is opened for reading. An encrypted store is opened as it is: see
    `expect_plain`.
    """
    scheme, _, rest = url.partition(":") if isinstance(url, str) else ("", "", "")
    # By path, so that only the one in use is loaded.
    store: UpkeptStore
    if scheme == "memory":
        store = plugins.load(_MEMORY, "store")()
    elif scheme == "files" and rest:
        store = plugins.load(_FILES, "store")(rest, create=create)
    elif scheme in ("sqlite", "postgresql"):
        store = plugins.load(_SQL, "store")(url, create=create)
    else:
        shown_url = shown(without_password(url) if isinstance(url, str) else url)
        remedy = "Use one of memory:, files:FOLDER, sqlite:///FILE, postgresql://USER@HOST/DATABASE."
        raise SettingsError([Problem("store", shown_url, "the URL of a store", remedy)])
    return store
