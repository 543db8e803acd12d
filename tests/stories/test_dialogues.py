"""The dialogues that ship: each is correct, runs to its end on a scripted model (some on the embedded one),
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
from pydantic import Field, PrivateAttr

from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks import builtin
from seedbed.playbooks.playbook import Playbook, Together
from seedbed.playbooks.prompts import placeholders
from seedbed.runs.history import recall, recent
from seedbed.runs.run import Run, Turn
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.store import Json, Store, digest
from seedbed.workspace import Workspace

SHIPPED = {"loop", "debate", "podcast", "pipeline", "dynamic", "research", "critique", "panel"}
NAMES = sorted(builtin.FILES)
NO_DIGITS = str.maketrans("0123456789", "ghijklmnop")


class StepByStep(ScriptedChat):
    """Answers with the name of the step and a digest of everything that was said to it, so that no round is like the
    one before.

    Of steps in `says`, that is the whole answer, whenever they are asked. Steps of one of the `blocks` are answered
    when all of them were asked. After `answers` nobody is answered any more.
    """

    says: dict[str, str] = Field(default_factory=dict)
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
        heard = digest("heard", [f"{message.type}: {message.text}" for message in messages])
        words = re.findall(".{6}", heard[3:].translate(NO_DIGITS))  # a number would be taken for a score
        answer.content = self.says.get(step, f"{step} {' '.join(words)}")
        return result


def shipped(name: str) -> Playbook:
    return Playbook.load(builtin.FILES[name])


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


def rounds(playbook: Playbook) -> dict[str, int]:
    """How often each step speaks at most: those in a loop as often as it may go round, all others once."""
    spoken = {step.name: 1 for step in playbook.all_steps()}
    names = list(spoken)
    for step in playbook.all_steps():
        if step.until:
            begin = names.index(step.until.back_to or step.name)
            spoken |= dict.fromkeys(names[begin : names.index(step.name) + 1], step.until.at_most)
    return spoken


def outcomes(run: Run) -> dict[str, str]:
    return {decision.point: decision.action for decision in run.decisions}


async def performed(name: str, **args: Any) -> tuple[Workspace, Run]:
    playbook = shipped(name)
    space = workspace(playbook, open_store("memory:"), **args)
    return space, await space.run(playbook, seed=1, **inputs(playbook))


def everywhere(store: Store) -> list[Turn]:
    """The turns of all runs, those that others opened included."""
    return [turn for run in recent(store, 100) for turn in recall(store, run.id).turns]


def test_all_that_were_promised_are_there_and_check_clean() -> None:
    assert {*NAMES} == SHIPPED
    seedbed = Path(sys.executable).with_name("seedbed")
    command = [str(seedbed), "playbook", "check", "--strict", *map(str, builtin.FILES.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("✓") == len(SHIPPED)


def test_the_docs_list_each() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "dialogues.md").read_text()
    assert [name for name in NAMES if f"| `{name}` | {shipped(name).inputs[0]} |" not in docs] == []


@pytest.mark.parametrize("name", NAMES)
async def test_each_runs_as_planned_with_what_is_together_under_way_at_the_same_time(name: str) -> None:
    playbook = shipped(name)
    blocks = [[step.name for step in item.together] for item in playbook.steps if isinstance(item, Together)]
    _, run = await performed(name, blocks=blocks, says={"plan": "Is it gone? Who had it?"})
    assert run.status == "completed"
    assert Counter(turn.step for turn in run.turns) == rounds(playbook)
    assert {point: action for point, action in outcomes(run).items() if point.endswith(" until")} == {
        f"{step.name} until": "stalled" for step in playbook.all_steps() if step.until
    }
    last = list(playbook.all_steps())[-1].name
    assert run.turns[-1].step == last
    assert run.output == run.turns[-1].text
    assert run.output.startswith(f"{last} ")


@pytest.mark.parametrize(
    ("name", "says", "spoken"),
    [
        ("debate", {"reply_for": "Position: lease ten.", "reply_against": "Position: lease ten of them."}, 2),
        ("debate", {"reply_for": "Position: yes, buy.", "reply_against": "Position: no, wait."}, 3),
        ("dynamic", {"objections": "As far as I see nothing is  wrong."}, 1),
        ("dynamic", {"draft": "It was the wind.", "objections": "Which wind was it?"}, 3),
        ("critique", {"review": "Well done: 8/10."}, 1),
        ("critique", {"review": "Nothing must change."}, 1),
        ("critique", {"review": "The end must change: 7/10."}, 3),
    ],
)
async def test_rounds_end_when_they_have_come_to_something(name: str, says: dict[str, str], spoken: int) -> None:
    _, run = await performed(name, says=says)
    (loop,) = (step for step in shipped(name).all_steps() if step.until)
    assert Counter(turn.step for turn in run.turns)[loop.name] == spoken


async def test_who_contradict_each_other_for_good_are_told_apart_from_who_agree() -> None:
    told = {}
    for reply in ("yes, buy", "no, wait"):
        _, run = await performed(
            "debate", says={"reply_for": "Position: yes, buy.", "reply_against": f"Position: {reply}."}
        )
        told[reply] = outcomes(run)["reply_against until"]
    assert told == {"yes, buy": "converged", "no, wait": "deadlock"}


async def test_in_later_rounds_the_thinker_hears_the_critic_and_the_worker_the_reviewer() -> None:
    for name, speaker, other in (("dynamic", "draft", "objections"), ("critique", "work", "review")):
        _, run = await performed(name)
        heard = [text for turn in run.turns if turn.step == speaker for _, text in turn.messages]
        said = [turn.text for turn in run.turns if turn.step == other]
        assert [f"{other}:\n{text}" in heard for text in said] == [True] * (len(said) - 1) + [False]


async def test_research_opens_a_run_for_each_question_and_reports_on_what_they_found() -> None:
    plan = "1. Who had the key?\n2. When was it seen last?\n3. Who came by?\n4. Was it locked?"
    space, run = await performed("research", says={"plan": plan})
    found = [recall(space.store, child.run) for child in run.children]
    assert [each.inputs["question"] for each in found] == ["Who had the key?", "When was it seen last?", "Who came by?"]
    assert [len(each.children) for each in found] == [0, 0, 0]
    for child in found:
        assert child.status == "completed"
        assert any(child.output in text for _, text in run.turns[-1].messages)


async def test_research_checks_nothing_where_nothing_was_split() -> None:
    _, run = await performed("research", says={"plan": "It was the wind, I am sure."})
    assert [turn.step for turn in run.turns] == ["plan", "report"]
    assert outcomes(run) == {"check when": "left out"}


@pytest.mark.parametrize("name", NAMES)
async def test_each_goes_on_from_half_of_its_turns_to_the_same_output(name: str) -> None:
    says = {"plan": "1. Who had it?\n2. When?"} if name == "research" else {}
    first, whole = await performed(name, says=says)
    turns = everywhere(first.store)
    half = len(turns) // 2

    playbook, store = shipped(name), open_store("memory:")
    space = workspace(playbook, store, answers=half, says=says)
    under_way = asyncio.create_task(space.run(playbook, seed=1, **inputs(playbook)))
    while len(everywhere(store)) < half:
        await asyncio.sleep(0)
    under_way.cancel()
    await asyncio.gather(under_way, return_exceptions=True)
    (begun,) = (run for run in recent(store, 100) if not run.parent)
    assert begun.status == "running"

    space = workspace(playbook, store, says=says)
    run = await space.runs.resume(begun.id)
    assert (run.status, run.output) == ("completed", whole.output)
    assert said(everywhere(store)) == said(turns)
    assert len(asked(space)) == len(turns) - half


def said(turns: list[Turn]) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    return sorted((turn.step, turn.text, turn.messages) for turn in turns)


def asked(space: Workspace) -> list[str]:
    chat: Any = space.models["local"].chat
    return list(chat._asked)


@pytest.mark.xdist_group("embedded model")
@pytest.mark.parametrize("name", ["debate", "dynamic", "loop"])  # all of them run on a scripted model above
async def test_each_runs_on_the_embedded_model(name: str) -> None:
    # A few words are enough to see every step speak and be heard.
    short = {f"roles.{role}.max_tokens": 5 for role in shipped(name).roles}
    playbook = Playbook.load(builtin.FILES[name], short)
    models = {"local": {"use": "embedded", "args": {"template": "chat"}}}
    space = Workspace(Settings.model_validate({"by": "ada", "models": models}), open_store("memory:"))
    run = await space.run(playbook, seed=1, **inputs(playbook))
    assert run.status == "completed"
    spoken, most = Counter(turn.step for turn in run.turns), rounds(playbook)
    left_out = {step.name for step in playbook.all_steps() if outcomes(run).get(f"{step.name} when") == "left out"}
    assert {*spoken} == {*most} - left_out
    assert [step for step in spoken if spoken[step] > most[step]] == []
    assert [turn.step for turn in run.turns if not turn.text or turn.completion_tokens > 5] == []
    assert run.output == run.turns[-1].text
