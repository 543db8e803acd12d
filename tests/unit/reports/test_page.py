"""Templates: every text is escaped, the conclusion comes first, and a page loads nothing."""

from __future__ import annotations

import re
from importlib.resources import files

from page_reader import Reader, assert_asks_nothing, pictures

from seedbed.playbooks.changes import Change
from seedbed.reports.page import (
    Badge,
    Bullets,
    Fold,
    PagePart,
    PageSection,
    PageTable,
    Picture,
    Prose,
    ReportPage,
    SideBySide,
    Tile,
    Verbatim,
    WordChanges,
    to_html,
)
from seedbed.reports.plots import bars

HOSTILE = '"></pre></td><script>alert("x")</script><img src=x onerror=alert(1)>{{ 7 * 7 }}'


def whole(text: str) -> ReportPage:
    """A page with every kind of part, and this text wherever a text can be."""
    figure = bars([(text, 0.5, text)], text)
    assert figure
    table = PageTable((text, "n"), [(text, "1"), (f"seedbed {text}", "2")], more=1234)
    picture = Picture(text, figure, text, table)
    changes = WordChanges([Change(text, f"{text} old", f"{text} new"), Change(text, None, text)])
    parts: list[PagePart] = [Prose(text), Bullets([text]), Verbatim(text), Verbatim(text, "yaml"), table, picture]
    return ReportPage(
        title=text,
        subtitle=text,
        answer=text,
        badge=Badge("good", text),
        status=text,
        alarm=text,
        problems=[text],
        tiles=[Tile(text, text, text)],
        parts=[
            PageSection(text, [*parts, changes, SideBySide([picture]), PageSection(text, parts)]),
            Fold(text, parts),
        ],
    )


def test_every_text_is_escaped() -> None:
    hostile, plain = Reader(to_html(whole(HOSTILE))), Reader(to_html(whole("plain text " * 9)))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert "".join(hostile.text).count("<script>") > 40
    assert "49" not in "".join(hostile.text)
    assert_asks_nothing(to_html(whole("plain")))


def test_no_template_marks_anything_as_safe() -> None:
    folder = files("seedbed.reports").joinpath("templates")
    sources = [each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(".html")]
    assert len(sources) == 3
    for source in sources:
        assert not re.search(r"\|\s*safe|autoescape|<script|https?:", source)


def test_the_conclusion_comes_first() -> None:
    shown = to_html(
        ReportPage(title="a title", subtitle="digests", answer="Yes.", alarm="Wait.", parts=[Prose("the rest")])
    )
    places = [shown.index(f">{text}<") for text in ("a title", "digests")]
    places += [shown.index("Wait."), shown.index("Yes."), shown.index("the rest")]
    assert places == sorted(places)


def test_figures_have_a_title_a_description_and_the_same_as_text() -> None:
    shown = to_html(whole("plain"))
    assert list(pictures(shown)) == ["plain"]
    assert shown.count("The same as text") == shown.count("<svg")


def test_tables_and_figures_scroll_and_tables_say_how_many_rows_are_missing() -> None:
    shown = to_html(whole("plain"))
    assert len(re.findall('<div class="wide"[^>]*><(?:table|svg)', shown)) == shown.count("<table") + shown.count(
        "<svg"
    )
    assert "and 1,234 more" in shown
