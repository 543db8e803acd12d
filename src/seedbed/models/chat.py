"""The one seam to LangChain: messages go in, a priced Reply comes out."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seedbed.errors import ModelUnavailable, SeedbedError, shown
from seedbed.models.cards import Model
from seedbed.models.failures import why

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage

__all__ = ["Message", "Model", "Reply", "Speaker", "Usage", "ask", "stream"]

Speaker: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One contribution to a conversation."""

    role: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written; usages add up."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered and what that took.

    `model` is the name it is registered under. `usage` is zero if the provider does not report it. The cost is zero
    and `cost_known` false if nobody knows its price, or how much of it was used. `finish_reason` is the provider's
    word, "length" if the answer was cut off. `confidence` is the mean probability of its tokens, if the provider tells.
    `waited_seconds` were spent waiting for our own limits, apart from the model's `latency_seconds`. Where no usage is
    reported, `uncounted_tokens` is the most that there may have been.
    """

    text: str
    usage: Usage
    cost_usd: float
    latency_seconds: float
    model: str
    finish_reason: str
    cost_known: bool = True
    confidence: float | None = None
    waited_seconds: float = 0.0
    uncounted_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.usage.prompt_tokens + self.usage.completion_tokens + self.uncounted_tokens


async def ask(
    model: Model,
    messages: Sequence[Message],
    *,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    stop: Sequence[str] = (),
) -> Reply:
    """Have a model answer. What is not given is left to the model's own arguments; so is the seed of a model
    that knows no seeds.

    Raises ModelUnavailable, which says why, if it gives no answer within the time its card allows; SettingsError if
    its card does not lead to a model.
    """
    chat = model.chat
    given = _given(model, temperature, max_tokens, seed, stop)
    spoken = [_spoken(message) for message in messages]
    started = time.perf_counter()
    with _failures(model):
        async with asyncio.timeout(model.card.timeout_seconds):
            answer = await (_directly if is_plain(chat) else _invoked)(chat, spoken, given)
    return _reply(model, answer, time.perf_counter() - started)


async def _invoked(chat: BaseChatModel, spoken: list[BaseMessage], given: dict[str, Any]) -> AIMessage:
    return await chat.ainvoke(spoken, **given)


async def _directly(chat: BaseChatModel, spoken: list[BaseMessage], given: dict[str, Any]) -> AIMessage:
    """What `ainvoke` comes to where nobody listens, without the preparations for listeners: they take most of its
    time, some 150 µs for each call."""
    result = await chat._agenerate(spoken, **given)
    (generation, *_) = result.generations
    answer: AIMessage = generation.message  # type: ignore[assignment]
    for told in (generation.generation_info, result.llm_output):
        for name, value in (told or {}).items():
            answer.response_metadata.setdefault(name, value)
    return answer


def is_plain(chat: BaseChatModel) -> bool:
    """Whether nobody listens to a model: no callbacks, traces, caches or limits of LangChain, no ways of its own."""
    return not (
        chat.callbacks
        or chat.verbose
        or chat.rate_limiter
        or chat.cache
        or chat.output_version == "v1"
        or getattr(chat, "streaming", False)
        or not _is_ordinary(type(chat))
        or _somebody_listens()(chat)
    )


@cache
def _somebody_listens() -> Callable[[BaseChatModel], bool]:
    """Whether somebody listens to all models, from here or from around us."""
    from langchain_core.globals import get_debug, get_llm_cache
    from langchain_core.runnables.config import var_child_runnable_config
    from langchain_core.tracers.context import _configure_hooks, _tracing_v2_is_enabled

    def listens(chat: BaseChatModel) -> bool:
        return bool(
            (chat.cache is None and get_llm_cache() is not None)
            or get_debug()
            or var_child_runnable_config.get()
            or any(variable.get() is not None for variable, *_ in _configure_hooks)
            or _tracing_v2_is_enabled()
        )

    return listens


@cache
def _is_ordinary(kind: type[BaseChatModel]) -> bool:
    from langchain_core.language_models import BaseChatModel

    ways = ("ainvoke", "agenerate", "agenerate_prompt", "_agenerate_with_cache")
    return all(getattr(kind, way) is getattr(BaseChatModel, way) for way in ways)


async def stream(
    model: Model,
    messages: Sequence[Message],
    *,
    temperature: float | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    stop: Sequence[str] = (),
) -> AsyncGenerator[str | Reply, None]:
    """Have a model answer and hear it speak: pieces of text, and the whole Reply as the last item.

    As with `ask` in everything else. A failure may come after some pieces.
    """
    given = _given(model, temperature, max_tokens, seed, stop)
    whole: AIMessageChunk | None = None
    took = 0.0
    async with aclosing(model.chat.astream([_spoken(message) for message in messages], **given)) as pieces:  # type: ignore[type-var]
        while True:
            started = time.perf_counter()
            with _failures(model):
                # Only the model's time counts, not that of whoever listens.
                async with asyncio.timeout(max(model.card.timeout_seconds - took, 0)):
                    piece = await anext(pieces, None)
            took += time.perf_counter() - started
            if piece is None:
                break
            whole = piece if whole is None else whole + piece
            if text := str(piece.text):
                yield text
    if whole is None:
        raise ModelUnavailable(f"model {shown(model.name)} gave no answer: found an empty stream", "transient")
    yield _reply(model, whole, took)


def _given(
    model: Model, temperature: float | None, max_tokens: int | None, seed: int | None, stop: Sequence[str]
) -> dict[str, Any]:
    known = "seed" in type(model.chat).model_fields
    wishes = {
        "temperature": temperature,
        "max_tokens": max_tokens,
        "seed": seed if known else None,
        "stop": list(stop) or None,
    }
    return {name: value for name, value in wishes.items() if value is not None}


@contextmanager
def _failures(model: Model) -> Iterator[None]:
    """Says of everything that goes wrong at a provider why it did, and keeps its secrets."""
    try:
        yield
    except SeedbedError:
        raise
    except Exception as error:
        because, wait_seconds = why(error)
        found = f"{type(error).__name__}: {shown(model.redact(str(error)), 300)}"
        if isinstance(error, TimeoutError):
            found += f", with timeout_seconds: {model.card.timeout_seconds:g}"
        raise ModelUnavailable(
            f"model {shown(model.name)} gave no answer: found {found}. "
            f"Check its key, its network and models.{model.name} in the settings, or use another model",
            because,
            wait_seconds,
        ) from error


def _reply(model: Model, answer: AIMessage, latency: float) -> Reply:
    tokens = answer.usage_metadata
    usage = Usage(tokens["input_tokens"], tokens["output_tokens"]) if tokens else None
    told = answer.response_metadata
    cost = _cost(model, usage, told)
    return Reply(
        text=str(answer.text),
        usage=usage or Usage(),
        cost_usd=cost or 0.0,
        latency_seconds=told.get("latency_seconds", latency),
        model=model.name,
        finish_reason=str(told.get("finish_reason") or told.get("stop_reason") or ""),
        cost_known=cost is not None,
        confidence=_confidence(told.get("logprobs")),
    )


def _cost(model: Model, usage: Usage | None, told: Mapping[str, Any]) -> float | None:
    """What an answer cost: as its provider or the record says, or by its price; None if nobody knows."""
    if isinstance(told.get("cost_usd"), int | float):
        return float(told["cost_usd"])
    price = model.price(usage.prompt_tokens if usage else 0)
    if price is None:
        return None
    read, written = price
    if usage is None:
        return None if read or written else 0.0
    return (usage.prompt_tokens * read + usage.completion_tokens * written) / 1_000_000


def _confidence(logprobs: Any) -> float | None:
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    tokens = [token["logprob"] for token in content or () if isinstance(token, Mapping) and "logprob" in token]
    return sum(map(math.exp, tokens)) / len(tokens) if tokens else None


def _spoken(message: Message) -> BaseMessage:
    return _kinds()[message.role](content=message.text)


@cache
def _kinds() -> dict[Speaker, type[BaseMessage]]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    return {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
