"""Files: written for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file that only its owner can read: what runs said may be anybody's business. Others keep their rights."""
    data = content.encode() if isinstance(content, str) else content
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
