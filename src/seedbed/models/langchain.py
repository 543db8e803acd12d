"""LangChain: messages in its form, and calls without its overhead. `chat` loads this with the first call."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from langchain_core.globals import get_debug, get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import _configure_hooks, _tracing_v2_is_enabled

_KINDS: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


def to_messages(messages: Iterable[tuple[str, str]]) -> list[BaseMessage]:
    """LangChain's messages for pairs of a speaker and a text."""
    return [_KINDS[speaker](content=text) for speaker, text in messages]


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
