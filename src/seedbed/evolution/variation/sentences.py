"""Ways to change a text without a model: its sentences, the form of the answer it asks for, its cue.

Every function takes a text and returns another, or None if there is none. No placeholder is lost: sentences that have
one may move, but are neither dropped nor replaced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from seedbed.playbooks.prompts import placeholders

INSTRUCTIONS = (
    "Read everything before you answer.",
    "Use only what the text says.",
    "If you are not sure, choose what is most likely.",
    "Look for the one detail that decides it.",
    "Work it out in small steps before you answer.",
    "Check your answer once more before you give it.",
    "Pay attention to negations and to numbers.",
    "Ignore what does not matter for the question.",
    "Say it in the words of the text where you can.",
    "Never leave the answer empty.",
    "Do not repeat the question.",
    "Follow the examples if there are any.",
)
"""Instructions that fit any agent, used where no others are given."""

FORMS = (
    "Answer with one word only.",
    "Answer in one short sentence.",
    "Give only the answer, without an explanation.",
    "Explain your reasoning first and give the answer on the last line.",
)
"""The length of an answer. A text has at most one of them."""

CUES = ("Answer:", "Result:", "The answer is:", "Output:")
"""What a prompt may end with, for the model to continue."""

_ABBREVIATED = r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bMrs\.)(?<!\bcf\.)"
_NUMBERED = r"(?<!^\d\.)(?<!\n\d\.)(?<!^\d\d\.)(?<!\n\d\d\.)"
_LINE = r"(?<![^\S\n])[^\S\n]*+\n\s*+"
_SENTENCE = rf"(?:(?<=[.!?…])|(?<=[.!?…][\"')\]”’»])){_ABBREVIATED}{_NUMBERED}[ \t]+"
# Most characters are no white space, and tell nothing of a line or a sentence that has ended.
_END = re.compile(rf"(?=\s)(?:{_LINE}|{_SENTENCE})|(?<=[。！？])\s*")
_WHOLE = re.compile(r"```.*?(?:```|\Z)|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


T = TypeVar("T")


class Sentences(NamedTuple):
    """The sentences or lines of a text, and the white space before, between and after them: one more than there are
    sentences."""

    texts: tuple[str, ...]
    gaps: tuple[str, ...]

    def __str__(self) -> str:
        return self.gaps[0] + "".join(text + gap for text, gap in zip(self.texts, self.gaps[1:], strict=True))

    def without(self, place: int) -> Sentences:
        """Without one sentence. Lines stay separate lines."""
        last = place == len(self.texts) - 1
        wider = place > 0 and self.gaps[place + 1].count("\n") > self.gaps[place].count("\n")
        return Sentences(_cut(self.texts, place), _cut(self.gaps, place if last or wider else place + 1))

    def insert(self, place: int, text: str) -> Sentences:
        """With another sentence before that place, or at the end."""
        texts = (*self.texts[:place], text, *self.texts[place:])
        if not self.texts:
            return Sentences(texts, ("", ""))
        before = place if place == len(self.texts) else place + 1
        return Sentences(texts, (*self.gaps[:before], self.usual_gap(place), *self.gaps[before:]))

    def replace(self, place: int, text: str) -> Sentences:
        return Sentences((*self.texts[:place], text, *self.texts[place + 1 :]), self.gaps)

    def free(self) -> list[int]:
        """The places of sentences that may be dropped: without placeholders, and not the cue."""
        return [n for n, text in enumerate(self.texts[: self.body()]) if not _has_placeholder(text)]

    def body(self) -> int:
        """How many sentences come before the cue that a text may end with."""
        return len(self.texts) - (bool(self.texts) and is_cue(self.texts[-1]))

    def usual_gap(self, place: int) -> str:
        """The white space beside a sentence that is added at that place."""
        inner = self.gaps[1:-1]
        beside = self.texts[max(place - 1, 0) : place + 1]
        if any(_has_placeholder(text) or text.endswith(":") for text in beside):
            return next((gap for gap in inner if "\n" in gap), "\n")
        return Counter(inner).most_common(1)[0][0] if inner else " "


def is_cue(sentence: str) -> bool:
    """Whether the model would continue from it, if it is the last sentence."""
    return sentence.endswith(":") and len(sentence) <= 40


@lru_cache(maxsize=4096)
def split(text: str) -> Sentences:
    """Split a text into lines, and lines into sentences. Fenced code and text in braces stay in one piece, and `str`
    returns the original text."""
    whole = [match.span() for match in _WHOLE.finditer(text)]
    lead = text[: len(text) - len(text.lstrip())]
    texts, gaps, start = [], [lead], len(lead)
    for match in _END.finditer(text, len(lead)):
        if any(begin < match.end() and match.start() < end for begin, end in whole):
            continue
        piece = text[start : match.start()]
        if piece:
            texts.append(piece)
            gaps.append(match.group())
        else:
            gaps[-1] += match.group()
        start = match.end()
    if rest := text[start:]:
        bare = rest.rstrip()
        texts.append(bare)
        gaps.append(rest[len(bare) :])
    return Sentences(tuple(texts), tuple(gaps))


# Sentences come, go and move


def drop_sentence(text: str, chance: np.random.Generator) -> str | None:
    """Without one of its sentences; the last one stays."""
    sentences = split(text)
    free = sentences.free()
    if not free or len(sentences.texts) < 2:
        return None
    return str(sentences.without(_one(free, chance)))


def swap_sentences(text: str, chance: np.random.Generator) -> str | None:
    """With two of its sentences in each other's place."""
    sentences = split(text)
    body = sentences.texts[: sentences.body()]
    here = int(chance.integers(len(body))) if body else 0
    others = [n for n, each in enumerate(body) if each != body[here]]
    if not others:
        return None
    there = _one(others, chance)
    return str(sentences.replace(here, body[there]).replace(there, body[here]))


def repeat_sentence(text: str, chance: np.random.Generator) -> str | None:
    """With one of its sentences repeated at the end or the beginning. A sentence is not repeated more than once."""
    sentences = split(text)
    often = Counter(sentences.texts)
    once = [n for n in sentences.free() if often[sentences.texts[n]] == 1]
    if not once:
        return None
    place = sentences.body() if chance.random() < 0.75 else 0
    return str(sentences.insert(place, sentences.texts[_one(once, chance)]))


def insert_sentence(text: str, instructions: Sequence[str], chance: np.random.Generator) -> str | None:
    """With one of the instructions that it does not have, anywhere before its cue."""
    sentences = split(text)
    new = _new(sentences, instructions)
    if not new:
        return None
    place = int(chance.integers(sentences.body() + 1))
    return str(sentences.insert(place, _fitting(_one(new, chance), sentences)))


def replace_sentence(text: str, instructions: Sequence[str], chance: np.random.Generator) -> str | None:
    """With one of its sentences replaced by one of the instructions."""
    sentences = split(text)
    new, free = _new(sentences, instructions), sentences.free()
    if not new or not free:
        return None
    return str(sentences.replace(_one(free, chance), _fitting(_one(new, chance), sentences)))


def cross_sentences(text: str, other: str, chance: np.random.Generator) -> str | None:
    """A mixture of two texts: shared sentences stay, and each of the others is from one of the two."""
    mine, yours = split(text), split(other)
    ours, theirs = mine.texts[: mine.body()], yours.texts[: yours.body()]
    mixed: list[tuple[str, str]] = []  # sentences, and the white space before them
    for same, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for n in range(max(b - a, d - c)):
            here = list(zip(ours, mine.gaps, strict=False))[a:b][n : n + 1]
            there = list(zip(theirs, yours.gaps, strict=False))[c:d][n : n + 1]
            if same == "equal" or chance.random() < 0.5 or _has_placeholder("".join(each for each, _ in here)):
                mixed += here
            else:
                mixed += [each for each in there if not _has_placeholder(each[0])]
    mixed += zip(mine.texts[len(ours) :], mine.gaps[len(ours) :], strict=False)
    gaps = [gap or mine.usual_gap(0) for _, gap in mixed[1:]]
    child = str(Sentences(tuple(each for each, _ in mixed), (mine.gaps[0], *gaps, mine.gaps[-1]))) if mixed else ""
    return child if child not in ("", text, other) else None


# Form


def change_form(text: str, chance: np.random.Generator, forms: Sequence[str] = FORMS) -> str | None:
    """With another form of answer, or without the one it asks for."""
    sentences = split(text)
    now = [n for n, each in enumerate(sentences.texts) if each in forms]
    others = [form for form in forms if form not in sentences.texts]
    for place in reversed(now):
        sentences = sentences.without(place)
    if now and sentences.texts:
        others.append("")
    if not others:
        return None
    form = _one(others, chance)
    return str(sentences.insert(sentences.body(), form) if form else sentences)


def change_cue(text: str, chance: np.random.Generator, cues: Sequence[str] = CUES) -> str | None:
    """With another cue at its end, or without the one it has. Only for texts with placeholders: a model does not
    continue from others."""
    if not _has_placeholder(text):
        return None
    sentences = split(text)
    now = sentences.texts[-1] if sentences.body() < len(sentences.texts) else ""
    if _has_placeholder(now):
        return None
    others = [cue for cue in cues if cue != now]
    if now:
        sentences = sentences.without(len(sentences.texts) - 1)
        others.append("")
    if not others or not sentences.texts:
        return None
    cue = _one(others, chance)
    return f"{str(sentences).rstrip()}\n{cue}" if cue else str(sentences)


def make_list(text: str) -> str | None:
    """With its sentences as items of a list, except the cue and those with placeholders."""
    sentences = split(text)
    free = [n for n in sentences.free() if "```" not in sentences.texts[n]]
    if len(free) < 2 or any(_BULLET.match(sentences.texts[n]) for n in free):
        return None
    lines = [f"- {each}" if n in free else each for n, each in enumerate(sentences.texts)]
    return str(Sentences(tuple(lines), _in_lines(sentences.gaps)))


def make_prose(text: str) -> str | None:
    """With the items of its lists as plain sentences."""
    sentences = split(text)
    items = {n for n, each in enumerate(sentences.texts) if _BULLET.match(each)}
    if not items:
        return None
    texts = tuple(_sentence(_BULLET.sub("", each)) if n in items else each for n, each in enumerate(sentences.texts))
    gaps = [" " if n > 0 and {n - 1, n} <= items else gap for n, gap in enumerate(sentences.gaps)]
    return str(Sentences(texts, tuple(gaps)))


def toggle_list(text: str, chance: np.random.Generator) -> str | None:
    """A list where there were sentences, sentences where there was a list."""
    return make_prose(text) or make_list(text)


def _in_lines(gaps: tuple[str, ...]) -> tuple[str, ...]:
    return (gaps[0], *(gap if "\n" in gap else "\n" for gap in gaps[1:-1]), gaps[-1])


def _sentence(text: str) -> str:
    return text if text[-1:] in ".!?:…。！？" else f"{text}."


def _new(sentences: Sentences, instructions: Sequence[str]) -> list[str]:
    """The instructions that the text does not have; none with a placeholder, since nothing may fill it."""
    known = {_BULLET.sub("", each).rstrip(".") for each in sentences.texts}
    new = (each for each in instructions if each.strip() and not _has_placeholder(each))
    return [each for each in new if each.rstrip(".") not in known]


def _fitting(text: str, among: Sentences) -> str:
    """Formatted like its neighbours: an item if they are items, with a full stop if they have one."""
    if among.texts and among.texts[0][-1:] in ".!?":
        text = _sentence(text)
    marks = [mark[0] for each in among.texts if (mark := _BULLET.match(each)) and not mark[0].strip()[0].isdigit()]
    return f"{marks[0]}{text}" if 2 * len(marks) > len(among.texts) else text


def _has_placeholder(text: str) -> bool:
    return "{" in text and next(placeholders(text), None) is not None


def _cut(items: tuple[str, ...], place: int) -> tuple[str, ...]:
    return (*items[:place], *items[place + 1 :])


def _one(items: Sequence[T], chance: np.random.Generator) -> T:
    return items[int(chance.integers(len(items)))]
