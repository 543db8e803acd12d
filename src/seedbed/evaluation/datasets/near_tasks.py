"""Near tasks: which tasks are nearly the same, found without comparing each with each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from seedbed.evaluation import embeddings
from seedbed.evaluation.datasets.dataset import Case, Task
from seedbed.evaluation.datasets.identity import task_key, text_of
from seedbed.evaluation.datasets.wording import RULES, Wording

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

SHINGLE, PERMUTATIONS, ROWS = 5, 64, 4
LEAST, MARGIN = 0.5, 0.1
"""A task is a leak of one that is at least so similar, and by so much more than any other task of its own dataset."""
WINDOW = 4
"""How many neighbours on either side are looked at, each time that texts are sorted by their hashes."""
NEAREST = 5
"""How many of the nearest of these are compared exactly."""
RARE = 50
"""A piece that at most so many texts have is looked for where one text may stand whole in another."""

LEAST_COSINE, COSINE_MARGIN = 0.85, 0.05
"""The same for the cosine of embeddings, where they are installed: they also find other words for the same."""
TABLES, BITS = 64, 12


@dataclass(frozen=True, slots=True)
class Near:
    """A task that is nearly the same as another; with a similarity of 1 in the same words."""

    task: str
    other: str
    similarity: float


def near(tasks: Sequence[Task], least: float = 0.8) -> list[Near]:
    """Pairs of tasks that are nearly the same and have other keys, most similar first. They are different tasks: no
    similarity tells a twin from a copy. But they may share a source."""
    texts = _Texts([text_of(task.inputs) for task in tasks])
    keys, every = [task_key(task.inputs) for task in tasks], np.arange(len(tasks))
    pairs = [
        Near(tasks[one].id, tasks[other].id, similarity)
        for one, other in sorted({(min(pair), max(pair)) for pair in texts.nearest(every, every)})
        if keys[one] != keys[other] and (similarity := texts.similarity(one, other)) >= least
    ]
    return sorted(pairs, key=lambda each: -each.similarity)


def count_alike(tasks: Sequence[Task], least: float = 0.7) -> int:
    """How many tasks are nearly the same as another, with the same numbers, signs and negations.

    All pieces weigh the same here: what all tasks have in common says as much as what few have.
    """
    texts, every = _Texts([text_of(task.inputs) for task in tasks]), np.arange(len(tasks))
    pairs = ((one, other) for one, other in texts.nearest(every, every) if texts.hard(one) == texts.hard(other))
    return len({one for one, other in pairs if texts.overlap(one, other) >= least})


def copies(
    tasks: Sequence[Task], used: Collection[str] | None = None, case: Case = "fold", *, rules: int = RULES
) -> list[Near]:
    """Tasks in the same words as an earlier one, which is the `other`; `used` and `case` are as in `task_key`, and
    `rules` is the edition of what the same words are."""
    texts, every = _Texts([text_of(task.inputs, used, case) for task in tasks], rules), np.arange(len(tasks))
    first = list(range(len(tasks)))

    def find(one: int) -> int:
        while first[one] != one:
            first[one] = one = first[first[one]]
        return one

    for one, other in (*texts.nearest(every, every), *texts.containing(every, every)):
        if find(one) != find(other) and texts.repeats(one, other):
            early, late = sorted((find(one), find(other)))
            first[late] = early
    return [Near(tasks[one].id, tasks[find(one)].id, 1.0) for one in range(len(tasks)) if find(one) != one]


def leaks(
    tasks: Sequence[Task],
    seen: Sequence[Mapping[str, Any]],
    used: Collection[str] | None = None,
    *,
    by_meaning: bool = False,
    rules: int = RULES,
) -> list[Near]:
    """Tasks that repeat what was seen in slightly other words; `other` is the number of what they repeat.

    With `by_meaning`, in any other words that mean the same, where embeddings are installed.

    A task leaks if it is in the same words. Or if it is much more like something seen than like any other task of its
    own that is not most like the same, and has the same numbers, signs and negations: tasks cut from one pattern are
    alike without being the same, and several copies of one task are no pattern.
    """
    if not seen or not tasks:
        return []
    texts = _Texts([text_of(inputs, used) for inputs in (*(task.inputs for task in tasks), *seen)], rules)
    ours, theirs = np.arange(len(tasks)), np.arange(len(tasks), len(tasks) + len(seen))
    leaking = {one: (1.0, other) for one, other in texts.containing(ours, theirs) if texts.repeats(one, other)}
    across: dict[int, tuple[float, int]] = {}
    for one, other in texts.nearest(ours, theirs):
        if texts.repeats(one, other):
            leaking[one] = (1.0, other)
        elif texts.hard(one) == texts.hard(other):
            across[one] = max(across.get(one, (0.0, 0)), (texts.similarity(one, other), other))
    leaking = {**_standing_out(texts, ours, across), **leaking}
    if by_meaning and embeddings.is_installed():
        leaking = {**_same_meaning(texts, ours, theirs), **leaking}
    return [
        Near(tasks[one].id, str(other - len(tasks)), similarity) for one, (similarity, other) in sorted(leaking.items())
    ]


def _standing_out(
    texts: _Texts, ours: Places, across: Mapping[int, tuple[float, int]]
) -> Mapping[int, tuple[float, int]]:
    """Those of the texts that are nearer to another than to their own.

    A few of their own with the same nearest other are copies of it as well, and do not count; more are a pattern.
    """
    nearest = {one: other for one, (similarity, other) in across.items() if similarity >= LEAST}
    own: dict[int, list[tuple[float, bool]]] = {one: [] for one in nearest}
    for one, other in texts.nearest(np.array(sorted(nearest), np.int64), ours):
        own[one].append((texts.similarity(one, other), nearest[one] == nearest.get(other)))

    def spread(one: int) -> float:
        is_pattern = sum(shared for _, shared in own[one]) == NEAREST
        return max((similarity for similarity, shared in own[one] if is_pattern or not shared), default=0.0)

    return {one: across[one] for one in nearest if across[one][0] >= spread(one) + MARGIN}


def _same_meaning(texts: _Texts, ours: Places, theirs: Places) -> dict[int, tuple[float, int]]:
    """Our texts that mean the same as one of theirs: how similar they are, and which one."""
    vectors = embeddings.embed(texts.texts, needed_for="leaks")
    planes = np.random.default_rng(0).standard_normal((vectors.shape[1], TABLES * BITS))
    bits = (vectors @ planes > 0).reshape(len(vectors), TABLES, BITS)
    codes: Hashes = (bits * (1 << np.arange(BITS))).sum(axis=2).astype(np.uint64)
    across: dict[int, tuple[float, int]] = {}
    for one, other in _nearest(codes, ours, theirs, rows=1):
        cosine = float(vectors[one] @ vectors[other])
        if cosine >= LEAST_COSINE and texts.hard(one) == texts.hard(other):
            across[one] = max(across.get(one, (0.0, 0)), (cosine, other))
    own: dict[int, float] = {}
    for one, other in _nearest(codes, np.array(sorted(across), np.int64), ours, rows=1):
        own[one] = max(own.get(one, -1.0), float(vectors[one] @ vectors[other]))
    return {one: near for one, near in across.items() if near[0] >= own.get(one, -1.0) + COSINE_MARGIN}


class _Texts:
    """Texts as sets of their five-character pieces, rare ones weighing more than common ones."""

    def __init__(self, texts: Sequence[str], rules: int = RULES) -> None:
        self.texts = texts
        self._wordings = [Wording(text, rules) for text in texts]
        pieces = [_pieces(each.whole) for each in self._wordings]
        vocabulary, self._counts = np.unique(np.concatenate([*pieces, np.empty(0, np.uint64)]), return_counts=True)
        self._places = [np.searchsorted(vocabulary, each) for each in pieces]
        self._weights = np.log1p(len(texts) / self._counts)
        self._sums = [float(self._weights[places].sum()) for places in self._places]
        self._pieces = pieces

    def similarity(self, one: int, other: int) -> float:
        """The weight of the pieces that both have, as a share of all that either has."""
        both = np.intersect1d(self._places[one], self._places[other], assume_unique=True)
        shared = float(self._weights[both].sum())
        either = self._sums[one] + self._sums[other] - shared
        return shared / either if either else 1.0

    def overlap(self, one: int, other: int) -> float:
        """The number of pieces that both have, as a share of all that either has."""
        both = len(np.intersect1d(self._places[one], self._places[other], assume_unique=True))
        return both / (len(self._places[one]) + len(self._places[other]) - both)

    def hard(self, one: int) -> Counter[str]:
        return Counter(self._wordings[one].hard)

    def repeats(self, one: int, other: int) -> bool:
        return self._wordings[one].repeats(self._wordings[other])

    def nearest(self, ones: Places, others: Places) -> Iterator[tuple[int, int]]:
        """For each of the texts, those of the others that share most pieces with it, by MinHash."""
        return _nearest(self._hashes, ones, others, ROWS)

    def containing(self, ones: Places, others: Places) -> Iterator[tuple[int, int]]:
        """Pairs of which one may stand whole in the other: it has the rarest piece of the other."""
        rarest = [places[np.argmin(self._counts[places])] for places in self._places]
        for these, those, turned in ((ones, others, False), (others, ones, True)):
            holders: dict[int, list[int]] = {}
            wanted = np.zeros(len(self._counts), bool)
            for text in these:
                if self._counts[rarest[text]] <= RARE:
                    holders.setdefault(int(rarest[text]), []).append(int(text))
                    wanted[rarest[text]] = True
            for text in those:
                for piece in self._places[text][wanted[self._places[text]]]:
                    for each in holders[int(piece)]:
                        if each != text:
                            yield (int(text), each) if turned else (each, int(text))

    @cached_property
    def _hashes(self) -> Hashes:
        chance = np.random.default_rng(0)
        scale, shift = (chance.integers(1, 2**63, PERMUTATIONS, dtype=np.uint64) | np.uint64(1) for _ in range(2))
        return np.array([(pieces[:, None] * scale + shift).min(axis=0) for pieces in self._pieces])


def _nearest(hashes: Hashes, ones: Places, others: Places, rows: int) -> Iterator[tuple[int, int]]:
    """For each of the ones, those of the others with which it has most hashes in common.

    All are sorted by their hashes, beginning with each few of them in turn: like ones are neighbours then, however many
    there are. So the cost grows with the number of texts and not with that of pairs.
    """
    codes = [np.empty(0, np.int64)]
    for band in range(0, hashes.shape[1], rows) if len(ones) and len(others) else ():
        turned = np.roll(hashes, -band, axis=1)[:, : 3 * rows]
        rank = np.empty(len(hashes), np.int64)
        rank[np.lexsort(turned.T[::-1])] = np.arange(len(hashes))
        ranked = others[np.argsort(rank[others])]
        place = np.searchsorted(rank[ranked], rank[ones])
        for step in range(-WINDOW, WINDOW + 1):
            there = place + step
            inside = (there >= 0) & (there < len(ranked))
            one, other = ones[inside], ranked[there[inside]]
            alike = (turned[one, :rows] == turned[other, :rows]).all(axis=1) & (one != other)
            codes.append(one[alike] * len(hashes) + other[alike])
    pairs = np.unique(np.concatenate(codes))
    one, other = pairs // len(hashes), pairs % len(hashes)
    common = np.concatenate([np.empty(0), *((hashes[a] == hashes[b]).sum(axis=1) for a, b in _parts(one, other))])
    order = np.lexsort((-common, one))
    one, other = one[order], other[order]
    first = np.searchsorted(one, one)
    chosen = np.arange(len(one)) - first < NEAREST
    return zip(one[chosen].tolist(), other[chosen].tolist(), strict=True)


def _parts(one: Places, other: Places, size: int = 100_000) -> Iterator[tuple[Places, Places]]:
    return ((one[n : n + size], other[n : n + size]) for n in range(0, len(one), size))


def _pieces(text: str) -> Hashes:
    letters = np.frombuffer(f"{text:<{SHINGLE}}".encode("utf-32-le"), np.uint32).astype(np.uint64)
    hashes = np.zeros(len(letters) - SHINGLE + 1, np.uint64)
    for place in range(SHINGLE):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + letters[place : place + len(hashes)]
    hashes ^= hashes >> np.uint64(29)
    return np.unique(hashes * np.uint64(0xBF58476D1CE4E5B9))
