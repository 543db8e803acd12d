"""Stores: one protocol, and the implementations that `open_store` picks by the scheme of a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seedbed import plugins
from seedbed.errors import Problem, SeedbedError, SettingsError, shown
from seedbed.storage.paths import without_password
from seedbed.storage.store import Store, Upkeep

if TYPE_CHECKING:
    from seedbed.storage.store import UpkeptStore

__all__ = ["GROUP", "open_store"]

GROUP = "seedbed.stores"
"""The entry points by which a package offers stores: the scheme of their URLs, and a function that opens such a URL."""

_MEMORY = "seedbed.storage.memory:MemoryStore"
_FILES = "seedbed.storage.files:FilesStore"
_SQL = "seedbed.storage.sql.store:SqlStore"


def open_store(url: str, *, create: bool = True) -> UpkeptStore:
    """The store at a URL, created if there is none; without `create`, NotFound is raised instead.

    `memory:` · `files:some/folder` · `sqlite:///some/file.db` · `postgresql://user@host/database` · SCHEME:… for a
    store that an installed package offers, which decides itself whether to create one.

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
    elif scheme in (offers := plugins.offered(GROUP)):
        store = _open_offered(offers[scheme], url)
    else:
        shown_url = shown(without_password(url) if isinstance(url, str) else url)
        others = "".join(f", {each}:…" for each in offers)
        remedy = f"Use one of memory:, files:FOLDER, sqlite:///FILE, postgresql://USER@HOST/DATABASE{others}."
        raise SettingsError([Problem("store", shown_url, "the URL of a store", remedy)])
    return store


def _open_offered(path: str, url: str) -> UpkeptStore:
    """A store of another package. Raises SettingsError for what is not one, or cannot be opened."""
    try:
        store = plugins.load(path, "store")(url)
    except SeedbedError:
        raise
    except Exception as wrong:  # the package is not ours: opening its store may raise anything
        failure = f"{path} cannot open it ({type(wrong).__name__}: {wrong})"
        raise SettingsError([Problem("store", failure, "a store", "Ask who offers it.")]) from wrong
    if not (isinstance(store, Store) and isinstance(store, Upkeep)):
        remedy = "Test it with seedbed.testing.StoreContract."
        raise SettingsError([Problem("store", f"{path}, {shown(store)}", "the methods of Store and Upkeep", remedy)])
    return store
