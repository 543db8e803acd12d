"""The one seam to LangChain: messages go in, a priced Reply comes out."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seedbed.errors import ModelUnavailable, SeedbedError, shown
from seedbed.models.cards import Model
from seedbed.models.failures import explain
from seedbed.models.usage import (
    MOST_CHARACTERS,
    MOST_SECONDS,
    Usage,
    counted_tokens,
    read_cost,
    read_number,
    read_usage,
)
from seedbed.redaction import redact

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, AIMessageChunk

Speaker: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One contribution to a conversation."""

    role: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model writes its answer. The arguments of its card decide what is None or empty here."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] = ()


AS_ON_ITS_CARD = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of a model and what it took.

    `model` is the name it is registered under. `usage` is the larger of the provider's word and our own count of the
    texts, and zero if the provider does not report it. The cost is zero and `cost_known` false if its price or its
    usage is unknown. `finish_reason` is the provider's word, "length" if the
    answer was cut off. `confidence` is the mean probability of its tokens, if the provider reports them.
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


def merge_messages(messages: Sequence[Message]) -> list[Message]:
    """The same conversation in the form every provider accepts: at most one system message, which is first; then the
    others, none of them empty and no two of one speaker in a row."""
    merged: list[Message] = []
    for message in sorted((each for each in messages if each.text.strip()), key=lambda each: each.role != "system"):
        if merged and merged[-1].role == message.role:
            merged[-1] = Message(message.role, f"{merged[-1].text}\n\n{message.text}")
        else:
            merged.append(message)
    return merged


async def ask(model: Model, messages: Sequence[Message], sampling: Sampling = AS_ON_ITS_CARD) -> Reply:
    """Ask a model for an answer. A model that knows no seeds ignores the seed.

    Raises ModelUnavailable, which says why, if it gives no answer within the time its card allows; SettingsError if
    its card does not lead to a model.
    """
    chat, langchain = model.chat, _langchain()
    options = _options(model, sampling)
    prompt = langchain.to_messages((message.role, message.text) for message in messages)
    started = time.perf_counter()
    with _explained(model):
        async with asyncio.timeout(model.card.timeout_seconds):
            if langchain.is_plain(chat):
                # What `ainvoke` comes to where nothing observes the call. Preparing for observers takes most of its
                # time, about 150 µs for each call.
                answer = langchain.message_of(await chat._agenerate(prompt, **options))
            else:
                answer = await chat.ainvoke(prompt, **options)
        _expect_short(model, len(str(answer.text)))
        return _reply(model, answer, _own_count(messages, answer, sampling), time.perf_counter() - started)


async def stream(
    model: Model, messages: Sequence[Message], sampling: Sampling = AS_ON_ITS_CARD
) -> AsyncGenerator[str | Reply, None]:
    """Ask a model and receive its answer as it arrives: pieces of text, and the whole Reply as the last item.

    Everything else is as with `ask`. A failure may come after some pieces.
    """
    prompt = _langchain().to_messages((message.role, message.text) for message in messages)
    whole: AIMessageChunk | None = None
    took, length = 0.0, 0
    async with aclosing(model.chat.astream(prompt, **_options(model, sampling))) as pieces:  # type: ignore[type-var]
        while True:
            started = time.perf_counter()
            with _explained(model):
                # Only the model's time counts, not that of the caller between two pieces.
                async with asyncio.timeout(max(model.card.timeout_seconds - took, 0)):
                    piece = await anext(pieces, None)
                took += time.perf_counter() - started
                if piece is None:
                    break
                length += len(text := str(piece.text))
                _expect_short(model, length)
                whole = piece if whole is None else _joined(whole, piece)
            if text:
                yield text
    if whole is None:
        problem = f"model {shown(model.name)} gave no answer: found an empty stream"
        raise ModelUnavailable(problem, "transient", paid=True)
    with _explained(model):
        reply = _reply(model, whole, _own_count(messages, whole, sampling), took)
    yield reply


def _joined(whole: AIMessageChunk, piece: AIMessageChunk) -> AIMessageChunk:
    """Both pieces as one. What a provider says beside the text may not add up: then only the text is kept, and its
    usage is unknown."""
    try:
        return whole + piece
    except Exception:  # noqa: BLE001 - whatever it is, the answer is paid for
        return type(whole)(content=str(whole.text) + str(piece.text))


def _expect_short(model: Model, characters: int) -> None:
    if characters > MOST_CHARACTERS:
        problem = f"found an answer of more than {MOST_CHARACTERS:,} characters; expected fewer"
        raise ModelUnavailable(f"model {shown(model.name)} was cut off: {problem}", "transient", paid=True)


def _options(model: Model, sampling: Sampling) -> dict[str, Any]:
    options = {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed if "seed" in type(model.chat).model_fields else None,
        "stop": list(sampling.stop) or None,
    }
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def _explained(model: Model) -> Iterator[None]:
    """Turns every failure of a provider into a ModelUnavailable that says why, without the model's secrets."""
    try:
        yield
    except SeedbedError:
        raise
    except Exception as error:
        why, wait_seconds, paid = explain(error)
        text = f"{type(error).__name__}: {shown(redact(model.redact(str(error))), 300)}"
        if isinstance(error, TimeoutError):
            text += f", with timeout_seconds: {model.card.timeout_seconds:g}"
        raise ModelUnavailable(
            f"model {shown(model.name)} gave no answer: found {text}. "
            f"Check its key, its network and models.{model.name} in the settings, or use another model",
            why,
            wait_seconds,
            paid=paid,
        ) from error


def _reply(model: Model, answer: AIMessage, own: Usage, latency: float) -> Reply:
    """The answer with what it took, `own` being our own count. Whatever a provider says, no answer is lost here."""
    metadata, usage = answer.response_metadata, read_usage(answer.usage_metadata)
    own = Usage() if model.is_here else own
    usage = usage and usage.at_least(own)
    cost = _cost(model, usage, own, metadata)
    seconds = read_number(metadata.get("latency_seconds"))
    return Reply(
        text=str(answer.text),
        usage=usage or Usage(),
        cost_usd=cost or 0.0,
        latency_seconds=latency if seconds is None else float(min(seconds, MOST_SECONDS)),
        model=model.name,
        finish_reason=str(metadata.get("finish_reason") or metadata.get("stop_reason") or ""),
        cost_known=cost is not None,
        confidence=_confidence(metadata.get("logprobs")),
    )


def _own_count(messages: Sequence[Message], answer: AIMessage, sampling: Sampling) -> Usage:
    """Our own count of the texts; of the answer no more than was asked for."""
    read, written = counted_tokens(*(message.text for message in messages)), counted_tokens(str(answer.text))
    return Usage(read, written if sampling.max_tokens is None else min(written, sampling.max_tokens))


def _cost(model: Model, usage: Usage | None, own: Usage, metadata: Mapping[str, Any]) -> float | None:
    """The cost of an answer: as its provider reports it and at least that of our own count, or by its price; None if
    neither is known."""
    charged = read_cost(metadata.get("cost_usd"))
    if charged or (charged is not None and model.price() is None):  # at a price that is known, zero is no word
        return max(charged, model.cost_usd(own.prompt_tokens, own.completion_tokens) or 0.0)
    if usage is not None:
        return model.cost_usd(usage.prompt_tokens, usage.completion_tokens)
    return 0.0 if model.price() == (0.0, 0.0) else None


def _confidence(logprobs: Any) -> float | None:
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    listed = content if isinstance(content, list | tuple) else ()
    tokens = [token.get("logprob") for token in listed if isinstance(token, Mapping)]
    chances = [math.exp(max(min(each, 0.0), -1e3)) for each in tokens if isinstance(each, int | float) and each == each]
    return sum(chances) / len(chances) if chances else None


@cache
def _langchain() -> Any:
    """`models.langchain`, loaded with the first call: it takes half a second, and a strict replay needs none."""
    return import_module("seedbed.models.langchain")
