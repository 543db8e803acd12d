"""A run that is killed at any moment goes on where it was, and pays at most for the calls under way again.

`SEEDBED_TEST_RUN_KILLS=1000` kills more often; with `--log-cli-level=info` one sees what was paid twice.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("SEEDBED_TEST_RUN_KILLS", "8"))

DRIVER = '''
import asyncio, json, os, random, signal, sys, time
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

import seedbed.runs.recorder, seedbed.stage.program, seedbed.stage.stage
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall
from seedbed.runs.messages import whole_turns
from seedbed.settings import Settings
from seedbed.storage import open_store, upkeep
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Store, digest
from seedbed.workspace import Workspace

url, log, kills, shape = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[5]


def name_of(spoken: list[tuple[str, str]]) -> str:
    """A call by what was said in it; no two of a run are the same."""
    return digest("spoken", [text for _, text in spoken])[3:]


class Telling(ScriptedChat):
    """Writes down every question, and every answer that was paid for."""

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        call = name_of([(message.type, str(message.text)) for message in messages])
        with log.open("a") as file:
            file.write(f"asked {call}\\n")
        await asyncio.sleep(0.002)
        with log.open("a") as file:
            file.write(f"answered {call}\\n")
        return self._generate(messages)


steps: list[Any] = [{"name": f"s{n}", "role": "w", "prompt": f"s{n} {{q}}"} for n in range(6)]
block = [{"name": f"t{n}", "role": "w", "prompt": f"t{n} {{s5}}"} for n in range(3)]
last = {"name": "end", "role": "w", "prompt": "end {t0} {t1} {t2}"}
line = [*steps, {"together": block}, last]
rule = {"back_to": "pro", "settled": 1.0, "at_most": 3}
tree = [
    {"name": "plan", "role": "w", "prompt": "plan {q}", "opens": {"input": "q", "at_most": 3}},
    {"name": "pro", "role": "w", "prompt": "pro {q} {plan}"},
    {"name": "con", "role": "w", "prompt": "con {q} {pro}", "until": rule},
    {"name": "end", "role": "w", "prompt": "end {q}", "sees": ["plan", "con"]},
]
DIALOGUE = Playbook.from_document({"roles": {"w": {"model": "m"}}, "steps": {"line": line, "tree": tree}[shape]})
REPLIES = {"^plan": "- one\\n- two\\n- three", ".": "fine"}
SETTINGS = Settings.model_validate({"models": {"m": {"use": "__main__.Telling", "args": {"replies": REPLIES}}}})


def in_child(work: Any) -> int:
    """The process that does the work, once it is about to begin."""
    ready, begun = os.pipe()
    pid = os.fork()
    if pid:
        os.close(begun)
        os.read(ready, 1)
        os.close(ready)
        return pid
    code = 1
    try:
        space = Workspace(SETTINGS, open_store(url))
        space.models["m"].chat
        os.write(begun, b"!")
        asyncio.run(work(space))
        code = 0
    finally:
        os._exit(code)


def logged() -> dict[str, set[str]]:
    """What was asked and answered, each once; the log is empty again."""
    lines = [line.split() for line in log.read_text().splitlines()]
    log.write_text("")
    told = {which: [call for what, call in lines if what == which] for which in ("asked", "answered")}
    assert all(len(calls) == len(set(calls)) for calls in told.values()), "no process asks anything twice"
    return {which: set(calls) for which, calls in told.items()}


def family(store: Store, run: str) -> set[str]:
    """A run and all that it opened."""
    found = {run}
    for start in store.facts(Query(kind="start")):
        if start.body["parent"] in found:
            found.add(start.key)
    return found


def durable(store: Store, run: str) -> list[str]:
    """The calls of a run, and of those it opened, that were recorded."""
    turns = [fact for each in family(store, run) for fact in whole_turns(store.facts(Query(kind="turn", subject=each)))]
    return [name_of(fact.body["messages"]) for fact in turns]


async def begin(space: Workspace) -> Any:
    return await space.run(DIALOGUE, q="why", seed=1)


log.write_text("")
undisturbed = Workspace(SETTINGS, MemoryStore())
whole = asyncio.run(begin(undisturbed))
calls, runs = sorted(durable(undisturbed.store, whole.id)), len(family(undisturbed.store, whole.id))
assert sorted(logged()["answered"]) == calls
space, began = Workspace(SETTINGS, open_store(url)), time.perf_counter()
asyncio.run(begin(space))
at_most_seconds = (time.perf_counter() - began) * 1.1
space.close()
logged()

chance = random.Random(int(sys.argv[4]))
told = {
    "interrupted": 0,
    "not accepted": 0,
    "not resumable": 0,
    "durable asked again": 0,
    "answered asked again": 0,
    "under way asked again": 0,
    "most asked again": 0,
    "other outcome": 0,
    "unclean": 0,
}
for _ in range(10 * kills):
    if told["interrupted"] == kills:
        break
    store = open_store(url)
    before = {fact.key for fact in store.facts(Query(kind="start"))}
    store.close()
    pid = in_child(begin)
    time.sleep(chance.uniform(0, at_most_seconds))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    first = logged()
    store = open_store(url)
    starts = [fact for fact in store.facts(Query(kind="start")) if fact.key not in before]
    new = [fact.key for fact in starts if not fact.body["parent"]]
    done = [fact for key in new for fact in store.facts(Query(kind="run", key=key))]
    kept, opened = (set(durable(store, new[0])), family(store, new[0])) if new else (set(), set())
    store.close()
    if not new:
        told["not accepted"] += 1
        assert not first["asked"], "paid before it was accepted"
        continue
    if done:
        continue
    told["interrupted"] += 1

    async def go_on(space: Workspace) -> None:
        assert (await space.runs.resume(new[0])).status == "completed"

    _, status = os.waitpid(in_child(go_on), 0)
    told["not resumable"] += status != 0
    second = logged()["asked"]
    told["durable asked again"] += len(second & kept)
    told["answered asked again"] += len(second & first["answered"])
    told["under way asked again"] += len(second & first["asked"] - first["answered"])
    told["most asked again"] = max(told["most asked again"], len(second & first["asked"]))
    store = open_store(url)
    run, now = recall(store, new[0]), family(store, new[0])
    same = run.output == whole.output and sorted(durable(store, run.id)) == calls
    family_is_one = opened <= now and len(now) == runs and {child.run for child in run.children} == now - {run.id}
    told["other outcome"] += not (same and family_is_one)
    store.close()
store = open_store(url)
told["unclean"] = len(upkeep.verify(store).problems)
store.close()
print(json.dumps(told))
'''


@pytest.mark.parametrize(("shape", "backend"), [("line", "sqlite"), ("tree", "postgresql")])
def test_a_killed_run_goes_on_and_pays_at_most_the_calls_under_way_again(
    shape: str, backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """On a line of steps that ends in three at a time; and on a tree: a loop, after three runs opened at a time that
    have such a loop themselves."""
    url = f"sqlite:///{tmp_path / 'runs.db'}" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    kills = KILLS if backend == "sqlite" else max(1, KILLS // 2)
    arguments = [url, str(tmp_path / "calls"), str(kills), "1", shape]
    done = subprocess.run([sys.executable, "-c", DRIVER, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    logging.getLogger(__name__).info("%s on %s: %s", shape, backend, told)
    assert told["interrupted"] == kills
    assert told["not resumable"] == 0
    assert told["durable asked again"] == 0
    assert told["most asked again"] <= 3  # so many are under way together; each is repeated at most once
    assert told["other outcome"] == 0
    assert told["unclean"] == 0
