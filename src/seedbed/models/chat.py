"""The one seam to LangChain: messages go in, a priced Reply comes out."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seedbed.errors import ModelUnavailable, SeedbedError, StoreError, shown
from seedbed.models.cards import Model
from seedbed.models.failures import explain
from seedbed.models.usage import (
    MOST_CHARACTERS,
    MOST_SECONDS,
    Usage,
    counted_tokens,
    read_cost,
    read_count,
    read_number,
    read_usage,
)
from seedbed.redaction import redact
from seedbed.storage.store import canonical

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, AIMessageChunk

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool that a model asks for. Arguments that are no JSON object are None; `unreadable` has them."""

    id: str
    tool: str
    arguments: dict[str, Any] | None
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One contribution to a conversation.

    The `calls` are those that an assistant asks for; a tool's message answers the `call` of that id. `native` is what
    else a provider sent with its answer and wants to have back; no other provider receives it.
    """

    role: Speaker
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    failed: bool = False
    native: dict[str, Any] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is text alone."""
        return not (self.calls or self.call or self.native)

    @property
    def counted(self) -> str:
        """All that a model reads of it, as one text whose tokens can be counted."""
        calls = (f"{each.tool}{each.unreadable or json.dumps(each.arguments)}" for each in self.calls)
        return self.text if self.is_plain else "\n".join((self.text, *calls))


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools that a model may call: what they are for and their parameters, by name; `digest` names them all.

    With `choice` "none" it may call none now, with "any" it must call one, with a name that one.
    """

    digest: str
    tools: Mapping[str, Mapping[str, Any]]
    choice: str = ""

    @property
    def counted(self) -> str:
        return json.dumps(dict(self.tools))


ANSWER = "answer"
"""The tool by whose call a model gives a structured answer, where it has no better way."""


@dataclass(frozen=True, slots=True)
class OutputForm:
    """The JSON Schema that an answer shall fit; `digest` names it."""

    digest: str
    schema: Mapping[str, Any]

    @property
    def counted(self) -> str:
        return json.dumps(dict(self.schema))


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model answers. The arguments of its card decide what is None or empty here."""

    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: Sequence[str] = ()
    offer: ToolOffer | None = None
    """The tools that it may call."""
    form: OutputForm | None = None
    """The structure that its answer shall have."""

    @property
    def beyond(self) -> tuple[ToolOffer | OutputForm, ...]:
        """What it reads beyond the messages."""
        return tuple(each for each in (self.offer, self.form) if each)


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
    calls: tuple[ToolCall, ...] = ()
    native: dict[str, Any] | None = None
    cached_tokens: int = 0
    """How many tokens of the prompt its provider had in its cache."""

    @property
    def counted(self) -> str:
        """All that the model wrote, as one text whose tokens can be counted."""
        return Message("assistant", self.text, self.calls).counted

    @property
    def tokens(self) -> int:
        return self.usage.prompt_tokens + self.usage.completion_tokens + self.uncounted_tokens


def merge_messages(messages: Sequence[Message]) -> list[Message]:
    """The same conversation in the form every provider accepts: at most one system message, which is first; then the
    others, none of them empty and no two of one speaker in a row. Calls and their results stay as they are."""
    merged: list[Message] = []
    said = (each for each in messages if each.text.strip() or not each.is_plain)
    for message in sorted(said, key=lambda each: each.role != "system"):
        if merged and merged[-1].role == message.role and merged[-1].is_plain and message.is_plain:
            merged[-1] = Message(message.role, f"{merged[-1].text}\n\n{message.text}")
        else:
            merged.append(message)
    return merged


def prompt_texts(messages: Iterable[Message], beyond: Iterable[ToolOffer | OutputForm]) -> list[str]:
    """All that a model reads, as texts whose tokens can be counted: also tools, and the form of the answer."""
    return [*(message.counted for message in messages), *(each.counted for each in beyond)]


async def ask(model: Model, messages: Sequence[Message], sampling: Sampling = AS_ON_ITS_CARD) -> Reply:
    """Ask a model for an answer. A model that knows no seeds ignores the seed.

    Raises ModelUnavailable, which says why, if it gives no answer within the time its card allows; SettingsError if
    its card does not lead to a model.
    """
    chat, langchain = model.chat, _langchain()
    options = _options(model, sampling)
    prompt = langchain.to_messages(_prompted(model, messages, sampling), class_of(chat))
    started = time.perf_counter()
    with _explained(model):
        async with asyncio.timeout(model.card.timeout_seconds):
            if langchain.is_plain(chat):
                # What `ainvoke` comes to where nothing observes the call. Preparing for observers takes most of its
                # time, about 150 µs for each call.
                answer = langchain.message_of(await chat._agenerate(prompt, **options))
            else:
                answer = await chat.ainvoke(prompt, **options)
        _expect_short(model, _length(answer))
        return _reply(model, answer, messages, sampling, time.perf_counter() - started)


async def stream(
    model: Model, messages: Sequence[Message], sampling: Sampling = AS_ON_ITS_CARD
) -> AsyncGenerator[str | Reply, None]:
    """Ask a model and receive its answer as it arrives: pieces of text, and the whole Reply as the last item.

    Everything else is as with `ask`. A failure may come after some pieces.
    """
    prompt = _langchain().to_messages(_prompted(model, messages, sampling), class_of(model.chat))
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
                length += _length(piece)
                _expect_short(model, length)
                whole = piece if whole is None else _joined(whole, piece)
            if text := str(piece.text):
                yield text
    if whole is None:
        problem = f"model {shown(model.name)} gave no answer: found an empty stream"
        raise ModelUnavailable(problem, "transient", paid=True)
    with _explained(model):
        reply = _reply(model, whole, messages, sampling, took)
    yield reply


def _joined(whole: AIMessageChunk, piece: AIMessageChunk) -> AIMessageChunk:
    """Both pieces as one. What a provider says beside the text may not add up: then only the text is kept, and its
    usage is unknown."""
    try:
        return whole + piece
    except Exception:  # noqa: BLE001 - whatever it is, the answer is paid for
        return type(whole)(content=str(whole.text) + str(piece.text))


def _length(answer: AIMessage) -> int:
    """The characters of an answer or of a piece of it, with those of the calls that it asks for."""
    calls = getattr(answer, "tool_call_chunks", None) or (*answer.tool_calls, *answer.invalid_tool_calls)
    return len(str(answer.text)) + sum(len(str(each["args"] or "")) for each in calls)


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
    return {**{name: value for name, value in options.items() if value is not None}, **_bound(model, sampling)}


def _bound(model: Model, sampling: Sampling) -> dict[str, Any]:
    """The arguments that offer tools and ask for a structure, prepared once for each model."""
    offer, form = sampling.offer, sampling.form
    if not sampling.beyond:
        return {}
    key = (offer.digest if offer else "", offer.choice if offer else "", form.digest if form else "")
    if key not in model.bound:
        way, langchain = model.output_way if form else "", _langchain()
        schema = langchain.native_form(model.chat, form) if form and way == "native" else {}
        if form and way == "tool":
            tools = offer.tools if offer else {}
            choice = ANSWER if not tools or (offer and offer.choice) else "any"
            answer = {"about": "Give your final answer.", "parameters": form.schema}
            offer = ToolOffer(form.digest, {**tools, ANSWER: answer}, choice)
        model.bound[key] = {**(langchain.bound_tools(model.chat, offer) if offer else {}), **schema}
    return model.bound[key]


def _prompted(model: Model, messages: Sequence[Message], sampling: Sampling) -> Sequence[Message]:
    """The messages, with the form of the answer at their end for a model that must be told in words."""
    if sampling.form is None or model.output_way != "prompted":
        return messages
    text = f"Answer with JSON alone, which fits this JSON Schema:\n{sampling.form.counted}"
    return merge_messages([*messages, Message("user", text)])


def class_of(chat: object) -> str:
    """The class of a live model: its `native` parts go back to the same one only."""
    return f"{type(chat).__module__}.{type(chat).__qualname__}"


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


def _reply(model: Model, answer: AIMessage, messages: Sequence[Message], sampling: Sampling, latency: float) -> Reply:
    """The answer with what it took. Whatever a provider says, no answer is lost here."""
    metadata, usage = answer.response_metadata, read_usage(answer.usage_metadata)
    calls = _langchain().calls_of(answer)
    said = whole_text(str(answer.text))
    written = Message("assistant", said, calls).counted
    own = Usage() if model.is_here else _own_count(messages, written, sampling)
    usage = usage and usage.at_least(own)
    cost = _cost(model, usage, own, metadata)
    seconds = read_number(metadata.get("latency_seconds"))
    form = next((each for each in calls if each.tool == ANSWER), None) if sampling.form else None
    calls = () if form else calls
    text = said if form is None else form.unreadable or json.dumps(form.arguments, ensure_ascii=False)
    return Reply(
        text=text,
        usage=usage or Usage(),
        cost_usd=cost or 0.0,
        latency_seconds=latency if seconds is None else float(min(seconds, MOST_SECONDS)),
        model=model.name,
        finish_reason=str(metadata.get("finish_reason") or metadata.get("stop_reason") or ""),
        cost_known=cost is not None,
        confidence=_confidence(metadata.get("logprobs")),
        calls=calls,
        native=_langchain().native_of(answer, class_of(model.chat)) if calls else None,
        cached_tokens=_cached_tokens(answer),
    )


def read_call(number: int, call: str | None, name: str | None, args: Any) -> ToolCall:
    """One call. Arguments that JSON cannot hold, such as NaN or half of a character, are unreadable too."""
    try:
        read = args if isinstance(args, dict) else json.loads(args or "{}")
        canonical(read)
    except (ValueError, RecursionError, StoreError):
        read = None
    is_read = isinstance(read, dict)
    unreadable = "" if is_read else whole_text(args) if isinstance(args, str) else "a value that JSON cannot hold"
    return ToolCall(whole_text(call or f"call_{number}"), whole_text(name or ""), read if is_read else None, unreadable)


def whole_text(text: str) -> str:
    """A text without halves of characters (lone surrogates), which no store takes."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _cached_tokens(answer: AIMessage) -> int:
    usage: Mapping[str, Any] = answer.usage_metadata or {}
    return read_count((usage.get("input_token_details") or {}).get("cache_read")) or 0


def _own_count(messages: Sequence[Message], answer: str, sampling: Sampling) -> Usage:
    """Our own count of the texts; of the answer no more than was asked for."""
    read, written = counted_tokens(*prompt_texts(messages, sampling.beyond)), counted_tokens(answer)
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
    """Our module of LangChain, loaded with the first call: it takes half a second, and a strict replay needs none."""
    return import_module("seedbed.models.langchain.messages")
