"""The report of a search to read: complete, and it cannot be broken by what playbooks say."""

from __future__ import annotations

import re
from dataclasses import replace

from search_samples import START, planned, playbook, searched

from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS
from seedbed.evolution.protocols import Offer
from seedbed.evolution.searches import Evolution
from seedbed.reports.search import report as search_report
from seedbed.reports.search.view import SearchView
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, short

ALL = [
    *("What changed", "How it came about", "Lineage of the best"),
    *("What each arm earned", "Spending", "Candidates", "Figures", "Registered before anything was run"),
]


def to_markdown(found: Evolution, plan: Json | None = None) -> str:
    return search_report.to_markdown(SearchView(found, plan or {}))


def section(report: str, name: str) -> str:
    return report.partition(f"## {name}\n")[2].partition("\n## ")[0]


def headings(report: str) -> list[str]:
    return re.findall("^## (.*)$", report, re.MULTILINE)


async def test_a_report_tells_all_of_a_search() -> None:
    store = MemoryStore()
    found = await searched(store)
    report = to_markdown(found, store.get(found.search))
    summary = SearchView(found)
    assert headings(report) == ALL
    assert "\n\n**Yes: on 40 tasks" in report
    for told in ("selection bias", "gain, confirmed", "gain over best of N", "the budget was spent"):
        assert told in section(report, "Figures")
    for name, each in summary.arms.items():
        row = (
            f"| {name.replace('_', chr(92) + '_')} | {each.turns} | {each.new_bests} | {each.gain:+.3f} | {each.runs} |"
        )
        assert row in section(report, "What each arm earned")
    share = 100 * found.spent["runs"] / 900
    assert f"| runs | {found.spent['runs']} | 900 | {share:.0f} % |" in section(report, "Spending")
    assert "{+" in section(report, "What changed")
    assert short(found.best) in section(report, "Lineage of the best")
    assert found.search in section(report, "Registered before anything was run")
    assert "pooling" in section(report, "Registered before anything was run")


async def test_what_is_missing_is_said() -> None:
    found = await searched(confirm=NO_TASKS, optimizer=BestOf([playbook("Sort the mail. twice")]), budget=Budget())
    report = to_markdown(found)
    assert "No new tasks have confirmed it" in section(report, "Figures")
    assert f"| runs | {found.spent['runs']} | no limit | – |" in section(report, "Spending")
    # One candidate has no distance to another.
    assert section(report, "How it came about").splitlines()[3].endswith("| – |")
    found.pool.arms[1] = ""
    assert "There was one way of searching." in to_markdown(found)
    several = {"optimizer": planned().optimizer.identity}
    assert "Which arm made which candidate was not recorded." in to_markdown(found, several)


async def test_the_whole_new_playbook_is_there() -> None:
    found = await searched()
    report = to_markdown(found)
    best = found.pool.playbooks[found.pool.place(found.best)]
    assert f"### The whole new playbook\n\n```yaml\n{best.to_yaml().rstrip()}\n```" in section(report, "What changed")


async def test_playbooks_have_the_names_that_people_gave_with_the_digests_beneath() -> None:
    found = await searched()
    names = {found.start: "sorter", found.best: "better"}
    first, _, about, *_ = search_report.to_markdown(SearchView(found, {}, names)).splitlines()
    assert first == "# better, evolved from sorter"
    assert f"Start {short(found.start)}, best {short(found.best)}" in about
    assert SearchView(found, {}, {found.start: "sorter"}).title == "Search from sorter"
    assert SearchView(found).title == "Search for a better playbook"


async def test_if_nothing_was_better_nothing_changed() -> None:
    report = to_markdown(await searched(optimizer=BestOf([playbook("Sort the mail. never")])))
    assert "Nothing: the best is the start." in section(report, "What changed")


async def test_several_metrics_have_a_front() -> None:
    report = to_markdown(await searched(several=True))
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
    changed, _, whole = section(report, "What changed").partition("### The whole new playbook\n")
    for part, language in ((changed.strip(), "text"), (whole.strip(), "yaml")):
        assert part.startswith(f"`````{language}\n")
        assert part.endswith("\n`````")
