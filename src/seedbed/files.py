"""Files: written for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path


def private(path: str, flags: int) -> int:
    """An `opener` of files that only their owner can read, for `open`."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file that only its owner can read: what runs said may be anybody's business. Others keep their rights."""
    data = content.encode() if isinstance(content, str) else content
    with open(path, "wb", opener=private) as file:
        file.write(data)
