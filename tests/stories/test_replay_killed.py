"""A replay that is killed at any moment goes on as a replay: the same to the byte, and nothing in the world is done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DRIVER = '''
import asyncio, json, os, signal, sys
from pathlib import Path

from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.runs.history import recall
from seedbed.settings import Settings
from seedbed.stage.tools import tool
from seedbed.storage import open_store
from seedbed.storage.store import canonical
from seedbed.workspace import Workspace

url, world = sys.argv[1], Path(sys.argv[2])


@tool(changes=True)
def send(to: str) -> str:
    with world.open("a") as file:
        file.write(f"{to}\\n")
    return f"sent to {to}"


async def agent(task, stage):
    said = [(await stage.ask("w", f"{task['q']} {n}")).text for n in range(2)]
    return [said, await stage.call("send", to=task["q"]), (await stage.now()).isoformat(), await stage.random()]


sys.modules["driver"] = sys.modules["__main__"]
book = Playbook.from_document({"program": "driver:agent", "roles": {"w": {"model": "m"}}, "rules": {"allow": ["send"]}})


def workspace():
    models = {"m": {"use": "scripted", "args": {"replies": {".": "so"}}}}
    space = Workspace(Settings.model_validate({"store": url, "models": models, "by": "ada"}), open_store(url))
    space.tools = [send]
    return space


def killed_at(write, before, name, run, mode):
    """In a process of its own: replay, and be killed at that write, before or after it."""
    if pid := os.fork():
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    space = workspace()
    append, count = space.store.append, iter(range(1, 1000))

    def appended(facts):
        now = next(count) == write
        if now and before:
            os.kill(os.getpid(), signal.SIGKILL)
        added = append(facts)
        if now:
            os.kill(os.getpid(), signal.SIGKILL)
        return added

    space.resources.runner.journal.store.append = appended
    asyncio.run(space.resources.runner.replay(name, book, run, mode))
    os._exit(0)


def told(run):
    entries = [each.body() for part in (run.turns, run.calls, run.decisions) for each in part]
    return canonical([run.status, run.output, entries, run.latency_seconds, (run.replay or {}).get("labels")])


def recorded():
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0
        return (world.parent / "run").read_text()
    run = asyncio.run(workspace().run(book, q="ada", seed=3))
    (world.parent / "run").write_text(run.id)
    os._exit(0)


run, kills, outcomes, expected = recorded(), 0, set(), set()
plan = [(mode, write, before) for mode in ("strict", "fork:2") for write in range(1, 8) for before in (True, False)]
for number, (mode, write, before) in enumerate(plan):
    name = f"{number:032x}"
    kills += killed_at(write, before, name, run, ReplayMode.parse(mode))
    done = asyncio.run(workspace().resources.runner.replay(name, book, run, ReplayMode.parse(mode)))
    if mode == "strict":
        outcomes.add(told(done))
then = recall(workspace().store, run)
labels = {"call": {"exact": 1}, "reading": {"exact": 2}, "turn": {"exact": 2}}
entries = [each.body() for part in (then.turns, then.calls, then.decisions) for each in part]
same = outcomes == {canonical([then.status, then.output, entries, then.latency_seconds, labels])}
print(json.dumps({"kills": kills, "same": same, "sent": world.read_text().split()}))
'''


def test_a_replay_killed_at_any_write_goes_on_to_the_same_end_and_changes_nothing(tmp_path: Path) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    command = [sys.executable, "-W", "ignore", str(driver), f"sqlite:///{tmp_path}/runs.db", str(tmp_path / "world")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kills"] == 28  # start, two turns, a call, two readings, the end; before and after, in two modes
    assert told["same"]
    assert told["sent"] == ["ada"]  # when it was live
