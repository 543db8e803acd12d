"""LangChain: messages in its form, and calls without its overhead. `chat` loads this with the first call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from langchain_core.globals import get_debug, get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableBinding, RunnableSequence
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import _configure_hooks, _tracing_v2_is_enabled

from seedbed.errors import StoreError
from seedbed.models.chat import ANSWER, Message, OutputForm, ToolCall, ToolOffer, read_call
from seedbed.storage.store import canonical

_KINDS: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


def to_messages(messages: Iterable[Message], kind: str = "") -> list[BaseMessage]:
    """LangChain's messages; the `native` parts of an answer only for a model of the class that gave it."""
    return [_KINDS[each.role](content=each.text) if each.is_plain else _rich(each, kind) for each in messages]


def _rich(message: Message, kind: str) -> BaseMessage:
    if message.call:
        status = "error" if message.failed else "success"
        return ToolMessage(content=message.text, tool_call_id=message.call, status=status)
    native = message.native if message.native and message.native["class"] == kind else {}
    calls = [{"name": each.tool, "args": each.arguments or {}, "id": each.id} for each in message.calls]
    content = native.get("content", message.text)
    return AIMessage(content=content, tool_calls=calls, additional_kwargs=native.get("extra", {}))


def calls_of(answer: AIMessage) -> tuple[ToolCall, ...]:
    """The calls that an answer asks for. The arguments of one that was cut off are not guessed."""
    chunks = answer.tool_call_chunks if isinstance(answer, AIMessageChunk) else []
    if any(isinstance(each["args"], str) for each in chunks):
        return tuple(read_call(n, each["id"], each["name"], each["args"]) for n, each in enumerate(chunks))
    requested = [(each["id"], each["name"], each["args"]) for each in (*answer.tool_calls, *answer.invalid_tool_calls)]
    return tuple(read_call(n, *each) for n, each in enumerate(requested))


def native_of(answer: AIMessage, kind: str) -> dict[str, Any] | None:
    """What a provider sent beside text and calls, if JSON can hold it; None if there is nothing."""
    extra = {name: value for name, value in answer.additional_kwargs.items() if name != "tool_calls"}
    if isinstance(answer.content, str) and not extra:
        return None
    try:
        native: dict[str, Any] = json.loads(canonical({"class": kind, "content": answer.content, "extra": extra}))
    except StoreError:
        return None
    return native


def bound_tools(chat: BaseChatModel, offer: ToolOffer) -> dict[str, Any]:
    """The arguments by which a model offers tools, as its `bind_tools` makes them."""
    schemas = [function_schema(name, about) for name, about in offer.tools.items()]
    bound = chat.bind_tools(schemas, tool_choice=offer.choice) if offer.choice else chat.bind_tools(schemas)
    return dict(bound.kwargs) if isinstance(bound, RunnableBinding) else {}


def native_form(chat: BaseChatModel, form: OutputForm) -> dict[str, Any]:
    """The arguments by which a provider is asked for JSON of a schema, as LangChain's class makes them."""
    schema = {"title": ANSWER, "description": "The answer.", **form.schema}
    structured = chat.with_structured_output(schema, method="json_schema")
    first = structured.first if isinstance(structured, RunnableSequence) else structured
    kwargs = dict(first.kwargs) if isinstance(first, RunnableBinding) else {}
    return {name: value for name, value in kwargs.items() if not name.startswith("ls_")}


def function_schema(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as OpenAI's API describes it, which every provider's class understands."""
    function = {"name": name, "description": about["about"], "parameters": about["parameters"]}
    return {"type": "function", "function": function}


def message_of(result: ChatResult) -> AIMessage:
    """The first message of a result, with the metadata that `ainvoke` would add to it."""
    (generation, *_) = result.generations
    answer: AIMessage = generation.message  # type: ignore[assignment]
    for details in (generation.generation_info, result.llm_output):
        for name, value in (details or {}).items():
            answer.response_metadata.setdefault(name, value)
    return answer


def is_plain(chat: BaseChatModel) -> bool:
    """Whether nothing observes a model: no callbacks, traces, caches or limits of LangChain, no overridden methods."""
    return not (
        chat.callbacks
        or chat.verbose
        or chat.rate_limiter
        or chat.cache
        or chat.output_version == "v1"
        or getattr(chat, "streaming", False)
        or not _is_ordinary(type(chat))
        or (chat.cache is None and get_llm_cache() is not None)
        or get_debug()
        or var_child_runnable_config.get()
        or any(variable.get() is not None for variable, *_ in _configure_hooks)
        or _tracing_v2_is_enabled()
    )


@cache
def _is_ordinary(kind: type[BaseChatModel]) -> bool:
    methods = ("ainvoke", "agenerate", "agenerate_prompt", "_agenerate_with_cache")
    return all(getattr(kind, method) is getattr(BaseChatModel, method) for method in methods)
