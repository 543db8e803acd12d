"""A report as Markdown: to read as it is, or to put into a merge request. Texts of others stay texts."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence

from seedbed import documents
from seedbed.playbooks.changes import Change
from seedbed.reports.formats import Noun, finite
from seedbed.reports.numbers import clipped
from seedbed.reports.page import (
    Bullets,
    Fold,
    PagePart,
    PageSection,
    PageTable,
    Picture,
    Prose,
    ReportPage,
    SideBySide,
    Verbatim,
    WordChanges,
    to_html,
)
from seedbed.storage.store import Json

SENTENCE = 2000
"""The most characters of a sentence: names in it may be long, but not endless."""


def to_markdown(page: ReportPage) -> str:
    """All of a report but its pictures; what those show is there as text."""
    parts = [f"# {inert(page.title)}", inert(page.subtitle, SENTENCE)]
    parts += [f"**{inert(page.alarm, SENTENCE)}**"] if page.alarm else []
    parts += [_bullets(page.problems)] if page.problems else []
    parts += [f"**{inert(page.answer, SENTENCE)}**"] if page.answer else []
    parts += [f"`{page.status}`"] if page.status else []
    return "\n\n".join((*filter(None, parts), *_parts(page.parts, 2))) + "\n"


def writers(
    page_of: Callable[[Noun], ReportPage], document: Callable[[Noun], Json]
) -> tuple[Callable[[Noun], str], Callable[[Noun], str], Callable[[Noun], str]]:
    """What writes a noun as JSON, as Markdown and as a web page, by its document and its page."""
    return (
        lambda noun: documents.to_json(finite(document(noun))),
        lambda noun: to_markdown(page_of(noun)),
        lambda noun: to_html(page_of(noun)),
    )


def _parts(parts: Iterable[PagePart], level: int) -> list[str]:
    return [text for part in parts for text in _part(part, level)]


def _part(part: PagePart, level: int) -> list[str]:
    match part:
        case PageSection(heading, parts) | Fold(heading, parts):
            inner = _parts(parts, level + 1)
            return [f"{'#' * level} {inert(heading)}", *inner] if inner else []
        case Prose(text):
            return [inert(text, SENTENCE)]
        case Bullets(texts):
            return [_bullets(texts)]
        case Verbatim(text, language):
            return [fenced(text, language or "text")]
        case PageTable():
            more = [f"and {part.more:,} more"] if part.more > 0 else []
            return [table(part.heads, part.rows), *more]
        case Picture():
            return _parts([part.instead], level) if part.instead else []
        case SideBySide(pictures):
            return _parts(pictures, level)
        case WordChanges(changes):
            return [_changes(changes)]


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {inert(text, 500)}" for text in texts)


def _changes(changes: Sequence[Change]) -> str:
    return fenced("\n\n".join(map(str, changes)))


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(heads)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(inert(cell) for cell in line)} |" for line in lines)


def inert(text: str, limit: int = 200) -> str:
    """A text that stays within its place: on one line, not too long, and no markup."""
    return re.sub(r"([\\|`*_\[\]#])", r"\\\1", html.escape(clipped(text, limit), quote=False))


def fenced(text: str, language: str = "text") -> str:
    """A text as it is, in a fence that it cannot leave."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
