"""Patterns for actions and paths: `*` stands for anything, everything else for itself, letter case included."""

from __future__ import annotations

import re
from functools import lru_cache


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern covers a name. As `*` is the only wildcard, `name` may itself be a pattern."""
    return pattern == name or _compiled(pattern).fullmatch(name) is not None


def locks(lock: str, path: str) -> bool:
    """Whether a lock covers a path: it matches the path, or something the path is inside of."""
    return matches(lock, path) or matches(f"{lock}.*", path)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
