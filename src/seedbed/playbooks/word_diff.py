"""Word diff: how two texts differ, word by word."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

MAX_COMPARED = 100_000
"""The most pairs of words to compare.

Longer texts are split at the words that each has once; a part that is still longer counts as replaced. Without this
limit two texts of 25 kB would take half a minute.
"""

WordPair = tuple[int, int]


def changed_parts(one: str, other: str) -> Iterator[tuple[str, str]]:
    """Both texts as pairs of parts, in order: equal where nothing changed, else the old and the new part."""
    ours, theirs = (re.split(r"(\s+)", text) for text in (one, other))  # words at 0, 2, 4, …, white space between
    compared = (0, 0)
    for here, there in (*_same(ours[::2], theirs[::2]), (len(ours), len(theirs))):
        mine, yours = ours[compared[0] : 2 * here], theirs[compared[1] : 2 * there]
        yield from _trim(mine, yours)
        if here < len(ours):
            yield ours[2 * here], ours[2 * here]
        compared = 2 * here + 1, 2 * there + 1


def shared_words(one: str, other: str) -> tuple[int, int]:
    """How many words both texts have in common, in the same order, and how many both have together."""
    ours, theirs = one.split(), other.split()
    return sum(1 for _ in _same(ours, theirs)), len(ours) + len(theirs)


def _trim(mine: list[str], yours: list[str]) -> Iterator[tuple[str, str]]:
    """The parts between two equal words, with the white space around them apart if it is equal too."""
    start = 1 if mine and yours and mine[0] == yours[0] else 0
    end = 1 if min(len(mine), len(yours)) > start and mine[-1] == yours[-1] else 0
    parts = [
        (mine[:start], yours[:start]),
        (mine[start : len(mine) - end], yours[start : len(yours) - end]),
        (mine[len(mine) - end :], yours[len(yours) - end :]),
    ]
    yield from (("".join(old), "".join(new)) for old, new in parts)


def _same(ours: list[str], theirs: list[str], *, split: bool = True) -> Iterator[WordPair]:
    """The positions of words that both have, in order. Texts that are too long are split, but only once."""
    start, end = _ends(ours, theirs)
    yield from ((n, n) for n in range(start))
    mine, yours = ours[start : len(ours) - end], theirs[start : len(theirs) - end]
    if len(mine) * len(yours) <= MAX_COMPARED:
        for block in SequenceMatcher(None, mine, yours, autojunk=False).get_matching_blocks():
            yield from ((start + block.a + n, start + block.b + n) for n in range(block.size))
    elif split:
        here, there = 0, 0
        for a, b in (*_anchors(mine, yours), (len(mine), len(yours))):
            for n, m in _same(mine[here:a], yours[there:b], split=False):
                yield start + here + n, start + there + m
            if a < len(mine):
                yield start + a, start + b
            here, there = a + 1, b + 1
    yield from ((len(ours) - end + n, len(theirs) - end + n) for n in range(end))


def _ends(ours: list[str], theirs: list[str]) -> tuple[int, int]:
    """How many words both have in common at the beginning and at the end."""
    shorter = min(len(ours), len(theirs))
    start = next((n for n in range(shorter) if ours[n] != theirs[n]), shorter)
    rest = shorter - start
    return start, next((n for n in range(rest) if ours[-1 - n] != theirs[-1 - n]), rest)


def _anchors(ours: list[str], theirs: list[str]) -> list[WordPair]:
    """The longest series, in the same order, of words that each side has once."""
    often, as_often = Counter(ours), Counter(theirs)
    place = {word: n for n, word in enumerate(theirs)}
    ends: list[int] = []  # the lowest position at which a series of each length can end
    chains: list[tuple[WordPair, Any]] = []  # each such series, linked backwards
    for here, word in enumerate(ours):
        if often[word] == as_often[word] == 1:
            length = bisect_left(ends, place[word])
            chain = (here, place[word]), chains[length - 1] if length else None
            ends[length : length + 1] = [place[word]]
            chains[length : length + 1] = [chain]
    series, last = [], chains[-1] if chains else None
    while last:
        pair, last = last
        series.append(pair)
    return series[::-1]
