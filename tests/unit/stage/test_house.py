"""What the runs of a workspace share."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

ASKING = Playbook.from_document({"program": f"{__name__}:use", "rules": {"confirm": ["send"]}})
ROUTED = {"roles": {"any": {"needs": ["wit"]}}, "steps": [{"name": "say", "role": "any", "prompt": "{q}"}]}


async def use(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call(task["tool"], to="ada")


@tool(changes=True)
def send(to: str) -> str:
    return f"sent to {to}"


def look(to: str) -> str:
    return f"looked at {to}"


def workspace(**settings: Any) -> Workspace:
    return Workspace(Settings.model_validate({"by": "ada", **settings}), MemoryStore())


async def test_a_run_is_given_the_tools_and_the_person_that_there_are_now() -> None:
    space = workspace()
    space.tools = [look]
    assert (await space.run(ASKING, tool="look")).output == "looked at ada"

    async def person(action: str, because: str) -> bool:
        return True

    space.tools, space.confirm = [send], person
    assert (await space.run(ASKING, tool="send")).output == "sent to ada"


async def test_what_was_learned_is_read_from_the_store_once_and_kept_up() -> None:
    models = {name: {"use": "scripted", "args": {"replies": {".": name}}, "can": ["wit"]} for name in ("one", "two")}
    space = workspace(models=models)
    run = await space.run(Playbook.from_document(ROUTED), q="why", seed=1)
    space.learn(run, 1.0)
    assert Workspace(space.settings, space.store).house.router.state() == space.house.router.state()


async def test_a_model_that_a_step_may_choose_takes_part_in_what_a_playbook_is() -> None:
    models = {name: {"use": "scripted", "args": {"replies": {".": name}}, "can": ["wit"]} for name in ("one", "two")}
    space = workspace(models=models)
    step = {"name": "say", "role": "any", "prompt": "{q}"}
    named = Playbook.from_document({"roles": {"any": {"model": "one"}}, "steps": [step]})
    choosing = Playbook.from_document({"roles": {"any": {"model": "one"}}, "steps": [{**step, "needs": ["wit"]}]})
    assert list(space.house.identity(named)) == ["one"]
    assert list(space.house.identity(choosing)) == ["one", "two"]


async def test_many_runs_at_the_same_time_are_all_performed() -> None:
    space = workspace(models={"m": {"use": "scripted", "args": {"replies": {".": "yes"}}}})
    playbook = Playbook.from_document({"roles": {"one": {"model": "m"}}})
    runs = await asyncio.gather(*(space.run(playbook, q=str(number)) for number in range(50)))
    assert {run.output for run in runs} == {"yes"}
    assert len({run.id for run in runs}) == len(list(space.store.facts(Query(kind="run")))) == 50


def test_to_perform_runs_loads_neither_a_model_library_nor_statistics() -> None:
    script = "import sys, seedbed.stage.house; print({'langchain_core', 'scipy', 'numpy', 'mcp'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
