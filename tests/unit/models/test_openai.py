"""Any OpenAI-compatible endpoint, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from model_server import Answer, ModelServer, serving
from seedbed.errors import ModelUnavailable, SettingsError
from seedbed.models.cards import Model
from seedbed.models.chat import Message, Reply, Sampling, ask, stream
from seedbed.models.providers.openai import EventStreamParser, OpenAIChat
from seedbed.models.usage import Usage
from seedbed.settings import Card

SECRET = "sk-0123456789abcdef"
HELLO = [Message("user", "hello there")]


def chat(server: ModelServer, **args: Any) -> OpenAIChat:
    return OpenAIChat(**{"model": "m-1", "base_url": server.url, "api_key": SECRET, **args})


def model(server: ModelServer, **args: Any) -> Model:
    given = {"model": "m-1", "base_url": server.url, "api_key": SECRET, **args}
    return Model("large", Card(use="openai", args=given, usd_per_million=(1.0, 2.0)))


async def heard(pieces: AsyncIterator[str | Reply]) -> tuple[list[str], Reply]:
    *texts, reply = [piece async for piece in pieces]
    assert isinstance(reply, Reply)
    assert all(isinstance(text, str) for text in texts)
    return [str(text) for text in texts], reply


async def failed(*answers: Answer, streamed: bool = False, **args: Any) -> ModelUnavailable:
    """How an answer, or a stream, ends in an error."""
    with serving(*answers) as server:
        asking = heard(stream(model(server, **args), HELLO)) if streamed else ask(model(server, **args), HELLO)
        with pytest.raises(ModelUnavailable) as caught:
            await asking
    assert SECRET not in str(caught.value)
    return caught.value


# Answers


async def test_a_reply_says_what_was_answered_and_what_it_took() -> None:
    with serving(Answer("general Kenobi you are", finish_reason="length")) as server:
        reply = await ask(model(server), HELLO)
    assert (reply.text, reply.finish_reason, reply.model) == ("general Kenobi you are", "length", "large")
    assert reply.usage == Usage(2, 4)
    assert reply.cost_usd == pytest.approx((2 * 1 + 4 * 2) / 1e6)


async def test_the_request_holds_what_was_wished_and_nothing_else() -> None:
    with serving(Answer("yes"), Answer("yes")) as server:
        talk = [Message("system", "be brief"), Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
        await ask(model(server), talk)
        plain = server.requests[-1]
        await ask(model(server), talk, Sampling(temperature=0.0, max_tokens=5, seed=0, stop=["\n"]))
        full = server.requests[-1]
    headers = plain.pop("headers")
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert plain == {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ],
    }
    assert {name: full[name] for name in full.keys() - plain.keys() - {"headers"}} == {
        "temperature": 0.0,
        "max_tokens": 5,
        "seed": 0,
        "stop": ["\n"],
    }


async def test_the_arguments_of_the_card_reach_the_endpoint_and_a_call_overrides_them() -> None:
    args = {
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 3,
        "stop": ["."],
        "body": {"top_p": 0.1},
        "headers": {"X-Team": "a"},
    }
    with serving(Answer("yes")) as server:
        await ask(model(server, **args), HELLO, Sampling(max_tokens=4, stop=["!"]))
        (request,) = server.requests
    assert (request["temperature"], request["max_tokens"], request["seed"], request["top_p"]) == (0.5, 4, 3, 0.1)
    assert request["stop"] == [".", "!"]
    assert request["headers"]["x-team"] == "a"


def test_openais_own_endpoint_is_given_the_name_that_its_newer_models_ask_for() -> None:
    def limits(max_tokens: int | None, **args: Any) -> tuple[Any, Any]:
        sent = json.loads(OpenAIChat(model="m", **args)._request([], None, max_tokens=max_tokens)["content"])
        return sent.get("max_completion_tokens"), sent.get("max_tokens")

    assert limits(5) == (5, None)
    assert limits(5, base_url="http://127.0.0.1:1/v1") == (None, 5)
    body = {"max_completion_tokens": 9}
    assert limits(None, body=body) == (9, None)
    assert limits(5, body=body) == (5, None)


async def test_usage_tells_cached_and_reasoning_tokens() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    with serving(Answer("yes", usage=usage), Answer("yes", usage=usage)) as server:
        whole = await chat(server).ainvoke("?")
        pieces = [piece async for piece in chat(server).astream("?")]
    for found in (whole.usage_metadata, sum(pieces[1:], pieces[0]).usage_metadata):
        assert found is not None
        assert (found["input_tokens"], found["output_tokens"]) == (10, 7)
        assert found["input_token_details"] == {"cache_read": 8}
        assert found["output_token_details"] == {"reasoning": 5}


async def test_a_cost_that_the_provider_tells_is_believed() -> None:
    with serving(Answer("yes", usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.25})) as server:
        assert (await ask(model(server), HELLO)).cost_usd == 0.25


async def test_an_endpoint_that_reports_no_usage_leaves_the_cost_unknown() -> None:
    with serving(Answer("yes", usage={})) as server:
        reply = await ask(model(server), HELLO)
    assert (reply.usage, reply.cost_usd, reply.cost_known) == (Usage(), 0.0, False)


@pytest.mark.parametrize("streamed", [False, True])
async def test_confidence_is_the_mean_probability_of_the_tokens(streamed: bool) -> None:
    with serving(Answer("yes", logprobs=[math.log(0.5), math.log(1.0)])) as server:
        its = model(server, logprobs=True)
        reply = (await heard(stream(its, HELLO)))[1] if streamed else await ask(its, HELLO)
        assert server.requests[0]["logprobs"] is True
    assert reply.confidence == pytest.approx(0.75)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("text", ["x" * 1_000_000, "", "ä 🙂 \u2028 \x85 \r\n data: [DONE]", "\x00"], ids=len)
async def test_any_text_comes_through_unchanged(text: str, streamed: bool) -> None:
    with serving(Answer(text)) as server:
        reply = (await heard(stream(model(server), HELLO)))[1] if streamed else await ask(model(server), HELLO)
    assert reply.text == text


async def test_half_a_character_is_replaced_so_that_the_text_can_be_written_down() -> None:
    with serving(Answer("bad \ud83d end")) as server:
        reply = await ask(model(server), HELLO)
    assert reply.text == "bad ? end"


# Streams


async def test_a_stream_gives_pieces_and_then_the_same_reply() -> None:
    with serving(Answer("one two three"), Answer("one two three")) as server:
        texts, last = await heard(stream(model(server), HELLO, Sampling(max_tokens=9)))
        whole = await ask(model(server), HELLO, Sampling(max_tokens=9))
        first, second = server.requests
    assert texts == ["one", " two", " three"]
    assert (last.text, last.usage, last.cost_usd, last.finish_reason) == (
        whole.text,
        whole.usage,
        whole.cost_usd,
        whole.finish_reason,
    )
    assert (first["stream"], first["max_tokens"]) == (True, 9)
    assert "stream" not in second


def test_a_stream_needs_no_event_loop() -> None:
    with serving(Answer("one two"), Answer("one two")) as server:
        assert "".join(str(piece.text) for piece in chat(server).stream("?")) == "one two"
        assert chat(server).invoke("?").text == "one two"


def sent(*events: dict[str, Any] | str) -> Answer:
    """A stream as it goes over the wire."""
    lines = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return Answer(body="".join(f"data: {line}\n\n" for line in lines).encode())


def said(text: str, **event: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}], **event}


async def test_an_endpoint_that_counts_up_from_event_to_event_is_read_once() -> None:
    counts = [{"prompt_tokens": 5, "completion_tokens": number} for number in (1, 2)]
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": counts[1]}
    with serving(sent(said("a", usage=counts[0]), said("b", usage=counts[0]), end, end, "[DONE]")) as server:
        reply = (await heard(stream(model(server), HELLO)))[1]
    assert (reply.text, reply.usage, reply.finish_reason) == ("ab", Usage(5, 2), "stop")


async def test_a_stream_that_is_done_without_saying_why_is_complete() -> None:
    with serving(sent(said("a"), "[DONE]")) as server:
        reply = (await heard(stream(model(server), HELLO)))[1]
    assert (reply.text, reply.finish_reason) == ("a", "")


async def test_a_stream_that_ends_in_the_middle_is_not_taken_for_the_whole() -> None:
    with serving(sent(said("a"), said("b"))) as server:
        with pytest.raises(ModelUnavailable, match="breaks off") as caught:
            await heard(stream(model(server), HELLO))
        assert caught.value.why == "transient"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_are_found_whatever_pieces_they_arrive_in(size: int) -> None:
    events = [{"choices": [{"delta": {"content": text}}]} for text in ("a\u2028b", "ü", "")]
    wire = b": hello\r\n\r\n" + b"".join(
        f"event: x\r\ndata: {json.dumps(event, ensure_ascii=False)}\r\n\r\n".encode() for event in events
    )
    heard = EventStreamParser()
    assert [event for at in range(0, len(wire), size) for event in heard.feed(wire[at : at + size])] == events
    assert heard.end is None


# Tools


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


CALL = {"name": "add", "arguments": '{"a": 1, "b": 2}'}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_model_calls_tools_and_reads_what_they_gave(streamed: bool) -> None:
    with serving(Answer(tool_calls=[CALL, CALL]), Answer("3")) as server:
        its = chat(server).bind_tools([add], tool_choice="any")
        if streamed:
            pieces = [piece async for piece in its.astream("1 + 2?")]
            called: Any = sum(pieces[1:], pieces[0])
        else:
            called = await its.ainvoke("1 + 2?")
        assert [(call["name"], call["args"]) for call in called.tool_calls] == [("add", {"a": 1, "b": 2})] * 2
        results = [ToolMessage("3", tool_call_id=call["id"]) for call in called.tool_calls]
        said = await its.ainvoke([HumanMessage("1 + 2?"), AIMessage("", tool_calls=called.tool_calls), *results])
        first, second = server.requests
    assert said.text == "3"
    assert first["tool_choice"] == "required"
    assert first["tools"][0]["function"]["name"] == "add"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool", "tool"]
    assert second["messages"][2]["tool_call_id"] == "call_0"


async def test_a_tool_can_be_chosen_by_name() -> None:
    with serving(Answer("3")) as server:
        await chat(server).bind_tools([add], tool_choice="add").ainvoke("?")
        assert server.requests[0]["tool_choice"] == {"type": "function", "function": {"name": "add"}}


async def test_a_call_that_is_no_json_is_kept_apart() -> None:
    with serving(Answer(tool_calls=[{"name": "add", "arguments": "{a: "}])) as server:
        said = await chat(server).ainvoke("?")
    assert isinstance(said, AIMessage)
    assert (said.tool_calls, said.invalid_tool_calls[0]["args"]) == ([], "{a: ")


# Failures


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(status=500, message="oops"), "transient"),
        (Answer(status=503), "transient"),
        (Answer(status=529, code="overloaded_error"), "transient"),
        (Answer(status=408), "transient"),
        (Answer(status=429, code="rate_limit_exceeded"), "rate"),
        (Answer(status=429, code="insufficient_quota"), "credit"),
        (Answer(status=402), "credit"),
        (Answer(status=400, code="context_length_exceeded"), "context"),
        (Answer(status=400, message="This model's maximum context length is 8192 tokens."), "context"),
        (Answer(status=413), "context"),
        (Answer(status=400, code="content_filter"), "refused"),
        (Answer(finish_reason="content_filter"), "refused"),
        (Answer(refusal="I cannot help with that."), "refused"),
        (Answer(status=400, message="temperature must be below 2"), "ours"),
        (Answer(status=401, message=f"Incorrect API key provided: {SECRET}"), "ours"),
        (Answer(status=403), "ours"),
        (Answer(status=404, message="no such model"), "ours"),
        (Answer(status=301), "ours"),
        (Answer("a b c d", cut=True), "transient"),
        (Answer(hang_up=True), "transient"),
        (Answer(status=502, body=b"<html>Bad gateway</html>"), "transient"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.status} {value.code or value.finish_reason}",
)
async def test_every_failure_says_why(answer: Answer, why: str, streamed: bool) -> None:
    assert (await failed(answer, streamed=streamed)).why == why


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b'{"choices": [',
        b"[]",
        b"null",
        b"{}",
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": [{"message": "text"}]}',
        b'{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": "caf\xe9"}, "finish_reason": "stop"}]}',
        b"\xff\xfe\x00",
    ],
)
async def test_an_answer_that_cannot_be_read_may_be_better_in_a_moment(body: bytes) -> None:
    error = await failed(Answer(body=body))
    assert error.why == "transient"
    assert error.paid
    assert "cannot be read" in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"data: not json\n\n", b"data: []\n\n", b'data: {"choices": "x"}\n\n', b"data: \xff\n\n", b"[DONE]"]
)
async def test_a_stream_that_cannot_be_read_may_be_better_in_a_moment(body: bytes) -> None:
    assert (await failed(Answer(body=body), streamed=True)).why == "transient"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ({"message": "the engine fell over"}, "transient"),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, "rate"),
        ({"code": 402, "message": "pay"}, "credit"),
        ({"type": "invalid_request_error", "message": "no"}, "ours"),
    ],
)
async def test_an_error_in_the_middle_of_a_stream_says_why(error: dict[str, Any], why: str) -> None:
    assert (await failed(Answer("one two", error_in_stream=error), streamed=True)).why == why


async def test_an_error_under_the_status_of_success_is_one() -> None:
    body = json.dumps({"error": {"code": 429, "message": "slow down"}}).encode()
    assert (await failed(Answer(body=body))).why == "rate"


async def test_the_wait_that_the_provider_wishes_is_told() -> None:
    assert (await failed(Answer(status=429, headers={"Retry-After": "2.5"}))).wait_seconds == 2.5
    assert (await failed(Answer(status=503, headers={"retry-after-ms": "40"}))).wait_seconds == 0.04
    assert (await failed(Answer(status=429))).wait_seconds is None


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_endpoint_that_stays_silent_is_given_up(streamed: bool) -> None:
    error = await failed(Answer("late", delay=60), streamed=streamed, timeout=0.05)
    assert error.why == "transient"
    assert "after 0.05 s" in str(error)


async def test_the_time_that_the_card_allows_holds_for_the_whole_answer() -> None:
    with serving(Answer("late", delay=60), Answer("late", delay=60)) as server:
        slow = Model("slow", Card(use="openai", args={"model": "m", "base_url": server.url}, timeout_seconds=0.05))
        for asking in (ask(slow, HELLO), heard(stream(slow, HELLO))):
            with pytest.raises(ModelUnavailable, match=r"timeout_seconds: 0\.05") as caught:
                await asking
            assert caught.value.why == "transient"


async def test_nobody_there_may_be_there_in_a_moment() -> None:
    with serving() as server:
        url = server.url
    with pytest.raises(ModelUnavailable, match="Check base_url and the network") as caught:
        await OpenAIChat(model="m", base_url=url).ainvoke("?")
    assert caught.value.why == "transient"


@pytest.mark.parametrize("url", ["127.0.0.1:1", "ftp://127.0.0.1/v1", "http://[bad", "http://", ""])
def test_a_url_that_is_none_is_refused_with_its_place(url: str) -> None:
    with pytest.raises(SettingsError, match=r"models\.large\.args\.base_url: found "):
        _ = Model("large", Card(use="openai", args={"model": "m", "base_url": url})).chat


async def test_a_failure_says_who_failed_and_what_to_do_and_keeps_secrets() -> None:
    hidden = {"headers": {"X-Token": "another-secret"}}
    error = await failed(Answer(status=401, message=f"bad key {SECRET} or another-secret"), **hidden)
    assert "m-1 at 127.0.0.1:" in str(error)
    assert "Check api_key" in str(error)
    assert "another-secret" not in str(error)


async def test_a_secret_at_the_edge_of_what_is_quoted_is_not_seen_in_half() -> None:
    assert "sk-" not in str(await failed(Answer(status=500, message="x" * 285 + SECRET)))


async def test_an_error_that_is_null_is_none() -> None:
    body = {"error": None, "choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}
    with serving(Answer(body=json.dumps(body).encode())) as server:
        assert (await ask(model(server), HELLO)).text == "fine"


def test_no_secret_is_shown_with_the_model() -> None:
    its = OpenAIChat(model="m", api_key=SECRET, headers={"X-Token": "another-secret"})
    for text in (repr(its), str(its), its.model_dump_json(), str(its.asdict())):
        assert SECRET not in text
        assert "another-secret" not in text


def test_arguments_it_does_not_know_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"models\.large\.args\.modle: found an unknown key"):
        _ = Model("large", Card(use="openai", args={"model": "m", "modle": "n"})).chat


# Many at once


async def test_a_hundred_questions_at_once_get_their_own_answers() -> None:
    with serving() as server:
        its = model(server)
        replies = await asyncio.gather(*(ask(its, [Message("user", f"n {n}")]) for n in range(100)))
    assert [reply.text for reply in replies] == [f"n {n}" for n in range(100)]


async def test_cancelling_passes_and_leaves_the_others_alone() -> None:
    with serving(Answer("late", delay=60)) as server:
        its = model(server)
        asking = asyncio.ensure_future(ask(its, HELLO))
        while not server.requests:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await ask(its, HELLO)).text == "hello there"


# The same, as OpenAI's own client hears it


@pytest.mark.parametrize("streamed", [False, True])
async def test_openais_own_client_hears_the_same(streamed: bool) -> None:
    answer = Answer("one two three", finish_reason="length")
    with serving(answer, answer) as server:
        reply = (await heard(stream(model(server), HELLO)))[1] if streamed else await ask(model(server), HELLO)
        asked: Any = {"model": "m-1", "messages": [{"role": "user", "content": "hello there"}]}
        async with openai.AsyncOpenAI(base_url=server.url, api_key=SECRET, max_retries=0) as client:
            if streamed:
                events = await client.chat.completions.create(
                    **asked, stream=True, stream_options={"include_usage": True}
                )
                chunks = [chunk async for chunk in events]
                text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
                usage, reason = chunks[-1].usage, chunks[-2].choices[0].finish_reason
            else:
                done = await client.chat.completions.create(**asked)
                text, usage, reason = done.choices[0].message.content, done.usage, done.choices[0].finish_reason
        ours, theirs = server.requests
    assert (reply.text, reply.finish_reason) == (text, reason)
    assert reply.usage == Usage(usage.prompt_tokens, usage.completion_tokens)
    assert {name: ours[name] for name in ours if name != "headers"} == {
        name: theirs[name] for name in theirs if name != "headers"
    }
    assert ours["headers"]["authorization"] == theirs["headers"]["authorization"]
