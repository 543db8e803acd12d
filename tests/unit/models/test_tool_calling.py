"""Calls of tools pass through every provider of ours, streamed or not, and through fallbacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from model_server import Answer, serving
from seedbed.errors import ModelUnavailable
from seedbed.models.calling.fallback import ModelCall
from seedbed.models.calling.limits import ModelLimits
from seedbed.models.cards import Model, Registry
from seedbed.models.chat import Message, Reply, Sampling, ToolCall, ToolOffer, ask, class_of, merge_messages, stream
from seedbed.models.langchain.messages import calls_of, native_of, to_messages
from seedbed.models.providers.scripted import ScriptedChat

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
OFFER = ToolOffer("b2:1", {"search": {"about": "Find it.", "parameters": PARAMETERS, "changes": False}})
TEA = ToolCall("call_0", "search", {"query": "tea"})
TOOLS = Sampling(offer=OFFER)
HISTORY = [
    Message("user", "Tea?"),
    Message("assistant", "", (TEA,)),
    Message("tool", "green", call="call_0"),
    Message("user", "Sure?"),
]


def asked(*calls: tuple[str, str]) -> Answer:
    return Answer(tool_calls=[{"name": name, "arguments": arguments} for name, arguments in calls])


def models(url: str, **more: Any) -> Registry:
    served = {"use": "openai", "args": {"model": "m", "base_url": url}}
    return Registry({"served": served, **more})


async def answer(model: Model, *, streamed: bool, messages: list[Message] = HISTORY[:1]) -> Reply:
    if not streamed:
        return await ask(model, messages, TOOLS)
    pieces = [piece async for piece in stream(model, messages, TOOLS)]
    assert isinstance(pieces[-1], Reply)
    return pieces[-1]


@pytest.mark.parametrize("streamed", [False, True])
async def test_calls_arrive_whole_and_what_cannot_be_read_is_not_guessed(streamed: bool) -> None:
    with serving(asked(("search", '{"query": "tea"}'), ("search", '{"query": "te'), ("search", "[1]"))) as server:
        reply = await answer(models(server.url)["served"], streamed=streamed)
    cut, listed = reply.calls[1:]
    assert reply.calls[0] == TEA
    assert (cut.arguments, listed.arguments) == (None, None)
    assert cut.unreadable.startswith('{"query": "te')
    assert reply.finish_reason == "tool_calls"
    (request,) = server.requests
    assert request["tools"][0]["function"] == {"name": "search", "description": "Find it.", "parameters": PARAMETERS}


async def test_results_go_back_with_the_calls_that_they_answer() -> None:
    with serving(Answer("Green.")) as server:
        reply = await ask(models(server.url)["served"], HISTORY, Sampling(offer=ToolOffer("b2:1", OFFER.tools, "none")))
    assert (reply.text, reply.calls) == ("Green.", ())
    (request,) = server.requests
    assert request["tool_choice"] == "none"
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "tool", "user"]
    call, result = request["messages"][1]["tool_calls"][0], request["messages"][2]
    assert json.loads(call["function"]["arguments"]) == {"query": "tea"}
    assert (result["tool_call_id"], result["content"]) == (call["id"], "green")


async def test_scripts_and_tables_call_tools_too(tmp_path: Path) -> None:
    scripted = {"calls": [{"tool": "search", "arguments": {"query": "tea"}}], "text": "Let me see."}
    cell = json.dumps(scripted["calls"]).replace('"', '""')
    (tmp_path / "answers.csv").write_text(f'prompt,model,reply,calls\nTea?,m,,"{cell}"\ngreen,m,Green.,\n')
    table = {"use": "table", "args": {"path": str(tmp_path / "answers.csv")}}
    script = {"use": "scripted", "args": {"replies": {"Tea": scripted, "green": "Green."}}}
    registry = Registry({"table": table, "script": script})
    for name, text in (("table", ""), ("script", "Let me see.")):
        for streamed in (False, True):
            reply = await answer(registry[name], streamed=streamed)
            assert (reply.text, [each.arguments for each in reply.calls]) == (text, [{"query": "tea"}])
            assert (await answer(registry[name], streamed=streamed, messages=HISTORY[:3])).text == "Green."
            later = await answer(registry[name], streamed=streamed, messages=[*HISTORY[:3], HISTORY[0]])
            assert later.calls[0].id not in ("", reply.calls[0].id)


async def test_a_fallback_gets_calls_and_results_together_and_one_that_calls_no_tools_is_skipped() -> None:
    with serving(Answer("Green.")) as server:
        broken = {"use": "openai", "args": {"model": "m", "base_url": "http://127.0.0.1:1/v1"}}
        registry = models(server.url, broken=broken, here={"use": "embedded"})
        chain = [registry[name] for name in ("broken", "here", "served")]
        done = await ModelCall(chain, HISTORY, ModelLimits(), sampling=TOOLS).answer()
    assert done.reply.text == "Green."
    assert "it cannot do tool calls" in done.fallbacks[1].because
    assert [message["role"] for message in server.requests[0]["messages"]] == ["user", "assistant", "tool", "user"]
    assert merge_messages(HISTORY) == HISTORY
    with pytest.raises(ModelUnavailable, match="tool calls"):
        await ModelCall([registry["here"]], HISTORY, ModelLimits(), sampling=TOOLS).answer()


def test_what_is_native_to_a_provider_goes_back_to_its_class_only() -> None:
    thinking = [{"type": "thinking", "thinking": "Hm.", "signature": "s3"}, {"type": "text", "text": "I look."}]
    call = {"name": "search", "args": {"query": "tea"}, "id": "call_0", "type": "tool_call"}
    said = AIMessage(content=thinking, tool_calls=[call], additional_kwargs={"thought_signature": "t1"})
    native = native_of(said, "some.Chat")
    kept = Message("assistant", "I look.", calls_of(said), native=native)
    (same,) = to_messages([kept], "some.Chat")
    assert (same.content, same.additional_kwargs) == (thinking, {"thought_signature": "t1"})
    (other,) = to_messages([kept], "other.Chat")
    assert (other.content, other.additional_kwargs) == ("I look.", {})
    assert same.tool_calls == other.tool_calls == [call]  # type: ignore[attr-defined]
    assert native_of(AIMessage(content="plain"), "some.Chat") is None
    assert native_of(AIMessage(content="", additional_kwargs={"it": object()}), "some.Chat") is None
    assert class_of(ScriptedChat(replies=["a"])) == "seedbed.models.providers.scripted.ScriptedChat"


def test_a_failed_result_says_so_and_everything_a_model_reads_is_counted() -> None:
    (failed,) = to_messages([Message("tool", "no", call="c", failed=True)])
    assert failed.status == "error"  # type: ignore[attr-defined]
    assert '{"query": "tea"}' in HISTORY[1].counted
    assert Message("user", "Tea?").counted == "Tea?"
    assert "Find it." in OFFER.counted
