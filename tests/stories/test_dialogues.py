"""The playbooks of examples/dialogues: each is correct, runs to its end on a scripted and on the embedded model,
and goes on after an interruption."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

from seedbed.models.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook, Together
from seedbed.playbooks.prompts import placeholders
from seedbed.runs.recorder import recall, recent
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.store import Json, Store, digest
from seedbed.workspace import Workspace

FOLDER = Path(__file__).parents[2] / "examples" / "dialogues"
SHIPPED = {"loop", "debate", "podcast", "pipeline", "dynamic", "research", "detective", "panel", "worker-reviewer"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


class StepByStep(ScriptedChat):
    """Answers with the name of the step, and a digest of everything that was said to it.

    Steps of one of the `blocks` are answered when all of them were asked. After `answers` nobody is answered any more.
    """

    blocks: tuple[tuple[str, ...], ...] = ()
    answers: int = 1000
    _asked: list[str] = PrivateAttr(default_factory=list)
    _meetings: dict[str, asyncio.Barrier] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        for block in self.blocks:
            self._meetings |= dict.fromkeys(block, asyncio.Barrier(len(block)))

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> ChatResult:
        result = await super()._agenerate(messages, *args, **given)
        answer = result.generations[0].message
        step = str(answer.text)
        self._asked.append(step)
        if len(self._asked) > self.answers:
            await asyncio.Event().wait()
        if step in self._meetings:
            async with asyncio.timeout(30):
                await self._meetings[step].wait()
        # What is asked again in the same words gets the same answer, so that `until` is content.
        heard = sorted({f"{message.type}: {message.text}" for message in messages if message.type != "ai"})
        answer.content = f"{step} {digest('heard', heard)[3:13]}"
        return result


def shipped(name: str) -> Playbook:
    return Playbook.load(FOLDER / f"{name}.yaml")


def script(playbook: Playbook) -> dict[str, str]:
    """The name of each step by the words of its prompt, the longest first: a prompt of one placeholder fits all."""
    found = {}
    for step in sorted(playbook.all_steps(), key=lambda step: -len(step.prompt)):
        words = re.escape(step.prompt)
        for each in placeholders(step.prompt):
            words = words.replace(re.escape(str(each)), ".*")
        found[f"(?s)\\A{words}\\Z"] = step.name
    return found


def workspace(playbook: Playbook, store: Store, **args: Any) -> Workspace:
    model = {"use": f"{__name__}.StepByStep", "args": {"replies": script(playbook), **args}}
    return Workspace(Settings.model_validate({"by": "ada", "models": {"local": model}}), store)


def inputs(playbook: Playbook) -> Json:
    return dict.fromkeys(playbook.inputs, "the bicycle that was gone on Monday")


def planned(playbook: Playbook) -> Counter[str]:
    """How often each step speaks if its answer never changes: what has an `until` says it twice to be sure."""
    return Counter({step.name: 2 if step.until else 1 for step in playbook.all_steps()})


def test_all_that_were_promised_are_there_and_check_clean() -> None:
    assert {*NAMES} == SHIPPED
    seedbed = Path(sys.executable).with_name("seedbed")
    command = [str(seedbed), "playbook", "check", *(str(FOLDER / f"{name}.yaml") for name in NAMES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("✓") == len(SHIPPED)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_first_when_to_use_it_and_the_readme_lists_it(name: str) -> None:
    text = (FOLDER / f"{name}.yaml").read_text()
    assert re.match(r"# Use it \w+", text)
    steps = len(list(shipped(name).all_steps()))
    assert re.search(rf"^\| \[{name}\]\({name}\.yaml\) \|.*\| {steps} \|", (FOLDER / "README.md").read_text(), re.M)


@pytest.mark.parametrize("name", NAMES)
async def test_each_runs_as_planned_with_what_is_together_under_way_at_the_same_time(name: str) -> None:
    playbook = shipped(name)
    blocks = [[step.name for step in item.together] for item in playbook.steps if isinstance(item, Together)]
    space = workspace(playbook, open_store("memory:"), blocks=blocks)
    run = await space.run(playbook, seed=1, **inputs(playbook))
    assert run.status == "completed"
    assert Counter(turn.step for turn in run.turns) == planned(playbook)
    last = list(playbook.all_steps())[-1].name
    assert run.turns[-1].step == last
    assert run.output == run.turns[-1].text
    assert run.output.startswith(f"{last} ")


@pytest.mark.parametrize("name", NAMES)
async def test_each_goes_on_from_half_of_its_turns_to_the_same_output(name: str) -> None:
    playbook = shipped(name)
    whole = await workspace(playbook, open_store("memory:")).run(playbook, seed=1, **inputs(playbook))
    half = len(whole.turns) // 2

    store = open_store("memory:")
    space = workspace(playbook, store, answers=half)
    under_way = asyncio.create_task(space.run(playbook, seed=1, **inputs(playbook)))
    while not (begun := list(recent(store, 1))) or len(recall(store, begun[0].id).turns) < half:
        await asyncio.sleep(0)
    under_way.cancel()
    await asyncio.gather(under_way, return_exceptions=True)
    assert recall(store, begun[0].id).status == "running"

    space = workspace(playbook, store)
    run = await space.resume(begun[0].id)
    assert (run.status, run.output) == ("completed", whole.output)
    assert {turn.step: turn.text for turn in run.turns} == {turn.step: turn.text for turn in whole.turns}
    assert len(asked(space)) == len(whole.turns) - half


def asked(space: Workspace) -> list[str]:
    chat: Any = space.models["local"].chat
    return list(chat._asked)


@pytest.mark.xdist_group("embedded model")
@pytest.mark.parametrize("name", NAMES)
async def test_each_runs_on_the_embedded_model(name: str) -> None:
    # A dozen words are enough to see every step speak and be heard.
    short = {f"roles.{role}.max_tokens": 12 for role in shipped(name).roles}
    playbook = Playbook.load(FOLDER / f"{name}.yaml", short)
    models = {"local": {"use": "embedded", "args": {"template": "chat"}}}
    space = Workspace(Settings.model_validate({"by": "ada", "models": models}), open_store("memory:"))
    run = await space.run(playbook, seed=1, **inputs(playbook))
    assert run.status == "completed"
    spoken = Counter(turn.step for turn in run.turns)
    for step in playbook.all_steps():
        if step.until:
            assert 2 <= spoken[step.name] <= step.until.at_most
        else:
            assert spoken[step.name] == 1
    assert [turn.step for turn in run.turns if not turn.text or turn.completion_tokens > 12] == []
    assert run.output == run.turns[-1].text
