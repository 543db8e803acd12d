"""Where a store lies on disk: whether it is there, may be written, and how a change of it lasts."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seedbed.errors import NotFound


def missing(place: object) -> NotFound:
    """What to say where a store was to be read and there is none."""
    return NotFound(
        f"{place}: found no store; expected one to read. Check where it is, or make one: whatever writes does, "
        "such as seedbed playbook keep"
    )


def writable(path: Path) -> bool:
    """Whether we may write to a file or folder that is there."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@contextmanager
def shared(lock: Path) -> Iterator[None]:
    """Keep off those who lock this file to write, without the right to write to it; without one, nobody has yet."""
    try:
        file = lock.open("rb")
    except FileNotFoundError:
        yield
        return
    with file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_SH)
        yield


def make(folder: Path) -> None:
    if not folder.exists():
        make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(folder: Path) -> None:
    """Make a change of names in a folder last; only POSIX systems can and need to."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def reader(file: Path) -> sqlite3.Connection:
    """A connection to a file that we may not write to.

    Reading takes a log of writes, which we may not make here either: without one nobody is writing, and none is needed.
    """
    unlogged = not file.with_name(f"{file.name}-wal").exists() and not writable(file.parent)
    options = "immutable=1" if unlogged else "mode=ro"
    return sqlite3.connect(f"{file.absolute().as_uri()}?{options}", uri=True, check_same_thread=False)
