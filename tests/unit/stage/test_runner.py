"""What the runs of a workspace share."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import RunError, RunTaken
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.claims import holder_of
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage import open_store
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


@tool(effect="reads")
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

    space.tools, space.resources.confirm = [send], person
    assert (await space.run(ASKING, tool="send")).output == "sent to ada"


async def test_what_was_learned_is_read_from_the_store_once_and_kept_up() -> None:
    models = {name: {"use": "scripted", "args": {"replies": {".": name}}, "can": ["wit"]} for name in ("one", "two")}
    space = workspace(models=models)
    run = await space.run(Playbook.from_document(ROUTED), q="why", seed=1)
    space.runs.learn(run, 1.0)
    learned, again = space.resources.runner.router, Workspace(space.settings, space.store).resources.runner.router
    assert [again.belief("wit", name) for name in models] == [learned.belief("wit", name) for name in models]
    assert learned.belief("wit", "one") != learned.belief("wit", "two")


async def test_a_model_that_a_step_may_choose_takes_part_in_what_a_playbook_is() -> None:
    models = {name: {"use": "scripted", "args": {"replies": {".": name}}, "can": ["wit"]} for name in ("one", "two")}
    space = workspace(models=models)
    step = {"name": "say", "role": "any", "prompt": "{q}"}
    named = Playbook.from_document({"roles": {"any": {"model": "one"}}, "steps": [step]})
    choosing = Playbook.from_document({"roles": {"any": {"model": "one"}}, "steps": [{**step, "needs": ["wit"]}]})
    assert list(space.resources.runner.model_identities(named)) == ["one"]
    assert list(space.resources.runner.model_identities(choosing)) == ["one", "two"]


async def test_many_runs_at_the_same_time_are_all_performed() -> None:
    space = workspace(models={"m": {"use": "scripted", "args": {"replies": {".": "yes"}}}})
    playbook = Playbook.from_document({"roles": {"one": {"model": "m"}}})
    runs = await asyncio.gather(*(space.run(playbook, q=str(number)) for number in range(50)))
    assert {run.output for run in runs} == {"yes"}
    assert len({run.id for run in runs}) == len(list(space.store.facts(Query(kind="run")))) == 50


# Once

COUNTED: list[str] = []


async def count(task: Mapping[str, Any], stage: Stage) -> Any:
    COUNTED.append(task["n"])
    for _ in range(20):
        await asyncio.sleep(0)
    if task["n"] == "wait":
        await asyncio.Event().wait()
    if task["n"] == "fail" and COUNTED.count("fail") == 1:
        raise RunError("not yet")
    return task["n"]


COUNTING = Playbook.from_document({"program": f"{__name__}:count"})
ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    COUNTED.clear()


async def test_one_run_is_performed_once_for_all_who_ask() -> None:
    space = workspace()
    runs = await asyncio.gather(*(space.resources.runner.perform_once(ID, COUNTING, {"n": "x"}, 1) for _ in range(10)))
    again = await space.resources.runner.perform_once(ID, COUNTING, {"n": "x"}, 1)
    assert COUNTED == ["x"]
    assert {run.id for run in (*runs, again)} == {ID}
    assert {run.output for run in (*runs, again)} == {"x"}


async def test_two_houses_over_one_store_perform_it_once() -> None:
    one = workspace()
    other = Workspace(one.settings, one.store)
    runs = await asyncio.gather(
        *(space.resources.runner.perform_once(ID, COUNTING, {"n": "x"}, 1) for space in (one, other) * 3)
    )
    assert COUNTED == ["x"]
    assert {run.output for run in runs} == {"x"}


async def test_a_run_that_failed_is_tried_again_by_whoever_asks_next() -> None:
    space = workspace()
    with pytest.raises(RunError, match="not yet"):
        await space.resources.runner.perform_once(ID, COUNTING, {"n": "fail"}, 1)
    assert (await space.resources.runner.perform_once(ID, COUNTING, {"n": "fail"}, 1)).output == "fail"
    assert COUNTED == ["fail", "fail"]


async def test_it_is_given_up_when_nobody_waits_for_it_any_more_and_free_for_others() -> None:
    one = workspace()
    waiting = [
        asyncio.ensure_future(one.resources.runner.perform_once(ID, COUNTING, {"n": "wait"}, 1)) for _ in range(2)
    ]
    while not COUNTED:
        await asyncio.sleep(0)
    waiting[0].cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting[1].done()
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert holder_of(one.store, ID) is None

    other = Workspace(one.settings, one.store)
    again = asyncio.ensure_future(other.resources.runner.perform_once(ID, COUNTING, {"n": "wait"}, 1))
    while len(COUNTED) < 2:
        await asyncio.sleep(0)
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_what_a_dead_worker_left_is_taken_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    script = f"""
import asyncio, os
from test_runner import COUNTING, COUNTED, ID
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.workspace import Workspace

async def main():
    space = Workspace(Settings(by="ada"), open_store({url!r}))
    asyncio.ensure_future(space.resources.runner.perform_once(ID, COUNTING, {{"n": "wait"}}, 1))
    while not COUNTED:
        await asyncio.sleep(0)
    print("there", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    folder = str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        space = Workspace(Settings(by="ada"), open_store(url))
        with pytest.raises(RunTaken, match=f"under way in process {process.pid} on "):
            await space.runs.resume(ID)
        process.kill()
    asking = asyncio.ensure_future(space.resources.runner.perform_once(ID, COUNTING, {"n": "wait"}, 1))
    while not COUNTED:
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    space.close()


def test_to_perform_runs_loads_neither_a_model_library_nor_statistics() -> None:
    script = "import sys, seedbed.stage.runner; print({'langchain_core', 'scipy', 'numpy', 'mcp'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
