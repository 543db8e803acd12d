"""Requests: what clients of OpenAI's chat API send, in our terms, and our answers in theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seedbed.errors import Problem, RunError, shown
from seedbed.models.chat import Message, OutputForm, Reply, Sampling, ToolCall, ToolOffer, read_call
from seedbed.storage.store import digest

READ = {"model", "messages", "tools", "tool_choice", "response_format", "stop", "stream", "stream_options"}
READ |= {"parallel_tool_calls", "store", "metadata", "user"}
"""What a request may have. How a role samples is written in the playbook."""


def offer_of(tools: Sequence[Mapping[str, Any]], tool_choice: Any = None) -> ToolOffer | None:
    """The tools that OpenAI's API describes so, and the choice among them."""
    functions = [each["function"] for each in tools]
    known = {
        each["name"]: {"about": each.get("description", ""), "parameters": each.get("parameters", {})}
        for each in sorted(functions, key=lambda each: str(each["name"]))
    }
    choice = tool_choice
    if isinstance(choice, Mapping):
        choice = choice.get("function", {}).get("name")
    choice = {True: "any", "required": "any", "auto": "", None: "", False: ""}.get(choice, choice)
    return ToolOffer(digest("toolset", known), known, str(choice)) if known else None


def read_request(body: Mapping[str, Any]) -> tuple[str, list[Message], Sampling]:
    """The role that a request asks, its messages, and its tools and form. Raises RunError for what a role cannot do."""
    if unknown := sorted(name for name in body if name not in READ and body[name] is not None):
        remedy = f"Write it under roles.{body.get('model')} in the playbook"
        problem = Problem("request", ", ".join(unknown), "only messages, tools and the form of the answer", remedy)
        raise RunError(problem)
    stop = body.get("stop") or ()
    sampling = Sampling(
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        offer=offer_of(body.get("tools") or (), body.get("tool_choice")),
        form=_form(body.get("response_format")),
    )
    return str(body.get("model")), [_message(each) for each in body.get("messages") or ()], sampling


def _form(asked_for: Any) -> OutputForm | None:
    if not isinstance(asked_for, Mapping) or asked_for.get("type") != "json_schema":
        return None
    schema = asked_for["json_schema"].get("schema") or {}
    return OutputForm(digest("schema", schema), schema)


def _message(each: Mapping[str, Any]) -> Message:
    role, content = each.get("role"), each.get("content")
    if isinstance(content, list):
        if other := [part for part in content if part.get("type") != "text"]:
            raise RunError(Problem("request.messages", shown(other[0].get("type")), "text"))
        content = "".join(part["text"] for part in content)
    text = content or ""
    if role == "tool":
        return Message("tool", text, call=str(each["tool_call_id"]))
    if role == "assistant":
        return Message("assistant", text, tuple(map(_call, each.get("tool_calls") or ())))
    if role not in ("system", "developer", "user"):
        raise RunError(Problem("request.messages", shown(role), "system, developer, user, assistant or tool"))
    return Message("user" if role == "user" else "system", text)


def _call(each: Mapping[str, Any]) -> ToolCall:
    return read_call(0, each["id"], each["function"]["name"], each["function"].get("arguments"))


def to_completion(reply: Reply) -> dict[str, Any]:
    """An answer as a chat completion."""
    message = {"role": "assistant", "content": reply.text or None, **_calls(reply)}
    choice = {"index": 0, "message": message, "finish_reason": _reason(reply), "logprobs": None}
    return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def to_chunks(reply: Reply, *, usage: bool) -> Iterator[bytes]:
    """An answer as the events of a stream."""
    calls = _calls(reply)
    for place, each in enumerate(calls.get("tool_calls", ())):
        each["index"] = place
    deltas = [({"role": "assistant", "content": reply.text or None, **calls}, None), ({}, _reason(reply))]
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        yield _event({**_head(reply, "chat.completion.chunk"), "choices": [choice]})
    if usage:
        yield _event({**_head(reply, "chat.completion.chunk"), "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def _event(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-seedbed", "object": kind, "created": 0, "model": reply.model}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else reply.finish_reason if reply.finish_reason == "length" else "stop"


def _calls(reply: Reply) -> dict[str, list[dict[str, Any]]]:
    calls = [
        {
            "id": each.id,
            "type": "function",
            "function": {"name": each.tool, "arguments": each.unreadable or json.dumps(each.arguments)},
        }
        for each in reply.calls
    ]
    return {"tool_calls": calls} if calls else {}


def _usage(reply: Reply) -> dict[str, Any]:
    read, written = reply.usage.prompt_tokens, reply.usage.completion_tokens
    details = {"cached_tokens": reply.cached_tokens}
    counted = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {**counted, "prompt_tokens_details": details}
