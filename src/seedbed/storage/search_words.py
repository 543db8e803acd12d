"""Which words content is found by: every store cuts and folds texts alike, so that all find the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from seedbed.storage.store import sealed

SEARCHED_CHARACTERS = 100_000
"""How much of a content's text can be searched."""

# Longer words are cut up: PostgreSQL takes none of more than 2,046 bytes.
_WORD = re.compile(r"[^\W_]{1,200}")


def words(text: str) -> list[str]:
    """The words of a text in their order, in lower case."""
    return _WORD.findall(text[:SEARCHED_CHARACTERS].casefold())


def words_of(body: object) -> list[str]:
    """The words in all texts of a body, keys aside; none of a sealed one."""
    return [] if sealed(body) else words("\n".join(filter(None, _texts(body))))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
