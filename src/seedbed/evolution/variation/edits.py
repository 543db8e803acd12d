"""Edits: small changes to one text of a playbook, read from what a model answers, checked, and made.

Nothing here raises, whatever a model answers: an answer that cannot be used comes back with its problems, in words that
the model can read.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from seedbed.errors import PlaybookError, Problem, shown
from seedbed.evaluation.metrics.instructions import language_of
from seedbed.evolution.variation import checks
from seedbed.evolution.variation.checks import LIMITS, Limits
from seedbed.playbooks.genes import Gene, edited_characters, genes, get, with_genes
from seedbed.playbooks.playbook import Playbook

LONGEST_ANSWER = 100_000
"""Characters of an answer that are read."""

MOST_STARTS = 200
"""How many places of an answer are tried as the beginning of JSON."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change: `old` is replaced by `new` or deleted, `new` is added at the end, or it is the whole new text."""

    kind: Literal["replace", "append", "delete", "rewrite"]
    old: str = ""
    new: str = ""


@dataclass(frozen=True, slots=True)
class ProposedEdits:
    """The edits that a model proposes, and why; or the problems of its answer."""

    edits: tuple[Edit, ...] = ()
    why: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one answer may change: at most `edits` edits and `changed` characters, or half of a longer text.

    A text of up to `short` characters may be rewritten whole.
    """

    edits: int = 4
    changed: int = 600
    short: int = 400

    def changed_of(self, text: str) -> int:
        """How many characters of a text may change."""
        return max(self.changed, len(text) // 2)


BOUNDS = Bounds()


# Reading

FORM = (
    '{"why": "…", "edits": [{"find": "words of the text", "replace": "other words"}, {"append": "a sentence"}, '
    '{"delete": "words of the text"}]}'
)
# Thoughts come first; some servers leave out where they began. In JSON a line end is written otherwise.
_THOUGHT = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)|\A.*</think>\s*(?=[\[{`]|\Z)", re.DOTALL)
_START = re.compile(r'[\[{](?=\s*["\[{])')
_WITHIN = re.compile(r'(?:[\[,]|"\s*:)\s*\Z')
"""Before a value that is a part of another one, which is broken or cut."""
# A text in quotes, closed or not, stays as it is; a comma before a closing bracket becomes a space.
_NEEDLESS_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL)
_KEYS = frozenset({"find", "replace", "append", "delete", "rewrite"})


def read_edits(answer: str) -> ProposedEdits:
    """The edits in a model's answer: the last JSON in it that has some. Text around it is ignored."""
    if len(answer) > LONGEST_ANSWER:
        size = f"{len(answer):,} characters"
        return ProposedEdits(problems=(Problem("answer", size, f"at most {LONGEST_ANSWER:,}"),))
    text = _THOUGHT.sub("", answer)
    values = [value for value in _values(text) if _has_edits(value)]
    if not values:
        what = shown(text, 120) if text.strip() else "nothing"
        return ProposedEdits(problems=(Problem("answer", what, f"JSON of the form {FORM}"),))
    return _proposed(values[-1])


def _values(text: str) -> Iterator[Any]:
    """All whole JSON in a text, with commas too many or not."""
    decoder = json.JSONDecoder(strict=False)
    read_to = tries = 0
    for start in (place.start() for place in _START.finditer(text)):
        if start < read_to or _WITHIN.search(text, max(start - 20, 0), start):
            continue
        if (tries := tries + 1) > MOST_STARTS:
            return
        for mend in (str, _without_needless_commas):
            try:
                value, size = decoder.raw_decode(mend(text[start:]))
            except (ValueError, RecursionError):
                continue
            read_to = start + size
            yield value
            break


def _without_needless_commas(text: str) -> str:
    return _NEEDLESS_COMMA.sub(lambda match: match[1] or " ", text)


def _has_edits(value: object) -> bool:
    if isinstance(value, dict):
        return "edits" in value or not _KEYS.isdisjoint(value)
    return isinstance(value, list) and any(isinstance(each, dict) and not _KEYS.isdisjoint(each) for each in value)


def _proposed(value: Any) -> ProposedEdits:
    listed, why = value, ""
    if isinstance(value, dict):
        listed = value.get("edits", [value])
        why = value.get("why", "")
    if not isinstance(listed, list) or not listed:
        return ProposedEdits(problems=(Problem("edits", shown(listed), "a list with at least one edit"),))
    edits: list[Edit] = []
    problems: list[Problem] = []
    for number, each in enumerate(listed):
        edit = _edit(each)
        if isinstance(edit, Edit):
            edits.append(edit)
        else:
            problems.append(Problem(f"edits[{number}]", *edit))
    return ProposedEdits(tuple(edits), _clean(why) if isinstance(why, str) else "", tuple(problems))


def _edit(each: object) -> Edit | tuple[str, str]:
    """An edit; or what was found in its place, and what was expected."""
    if not isinstance(each, dict) or _KEYS.isdisjoint(each):
        return shown(each), "find and replace, append, or delete"
    raw = {key: value for key, value in each.items() if key in _KEYS}
    for key, value in raw.items():
        if not isinstance(value, str):
            return f"{key}: {shown(value)}", "text"
        if any(unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t\r" for letter in value):
            return f"{key}: characters that are no text", "text"
    parts = {key: _clean(value) for key, value in raw.items()}
    match sorted(parts):
        case ["find", "replace"] if parts["find"].strip():
            kind: Literal["replace", "delete"] = "replace" if parts["replace"].strip() else "delete"
            return Edit(kind, parts["find"], parts["replace"] if kind == "replace" else "")
        case ["delete"] if parts["delete"].strip():
            return Edit("delete", parts["delete"])
        case ["append"] if parts["append"].strip():
            return Edit("append", new=parts["append"].strip())
        case ["rewrite"] if parts["rewrite"].strip():
            return Edit("rewrite", new=parts["rewrite"].strip())
    return shown(each), "one of find and replace, append, or delete, none of them empty"


def _clean(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


# Making


def apply_edits(text: str, edits: Sequence[Edit], bounds: Bounds = BOUNDS) -> tuple[str, list[Problem]]:
    """The text with all edits made, and what is wrong with them: then the text is as it was.

    All are looked up in the text as it was, so that none can undo another.
    """
    problems: list[Problem] = []
    if len(edits) > bounds.edits:
        problems.append(Problem("edits", f"{len(edits)} edits", f"at most {bounds.edits}"))
    whole = [edit for edit in edits if edit.kind == "rewrite"]
    if whole and (len(edits) > 1 or len(text) > bounds.short):
        problems.append(Problem("edits", "a text written anew", "small edits of the text that is there"))
    if problems:
        return text, problems
    new, problems = (whole[0].new, []) if whole else _place(text, edits)
    most = bounds.changed_of(text)
    if (changed := edited_characters(text, new)) > most:
        problems.append(Problem("edits", f"{changed:,} characters changed", f"at most {most:,}", "Change less."))
    problems += out_of_style(text, [edit.new for edit in edits if edit.new])
    return (text, problems) if problems else (new, [])


def _place(text: str, edits: Sequence[Edit]) -> tuple[str, list[Problem]]:
    places: list[tuple[int, int, str]] = []
    problems: list[Problem] = []
    for number, edit in enumerate(edits):
        if edit.kind == "append":
            continue
        spans = _spans(text, edit.old)
        if len(spans) == 1:
            places.append((*_with_space(text, *spans[0], edit), edit.new))
        else:
            times = f"{shown(edit.old)}, which stands {len(spans)} times in it" if spans else f"no {shown(edit.old)}"
            problems.append(Problem(f"edits[{number}]", times, "words that stand exactly once in the text"))
    places.sort()
    if any(before[1] > after[0] for before, after in pairwise(places)):
        problems.append(Problem("edits", "edits of the same words", "edits apart from each other"))
    if problems:
        return text, problems
    for start, end, new in reversed(places):
        text = text[:start] + new + text[end:]
    for edit in edits:
        if edit.kind == "append":
            space = "" if not text or text[-1].isspace() else "\n" if "\n" in text.strip() else " "
            text = f"{text}{space}{edit.new}"
    return text, []


def _spans(text: str, words: str) -> list[tuple[int, int]]:
    """Where the words stand; if nowhere exactly so, then where they stand with other white space between them."""
    exact = [(place.start(), place.start() + len(words)) for place in re.finditer(f"(?={re.escape(words)})", text)]
    if exact:
        return exact
    loose = r"\s+".join(map(re.escape, words.split()))
    return [place.span() for place in re.finditer(loose, text)]


def _with_space(text: str, start: int, end: int, edit: Edit) -> tuple[int, int]:
    """With words that are deleted goes one of the spaces around them."""
    if edit.kind == "delete" and start and text[start - 1] == " " and (end == len(text) or text[end].isspace()):
        return start - 1, end
    return start, end


# Style

MARKUP = {
    "headings": re.compile(r"^\s{0,3}#{1,6}\s", re.MULTILINE),
    "lists": re.compile(r"^[^\S\n]*(?:[-*•+]|\d+[.)])\s+\S", re.MULTILINE),
    "code blocks": re.compile(r"```"),
    "tables": re.compile(r"^[^\S\n]*\|.*\|", re.MULTILINE),
    "tags": re.compile(r"</?[A-Za-z][\w-]*>"),
    "bold print": re.compile(r"\*\*\S"),
}
LONG_SENTENCE = 30
"""Words of a sentence on average that are no jump in style, however short the sentences were before."""
ENOUGH_WORDS = 15
"""Words that it takes to tell a language."""
_SENTENCE_END = re.compile(r"(?<![.!?:;])[.!?:;]++(?=\s|$)|[。！？]|\n+")


def out_of_style(text: str, added: Iterable[str]) -> list[Problem]:
    """Where the added words do not go with the text: other markup, much longer sentences, another script or language.

    A text without words has no style.
    """
    new = "\n".join(added)
    if not re.search(r"\w", text) or not re.search(r"\w", new):
        return []
    problems = [
        Problem("style", f"{name}, of which the text has none", "the format of the text")
        for name, pattern in MARKUP.items()
        if pattern.search(new) and not pattern.search(text)
    ]
    most = max(LONG_SENTENCE, 2 * _sentence_words(text))
    if (words := _sentence_words(new)) > most:
        size = f"sentences of {words:.0f} words"
        problems.append(Problem("style", size, f"at most {most:.0f} words", "Write shorter sentences."))
    if strange := _scripts(new) - _scripts(text):
        problems.append(Problem("style", f"{', '.join(sorted(strange)).lower()} letters", "those of the text"))
    elif min(len(text.split()), len(new.split())) >= ENOUGH_WORDS and language_of(text) != language_of(new):
        problems.append(Problem("style", f"the language {language_of(new)}", f"that of the text, {language_of(text)}"))
    return problems


def _sentence_words(text: str) -> float:
    counts = [len(piece.split()) for piece in _SENTENCE_END.split(text) if re.search(r"\w", piece)]
    return sum(counts) / max(len(counts), 1)


def _scripts(text: str) -> set[str]:
    """The scripts of a tenth of the letters or more."""
    scripts = Counter(unicodedata.name(each, "OTHER").split()[0] for each in text[:4_000] if each.isalpha())
    return {script for script, letters in scripts.items() if letters * 10 >= scripts.total()}


# A child


def editable_texts(playbook: Playbook) -> dict[str, Gene]:
    """The texts that may be edited. A step without a prompt asks the task itself, which no words can replace."""
    texts = {path: gene for path, gene in genes(playbook).items() if gene.kind == "text"}
    return {path: gene for path, gene in texts.items() if gene.value.strip() or path.startswith("roles.")}


def child_of(
    parent: Playbook, path: str, text: str, limits: Limits = LIMITS, *, start: Playbook | None = None
) -> tuple[Playbook | None, list[Problem]]:
    """The playbook that differs from its parent in the text of that one gene; or what is wrong with the text."""
    if text == get(parent, path):
        return None, [Problem("text", "the text as it was", "a change")]
    try:
        child = with_genes(parent, {path: text})
    except PlaybookError as wrong:
        return None, list(wrong.problems)
    problems = checks.problems(parent, child, limits, start=start)
    return (None, problems) if problems else (child, [])
