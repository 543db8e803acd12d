"""The page of a search: complete, safe, and content with itself."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from math import nan
from xml.etree import ElementTree

from search_samples import START, playbook, searched

from seedbed.evolution.evolve import Evolution
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS
from seedbed.evolution.protocols import Offer
from seedbed.reports.search_page import to_html
from seedbed.reports.search_summary import Summary

HOSTILE = 'Sort.</pre></p><script>alert("x")</script><img src=x onerror=alert(1)>'


class Reader(HTMLParser):
    """What a browser would make of a page: its tags, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def pictures(page: str) -> dict[str, ElementTree.Element]:
    """Each picture by what it is called; raises if one is no whole SVG."""
    found = re.findall("<svg.*?</svg>", page, re.DOTALL)
    return {str(each.get("aria-label")): each for each in map(ElementTree.fromstring, found)}


def ends(picture: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    """The corners of a line of a chart."""
    (line,) = [path for path in picture.iter("path") if kind in (path.get("class") or "").split()]
    corners = (corner.split() for corner in line.get("d", "").removeprefix("M").removesuffix("Z").split("L"))
    return [(float(x), float(y)) for x, y in corners]


async def test_the_page_tells_all_that_the_report_does() -> None:
    found = await searched()
    page, summary = to_html(found), Summary(found)
    text = " ".join(Reader(page).text)
    assert summary.sentence in text
    for row in summary.figures:
        assert all(cell in text for cell in row), row
    for line in summary.lineage:
        assert line in text
    for name, each in summary.arms.items():
        assert f"{name} {each.turns} {each.found} {each.gain:+.3f}" in text
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings == [
        *("How it came about", "On the tasks that decide, and on others", "What changed", "Lineage of the best"),
        *("What each arm earned", "Spending", "Candidates", "Figures", "Registered before anything was run"),
    ]


async def test_every_picture_is_there_and_whole() -> None:
    assert list(pictures(to_html(await searched()))) == [
        *("best score over runs", "distance between candidates over steps"),
        *("scores in the search and confirmed", "confirmed gains", "spent of the budget"),
    ]
    several = pictures(to_html(await searched(several=True), better={"length": "lower"}))
    assert "score and length" in several


async def test_the_best_so_far_is_a_staircase_within_its_band() -> None:
    found = await searched()
    chart = pictures(to_html(found))["best score over runs"]
    stairs, band = ends(chart, "path"), ends(chart, "band")
    assert all(x0 == x1 or y0 == y1 for (x0, y0), (x1, y1) in pairwise(stairs))
    upper, lower = band[: len(stairs)], band[len(stairs) :][::-1]
    assert [x for x, _ in upper] == [x for x, _ in stairs] == [x for x, _ in lower]
    assert all(high <= y <= low for (_, high), (_, y), (_, low) in zip(upper, stairs, lower, strict=True))
    assert stairs[0][1] > stairs[-1][1]  # it went up, and pictures count from above


async def test_a_band_that_nobody_knows_is_not_drawn() -> None:
    found = await searched()
    unsure = replace(found, steps=tuple(replace(step, deviation=nan) for step in found.steps))
    page = to_html(unsure)
    assert "how sure each was is not recorded" in page
    assert 'class="band"' not in page


async def test_answers_differ_by_sign_not_only_by_colour() -> None:
    def badge(found: Evolution) -> list[str]:
        return re.findall('<span class="badge [a-z]+">(.*?)</span>', to_html(found))

    assert badge(await searched()) == ["▲ better"]
    assert badge(await searched(confirm=NO_TASKS)) == ["? not confirmed"]
    assert badge(await searched(optimizer=BestOf([playbook("Sort the mail. never")]))) == ["= nothing better"]


async def test_the_page_asks_nothing_of_anybody() -> None:
    page = to_html(await searched(several=True))
    tags = Reader(page).tags
    assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in tags}
    assert not {name for _, given in tags for name in given} & {"src", "href", "action", "onload", "style"}
    assert not re.search(r"https?:|url\(|@import", page)
    assert "default-src 'none'" in page


async def test_what_hostile_playbooks_say_is_shown_and_does_nothing() -> None:
    found = await searched(optimizer=BestOf([playbook("Sort the mail. twice")]))
    plain = {tag for tag, _ in Reader(to_html(found)).tags}
    bad = playbook(HOSTILE)
    found.pool.add(Offer(bad, (START.digest,), HOSTILE, arm=HOSTILE))
    reader = Reader(to_html(replace(found, best=bad.digest), {"optimizer": {"optimizer": HOSTILE}}))
    assert {tag for tag, _ in reader.tags} <= plain | {"del", "ins"}
    assert any("<script>" in text for text in reader.text)


async def test_words_that_came_and_went_are_marked() -> None:
    found = await searched(optimizer=BestOf([playbook("Sort all mail. twice")]))
    page = to_html(found)
    assert "<del>the</del>" in page
    assert "<ins>all</ins>" in page


async def test_a_search_without_a_step_is_a_page_too() -> None:
    found = await searched(optimizer=BestOf([]))
    page = to_html(found)
    assert "No step was taken." in page
    assert "The best is the start." in page
