"""A comparison that is killed at any moment goes on, and comes to the same verdict.

`SEEDBED_TEST_COMPARISON_KILLS=200` kills more often; with `--log-cli-level=info` one sees what happened.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("SEEDBED_TEST_COMPARISON_KILLS", "5"))

DRIVER = '''
import asyncio, json, os, random, signal, sys, time
from collections import Counter
from dataclasses import replace
from typing import Any

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.proof.certificate import verify
from seedbed.experiments.options import Comparing
from seedbed.experiments.verdict import Verdict, experiments
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

url, kills = sys.argv[1], int(sys.argv[2])


class Slow(ScriptedChat):
    """The longer a question is looked at, the later it is answered: results come in another order than registered."""

    async def _agenerate(self, messages: Any, *args: Any, **given: Any) -> Any:
        await asyncio.sleep(0.001 * (len(messages[-1].text) % 5))
        return self._generate(messages)


def playbook(word: str) -> Playbook:
    step = {"name": "s", "role": "w", "prompt": word + " {q}"}
    return Playbook.from_document({"roles": {"w": {"model": "m"}}, "steps": [step]})


OLD, NEW = playbook("old"), playbook("new")
REPLIES = {"old .*[0-5]$": "no", "new .*[0-2]$": "no", ".": "yes"}
SETTINGS = Settings.model_validate({"models": {"m": {"use": "__main__.Slow", "args": {"replies": REPLIES}}}})


def tasks(number: int) -> Dataset:
    return Dataset(tuple(Task(f"t{n}", {"q": f"{'a' * (n % 7)} {number}-{n}"}, "yes") for n in range(60)))


async def begin(space: Workspace, number: int) -> Verdict:
    return await space.compare(OLD, NEW, on=tasks(number), metric=ExactMatch(), options=Comparing(rule={"effect": 0.3}))


def in_child(number: int) -> int:
    """The process that compares, once it is about to begin."""
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
        asyncio.run(begin(space, number))
        code = 0
    finally:
        os._exit(code)


space, began = Workspace(SETTINGS, open_store(url)), time.perf_counter()
asyncio.run(begin(space, -1))
at_most_seconds = (time.perf_counter() - began) * 1.1
space.close()

chance = random.Random(1)
told = {"interrupted": 0, "not resumable": 0, "other verdict": 0, "paid twice": 0, "not proven": 0}
for number in range(kills):
    pid = in_child(number)
    time.sleep(chance.uniform(0, at_most_seconds))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    store = open_store(url)
    told["interrupted"] += any(each.status == "running" for each in experiments(store))
    store.close()
    _, status = os.waitpid(in_child(number), 0)
    told["not resumable"] += status != 0
    whole = asyncio.run(begin(Workspace(SETTINGS, MemoryStore()), number))
    store = open_store(url)
    verdict = Verdict.recall(store, whole.experiment)
    told["other verdict"] += replace(verdict, evidence="") != replace(whole, evidence="")
    told["not proven"] += bool(verify(store, [verdict.experiment])[verdict.experiment]) if number % 20 == 0 else 0
    store.close()
store = open_store(url)
paid = Counter((fact.subject, fact.body["inputs"]["q"]) for fact in store.facts(Query(kind="run")))
cells = Counter((fact.subject, fact.body["run"]) for fact in store.facts(Query(kind="cell")))
told["paid twice"] = sum(times > 1 for times in (*paid.values(), *cells.values()))
store.close()
print(json.dumps(told))
'''


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_comparison_that_is_killed_comes_to_the_same_verdict(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}" if backend == "sqlite" else request.getfixturevalue("postgres_url")
    command = [sys.executable, "-c", DRIVER, url, str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    logging.getLogger(__name__).info("on %s: %s", backend, told)
    assert told.pop("interrupted") > KILLS / 10
    assert told == {"not resumable": 0, "other verdict": 0, "paid twice": 0, "not proven": 0}
