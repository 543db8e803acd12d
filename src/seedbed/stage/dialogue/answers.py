"""Answers as texts that can be compared: what they say, and how alike two of them are.

Answers are compared by their words alone, without a model. Their likeness is the share of words they have in common,
where short and common words count little and numbers double; it is halved if one has a number in place of the other's
or negates what the other says. So 1 means the same words, 0.7 to 0.95 small changes, about 0.5 the same said in other
words, and less than 0.2 that two speakers have little in common. Two answers come to the same if the conclusions they
name ("answer: …", "verdict: …") do; where one names none, if they are at least 0.35 alike and contradict each other in
nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property

ALIKE = 0.35
"""Answers at least this alike come to the same conclusion."""

COMPARED = 20_000
"""How many characters of an answer are compared; of a longer one, half from its beginning and half from its end."""

DIGITS = r"\d+(?:[.,:/]\d+)*"
WORD = re.compile(rf"{DIGITS}|[\u3040-\u9fff]|\b[A-HJ-Z]\b(?!\s*\w)|[^\W\d_]+(?:['’][^\W\d_]+)*|[.!?;:,\n]")
LIST_MARK = re.compile(r"^[ \t]*(?:\d+[.)]|[-*•])[ \t]+", re.MULTILINE)
SPELLED = {
    word: str(n) for n, word in enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 2)
}
NEGATION = frozenset(["no", "not", "never", "none", "nor", "neither", "nothing", "cannot", "nicht", "kein", "keine"])
NEW_CLAUSE = frozenset(["as", "because", "since", "but", "and", "or", "if", "so", "while", *".!?;:,\n"])
COMMON = frozenset(
    re.findall(
        r"\w+",
        "that this with from have will would which their there about should could them they then than these those what"
        " when your into also more very just only been being were does here some such each over both",
    )
)
CONCLUSION = re.compile(
    r"\\boxed\{([^{}]*)\}"
    r"|\b(?:answer|verdict|conclusion|recommendation|decision|diagnosis|result|vote|position|cause|choice|score)[*_]*"
    r"(?:\s*[:=]|\s+is\b|\s+remains\b)[ *_]*([^\n]{1,500}?)(?=[.!?;](?:\s|$)|\n|$)"
    r"|\b(?:therefore|thus|hence),?\s+([^\n.!?]{1,500}+)[.!?]?\s*+$",
    re.IGNORECASE,
)
SCORE = re.compile(r"(?:(?<![\w.,])[-−])?\d+(?:[.,]\d+)*(?P<of>(?:\s*(?:/|(?:out )?of)\s*\d+(?:[.,]\d+)*)*)")


class AnswerText:
    """A text, and the part of it that is compared."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.compared = text if len(text) <= COMPARED else f"{text[: COMPARED // 2]}\n{text[-COMPARED // 2 :]}"

    @cached_property
    def read(self) -> tuple[dict[str, float], Counter[str]]:
        """The stem of each word and its weight, where a negated one begins with "!"; and all numbers."""
        words: dict[str, float] = {}
        numbers: Counter[str] = Counter()
        negated = False
        for word in WORD.findall(LIST_MARK.sub("", self.compared)):
            lower = word.lower()
            if lower in NEGATION or lower.endswith(("n't", "n’t")):
                negated = True
            elif lower in NEW_CLAUSE:
                negated = False
            elif number := lower if word[0].isdigit() else SPELLED.get(lower):
                words[_plain(number)] = 2.0
                numbers[_plain(number)] += 1
            elif len(word) <= 3 or lower in COMMON:
                words[word if word.isupper() else lower] = 1.0 if word.isupper() and word != "I" else 0.25
            else:
                words["!" * negated + (lower.rstrip("s") or lower)[:6]] = 1.0
                negated = False
        return words, numbers

    @cached_property
    def conclusion(self) -> AnswerText | None:
        conclusions = [next(filter(None, each), "").strip("*_ ") for each in CONCLUSION.findall(self.compared)]
        return AnswerText(conclusions[-1]) if conclusions else None

    @property
    def number(self) -> float | None:
        """The last number, of a fraction the numerator."""
        numbers = [each[0].removesuffix(each["of"]) for each in SCORE.finditer(self.compared)]
        if not numbers:
            return None
        whole, dot, rest = _plain(numbers[-1].replace("−", "-")).partition(".")
        return float(whole + dot + rest.replace(".", ""))

    def like(self, other: AnswerText) -> float:
        shared = self._shared(other)
        return shared / 2 if self.contradicts(other) else shared

    def _shared(self, other: AnswerText) -> float:
        if self.text == other.text:
            return 1.0
        ours, theirs = self.read[0], other.read[0]
        both = sum(ours.values()) + sum(theirs.values())
        shared = sum(min(ours[word], theirs[word]) for word in ours.keys() & theirs.keys())
        return 2 * shared / both if both else 0.0

    def contradicts(self, other: AnswerText) -> bool:
        (ours, numbers), (theirs, others) = self.read, other.read
        if numbers - others and others - numbers:
            return True
        return any(_denies(word, ours, theirs) for word in ours) or any(_denies(word, theirs, ours) for word in theirs)

    def comes_to(self, other: AnswerText) -> bool:
        """Whether both come to the same conclusion."""
        if self.conclusion and other.conclusion:
            ours, theirs = self.conclusion.meaning, other.conclusion.meaning
            return bool(ours & theirs) and (ours <= theirs or theirs <= ours)
        return self._shared(other) >= ALIKE and not self.contradicts(other)

    @property
    def meaning(self) -> set[str]:
        """The words that count fully, or all words if there are none."""
        words = self.read[0]
        return {word for word, weight in words.items() if weight >= 1} or {*words} or {self.text}

    def agrees(self, other: AnswerText) -> float:
        """How alike the conclusions are or, unless both name one, the whole texts."""
        if self.conclusion and other.conclusion:
            return self.conclusion.like(other.conclusion)
        return self.like(other)

    def opposes(self, other: AnswerText) -> bool:
        named = self.conclusion and other.conclusion
        return not self.comes_to(other) if named else self.contradicts(other)


def _denies(word: str, one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return word[0] == "!" and word[1:] in other and word[1:] not in one and word not in other


def _plain(number: str) -> str:
    """A number without thousands separators, and with a point before its decimals."""
    return number.replace(",", "" if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", number) else ".")
