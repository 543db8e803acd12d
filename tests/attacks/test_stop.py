"""A stop halts every run of a workspace at its next call, in whatever process, and nothing goes on after it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, serving
from seedbed.cli.main import main
from seedbed.errors import SettingsError, Stopped
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

SCRIPTED = {"one": {"use": "scripted", "args": {"replies": {".": "yes"}}}}


def plan(steps: int = 1) -> Playbook:
    asked = [{"name": f"s{n}", "role": "a", "prompt": "{q}"} for n in range(steps)]
    rules = {"allow": ["pay"]}
    return Playbook.from_document({"inputs": ["q"], "roles": {"a": {"model": "one"}}, "steps": asked, "rules": rules})


def free(url: str) -> dict[str, Any]:
    return {"one": {"use": "openai", "args": {"model": "m", "base_url": url}, "usd_per_million": [0, 0]}}


async def test_a_stop_halts_a_run_at_its_next_call_and_a_lift_lets_it_go_on() -> None:
    store, now = MemoryStore(), [0.0]
    answered: list[str] = []

    def answer(request: dict[str, Any]) -> Answer:
        answered.append("")
        if len(answered) == 2:
            here.stop(because="the bill is wrong")  # another process would see it within a second
            now[0] += 1.0
        return Answer("yes")

    with serving(script=answer) as server:
        settings = Settings.model_validate({"models": free(server.url), "by": "ada"})
        here, there = Workspace(settings, store), Workspace(settings, store)
        there.resources.runner.stop._clock = lambda: now[0]
        with pytest.raises(
            Stopped, match=r"stopped by ada at .*: the bill is wrong. To allow runs again: seedbed stop --lift"
        ):
            await there.run(plan(steps=4), q="why?")
        assert len(server.requests) == 2
        (run,) = there.runs.recent(5)
        assert (run.status, "the bill is wrong" in run.error) == ("failed", True)
        with pytest.raises(Stopped):
            await here.run(plan(), q="a new one")
        here.stop(lift=True)
        now[0] += 1.0
        resumed = await there.runs.resume(run.id)
    assert (resumed.status, len(resumed.turns), len(server.requests)) == ("completed", 4, 4)


async def test_a_stop_halts_tools_and_searches_and_is_no_failure_of_an_agent() -> None:
    space = Workspace(Settings.model_validate({"models": SCRIPTED}), MemoryStore())
    used: list[str] = []

    def pay(to: str) -> str:
        used.append(to)
        return "paid"

    space.tools = [pay]

    async def stubborn(task: Any, stage: Any) -> str:
        space.stop(because="enough")
        with pytest.raises(Stopped):
            await stage.call("pay", to="bob")
        return "it went on"

    with pytest.raises(Stopped):
        await space.run(plan(), program=stubborn, q="?")
    assert (used, space.runs.recent()[0].status) == ([], "failed")
    tasks = seedbed.Dataset([seedbed.Task(str(n), {"q": str(n)}, "yes") for n in range(40)])
    for work in (space.evaluate(plan(), tasks), space.evolve(plan(), tasks, budget="200 runs")):
        with pytest.raises(Stopped, match="enough"):
            await work
    assert list(space.store.facts(Query(kind="lapse"))) == []


def test_a_stop_needs_a_reason() -> None:
    space = Workspace(Settings.model_validate({"models": SCRIPTED}), MemoryStore())
    with pytest.raises(SettingsError, match="because: found nothing; expected why everything stops"):
        space.stop()


def test_the_command_line_stops_a_run_of_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("seedbed.yaml").write_text("models:\n  one: {use: scripted, args: {replies: {'.': 'yes'}}}\n")
    Path("plan.yaml").write_text("inputs: [q]\nroles: {a: {model: one}}\nsteps: [{name: s, role: a, prompt: '{q}'}]\n")
    assert main(["stop"]) == 64
    assert main(["stop", "--because", "the bill is wrong"]) == 0
    asked = [sys.executable, "-m", "seedbed", "run", "plan.yaml", "q=why"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, "the bill is wrong" in done.stderr) == (1, True)
    assert main(["stop", "--lift"]) == 0
    assert subprocess.run(asked, capture_output=True, text=True, check=False).returncode == 0
    store = open_store("sqlite:///seedbed.db")
    assert all(fact.link for fact in store.facts(Query(kind="stop")))
