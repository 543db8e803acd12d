"""The report of a search to read: complete, and it cannot be broken by what playbooks say."""

from __future__ import annotations

import re
from dataclasses import replace

from search_samples import START, planned, playbook, searched

from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS
from seedbed.evolution.protocols import Offer
from seedbed.reports.search import fenced, to_markdown
from seedbed.reports.search_summary import Summary
from seedbed.spending.account import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import short

ALL = [
    *("Figures", "What each arm earned", "Spending", "Course", "What changed", "Lineage of the best", "Candidates"),
    "Registered",
]


def section(report: str, name: str) -> str:
    return report.partition(f"## {name}\n")[2].partition("\n## ")[0]


def headings(report: str) -> list[str]:
    return re.findall("^## (.*)$", report, re.MULTILINE)


async def test_a_report_tells_all_of_a_search() -> None:
    store = MemoryStore()
    found = await searched(store)
    report = to_markdown(found, store.get(found.search))
    summary = Summary(found)
    assert headings(report) == ALL
    assert report.startswith(f"# Search from {short(START.digest)}\n\n**Yes: on 40 tasks")
    for told in ("optimism", "gain, confirmed", "gain over best of N", "the budget was spent"):
        assert told in section(report, "Figures")
    for name, each in summary.arms.items():
        row = f"| {name.replace('_', chr(92) + '_')} | {each.turns} | {each.found} | {each.gain:+.3f} | {each.runs} |"
        assert row in section(report, "What each arm earned")
    share = 100 * found.spent["runs"] / 900
    assert f"| runs | {found.spent['runs']} | 900 | {share:.0f} % |" in section(report, "Spending")
    assert "{+" in section(report, "What changed")
    assert short(found.best) in section(report, "Lineage of the best")
    assert found.search in section(report, "Registered")
    assert "pooling" in section(report, "Registered")


async def test_what_is_missing_is_said() -> None:
    found = await searched(confirm=NO_TASKS, optimizer=BestOf([playbook("Sort the mail. twice")]), budget=Budget())
    report = to_markdown(found)
    assert "no other tasks were kept for that" in section(report, "Figures")
    assert f"| runs | {found.spent['runs']} | no limit | – |" in section(report, "Spending")
    assert section(report, "Course").splitlines()[3].endswith("| – |")  # one candidate is not apart from anything
    found.pool.arms[1] = ""
    assert "There was one way of searching." in to_markdown(found)
    several = {"optimizer": planned().optimizer.identity}
    assert "Which arm made which candidate was not recorded." in to_markdown(found, several)


async def test_if_nothing_was_better_nothing_changed() -> None:
    report = to_markdown(await searched(optimizer=BestOf([playbook("Sort the mail. never")])))
    assert "Nothing: the best is the start." in section(report, "What changed")


async def test_several_metrics_have_a_front() -> None:
    report = to_markdown(await searched(several=True), better={"length": "lower"})
    front = section(report, "Front")
    assert "| playbook | stands | score ↑ | length ↓ | tasks |" in front
    assert "● front" in front
    assert "□ beaten" in front
    assert not re.search(r"\| -\d", front)  # lengths are told as lengths


async def test_what_a_playbook_says_stays_within_its_place() -> None:
    found = await searched(optimizer=BestOf([playbook("Sort the mail. twice")]))
    hostile = playbook("Sort the mail.\n```\n# Gone | <b>wild</b>\n````\n")
    found.pool.add(Offer(hostile, (START.digest,), "by | <script>"))
    report = to_markdown(replace(found, best=hostile.digest))
    assert headings(report) == ALL
    assert "<script>" not in section(report, "Candidates")
    changed = section(report, "What changed").strip()
    assert changed.startswith("`````text\n")
    assert changed.endswith("\n`````")


def test_a_fence_is_longer_than_any_within() -> None:
    assert fenced("plain") == "```text\nplain\n```"
    assert fenced("a ``` b").startswith("````text\n")
