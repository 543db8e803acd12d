"""An agent written with the plain OpenAI client: its chat completions are turns of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from agent_samples import DESK, HELP, killed_and_resumed, refunded, replayed, searched, workspace
from openai import APIStatusError, AsyncOpenAI, OpenAI

from seedbed.errors import BudgetSpent, RunError
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.history import recent
from seedbed.stage.stage import Stage

OUTPUT = "The money is back."


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    refunded.clear()
    searched.clear()


async def by_client(task: Mapping[str, Any], stage: Stage) -> str:
    client = AsyncOpenAI(**stage.openai())
    messages: list[Any] = [{"role": "system", "content": "You help."}, {"role": "user", "content": task["question"]}]
    offered: list[Any] = [
        {"type": "function", "function": {"name": each.name, "parameters": each.args_schema, "description": "It."}}
        for each in stage.tools()
    ]
    while True:
        if task.get("stream"):
            async with client.chat.completions.stream(model="clerk", messages=messages, tools=offered) as stream:
                said = (await stream.get_final_completion()).choices[0].message
        else:
            answer = await client.chat.completions.create(model="clerk", messages=messages, tools=offered)
            said = answer.choices[0].message
        if not said.tool_calls:
            return str(said.content)
        fields = {"id": True, "type": True, "function": {"name", "arguments"}}
        asked = [each.model_dump(include=fields) for each in said.tool_calls]
        messages.append({"role": "assistant", "content": said.content, "tool_calls": asked})
        results = await asyncio.gather(
            *(stage.call_as(c.id, c.function.name, **json.loads(c.function.arguments)) for c in said.tool_calls)
        )
        messages += [
            {"role": "tool", "tool_call_id": c.id, "content": text}
            for c, text in zip(said.tool_calls, results, strict=True)
        ]


async def other_paths(task: Mapping[str, Any], stage: Stage) -> str:
    client = AsyncOpenAI(**stage.openai())
    refusals = []
    for work in (
        client.responses.create(model="clerk", input="Help"),
        client.chat.completions.create(model="clerk", messages=[{"role": "user", "content": "?"}], temperature=0.5),
    ):
        try:
            await work
        except APIStatusError as error:
            refusals.append(f"{error.status_code} {error}")
    return "\n".join(refusals)


async def blocking_client(task: Mapping[str, Any], stage: Stage) -> str:
    client = OpenAI(**stage.openai(blocking=True))
    messages: Any = [{"role": "user", "content": task["question"]}]
    answer = await asyncio.to_thread(client.chat.completions.create, model="clerk", messages=messages)
    return str(answer.choices[0].message.content)


async def twice(task: Mapping[str, Any], stage: Stage) -> None:
    client = AsyncOpenAI(**stage.openai())
    for _ in range(2):
        await client.chat.completions.create(model="clerk", messages=[{"role": "user", "content": "?"}])


def book(program: Any = by_client, **more: Any) -> Playbook:
    roles = {"clerk": {**DESK["roles"]["clerk"], "system": ""}}
    document = {"program": f"{__name__}:{program.__name__}", "roles": roles, "rules": DESK["rules"], **more}
    return Playbook.from_document(document)


async def test_an_agent_is_recorded_and_strictly_replayed_without_a_model_or_a_tool() -> None:
    space = workspace()
    run = await space.run(book(), **HELP)
    assert (run.output, refunded) == (OUTPUT, ["o-17"])
    assert [len(turn.calls) for turn in run.turns] == [3, 1, 0]
    searched.clear()
    space.tools = []
    for _ in range(10):
        again = await replayed(space, run)
        assert again.output == OUTPUT
        assert again.replay is not None
        assert again.replay["labels"] == {"call": {"exact": 4}, "turn": {"exact": 3}}
    assert (searched, refunded) == ([], ["o-17"])


@pytest.mark.parametrize("before", [True, False])
async def test_an_agent_killed_at_any_fact_is_resumed_to_the_same_output_or_in_doubt(before: bool) -> None:
    await killed_and_resumed(book(), before=before)


async def test_a_client_may_stream() -> None:
    space = workspace()
    run = await space.run(book(by_client), stream=True, **HELP)
    assert (run.output, refunded) == (OUTPUT, ["o-17"])
    assert (await replayed(space, run)).output == OUTPUT


async def test_a_blocking_client_works_in_a_thread() -> None:
    run = await workspace({"": "Hello."}).run(book(blocking_client), **HELP)
    assert run.output == "Hello."


async def test_other_paths_and_settings_that_belong_in_the_playbook_are_refused_clearly() -> None:
    run = await workspace().run(book(other_paths), **HELP)
    first, second = str(run.output).splitlines()
    assert first.startswith("404")
    assert "the only path that a stage answers" in first
    assert second.startswith("400")
    assert "temperature" in second
    assert "roles.clerk" in second


async def test_a_spent_budget_ends_the_run_whatever_the_client_makes_of_it() -> None:
    space = workspace(
        models={"fast": {"use": "scripted", "usd_per_million": [1e6, 1e6], "args": {"replies": {"": "x"}}}}
    )
    with pytest.raises(BudgetSpent):
        await space.run(book(), max_cost_usd=0.001, **HELP)
    assert next(recent(space.store, 1)).status == "cost_limited"


async def test_a_model_that_does_not_answer_has_the_status_of_a_server_that_does_not() -> None:
    space = workspace(["only this"])
    with pytest.raises(RunError, match=r"BadRequestError.*the script is over"):
        await space.run(book(twice), **HELP)
