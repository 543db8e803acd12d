"""A role as a chat model: LangChain's messages become ours and come back, also across threads and loops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from seedbed.errors import RunError
from seedbed.models.chat import Message, Reply, Sampling, ToolCall
from seedbed.models.langchain.staged import StagedChat, StagedTool, tool_error
from seedbed.models.usage import Usage

CALLS = (ToolCall("c-1", "search", {"q": "tea"}), ToolCall("c-2", "search", None, "{"))
NATIVE = {"class": "some.Chat", "content": [{"type": "text", "text": "I look."}], "extra": {"signature": "s"}}


class Role:
    """Answers with calls first, and remembers what it was asked."""

    def __init__(self) -> None:
        self.heard: list[Sequence[Message]] = []
        self.samplings: list[Sampling] = []

    async def ask(self, role: str, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.heard.append(messages)
        self.samplings.append(sampling)
        calls, native = (CALLS, NATIVE) if len(self.heard) == 1 else ((), None)
        usage = Usage(10, 2)
        about: dict[str, Any] = {"cost_usd": 0.0, "latency_seconds": 0.1, "model": "fast", "finish_reason": "stop"}
        return Reply(text="I look.", usage=usage, calls=calls, native=native, cached_tokens=4, **about)


def chat(role: Role) -> StagedChat:
    return StagedChat(role="clerk", ask=role.ask, loop=asyncio.get_running_loop())


async def test_an_answer_comes_back_whole_with_the_results_of_its_calls() -> None:
    role = Role()
    staged = chat(role)
    first = await staged.ainvoke([SystemMessage("Be brief."), HumanMessage("Tea?")])
    assert first.content == NATIVE["content"]
    assert [each["id"] for each in first.tool_calls] == ["c-1"]
    assert [each["args"] for each in first.invalid_tool_calls] == ["{"]
    assert first.usage_metadata == {
        "input_tokens": 10,
        "output_tokens": 2,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 4},
    }
    results = [ToolMessage("green", tool_call_id="c-1"), ToolMessage("no", tool_call_id="c-2", status="error")]
    await staged.ainvoke([HumanMessage("Tea?"), first, *results])
    assert role.heard[0] == [Message("system", "Be brief."), Message("user", "Tea?")]
    assert role.heard[1][1:] == [
        Message("assistant", "I look.", CALLS, native=NATIVE),
        Message("tool", "green", call="c-1"),
        Message("tool", "no", call="c-2", failed=True),
    ]


async def test_tools_and_stops_are_passed_on_and_anything_else_belongs_in_the_playbook() -> None:
    role = Role()
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    await chat(role).bind_tools([tool], tool_choice="any").ainvoke("Tea?", stop=["END"])
    (sampling,) = role.samplings
    assert sampling.offer
    assert (sampling.offer.choice, list(sampling.offer.tools), sampling.stop) == ("any", ["search"], ("END",))
    with pytest.raises(RunError, match=r"found temperature bound to its model; expected it in the playbook"):
        await chat(role).bind(temperature=0.5).ainvoke("Tea?")


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (ChatMessage("hm", role="chorus"), "type chat"),
        (HumanMessage([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}]), '"image"'),
    ],
)
async def test_what_is_no_text_is_refused(message: Any, problem: str) -> None:
    with pytest.raises(RunError, match=problem):
        await chat(Role()).ainvoke([message])


async def test_it_streams_the_whole_answer_with_its_calls() -> None:
    pieces = [piece async for piece in chat(Role()).astream("Tea?")]
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    assert isinstance(whole, AIMessage)
    assert [each["args"] for each in whole.tool_calls] == [{"q": "tea"}]


async def test_it_works_in_a_thread_and_on_another_loop_but_does_not_block_its_own() -> None:
    role = Role()
    staged = chat(role)
    assert (await asyncio.to_thread(staged.invoke, "Tea?")).text == "I look."
    assert (await asyncio.to_thread(lambda: asyncio.run(staged.ainvoke("Tea?")))).text == "I look."
    with pytest.raises(RunError, match="found a blocking call"):
        staged.invoke("Tea?")


async def test_a_tool_knows_the_id_of_its_call_and_tells_the_model_of_its_failure() -> None:
    used: list[tuple[str, str, Any]] = []

    async def use(call: str, tool: str, arguments: dict[str, Any]) -> str:
        used.append((call, tool, arguments))
        if arguments["q"] == "mud":
            raise tool_error(ValueError("there is none"))
        return "green"

    loop, schema = asyncio.get_running_loop(), {"type": "object", "properties": {"q": {"type": "string"}}}
    staged = StagedTool(name="search", description="Find.", args_schema=schema, use=use, loop=loop)
    call = {"name": "search", "args": {"q": "tea"}, "id": "c-1", "type": "tool_call"}
    message = await staged.ainvoke(call)
    assert (message.content, message.tool_call_id) == ("green", "c-1")
    failed = await asyncio.to_thread(staged.invoke, {**call, "args": {"q": "mud"}, "id": "c-2"})
    assert (failed.content, failed.status) == ("there is none", "error")
    assert used == [("c-1", "search", {"q": "tea"}), ("c-2", "search", {"q": "mud"})]
    assert await staged.ainvoke({"q": "tea"}) == "green"
