"""A run that is killed at any moment goes on where it was, and pays at most for the calls under way again.

`SEEDBED_TEST_RUN_KILLS=1000` kills more often.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("SEEDBED_TEST_RUN_KILLS", "60"))

DRIVER = '''
import asyncio, json, os, random, signal, sys, time
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

import seedbed.runs.recorder, seedbed.stage.perform, seedbed.stage.stage
from seedbed.models.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage import open_store, upkeep
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

url, log, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


class Telling(ScriptedChat):
    """Writes down every answer that was paid for."""

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        await asyncio.sleep(0.002)
        with log.open("a") as file:
            file.write(messages[-1].text + "\\n")
        return self._generate(messages)


steps: list[Any] = [{"name": f"s{n}", "role": "w", "prompt": f"s{n} {{q}}"} for n in range(6)]
block = [{"name": f"t{n}", "role": "w", "prompt": f"t{n} {{s5}}"} for n in range(3)]
last = {"name": "end", "role": "w", "prompt": "end {t0} {t1} {t2}"}
DIALOGUE = Playbook.from_document({"roles": {"w": {"model": "m"}}, "steps": [*steps, {"together": block}, last]})
SETTINGS = Settings.model_validate({"models": {"m": {"use": "__main__.Telling", "args": {"replies": {".": "fine"}}}}})


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


async def begin(space: Workspace) -> None:
    await space.run(DIALOGUE, q="why", seed=1)


chance = random.Random(int(sys.argv[4]))
told = {"interrupted": 0, "not accepted": 0, "not resumable": 0, "paid again": 0, "most paid again": 0, "unclean": 0}
for _ in range(kills):
    log.write_text("")
    store = open_store(url)
    before = {fact.key for fact in store.facts(Query(kind="start"))}
    store.close()
    pid = in_child(begin)
    time.sleep(chance.uniform(0, 0.06))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    store = open_store(url)
    new = [fact.key for fact in store.facts(Query(kind="start")) if fact.key not in before]
    done = [fact for key in new for fact in store.facts(Query(kind="run", key=key))]
    store.close()
    if not new:
        told["not accepted"] += 1
        assert log.read_text() == "", "paid before it was accepted"
        continue
    if done:
        continue
    told["interrupted"] += 1

    async def go_on(space: Workspace) -> None:
        assert (await space.resume(new[0])).status == "completed"

    _, status = os.waitpid(in_child(go_on), 0)
    told["not resumable"] += status != 0
    calls = log.read_text().splitlines()
    again = len(calls) - len(set(calls))
    assert len(set(calls)) == 10, calls
    # Three calls may be under way together in the block; each is repeated at most once.
    told["paid again"] += again
    told["most paid again"] = max(told["most paid again"], again)
store = open_store(url)
told["unclean"] = len(upkeep.verify(store).problems)
store.close()
print(json.dumps(told))
'''


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_killed_run_goes_on_and_pays_at_most_the_calls_under_way_again(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    kills = KILLS if backend == "sqlite" else max(1, KILLS // 10)
    arguments = [url, str(tmp_path / "calls"), str(kills), "1"]
    done = subprocess.run([sys.executable, "-c", DRIVER, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    logging.getLogger(__name__).info("%s: %s", backend, told)
    assert told["interrupted"] > kills / 4
    assert told["not resumable"] == 0
    assert told["most paid again"] <= 3
    assert told["unclean"] == 0
