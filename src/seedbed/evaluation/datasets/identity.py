"""What a task is: the key that tasks which ask the same have in common, and which tasks are nearly the same."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from seedbed.evaluation import embeddings
from seedbed.evaluation.datasets.dataset import Case, Task
from seedbed.storage.store import Digest, digest

Hashes = npt.NDArray[np.uint64]

_LOOK_ALIKES = str.maketrans("аеорсухіјѕԁһвкмнт", "aeopcyxijsdhbkmht")
_CONTROLS = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n"}
_ENDS = " \t\n\"'“”‘’«»`.,;:!?"


def task_key(inputs: Mapping[str, Any], used: Collection[str] | None = None, case: Case = "fold") -> Digest:
    """The same for inputs that ask the same: case, white space, invisible characters, the form of letters, quotes and
    punctuation at the ends make no difference, nor whether a number is a text.

    `used` names the inputs that count, if a playbook does not read them all: what it never sees changes nothing. With
    `case="keep"` upper and lower case differ.
    """
    counted = {name: _normal(value, case) for name, value in inputs.items() if used is None or name in used}
    return digest("task key", counted)


def unit_of(task: Task) -> str:
    """The same for tasks that tell as much together as one of them: those of one source, or that ask the same."""
    return task.source or task_key(task.inputs)


def normal_text(text: str, case: Case = "fold") -> str:
    """A text without what makes no difference to what it asks."""
    if text.isascii():  # the same, ten times as fast: there may be very many runs to look through
        whole = text.translate(_CONTROLS)
        return " ".join((whole if case == "keep" else whole.casefold()).split()).strip(_ENDS)
    plain = unicodedata.normalize("NFKC", text)
    visible = (each for each in plain if each in "\t\n" or unicodedata.category(each) not in ("Cf", "Cc"))
    whole = "".join(visible)
    words = (_latin(word) for word in (whole if case == "keep" else whole.casefold()).split())
    return " ".join(words).strip(_ENDS)


def _normal(value: Any, keeping: Case = "fold") -> Any:
    match value:
        case Mapping():
            return {str(name): _normal(each, keeping) for name, each in value.items()}
        case str():
            return normal_text(value, keeping)
        case list() | tuple():
            return [_normal(each, keeping) for each in value]
        case float() if value.is_integer():
            return str(int(value))
        case None:
            return None
        case _:
            return normal_text(str(value), keeping)


def _latin(word: str) -> str:
    """A word that mixes Latin with Cyrillic letters, all in Latin: such a mix only serves to look like another word."""
    if word.isascii() or not re.search("[a-z]", word):
        return word
    return word.translate(_LOOK_ALIKES)


# Nearly the same

SHINGLE, PERMUTATIONS, ROWS = 5, 64, 4
LEAST, MARGIN = 0.5, 0.1
"""A task is a leak of one that is at least so similar, and by so much more than any other task of its own dataset."""
MOST_IN_BUCKET = 50

LEAST_COSINE, COSINE_MARGIN = 0.85, 0.05
"""The same for the cosine of embeddings, where they are installed: they also find other words for the same."""
NEAREST = 5
"""Among how many of the nearest one with the same numbers, signs and negations is looked for."""

_HARD = re.compile(
    r"\d+(?:[.,]\d+)*|[-+*/=<>^%(){}\[\]]|\b(?:not?|never|none|nor|without|cannot|\w+n['’]t|more|less|fewer|greater|"
    r"smaller|larger|before|after|above|below|left|right|yes|true|false|and|or|first|last|most|least)\b"
)


@dataclass(frozen=True, slots=True)
class Near:
    """A task that is nearly the same as another."""

    task: str
    other: str
    similarity: float


def near(tasks: Sequence[Task], least: float = 0.8) -> list[Near]:
    """Pairs of tasks that are nearly the same and have other keys, most similar first. They are different tasks: no
    similarity tells a twin from a copy. But they may share a source."""
    texts = _Texts([_text(task.inputs) for task in tasks])
    keys = [task_key(task.inputs) for task in tasks]
    pairs = [
        Near(tasks[one].id, tasks[other].id, similarity)
        for one, other in texts.candidates()
        if keys[one] != keys[other] and (similarity := texts.similarity(one, other)) >= least
    ]
    return sorted(pairs, key=lambda each: -each.similarity)


def leaks(
    tasks: Sequence[Task],
    seen: Sequence[Mapping[str, Any]],
    used: Collection[str] | None = None,
    *,
    by_meaning: bool = False,
) -> list[Near]:
    """Tasks that repeat what was seen in slightly other words; `other` is the number of what they repeat.

    With `by_meaning`, in any other words that mean the same, where embeddings are installed.

    A task leaks if it is much more like something seen than like any other task of its own, and names the same numbers,
    signs and negations: tasks cut from one pattern are alike without being the same.
    """
    if not seen:
        return []
    texts = _Texts([_text(inputs, used) for inputs in (*(task.inputs for task in tasks), *seen)])
    own, count = [0.0] * len(tasks), len(tasks)
    across: dict[int, tuple[float, int]] = {}
    for one, other in texts.candidates():
        if one >= count:
            continue
        similarity = texts.similarity(one, other)
        if other < count:
            own[one], own[other] = max(own[one], similarity), max(own[other], similarity)
        elif texts.hard(one) == texts.hard(other):
            across[one] = max(across.get(one, (0.0, 0)), (similarity, other - count))
    leaking = {one: near for one, near in across.items() if near[0] >= max(LEAST, own[one] + MARGIN)}
    if by_meaning and embeddings.is_installed():
        leaking = {**_same_meaning(texts, count), **leaking}
    return [Near(tasks[one].id, str(other), similarity) for one, (similarity, other) in sorted(leaking.items())]


def _same_meaning(texts: _Texts, count: int) -> dict[int, tuple[float, int]]:
    """The first `count` texts that mean the same as one of the others: how similar they are, and which one."""
    vectors = embeddings.embed(texts.texts, needed_for="leaks")
    own, others = vectors[:count], vectors[count:]
    leaking = {}
    for one in range(count):
        cosines = others @ own[one]
        alike = [other for other in np.argsort(-cosines)[:NEAREST] if texts.hard(one) == texts.hard(count + other)]
        if alike and cosines[alike[0]] >= LEAST_COSINE:
            among = own @ own[one]
            among[one] = -1.0
            if cosines[alike[0]] >= among.max() + COSINE_MARGIN:
                leaking[one] = (float(cosines[alike[0]]), int(alike[0]))
    return leaking


def _text(inputs: Mapping[str, Any], used: Collection[str] | None = None) -> str:
    return " \n ".join(_strings(_normal({name: inputs[name] for name in inputs if used is None or name in used})))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(each)


class _Texts:
    """Texts as sets of their five-character pieces, rare ones weighing more than common ones."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self._pieces = [_pieces(text) for text in texts]
        vocabulary, counts = np.unique(np.concatenate([*self._pieces, np.empty(0, np.uint64)]), return_counts=True)
        self._places = [np.searchsorted(vocabulary, pieces) for pieces in self._pieces]
        self._weights = np.log1p(len(texts) / counts)
        self._sums = [float(self._weights[places].sum()) for places in self._places]

    def similarity(self, one: int, other: int) -> float:
        """The weight of the pieces that both have, as a share of all that either has."""
        both = np.intersect1d(self._places[one], self._places[other], assume_unique=True)
        shared = float(self._weights[both].sum())
        either = self._sums[one] + self._sums[other] - shared
        return shared / either if either else 1.0

    def hard(self, one: int) -> Counter[str]:
        """The numbers, signs and small words that turn a question into another."""
        return Counter(_HARD.findall(self.texts[one]))

    def candidates(self) -> Iterable[tuple[int, int]]:
        """Pairs that share many pieces, the lower number first: all that MinHash finds in any of its bands."""
        chance = np.random.default_rng(0)
        scale, shift = (chance.integers(1, 2**63, PERMUTATIONS, dtype=np.uint64) | np.uint64(1) for _ in range(2))
        hashes = [
            (pieces[:, None] * scale + shift).min(axis=0) if len(pieces) else np.zeros(PERMUTATIONS, np.uint64)
            for pieces in self._pieces
        ]
        pairs: set[tuple[int, int]] = set()
        for band in range(0, PERMUTATIONS, ROWS):
            buckets: dict[bytes, list[int]] = {}
            for number, each in enumerate(hashes):
                bucket = buckets.setdefault(each[band : band + ROWS].tobytes(), [])
                pairs.update((other, number) for other in bucket[-MOST_IN_BUCKET:])
                bucket.append(number)
        return sorted(pairs)


def _pieces(text: str) -> Hashes:
    letters = np.frombuffer(f"{text:<{SHINGLE}}".encode("utf-32-le"), np.uint32).astype(np.uint64)
    hashes = np.zeros(len(letters) - SHINGLE + 1, np.uint64)
    for place in range(SHINGLE):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + letters[place : place + len(hashes)]
    hashes ^= hashes >> np.uint64(29)
    return np.unique(hashes * np.uint64(0xBF58476D1CE4E5B9))
