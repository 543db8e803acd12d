"""Sub-dialogues: which items of an answer open one, what they are told, and what comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage
from pydantic import Field

from seedbed.errors import ModelUnavailable, Stopped
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recall, recent
from seedbed.runs.run import RunEvent
from seedbed.settings import Quota, Settings
from seedbed.stage.dialogue.children import list_items
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

RESEARCH: dict[str, Any] = {
    "inputs": ["question"],
    "roles": {"lead": {"model": "local"}},
    "steps": [
        {"name": "plan", "role": "lead", "prompt": "Split: {question}", "opens": {"input": "question", "at_most": 2}},
        {"name": "report", "role": "lead", "prompt": "Report on {question} from:\n{plan}"},
    ],
}
REPLIES = {
    "^Split: why": "1. how\n2. when\n3. where",
    "^Split: ": "nothing to split",
    "^Report on why": "all in all",
    "^Report on how": "by hand",
    "^Report on when": "at noon",
}


def workspace(replies: Any = REPLIES, **more: Any) -> Workspace:
    models = {"local": {"use": "scripted", "args": {"replies": replies}, "usd_per_million": [1, 1]}}
    return Workspace(Settings(models=models, by="ada", **more), MemoryStore())


def opening(**changes: Any) -> Playbook:
    steps = [dict(step) for step in RESEARCH["steps"]]
    steps[0]["opens"] = {**steps[0]["opens"], **changes}
    return Playbook.from_document({**RESEARCH, "steps": steps})


async def test_each_item_of_an_answer_is_a_run_of_its_own_and_what_it_concludes_comes_back() -> None:
    space = workspace()
    run = await space.run(opening(), question="why")
    assert run.output == "all in all"
    assert [child.output for child in run.children] == ["by hand", "at noon"]
    report = run.turns[-1].messages[-1][1]
    assert "how:\nby hand" in report
    assert "when:\nat noon" in report
    assert "where:" not in report  # more than two were not asked for


async def test_what_a_run_opened_is_told_with_it_and_recorded_as_a_run_under_it() -> None:
    space = workspace()
    run = await space.run(opening(), question="why")
    assert recall(space.store, run.id) == run
    assert run.children[0].cost_usd > 0
    own = sum(turn.cost_usd for turn in run.turns)
    assert run.cost_usd == pytest.approx(own + sum(child.cost_usd for child in run.children))
    for child in run.children:
        found = recall(space.store, child.run)
        assert (found.parent, found.status) == (run.id, "completed")
    paid = sum(fact.value or 0.0 for fact in space.store.facts(Query(kind="run")))
    assert paid == pytest.approx(run.cost_usd)  # each run tells what it paid itself, so that nothing counts twice


async def test_a_sub_dialogue_is_told_what_was_known_where_it_was_opened() -> None:
    space = workspace()
    run = await space.run(opening(), question="why")
    child = recall(space.store, run.children[0].run)
    assert child.inputs["question"] == "how"
    assert "1. how" in child.inputs["inherited"]
    for turn in child.turns:
        assert turn.messages[0] == ("user", f"What is known so far:\n{child.inputs['inherited']}")


async def test_a_prompt_that_names_what_is_inherited_is_told_it_there_only() -> None:
    space = workspace({"^Split: why": "- how", "^Split: ": "no", "^Known": "fine"})
    document = {**RESEARCH, "inputs": ["question", "inherited"]}
    document["steps"] = [RESEARCH["steps"][0], {"name": "report", "role": "lead", "prompt": "Known: {inherited}{plan}"}]
    run = await space.run(Playbook.from_document(document), question="why", inherited="")
    child = recall(space.store, run.children[0].run)
    assert [len(turn.messages) for turn in child.turns] == [1, 1]
    assert child.turns[-1].messages[0][1].startswith("Known: plan:\n- how")


@pytest.mark.parametrize(("depth", "runs"), [(1, 3), (2, 7), (3, 15)])
async def test_sub_dialogues_open_others_down_to_their_depth(depth: int, runs: int) -> None:
    space = workspace({"^Split: ": "- one\n- two", "^Report": "done"})
    run = await space.run(opening(depth=depth), question="why")
    assert run.status == "completed"
    assert len(list(recent(space.store, 100))) == runs


async def test_sub_dialogues_are_performed_at_the_same_time() -> None:
    space = workspace()
    met = asyncio.Barrier(2)
    model = space.models["local"]
    ask = type(model.chat)._agenerate

    async def meet(chat: Any, messages: Any, *args: Any, **given: Any) -> Any:
        if messages[-1].text.startswith(("Split: how", "Split: when")):
            async with asyncio.timeout(20):
                await met.wait()
        return await ask(chat, messages, *args, **given)

    chat = type(model.chat)
    patched = type("Meeting", (chat,), {"_agenerate": meet})
    vars(model)["chat"] = patched(replies=REPLIES)
    assert (await space.run(opening(), question="why")).status == "completed"


async def test_a_sub_dialogue_that_fails_does_not_lose_the_others() -> None:
    replies = {key: text for key, text in REPLIES.items() if "how" not in key}
    space = workspace(replies)
    run = await space.run(opening(), question="why")
    assert run.status == "completed"
    ended = {(child.status, child.output) for child in run.children}  # in the order in which they ended
    assert ended == {("failed", None), ("completed", "at noon")}
    assert "how:\n(not answered: " in run.turns[-1].messages[-1][1]


async def test_what_a_sub_dialogue_cost_counts_also_if_it_failed_and_it_goes_on_when_the_run_does() -> None:
    replies = {key: text for key, text in REPLIES.items() if key not in ("^Report on how", "^Report on why")}
    space = workspace(replies)
    with pytest.raises(ModelUnavailable):
        await space.run(opening(), question="why")
    (parent,) = [run for run in recent(space.store, 10) if not run.parent]
    paid = sum(fact.body["cost_usd"] for fact in space.store.facts(Query(kind="turn")))
    assert recall(space.store, parent.id).cost_usd == pytest.approx(paid)

    richer = Workspace(workspace().settings, space.store)
    run = await richer.runs.resume(parent.id)
    assert {child.output for child in run.children} == {"by hand", "at noon"}
    assert recall(space.store, parent.id).cost_usd == pytest.approx(run.cost_usd)
    paid = sum(fact.body["cost_usd"] for fact in space.store.facts(Query(kind="turn")))
    assert run.cost_usd == pytest.approx(paid)


async def test_an_answer_without_a_list_opens_nothing_and_says_so() -> None:
    space = workspace({"^Split: ": "It cannot be split.", "^Report": "done"})
    run = await space.run(opening(), question="why")
    assert run.children == ()
    (remark,) = space.store.facts(Query(kind="remark"))
    assert "opened nothing" in remark.body["text"]


async def test_another_playbook_can_be_opened_by_its_digest() -> None:
    space = workspace({**REPLIES, "^Briefly": "short"})
    other = Playbook.from_document(
        {"roles": {"one": {"model": "local"}}, "steps": [{"name": "say", "role": "one", "prompt": "Briefly: {topic}"}]}
    )
    digest = space.resources.library.keep(other, because="to be opened")
    run = await space.run(opening(playbook=digest, input="topic"), question="why")
    assert [child.output for child in run.children] == ["short", "short"]
    assert recall(space.store, run.children[0].run).playbook == digest


async def test_a_quota_counts_what_was_asked_for_once_and_all_that_was_paid() -> None:
    space = workspace(quota=Quota(runs_per_day=2))
    await space.run(opening(), question="why")
    fresh = Workspace(space.settings, space.store)
    await fresh.run(opening(), question="why")  # three runs are recorded, and one was asked for


class Halting(ScriptedChat):
    """Answers so many times, and then nobody any more."""

    answers: int
    heard: list[str] = Field(default_factory=list)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **given: Any) -> Any:
        if len(self.heard) >= self.answers:
            await asyncio.Event().wait()
        self.heard.append(messages[-1].text)
        return self._generate(messages)


@pytest.mark.parametrize("answers", range(6))
async def test_a_run_taken_up_again_takes_up_what_it_opened_and_asks_nothing_twice(answers: int) -> None:
    space = workspace()
    model = space.models["local"]
    vars(model)["chat"] = before = Halting(replies=REPLIES, answers=answers)
    going = asyncio.ensure_future(space.run(opening(), question="why", seed=1))
    while len(before.heard) < answers or not list(recent(space.store, 10)):
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    (parent,) = [run for run in recent(space.store, 10) if not run.parent]

    vars(model)["chat"] = after = Halting(replies=REPLIES, answers=1000)
    run = await space.runs.resume(parent.id)
    whole = await workspace().run(opening(), question="why", seed=1)
    assert run.output == whole.output
    assert sorted(child.output for child in run.children) == ["at noon", "by hand"]
    assert len(before.heard) + len(after.heard) == 6
    assert run.cost_usd == pytest.approx(whole.cost_usd)


# Lists


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1. one\n2. two", ["one", "two"]),
        ("Here they are:\n- one\n* two\n• three\nThat is all.", ["one", "two", "three"]),
        ("a) one\nb) two", ["one", "two"]),
        ('Of course: ["one", "two"]', ["one", "two"]),
        ('```json\n["one",\n "two"]\n```', ["one", "two"]),
        ("1) eins\n2) zwei\n2) zwei", ["eins", "zwei"]),
        ("No list at all. 1.5 is a number.", []),
        ("", []),
        ("[1, 2]", []),
        ("[not json]", []),
    ],
)
def test_items_of_lists_as_models_write_them(text: str, items: list[str]) -> None:
    assert list_items(text) == items


@given(st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    items = list_items(text)
    assert all(item.strip() == item and item for item in items)
    assert len(items) == len(set(items))


async def test_a_stop_while_runs_are_opened_ends_the_run_above_them_too() -> None:
    space = workspace({"^Split": "1. how\n2. when"})
    playbook = Playbook.from_document({**RESEARCH, "steps": [opening().content()["steps"][0]]})

    def stop(event: RunEvent) -> None:
        if event.turn:
            space.resources.runner.stop.set("fire", "ada")

    with pytest.raises(Stopped):
        await space.run(playbook, question="why", on_event=stop)
    (run,) = [run for run in recent(space.store, 9) if not run.parent]
    assert run.status == "failed"
