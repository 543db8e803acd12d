"""Where everything is kept: one protocol, four places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seedbed.errors import Problem, SettingsError, shown

if TYPE_CHECKING:
    from seedbed.storage.store import UpkeptStore

__all__ = ["open_store"]


def open_store(url: str, *, create: bool = True) -> UpkeptStore:
    """The store at a URL, made if it is not there yet; without `create`, NotFound is raised then.

    `memory:` · `files:some/folder` · `sqlite:///some/file.db` · `postgresql://user@host/database`

    A file or folder we may not write to can be read. An encrypted store is opened as it is: see `expect_plain`.
    """
    if not isinstance(url, str):
        raise _no_url(url)
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        from seedbed.storage.memory import MemoryStore

        return MemoryStore()
    if scheme == "files" and rest:
        from seedbed.storage.files import FilesStore

        return FilesStore(rest, create=create)
    if scheme in ("sqlite", "postgresql"):
        from seedbed.storage.sql.store import SqlStore

        return SqlStore(url, create=create)
    from seedbed.storage.store import without_password

    raise _no_url(without_password(url))


def _no_url(found: object) -> SettingsError:
    remedy = "Give one of memory:, files:FOLDER, sqlite:///FILE, postgresql://USER@HOST/DATABASE."
    return SettingsError([Problem("store", shown(found), "the URL of a store", remedy)])
