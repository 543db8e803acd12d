"""People are told what a workspace spends, once, however many processes notice it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from seedbed import Dataset, SearchOptions, Task
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact
from seedbed.workspace import Workspace

SCRIPTED = {"one": {"use": "scripted", "args": {"replies": {".": "yes"}}}}
PLAN = Playbook.from_document(
    {"inputs": ["q"], "roles": {"a": {"model": "one"}}, "steps": [{"name": "s", "role": "a", "prompt": "{q}"}]}
)


async def test_people_are_told_at_50_80_and_100_per_cent_of_a_quota_once_for_all_processes(tmp_path: Path) -> None:
    told = tmp_path / "alerts.jsonl"
    about = {"models": SCRIPTED, "quota": {"runs_per_day": 10}, "alerts": [{"log": str(told)}]}
    store, settings = MemoryStore(), Settings.model_validate(about)
    spaces = [Workspace(settings, store), Workspace(settings, store)]
    for number in range(10):
        await spaces[number % 2].run(PLAN, q=str(number))
    lines = told.read_text().splitlines()
    assert [f"{level} % of runs_per_day" in line for level, line in zip((50, 80, 100), lines, strict=True)] == [
        True
    ] * 3
    assert '"critical"' in lines[2]


async def test_people_are_told_of_an_hour_that_costs_far_more_than_usual(tmp_path: Path) -> None:
    store, told = MemoryStore(), tmp_path / "alerts.jsonl"
    for number, usd in enumerate([30.0, 2.0, 3.0, 2.0]):
        at = datetime.now(UTC) - timedelta(days=number, minutes=5)
        store.append([Fact(kind="run", key=f"r{number}", subject="p", at=at, by="ada", body={"turns": 1}, value=usd)])
    settings = Settings.model_validate({"models": SCRIPTED, "alerts": [{"log": str(told)}]})
    space = Workspace(settings, store)
    await space.run(PLAN, q="why?")
    await space.run(PLAN, q="and?")
    (line,) = told.read_text().splitlines()
    assert "$30.00 was spent in dev within an hour; the most expensive hour of the previous 7 days cost $3.00" in line


async def test_people_are_told_of_a_search_near_its_budget(tmp_path: Path) -> None:
    told = tmp_path / "alerts.jsonl"
    settings = Settings.model_validate({"models": SCRIPTED, "alerts": [{"log": str(told)}]})
    tasks = Dataset([Task(str(n), {"q": str(n)}, "yes") for n in range(12)])
    options = SearchOptions(confirm="none")
    await Workspace(settings, MemoryStore()).evolve(PLAN, tasks, budget="40 runs", options=options)
    (line,) = told.read_text().splitlines()
    assert "runs of its budget of 40 runs" in line
    assert told.stat().st_mode & 0o777 == 0o600


async def test_an_alert_that_cannot_be_sent_fails_no_run(caplog: pytest.LogCaptureFixture) -> None:
    alerts = [{"slack": {"url": {"env": "NOT_SET_ANYWHERE"}}}]
    settings = Settings.model_validate({"models": SCRIPTED, "quota": {"runs_per_day": 1}, "alerts": alerts})
    assert (await Workspace(settings, MemoryStore()).run(PLAN, q="why?")).output == "yes"
    assert "alerts about spending cannot be sent" in caplog.text
