"""The page of a comparison: complete, safe, and content with itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from page_reader import Reader, assert_asks_nothing
from page_reader import headings as headings_of
from page_reader import pictures as pictures_of
from test_experiment_report import HOSTILE, NAMES, NEW, OLD, Errors, Graded, proven, stopped, tasks

from seedbed.errors import Problem
from seedbed.reports.experiment.report import narrowing, to_html
from seedbed.reports.experiment.view import ExperimentView

pytestmark = pytest.mark.usefixtures("sighted")


def page_of(*proof: Any) -> str:
    return to_html(ExperimentView.of(*proof))


_USUAL: list[str] = []


async def usual_page() -> str:
    """The page of the usual comparison, written once."""
    if not _USUAL:
        _USUAL.append(page_of(await proven(), tasks(), NAMES))
    return _USUAL[0]


async def test_the_page_tells_all_that_the_report_does() -> None:
    proof = await proven()
    account = ExperimentView.of(proof, tasks(), NAMES)
    page = await usual_page()
    text = " ".join(Reader(page).text)
    assert account.sentence in text
    assert account.status in text
    assert account.failures in text
    assert "95 % interval, each" in text
    for row in (*account.figures, *account.flags, *account.registered, *account.flips["Got better"]):
        assert all(cell in text for cell in row), row
    assert [name.partition(" (")[0] for name in headings_of(page)] == [
        *("How it came about", "Tasks in registered order", "▼ Got worse", "▲ Got better"),
        *("By tag", "Figures", "Integrity", "Registered before anything was run"),
    ]


async def test_findings_differ_by_sign_not_only_by_colour() -> None:
    better, worse = await proven(), await proven(old=NEW, new=OLD)
    badges = [re.findall('<span class="badge [a-z]+">(.*?)</span>', page_of(each, tasks())) for each in (better, worse)]
    assert badges == [["▲ superior"], ["▼ inferior"]]


@pytest.mark.parametrize("rule", ["exact", "betting", "gsprt"])
async def test_every_rule_has_its_pictures(rule: str) -> None:
    proof = await proven(rule={"rule": rule, "effect": 0.1})
    page = page_of(proof, tasks(), NAMES)
    pictures = list(pictures_of(page))
    asked = {"exact": ["futility", "spent alpha"], "betting": ["futility"], "gsprt": []}[rule]
    expected = ["evidence", *asked, "difference"]
    assert pictures[: len(expected)] == [f"{name} over tasks" for name in expected]
    assert pictures[len(expected) :] == ["better, same and worse in registered order", "difference by tag"]


@pytest.mark.parametrize("metric", [Graded(), Errors()], ids=["higher", "lower"])
async def test_the_band_ends_at_the_interval_of_the_verdict(metric: Graded) -> None:
    account = ExperimentView.of(await proven(metric=metric), tasks(), NAMES)
    n, last = narrowing(account)[-1]
    assert account.adjusted is not None
    assert n == account.verdict.tasks
    assert (last.low, last.high) == (account.adjusted.low, account.adjusted.high)
    assert last.mean == pytest.approx(account.verdict.difference)


async def test_the_band_narrows_whatever_the_rule() -> None:
    seen = [each for _, each in narrowing(ExperimentView.of(await proven(), tasks(), NAMES))]
    assert len(seen) > 5
    assert seen[-1].high - seen[-1].low < 0.6 * (seen[0].high - seen[0].low)
    assert all(-1 <= each.low <= each.mean <= each.high <= 1 for each in seen)


async def test_the_page_asks_nothing_of_anybody() -> None:
    assert_asks_nothing(await usual_page())


async def test_hostile_names_and_inputs_are_shown_and_do_nothing() -> None:
    worse = f'"><img src=x onerror=alert(1)>{HOSTILE}'
    on = tasks(text=worse)
    reader = Reader(page_of(await proven(on), on, (worse, worse)))
    plain = {tag for tag, _ in Reader(await usual_page()).tags}
    assert {tag for tag, _ in reader.tags} == plain
    assert any('<script>alert("x")</script>' in text for text in reader.text)


async def test_a_verdict_that_does_not_follow_is_the_first_thing_one_sees() -> None:
    forged = replace(await proven(), problems=(Problem("wins", "<3>", "9"),))
    page = page_of(forged, tasks(), NAMES)
    assert (
        page.index("Do not rely on this") < page.index("wins: found &lt;3&gt;; expected 9") < page.index("badge good")
    )


async def test_what_was_stopped_by_hand_is_a_page_without_pictures() -> None:
    page = page_of(await stopped(), tasks(), NAMES)
    assert "Nothing can be said: stopped by hand: looked &lt;b&gt;bad&lt;/b&gt;." in page
    assert "<svg" not in page


async def test_long_lists_are_cut_and_say_so() -> None:
    on = tasks(300)
    proof = await proven(on, Graded(), old=NEW, new=NEW, first_replicate=(0, 1))
    many = replace(proof.verdict, outcomes="+" * 300, scores=((0.2, 0.4),) * 300, tasks=300)
    page = page_of(replace(proof, verdict=many), on, NAMES)
    assert "and 250 more" in page
