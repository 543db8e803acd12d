"""Wording: whether two texts are the same words but for commas, greetings, slips and order.

Tasks cut from one pattern differ in a number, a name or a direction; copies differ in what does not change the
question. So this looks at what differs and not at how much: no share of common words tells the two apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cached_property

LONG = 8
"""A text of so many words that stands whole in another is no coincidence."""
ADDED, MISSPELLED, BEGINNING = 2, 2, 4
"""So many words may be added anywhere, misspelled, or differ at the very beginning."""
RULES = 2
"""The edition of these rules. By the first, any words could differ at the beginning, and markup, accents, Greek letters
and the form of a number made another text: verdicts of before are verified by it."""

_WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W\d_]+|-(?=\d)|[^\s\w-]|_")
_SIGNS = frozenset("()[]{}%&*/@#\\")
_HARD = re.compile(
    r"not?|never|none|nor|without|cannot|(?:do|does|did|is|are|was|were|has|have|had|ca|wo|would|should|could|must|need)nt"
    r"|more|less|fewer|greater|smaller|larger|before|after|above|below|left|right|yes|true|false|and|or|first|last|most"
    r"|least",
    re.IGNORECASE,
)
_GREETING = re.compile(
    "hello|hi|hey|dear|good|morning|afternoon|evening|day|greetings|please|kindly|thanks?|you|assistant|sir|madam|team"
    "|friends?|all|everyone|there|folks|ok|okay|so|well|now|a|quick|short|question|task|problem|if|suppose|supposing"
    "|assume|assuming|imagine|say|let|us|that|tell|me|answer|this|following|the",
    re.IGNORECASE,
)
_ANY = re.compile(".*")
_TAG = re.compile(
    r"</?(?:a|b|br|code|div|em|font|h[1-6]|i|li|mark|ol|p|pre|s|small|span|strong|tt|u|ul)(?:\s[^<>]*)?/?>"
)
_EMPHASIS = re.compile(r"(?<![\w*_~])([*_~]{1,3})(?=\S)(.+?)(?<=\S)\1(?![\w*_~])")
_NUMBER = re.compile(r"0*(\d+?)(?:\.0+)?")
_GREEK = str.maketrans("αβγεηικνορτυχ", "abyenikvoptux")


class Wording:
    """The words of a text, by what it asks: punctuation that is no sign of arithmetic or logic does not count."""

    def __init__(self, text: str, rules: int = RULES) -> None:
        whole = re.sub(r"(?<=\w)['’](?=\w)", "", text if rules == 1 else _without_markup(text))
        self.spelled = tuple(word for word in _WORD.findall(whole) if not _is_punctuation(word))
        self.words = self.spelled if rules == 1 else tuple(map(_plain, self.spelled))
        self._rules = rules

    @cached_property
    def whole(self) -> str:
        """The words without the blanks between them; numbers keep theirs."""
        return "".join(f" {word} " if word[0].isdigit() else word for word in self.words)

    @cached_property
    def hard(self) -> tuple[str, ...]:
        """The numbers, signs and small words that turn a question into another, in their order."""
        return tuple(word for word in self.words if not word.isalpha() or _HARD.fullmatch(word))

    def repeats(self, other: Wording) -> bool:
        """Whether both are the same words: one stands whole in the other, or has a word or two more; or they have other
        first words, misspellings or another order, and the same hard words in theirs."""
        if self._differs_in_accents(other):
            return False
        short, long = sorted((self, other), key=lambda each: len(each.words))
        if short.whole == long.whole or (len(short.words) >= LONG and short.whole in long.whole):
            return True
        if len(short.words) >= len(long.words) / 2 and _stands_whole_in(short.words, long.words):
            return True
        missing, added = _difference(short.words, long.words)
        if len(short.words) >= LONG and not missing and len(added) <= ADDED and _is_within(short.words, long.words):
            return not any(map(_HARD.fullmatch, added))
        if self.hard != other.hard:
            return False
        if len(missing) == len(added) <= MISSPELLED:
            return all(any(_is_misspelled(one, each) for each in added) for one in missing)
        return _have_other_beginnings(short.words, long.words, _GREETING if self._rules > 1 else _ANY)

    def _differs_in_accents(self, other: Wording) -> bool:
        """Whether both are written with accents, and some words with other ones. If only one is, they were added to it,
        or taken away."""
        if self.words == self.spelled or other.words == other.spelled:
            return False
        ours, theirs = {*self.spelled} - {*other.spelled}, {*other.spelled} - {*self.spelled}
        return not {word for word in map(_plain, ours) if word.isalpha()}.isdisjoint(map(_plain, theirs))


def _without_markup(text: str) -> str:
    """The text without tags, the signs of emphasis around words, and those of a heading or a list in front."""
    bare = _TAG.sub("", text).replace("`", "")
    while (less := _EMPHASIS.sub(r"\2", bare)) != bare:
        bare = less
    return re.sub(r"^[#>*\s]+(?=\w)", "", bare)


def _plain(word: str) -> str:
    """A word without accents or Greek letters among Latin ones, or a number without zeros that do not count."""
    if number := _NUMBER.fullmatch(word):
        return number[1]
    if word.isascii() or not re.search("[A-Za-z]", apart := unicodedata.normalize("NFD", word)):
        return word
    return "".join(each for each in apart if not unicodedata.combining(each)).translate(_GREEK)


def _is_punctuation(word: str) -> bool:
    return len(word) == 1 and unicodedata.category(word)[0] == "P" and word not in _SIGNS and word != "-"


def _difference(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The words that only one of the texts has, or more often."""
    ours, theirs = Counter(one), Counter(other)
    return [*(ours - theirs).elements()], [*(theirs - ours).elements()]


def _stands_whole_in(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Whether the words of one stand in the other with no other word between them."""
    return any(long[at : at + len(short)] == short for at in range(len(long) - len(short) + 1))


def _is_within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Whether the words of one stand in the other in the same order."""
    rest = iter(long)
    return all(word in rest for word in short)


def _is_misspelled(one: str, other: str) -> bool:
    """Whether a word is another with one letter more inside, or with two exchanged there."""
    short, long = sorted((one, other), key=len)
    if len(short) < 4 or not short.isalpha() or (one[0], one[-1]) != (other[0], other[-1]):
        return False
    if len(short) == len(long):
        return sorted(one) == sorted(other) and sum(a != b for a, b in zip(one, other, strict=True)) == 2
    return len(long) == len(short) + 1 and any(long[:place] + long[place + 1 :] == short for place in range(len(long)))


def _have_other_beginnings(short: tuple[str, ...], long: tuple[str, ...], greeting: re.Pattern[str]) -> bool:
    """Whether only the first few words differ, from the very first on, and all are words of a greeting."""
    if len(short) < LONG or short[0] == long[0]:
        return False
    common = next((n for n in range(len(short)) if short[-1 - n] != long[-1 - n]), len(short))
    first = (*short[: len(short) - common], *long[: len(long) - common])
    return len(long) - common <= BEGINNING and all(map(greeting.fullmatch, first))
