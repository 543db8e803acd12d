"""Attacks on what no rule names: a model that obeys strangers, calls at the same time, runs that open runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import ActionForbidden
from seedbed.playbooks.formats import load_file
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

sent: list[str] = []


@tool(changes=True)
def send(to: str, cc: str | None = None) -> str:
    sent.append(to)
    return f"sent to {to}"


@tool(changes=False)
def look(at: str) -> str:
    return f"saw {at}"


async def obedient(task: Mapping[str, Any], stage: Stage) -> Any:
    """Does what a page says, as often as it says so, or lets a run below do it."""
    if task.get("below"):
        return (await stage.open({**task, "below": task["below"] - 1})).output
    await stage.call("look", at="page")
    calls = (stage.call("send", to=to) for to in task["to"])
    return [str(each) for each in await asyncio.gather(*calls, return_exceptions=True)]


def book(**rules: Any) -> Playbook:
    return Playbook.from_document({"program": f"{__name__}:obedient", "rules": rules})


@pytest.fixture
def space() -> Workspace:
    sent.clear()
    space = Workspace(Settings(by="ada"), MemoryStore())
    space.tools = [send, look]
    return space


async def test_without_rules_and_people_nothing_is_changed_and_the_way_to_allow_it_is_told(space: Workspace) -> None:
    (refused,) = (await space.run(book(), to=["eve"])).output
    assert sent == []
    assert "otherwise: confirm, as it changes the world and no rule names it, and nobody confirmed it" in refused
    assert "write `allow: [send]` under rules" in refused


async def test_a_person_or_a_rule_permits_it(space: Workspace) -> None:
    async def person(action: str, because: str, arguments: Any) -> bool:
        return bool(arguments == {"to": "bob"})

    await space.run(book(allow=["send"]), to=["ann"])
    space.resources.confirm = person
    await space.run(book(), to=["bob", "eve"])
    assert sent == ["ann", "bob"]


async def test_an_argument_that_is_left_out_is_judged_by_its_default(space: Workspace) -> None:
    inside = {"matches": "*@example.org"}
    await space.run(book(allow=[{"send": {"to": inside, "cc": inside}}]), to=["ann@example.org", "eve@evil.com"])
    assert sent == ["ann@example.org"]


async def test_calls_at_the_same_time_do_not_pass_a_count_together(space: Workspace) -> None:
    await space.run(book(allow=[{"send": {"at_most": 2}}]), to=list("abcdef"))
    assert len(sent) == 2


async def test_refused_calls_are_not_counted(space: Workspace) -> None:
    rules = {"never": [{"send": {"to": {"one_of": ["eve"]}}}], "allow": [{"send": {"at_most": 1}}]}
    await space.run(book(**rules), to=["eve", "eve", "ann"])
    assert sent == ["ann"]


async def opens(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.call("send", to="first")
    return (await stage.open({"to": ["second"]}, playbook=task["opens"])).output


async def test_a_run_below_counts_for_the_run_above(space: Workspace) -> None:
    few = {"program": f"{__name__}:opens", "rules": {"allow": [{"send": {"at_most": 1}}]}}
    opened = space.resources.library.keep(book(otherwise="allow"), because="to be opened")
    await space.run(Playbook.from_document(few), opens=opened)
    assert sent == ["first"]


async def test_a_recording_of_before_there_was_a_default_is_still_replayed(space: Workspace) -> None:
    free = book(otherwise="allow")
    run = await space.run(free, to=["ann"])
    sent.clear()
    # As a recording has it that was made when changing tools needed no rule.
    again = await space.resources.runner.replay("a" * 32, book(), run.id, ReplayMode("strict"))
    assert again.output == run.output
    assert sent == []


def test_a_strategy_asks_when_it_is_unsure_of_what_its_document_does_not_name() -> None:
    desk = load_file(Path(__file__).parents[2] / "examples" / "formats" / "parcel-desk.yaml").playbook
    assert desk.may("reply", 0.1).answer == "confirm"
    assert desk.may("reply", 0.7).answer == "allowed"
    assert desk.may("reply", changes=True).answer == "confirm"


async def test_a_forbidden_tool_in_disguise_is_not_called(space: Workspace) -> None:
    sent.clear()
    space.tools = [tool(changes=False, name="sеnd")(lambda to: sent.append(to))]
    async with space.runs.recording(book(never=["send"], otherwise="allow")) as stage:
        with pytest.raises(ActionForbidden, match="looks like another letter"):
            await stage.call("sеnd", to="eve")
    assert sent == []
