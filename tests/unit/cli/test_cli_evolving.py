"""What people see of a search: live where somebody looks, and at its end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import BANK, BETTER, Seedbed, keeps_promise, tasks, write
from search_samples import planned, searched

from seedbed.cli import output
from seedbed.cli.views import search as evolving
from seedbed.evolution.evolve import SearchProgress
from seedbed.evolution.plan import NO_TASKS
from seedbed.spending.budget import Budget
from seedbed.storage.store import short

EVOLVE = ("evolve", "sorter.yaml", "tasks.jsonl", "--bank", "bank.txt", "--budget", "200 runs")


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    output.errors.cache_clear()


@pytest.fixture
def mail(space: Path) -> Path:
    write(space, tasks__jsonl=tasks(40), bank__txt=BANK)
    return space


_HEARD: list[SearchProgress] = []
"""What the usual search reports, for the tests that only read it."""


async def told(**settings: object) -> list[SearchProgress]:
    if not settings and _HEARD:
        return _HEARD
    heard: list[SearchProgress] = []
    await searched(watch=heard.append, **settings)
    if not settings:
        _HEARD.extend(heard)
    return heard


def printed(summary: object) -> str:
    with output.console().capture() as out:
        output.console().print(summary)
    return out.get()


# Live


async def test_a_search_so_far_is_told_in_a_few_lines() -> None:
    last = (await told())[-1]
    summary = evolving.so_far(last)
    best, first, *rest = printed(evolving.progress_view(summary)).splitlines()
    assert summary.best == last.best != 0
    level, start = summary.standing(last.best), summary.standing(0)
    told_best = rf"best {level.mean:.3f} \[0\.\d+, \d\.\d+\] on {level.n} of 40 tasks"
    assert re.match(rf"{told_best} \| start {start.mean:.3f} \|", best)
    assert best.endswith(f"| step {len(last.steps)} | {len(last.pool) - 1} tried")
    assert re.match(rf"runs +━+╌* {last.account.runs} runs of 900 runs$", first)
    free, arms = rest
    assert re.match(r"also spent 0 tokens, \$0\.00, \d+ seconds$", free)
    each = [rf"{name} \d+ turns \+0\.\d+" for name in ("best_of", "assembly", "population")]
    assert re.match(rf"arms +{', '.join(each)}$", arms)


async def test_every_limit_has_a_bar() -> None:
    last = (await told(budget=Budget(runs=900, tokens=1000, usd=2.0, seconds=600)))[-1]
    lines = printed(evolving.progress_view(evolving.so_far(last))).splitlines()[1:5]
    assert [line.split()[0] for line in lines] == ["runs", "tokens", "usd", "seconds"]
    assert all(len(re.findall("[━╌]", line)) == evolving.WIDE for line in lines)
    assert lines[2].endswith("$0.00 of $2.00")


async def test_several_metrics_show_their_front_as_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    last = (await told(several=True, confirm=NO_TASKS))[-1]
    # As if the newest was the best: most were tried on as few tasks as that one.
    summary = evolving.so_far(replace(last, best=len(last.pool) - 1))
    front = printed(evolving.progress_view(summary)).splitlines()[-1]
    assert re.match(r"front +score / length: 0\.\d+ / \d+\.\d+, ", front)
    assert len(re.findall(r"\d / \d", front)) == evolving.FRONT
    assert front.endswith(" more")
    monkeypatch.setattr(evolving, "FRONT", len(summary.pool))
    whole = printed(evolving.progress_view(summary)).splitlines()[-1]
    assert "14.000" in whole  # the start, which nothing is shorter than


@pytest.mark.parametrize(
    ("spent", "limit", "full"), [(0, 10, 0), (5, 10, 12), (9.99, 10, 23), (10, 10, 24), (11, 10, 24), (0, 0, 24)]
)
def test_a_bar_is_full_only_when_all_is_spent(spent: float, limit: float, full: int) -> None:
    assert evolving.bar(spent, limit).count("━") == full
    assert len(evolving.bar(spent, limit)) == evolving.WIDE


@pytest.mark.usefixtures("looked_at")
async def test_whoever_looks_sees_it_live_on_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    with evolving.watched(planned()) as watch:
        await searched(watch=watch)
    out, err = capsys.readouterr()
    assert out == ""
    assert "portfolio within 900 runs: 0 tasks to reflect on, 40 to select, 40 to confirm" in err
    assert re.search(r"best 0\.\d+ \[.*\] on \d+ of 40 tasks", err)


@pytest.mark.usefixtures("looked_at")
async def test_it_is_drawn_no_more_often_than_one_can_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, now = await told(), 1000.0
    monkeypatch.setattr(evolving.time, "monotonic", lambda: now)
    with evolving.watched(planned()) as watch:
        for each in heard:
            watch(each)
        now += evolving.EVERY_SECONDS
        watch(heard[-1])
        watch(heard[-1])
    assert len(heard) > 20
    assert capsys.readouterr().err.count("| start ") == 3  # at first, after a while, and when it is wiped away


async def test_where_nobody_looks_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    heard = await told()
    with evolving.watched(planned()) as watch:
        for each in heard:
            watch(each)
    assert capsys.readouterr() == ("", "")


# At the end


def test_the_document_keeps_its_promise(mail: Path, seedbed: Seedbed) -> None:
    done = seedbed(*EVOLVE, "--branch", "better", "--json")
    assert done.code == 0, done.err
    assert keeps_promise(done.json, "evolve")
    found = done.json
    assert (found["improved"], found["branch"], found["answer"]) == (True, "better", "yes")
    assert found["better"] == {"exact_match": "higher"}
    assert (found["tasks"]["select"], found["confirmed"]["tasks"]) == (20, 10)
    assert {each["path"]: each["after"] for each in found["changes"]}["steps.label.prompt"].startswith("Good or bad?")
    assert found["tried"][0]["playbook"] == found["start"]
    assert found["spent"]["runs"] <= 200 == found["budget"]["runs"]
    assert found["steps"][-1]["runs"] <= found["spent"]["runs"]
    assert found["arms"]["best_of"]["turns"] > 0


def test_people_see_the_best_what_changed_and_what_to_believe(mail: Path, prepared: Seedbed, seedbed: Seedbed) -> None:
    found = prepared(*EVOLVE, "--json").json
    out = seedbed(*EVOLVE).out  # the same search again: nothing is paid twice
    assert f"best    {short(found['best'])}" in out
    assert f"start   {short(found['start'])}" in out
    assert BETTER.removesuffix("{text}").strip() in out
    assert "what each arm earned" in out
    assert "Yes: on 10 tasks that the search had not seen, the best scores 1.000 and the start 0.000" in out
    assert re.search(r"Score in the search: \d\.\d+ \(about -?\d\.\d+ of it is selection bias\)", out)
    assert out.splitlines()[-1] == f"search {short(found['search'])}"


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_a_report_is_written_where_it_is_asked_for(name: str, mail: Path, prepared: Seedbed, seedbed: Seedbed) -> None:
    assert prepared(*EVOLVE, "--json").code == 0
    done = seedbed(*EVOLVE, "-o", name)
    assert done.code == 0
    assert done.out.endswith(f"✓ wrote {name}\n")
    text = (mail / name).read_text(encoding="utf-8")
    assert text.startswith("# Search from sorter\n" if name.endswith(".md") else "<!doctype html>")
    assert "What each arm earned" in text


def test_a_report_that_cannot_be_written_is_told_before_anything_is_paid(mail: Path, seedbed: Seedbed) -> None:
    write(mail, report__md="mine")
    done = seedbed(*EVOLVE, "-o", "report.md", "--json")
    assert done.code == 1
    assert "a file that exists" in json.loads(done.err)["problems"][0]["found"]
    assert not (mail / "seedbed.db").exists()
    assert (mail / "report.md").read_text() == "mine"
