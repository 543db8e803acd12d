"""Where everything is kept: one protocol, four places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seedbed.errors import Problem, SettingsError, shown

if TYPE_CHECKING:
    from seedbed.storage.store import UpkeptStore

__all__ = ["open_store"]


def open_store(url: str) -> UpkeptStore:
    """The store at a URL, created if it is not there yet.

    `memory:` · `files:some/folder` · `sqlite:///some/file.db` · `postgresql://user@host/database`
    """
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        from seedbed.storage.memory import MemoryStore

        return MemoryStore()
    if scheme == "files" and rest:
        from seedbed.storage.files import FilesStore

        return FilesStore(rest)
    if scheme in ("sqlite", "postgresql"):
        from seedbed.storage.sql import SqlStore

        return SqlStore(url)
    from seedbed.storage.store import without_password

    remedy = "Give one of memory:, files:FOLDER, sqlite:///FILE, postgresql://USER@HOST/DATABASE."
    raise SettingsError([Problem("store", shown(without_password(url)), "the URL of a store", remedy)])
