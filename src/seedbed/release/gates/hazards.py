"""Wording: phrases in a text by which an agent could be led astray, or a judge flattered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

_FLAGS = re.IGNORECASE | re.MULTILINE
_NOT = r"(?<!not )(?<!never )(?<!n't )"
"""Who is told not to do it is told well."""

HAZARDS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, _FLAGS)
    for name, pattern in {
        "an order to drop instructions": (
            rf"{_NOT}\b(ignore|disregard|forget|override|bypass)\b[^.\n]{{0,30}}"
            r"\b(previous|prior|earlier|above|preceding|system|your|all|any|these|those)\b[^.\n]{0,20}"
            r"\b(instructions?|rules?|prompts?|guidelines|constraints|directions|policy|policies|safeguards)\b"
            r"(?!\s+(in|inside|within|from|that|contained|embedded|found|given)\b)"  # which is advice against it
        ),
        "a way around confirmation": (
            r"\b(without|skip|never|do not|don't|no need (to|for))\b[^.\n]{0,15}"
            r"\b(ask(ing)?|wait(ing)?|seek(ing)?|request(ing)?)\b[^.\n]{0,25}"
            r"\b(permission|confirmation|confirm|approval)\b"
            r"|\b(without|skip)\b[^.\n]{0,10}\b(asking|confirmation|confirming|approval|permission)\b"
        ),
        "another persona without limits": (
            r"\b(jailbreak|developer mode|do anything now|no (restrictions|limits|filters)|unrestricted|uncensored)\b"
        ),
        "a request for secrets": (
            rf"{_NOT}\b(reveal|print|repeat|show|leak|send|output)\b[^.\n]{{0,30}}"
            r"\b(system prompt|your (instructions|prompt|rules)|api[ _-]?keys?|passwords?|credentials|secrets?)\b"
        ),
        "marks of a chat template": (
            r"<\|[a-z_]+\|>|\[/?INST\]|<</?SYS>>|</?(system|assistant)>|^#{2,} ?(system|assistant):"
        ),
        "an escape for a terminal": r"[\x1b\x9b]",
        "characters that nobody sees": (r"[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]"),
        "an address": r"\b[a-z][a-z0-9+.-]*://[^\s)>\"']+|\b[\w.+-]+@[\w-]+\.[a-z]{2,}\b",
        "a block that nobody can read": r"\b[A-Za-z0-9+/]{120,}={0,2}",
    }.items()
}
"""What a changed text must not bring in, each by its name."""

FLATTERY = re.compile(
    r"\b(give|award|assign|rate|grade|score|mark)\b[^.\n]{0,30}"
    r"\b((full|top|high(est)?|max(imum)?|perfect|best)\b[^.\n]{0,15}\b(score|marks?|rating|grade|points)|10/10|100%)"
    r"|\b(dear|note (to|for)|attention|hello) (the )?(judge|grader|evaluator|reviewer)\b"
    r"|\b(this|the above|my) (answer|response|output) (is|should be) "
    r"(graded|scored|rated|marked|considered|judged)\b",
    _FLAGS,
)
"""Words to whoever gives the scores, which no task asks for."""


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text within a value, with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from texts(item, f"{path}[{index}]")


def hazards(text: str, before: str = "") -> Iterator[tuple[str, str]]:
    """The hazards in a text that were not in it before: what each is, and the words."""
    for name, pattern in HAZARDS.items():
        known = {_bare(match[0]) for match in pattern.finditer(before)}
        new = (match[0] for match in pattern.finditer(text) if _bare(match[0]) not in known)
        yield from ((name, words) for words in islice(new, 1))
    if (found := FLATTERY.search(text)) and not FLATTERY.search(before):
        yield "words to whoever gives the scores", found[0]


def _bare(words: str) -> str:
    return " ".join(words.casefold().split())


__all__ = ["FLATTERY", "HAZARDS", "hazards", "texts"]
