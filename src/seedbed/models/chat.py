"""The one seam to LangChain: messages go in, a priced Reply comes out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from seedbed.errors import ModelUnavailable, SeedbedError, shown
from seedbed.models.registry import Model

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["Message", "Model", "Reply", "Speaker", "Usage", "ask"]

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

    `model` is the name it is registered under. `usage` is zero, and so is the cost, if the provider
    does not report it. `finish_reason` is the provider's word, "length" if the answer was cut off.
    """

    text: str
    usage: Usage
    cost_usd: float
    latency_seconds: float
    model: str
    finish_reason: str


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

    Raises ModelUnavailable if it gives no answer, SettingsError if its card does not lead to a model.
    """
    wishes = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed, "stop": list(stop) or None}
    given: dict[str, Any] = {name: value for name, value in wishes.items() if value is not None}
    chat = model.chat
    if "seed" not in type(chat).model_fields:
        given.pop("seed", None)
    started = time.perf_counter()
    try:
        answer = await chat.ainvoke([_spoken(message) for message in messages], **given)
    except SeedbedError:
        raise
    except Exception as error:
        raise ModelUnavailable(
            f"model {shown(model.name)} gave no answer: found {type(error).__name__}: {shown(str(error), 300)}. "
            f"Check its key, its network and models.{model.name} in the settings, or use another model"
        ) from error
    latency = time.perf_counter() - started
    tokens = answer.usage_metadata
    usage = Usage(tokens["input_tokens"], tokens["output_tokens"]) if tokens else Usage()
    told = answer.response_metadata
    return Reply(
        text=str(answer.text),
        usage=usage,
        cost_usd=_price(model, usage),
        latency_seconds=latency,
        model=model.name,
        finish_reason=str(told.get("finish_reason") or told.get("stop_reason") or ""),
    )


def _price(model: Model, usage: Usage) -> float:
    read, written = model.card.usd_per_million
    return (usage.prompt_tokens * read + usage.completion_tokens * written) / 1_000_000


def _spoken(message: Message) -> BaseMessage:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    kinds: dict[Speaker, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    return kinds[message.role](content=message.text)
