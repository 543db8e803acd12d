"""The page of a search: complete, safe, and content with itself."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from math import nan
from xml.etree import ElementTree

from page_reader import Reader, assert_asks_nothing
from page_reader import pictures as pictures_of
from search_samples import START, playbook, searched

from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS
from seedbed.evolution.protocols import Offer
from seedbed.evolution.searches import Evolution
from seedbed.reports.search import report
from seedbed.reports.search.view import SearchView
from seedbed.storage.store import Json

HOSTILE = 'Sort.</pre></p><script>alert("x")</script><img src=x onerror=alert(1)>'


def to_html(found: Evolution, plan: Json | None = None) -> str:
    return report.to_html(SearchView(found, plan or {}))


def ends(picture: ElementTree.Element, kind: str) -> list[tuple[float, float]]:
    """The corners of a line of a chart."""
    (line,) = [path for path in picture.iter("path") if kind in (path.get("class") or "").split()]
    corners = (corner.split() for corner in line.get("d", "").removeprefix("M").removesuffix("Z").split("L"))
    return [(float(x), float(y)) for x, y in corners]


async def test_the_page_tells_all_that_the_report_does() -> None:
    found = await searched()
    page, summary = to_html(found), SearchView(found)
    text = " ".join(Reader(page).text)
    assert summary.sentence in text
    for row in summary.figures:
        assert all(cell in text for cell in row), row
    for line in summary.lineage:
        assert line in text
    for name, each in summary.arms.items():
        assert f"{name} {each.turns} {each.new_bests} {each.gain:+.3f}" in " ".join(text.split())
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings == [
        *("What changed", "How it came about", "Scores in the search and on new tasks", "Lineage of the best"),
        *("What each arm earned", "Spending", "Candidates", "Figures", "Registered before anything was run"),
    ]


async def test_every_picture_is_there_and_whole() -> None:
    assert list(pictures_of(to_html(await searched()))) == [
        *("best score over runs", "distance between candidates over steps"),
        *("scores in the search and confirmed", "confirmed gains", "spent of the budget"),
    ]
    several = pictures_of(to_html(await searched(several=True)))
    assert "score and length" in several


async def test_the_best_so_far_is_a_staircase_within_its_band() -> None:
    found = await searched()
    chart = pictures_of(to_html(found))["best score over runs"]
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
    assert "its uncertainty is not recorded" in page
    assert 'class="band"' not in page


async def test_answers_differ_by_sign_not_only_by_colour() -> None:
    def badge(found: Evolution) -> list[str]:
        return re.findall('<span class="badge [a-z]+">(.*?)</span>', to_html(found))

    assert badge(await searched()) == ["▲ better"]
    assert badge(await searched(confirm=NO_TASKS)) == ["? not confirmed"]
    assert badge(await searched(optimizer=BestOf([playbook("Sort the mail. never")]))) == ["= nothing better"]


async def test_the_page_asks_nothing_of_anybody() -> None:
    page = to_html(await searched(several=True))
    assert_asks_nothing(page)


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


async def test_the_page_has_the_whole_new_playbook() -> None:
    found = await searched()
    best = found.pool.playbooks[found.pool.place(found.best)]
    assert best.to_yaml() in "".join(Reader(to_html(found)).text)


async def test_a_search_without_a_step_is_a_page_too() -> None:
    found = await searched(optimizer=BestOf([]))
    page = to_html(found)
    assert "No step was taken." in page
    assert "Nothing: the best is the start." in page
