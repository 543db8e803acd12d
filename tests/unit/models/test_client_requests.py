"""Requests of OpenAI's API in our terms, and our answers in theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from seedbed.errors import RunError
from seedbed.models.chat import Message, Reply, ToolCall
from seedbed.models.requests import offer_of, read_request, to_chunks, to_completion
from seedbed.models.usage import Usage

FUNCTION = {"name": "search", "description": "Find.", "parameters": {"type": "object"}}
CALL = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}}
BODY: dict[str, Any] = {
    "model": "clerk",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Tea?"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "green"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "required",
    "stop": "END",
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
}
REPLY = Reply(
    text="",
    usage=Usage(3, 2),
    cost_usd=0.0,
    latency_seconds=0.1,
    model="fast",
    finish_reason="tool_calls",
    calls=(ToolCall("c", "search", {"q": 1}),),
)


def test_a_request_is_read_whole() -> None:
    role, messages, sampling = read_request(BODY)
    assert role == "clerk"
    assert messages == [
        Message("system", "Be brief."),
        Message("user", "Tea?"),
        Message("assistant", "", (ToolCall("c", "search", {"q": 1}),)),
        Message("tool", "green", call="c"),
    ]
    assert (sampling.stop, sampling.offer and sampling.offer.choice) == (("END",), "any")
    assert sampling.form
    assert sampling.form.schema == {"type": "object"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"temperature": 1, "n": 2}, "found n, temperature"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, '"image_url"'),
        ({"messages": [{"role": "chorus", "content": "la"}]}, '"chorus"'),
    ],
)
def test_what_a_role_cannot_do_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(RunError, match=problem):
        read_request({**BODY, **change})


@pytest.mark.parametrize(("choice", "meant"), [(None, ""), ("auto", ""), ("none", "none"), (True, "any")])
def test_the_choice_of_a_tool_is_read(choice: Any, meant: str) -> None:
    offer = offer_of(BODY["tools"], choice)
    assert offer
    assert offer.choice == meant
    named = offer_of(BODY["tools"], {"type": "function", "function": {"name": "search"}})
    assert named
    assert named.choice == "search"
    assert offer_of([]) is None


def test_an_answer_is_a_completion_or_a_stream_of_chunks() -> None:
    completion = to_completion(REPLY)
    assert completion["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "search"
    assert (completion["choices"][0]["finish_reason"], completion["usage"]["total_tokens"]) == ("tool_calls", 5)
    *events, last = to_chunks(REPLY, usage=True)
    assert last == b"data: [DONE]\n\n"
    chunks = [json.loads(each.removeprefix(b"data: ")) for each in events]
    assert chunks[0]["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert chunks[-1]["usage"]["prompt_tokens"] == 3
    assert len(list(to_chunks(REPLY, usage=False))) == 3
