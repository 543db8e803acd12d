"""What a browser would make of a page, and what a page must never do."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

ACTIVE = {"script", "link", "img", "iframe", "object", "embed", "form", "base", "video", "audio"}
LOADING = {"src", "srcset", "href", "action", "onload", "onerror", "style", "background", "xmlns"}


class Reader(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def names(self) -> set[str]:
        return {tag for tag, _ in self.tags}


def assert_asks_nothing(page: str) -> None:
    """The page loads nothing and sends nothing, and says so to the browser."""
    reader = Reader(page)
    assert not ACTIVE & reader.names
    assert not {name for _, attributes in reader.tags for name in attributes} & LOADING
    assert not re.search(r"https?:|url\(|@import", page)
    assert "default-src 'none'" in page


def headings(page: str) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", page)


def pictures(page: str) -> dict[str, ElementTree.Element]:
    """Each figure by its title; raises if one is no whole SVG, or has no description."""
    found = [ElementTree.fromstring(each) for each in re.findall("<svg.*?</svg>", page, re.DOTALL)]
    for each in found:
        assert each.get("role") == "img"
        assert each.findtext("title") == each.get("aria-label")
        assert each.findtext("desc")
    return {str(each.get("aria-label")): each for each in found}
