"""A report as one web page: its parts, and the templates that render them.

Every module of this package describes its report with the classes here, once; this module renders them as HTML and
`markdown` as Markdown. Templates escape every text; a page has no script, no font and no picture from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from seedbed.playbooks.changes import Change
from seedbed.reports.figure import Figure
from seedbed.reports.numbers import TableRow

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    kind: ClassVar = "prose"
    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of short texts."""

    kind: ClassVar = "bullets"
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A text as it is, with its line breaks: an answer of a model, or code in a `language`."""

    kind: ClassVar = "verbatim"
    text: str
    language: Literal["", "text", "yaml"] = ""


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows of texts under their heads. Of `numbers` no line may break; `more` rows were left out."""

    kind: ClassVar = "table"
    heads: Sequence[str]
    rows: Sequence[TableRow]
    numbers: bool = False
    more: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure under its name. `instead` is the same as text: for Markdown, and for people who do not see it."""

    kind: ClassVar = "picture"
    name: str
    figure: Figure
    caption: str = ""
    instead: PageTable | Verbatim | None = None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Small pictures beside each other, as far as there is room."""

    kind: ClassVar = "side_by_side"
    pictures: Sequence[Picture]


@dataclass(frozen=True, slots=True)
class WordChanges:
    """What differs between two playbooks, word by word."""

    kind: ClassVar = "changes"
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class Fold:
    """Parts that open on demand."""

    kind: ClassVar = "fold"
    summary: str
    parts: Sequence[PagePart]


@dataclass(frozen=True, slots=True)
class PageSection:
    """Parts under a heading."""

    kind: ClassVar = "section"
    heading: str
    parts: Sequence[PagePart]


PagePart: TypeAlias = "Prose | Bullets | Verbatim | PageTable | Picture | SideBySide | WordChanges | Fold | PageSection"


@dataclass(frozen=True, slots=True)
class Tile:
    """A number in large type: what it is, itself, and what to know about it."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Badge:
    """The conclusion in one word, with a sign of its own shape; the colour says whether it is what people hoped for."""

    mood: Literal["good", "bad", "open"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """A report: the conclusion first, then what it rests on."""

    title: str
    subtitle: str
    answer: str = ""
    """The conclusion, for people who know no statistics."""
    badge: Badge | None = None
    status: str = ""
    """The same in one line of figures."""
    alarm: str = ""
    """What to know before anything else, if the conclusion cannot be relied on."""
    problems: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    parts: Sequence[PagePart] = ()


def picture(
    name: str, figure: Figure | None, caption: str = "", instead: PageTable | Verbatim | None = None
) -> list[Picture]:
    """The figure as a part of a page; nothing if there is nothing to draw."""
    return [Picture(name, figure, caption, instead)] if figure else []


def section(heading: str, *parts: PagePart) -> list[PageSection]:
    """A section of these parts; nothing if there are none."""
    return [PageSection(heading, parts)] if parts else []


def figures(page: ReportPage) -> dict[str, Figure]:
    """The figures of a report by their titles, to show or to save one by one."""
    return {figure.title: figure for figure in _figures(page.parts)}


def _figures(parts: Iterable[PagePart]) -> Iterator[Figure]:
    for part in parts:
        match part:
            case Picture():
                yield part.figure
            case SideBySide(inner) | Fold(_, inner) | PageSection(_, inner):
                yield from _figures(inner)


def to_html(page: ReportPage) -> str:
    return _templates().get_template("report.html").render(page=page)


@cache
def _templates() -> jinja2.Environment:
    """The templates of this package. Jinja2 is loaded with the first page: most commands write none."""
    engine = import_module("jinja2")
    templates: jinja2.Environment = engine.Environment(
        loader=engine.PackageLoader("seedbed.reports"),
        autoescape=True,
        undefined=engine.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates
