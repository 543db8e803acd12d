"""Where a store is: its URL as it may be shown, its files and folders, and how changes to them become durable."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seedbed.errors import NotFound, StoreDamaged, shown

if sys.platform != "win32":
    import fcntl


def without_password(url: str) -> str:
    """The URL of a store as it may be shown."""
    hidden = re.sub(r"(:/{1,2}(?!/)[^:/@]*:).*@", r"\1***@", url)
    return re.sub(r"(password=)[^&#]*", r"\1***", hidden)


def missing(place: object) -> NotFound:
    """The error where a store is to be read and there is none."""
    return NotFound(
        f"{place}: found no store; expected one to read. Check the path, or create one with a command that writes, "
        "such as seedbed playbook keep"
    )


def writable(path: Path) -> bool:
    """Whether we may write to an existing file or folder."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@contextmanager
def shared(lock: Path) -> Iterator[None]:
    """A shared lock against writers, for a reader that may not write to the lock file. No file, no writer."""
    try:
        file = lock.open("rb")
    except FileNotFoundError:
        yield
        return
    with file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


def make(folder: Path) -> None:
    """Create a folder and its parents durably."""
    if not folder.exists():
        make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(folder: Path) -> None:
    """Make renamed, added and deleted names in a folder durable. Only POSIX systems can and need to."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def to_readable_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreDamaged(
            f"{path}: found {error}; expected JSON. Restore the file from a copy of the store"
        ) from error
    if not isinstance(value, dict):
        raise StoreDamaged(f"{path}: found {shown(value)}; expected a JSON object. Restore the file")
    return value
