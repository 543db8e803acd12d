"""Agents of other frameworks, unchanged: recorded, ruled, replayed, killed and resumed, tried with simulated tools."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from agent_samples import DESK, HELP, SCRIPT, calls, killed_and_resumed, refunded, replayed, search, searched, workspace
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import BaseTool

from seedbed.errors import BudgetSpent, InDoubt, RunError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.genes import with_genes
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import Missed
from seedbed.runs.history import recall, recent
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langgraph.prebuilt import create_react_agent

OUTPUT = "The money is back."


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    refunded.clear()
    searched.clear()


def agent_of(stage: Stage) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return create_react_agent(stage.model("clerk"), tools=stage.tools(), prompt="You help.")


async def graph(task: Mapping[str, Any], stage: Stage) -> str:
    answered = await agent_of(stage).ainvoke({"messages": [("user", task["question"])]})
    return str(answered["messages"][-1].content)


async def in_a_thread(task: Mapping[str, Any], stage: Stage) -> str:
    messages = {"messages": [("user", task["question"])]}
    answered = await asyncio.to_thread(agent_of(stage).invoke, messages)
    return str(answered["messages"][-1].content)


async def streamed(task: Mapping[str, Any], stage: Stage) -> str:
    heard = [
        piece.content
        async for piece, _ in agent_of(stage).astream(
            {"messages": [("user", task["question"])]}, stream_mode="messages"
        )
        if isinstance(piece, AIMessage) and piece.content
    ]
    return "|".join(map(str, heard))


async def swallowing(task: Mapping[str, Any], stage: Stage) -> str:
    try:
        return await graph(task, stage)
    except Exception:  # noqa: BLE001 - as some frameworks do
        return "all is well"


async def swallowing_another(task: Mapping[str, Any], stage: Stage) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = create_react_agent(stage.model("clerk"), tools=stage.tools(), prompt="You are somebody else.")
    try:
        await agent.ainvoke({"messages": [("user", task["question"])]})
    except Exception:  # noqa: BLE001 - as some frameworks do
        return "all is well"
    return "it was answered"


async def blocking(task: Mapping[str, Any], stage: Stage) -> Any:
    return stage.model("clerk").invoke("Help")


def book(program: Any = graph, **more: Any) -> Playbook:
    roles = {"clerk": {**DESK["roles"]["clerk"], "system": ""}}
    return Playbook.from_document(
        {"program": f"{__name__}:{program.__name__}", "roles": roles, "rules": DESK["rules"], **more}
    )


@pytest.mark.parametrize("program", [graph, in_a_thread])
async def test_an_agent_is_recorded_and_strictly_replayed_without_a_model_or_a_tool(program: Any) -> None:
    space = workspace()
    run = await space.run(book(program), **HELP)
    assert (run.output, refunded) == (OUTPUT, ["o-17"])
    assert [len(turn.calls) for turn in run.turns] == [3, 1, 0]
    assert {(call.tool, bool(call.turn)) for call in run.calls} == {("search", True), ("refund", True)}
    assert space.store.get(run.turns[0].toolset)["refund"]["changes"] is True
    searched.clear()
    space.tools = []
    for _ in range(10):
        again = await replayed(space, run)
        assert again.output == OUTPUT
        assert again.replay is not None
        assert again.replay["labels"] == {"call": {"exact": 4}, "turn": {"exact": 3}}
    assert (searched, refunded) == ([], ["o-17"])


async def test_a_stream_hears_each_answer_once() -> None:
    run = await workspace().run(book(streamed), **HELP)
    assert run.output == f"I refund it.|{OUTPUT}"


@pytest.mark.parametrize("before", [True, False])
async def test_an_agent_killed_at_any_fact_is_resumed_to_the_same_output_or_in_doubt(before: bool) -> None:
    await killed_and_resumed(book(), before=before)


async def test_an_evaluation_of_an_agent_performs_simulated_tools() -> None:
    space = workspace()
    tasks = Dataset([Task(id="one", inputs=HELP, expected="It would be back.")])
    card = await space.evaluate(book(), tasks, metric="exact_match")
    assert (card.cells[0].value, refunded) == (1.0, [])


async def test_the_rules_hold_and_the_model_is_told_of_refusals_and_failures_only() -> None:
    space = workspace({"never": "I must not.", **SCRIPT})
    run = await space.run(book(rules={"never": ["refund"]}), **HELP)
    assert (run.output, refunded) == ("I must not.", [])
    failing = workspace({"^Help": calls(("search", {"query": "nothing"})), "index is empty": "It is empty."})
    assert (await failing.run(book(), **HELP)).output == "It is empty."


@pytest.mark.parametrize("fault", ["doubt", "budget"])
async def test_what_a_framework_swallows_ends_the_run_all_the_same(fault: str) -> None:
    @tool(changes=True, name="refund")
    async def cut_off(order: str) -> str:
        raise ConnectionResetError("the line is dead")

    space = workspace()
    space.tools = [search, cut_off if fault == "doubt" else tool(changes=True, name="refund")(lambda order: order)]
    dear = {"use": "scripted", "usd_per_million": [1e6, 1e6], "args": {"replies": SCRIPT}}
    if fault == "budget":
        space = workspace(models={"fast": dear})
    limits = {} if fault == "doubt" else {"max_cost_usd": 0.001}
    with pytest.raises(InDoubt if fault == "doubt" else BudgetSpent):
        await space.run(book(swallowing), **limits, **HELP)
    run = next(recent(space.store, 1))
    assert run.status == ("failed" if fault == "doubt" else "cost_limited")
    assert recall(space.store, run.id).output is None


async def test_a_replay_that_misses_an_answer_says_so_even_if_its_framework_swallows_that() -> None:
    space = workspace()
    run = await space.run(book(), **HELP)
    with pytest.raises(Missed, match=r"messages.*You are somebody else"):
        await replayed(space, run, playbook=book(swallowing_another))


async def test_a_blocking_call_on_the_loop_of_the_run_is_refused_with_both_remedies() -> None:
    with pytest.raises(RunError, match=r"Await its ainvoke, or call the agent in a thread: await asyncio.to_thread"):
        await workspace().run(book(blocking), **HELP)


async def test_tools_are_those_of_the_roles_or_all() -> None:
    async def names(document: dict[str, Any], *chosen: str) -> list[str]:
        async with workspace().runs.recording(Playbook.from_document(document)) as stage:
            tools: list[BaseTool] = stage.tools(*chosen)
            return [each.name for each in tools]

    assert await names({"roles": {"clerk": {"model": "fast", "tools": ["search"]}}}) == ["search"]
    assert await names({"roles": {"clerk": {"model": "fast"}}}) == ["refund", "search"]
    assert await names({"roles": {"clerk": {"model": "fast"}}}, "ref*") == ["refund"]


class Attentive(ScriptedChat):
    """Is polite if it is told to be."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        result = super()._generate(messages, *args, **kwargs)
        if any(message.type == "system" and "politely" in message.text for message in messages):
            result.generations[0].message.content = f"Please: {result.generations[0].message.content}"
        return result


async def by_its_playbook(task: Mapping[str, Any], stage: Stage) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prompt = stage.playbook.roles["clerk"].system
        agent = create_react_agent(stage.model("clerk"), tools=stage.tools(), prompt=prompt)
    answered = await agent.ainvoke({"messages": [("user", task["question"])]})
    return str(answered["messages"][-1].content)


async def test_a_search_improves_the_instructions_of_an_agent_without_touching_the_world() -> None:
    space = workspace(models={"fast": {"use": f"{__name__}.Attentive", "args": {"replies": SCRIPT}}})
    curt = book(by_its_playbook, roles={"clerk": {**DESK["roles"]["clerk"], "system": "Answer."}})
    polite = with_genes(curt, {"roles.clerk.system": "Answer politely."})
    questions = [{"question": f"Help: mug {n}"} for n in range(12)]
    tasks = Dataset(
        [Task(id=f"t{n}", inputs=each, expected="Please: It would be back.") for n, each in enumerate(questions)]
    )
    fresh = Dataset([replace(task, id=f"f{task.id}", inputs={"question": f"Help: cup {task.id}"}) for task in tasks])
    found = await space.evolve(curt, tasks, metric=ExactMatch(), optimizer=BestOf([polite]))
    assert found.best == polite.digest
    assert refunded == []
    verdict = await space.compare(curt, found.best, on=fresh, metric=ExactMatch())
    assert (verdict.finding, refunded) == ("superior", [])
