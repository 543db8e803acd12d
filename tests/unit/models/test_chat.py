"""Messages go in, a priced Reply comes out, whatever LangChain model answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from seedbed.errors import ModelUnavailable, RunError
from seedbed.models.chat import Message, Model, Usage, ask
from seedbed.models.registry import Card


class Echo(BaseChatModel):
    """Says what it was given: messages, and the arguments of the call. Reports no usage."""

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        heard = [f"{message.type}: {message.text}" for message in messages]
        given = [f"{name}={value}" for name, value in sorted({"stop": stop, **kwargs}.items()) if value is not None]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="\n".join(heard + given)))])


class SeededEcho(Echo):
    seed: int | None = None


class Failing(Echo):
    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise ConnectionError("connection refused by api.example")


class Broke(Echo):
    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise RunError("found no money; expected some")


class Endless(Echo):
    began: ClassVar[asyncio.Event]

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        Endless.began.set()
        await asyncio.Event().wait()
        raise AssertionError


class Clock:
    """A clock that an answer moves on."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


def model(use: type | str, **card: Any) -> Model:
    path = use if isinstance(use, str) else f"{__name__}.{use.__name__}"
    return Model("fast", Card(use=path, **card))


def scripted(reply: str, **card: Any) -> Model:
    return model("scripted", args={"replies": [reply]}, **card)


HELLO = [Message("user", "hello there")]


def test_importing_it_loads_no_model_library() -> None:
    heavy = "{'langchain_core', 'pydantic', 'xllamacpp', 'numpy'}"
    code = f"import sys, seedbed.models.chat; print(sorted({heavy} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_usages_add_up() -> None:
    assert Usage(3, 1) + Usage(4, 10) == Usage(7, 11)


async def test_a_reply_says_what_was_answered_and_what_it_took() -> None:
    reply = await ask(scripted("general Kenobi"), HELLO)
    assert (reply.text, reply.model, reply.finish_reason) == ("general Kenobi", "fast", "stop")
    assert reply.usage == Usage(prompt_tokens=2, completion_tokens=2)


async def test_the_cost_follows_the_card() -> None:
    reply = await ask(scripted("one two three"), HELLO)
    assert reply.cost_usd == 0
    reply = await ask(scripted("one two three", usd_per_million=(0.5, 20.0)), HELLO)
    assert reply.cost_usd == pytest.approx((2 * 0.5 + 3 * 20) / 1_000_000)


async def test_a_provider_that_reports_no_usage_costs_nothing() -> None:
    reply = await ask(model(Echo, usd_per_million=(1.0, 1.0)), HELLO)
    assert (reply.usage, reply.cost_usd, reply.finish_reason) == (Usage(0, 0), 0, "")


async def test_latency_is_the_time_the_answer_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    class Slow(Echo):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            clock.now += 2.5
            return self._generate(*args, **kwargs)

    monkeypatch.setattr(sys.modules[__name__], "Slow", Slow, raising=False)
    slow = model(Slow)
    monkeypatch.setattr("seedbed.models.chat.time", clock)
    assert (await ask(slow, HELLO)).latency_seconds == 2.5


async def test_messages_arrive_in_order_with_their_roles() -> None:
    talk = [Message("system", "be brief"), Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    assert (await ask(model(Echo), talk)).text == "system: be brief\nhuman: a\nai: b\nhuman: c"


async def test_what_is_not_given_is_left_to_the_model() -> None:
    assert (await ask(model(SeededEcho), HELLO)).text == "human: hello there"


async def test_what_is_given_reaches_the_model() -> None:
    reply = await ask(model(SeededEcho), HELLO, temperature=0.0, max_tokens=5, seed=0, stop=["\n", "."])
    assert reply.text.splitlines()[1:] == ["max_tokens=5", "seed=0", "stop=['\\n', '.']", "temperature=0.0"]


async def test_a_model_that_knows_no_seeds_is_given_none() -> None:
    assert "seed" not in (await ask(model(Echo), HELLO, seed=7)).text


async def test_a_provider_that_fails_is_unavailable_and_the_message_says_which_and_what_to_do() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await ask(model(Failing), HELLO)
    for told in ('"fast"', "ConnectionError", "connection refused by api.example", "models.fast", "another model"):
        assert told in str(caught.value)
    assert isinstance(caught.value.__cause__, ConnectionError)


async def test_an_error_of_ours_passes_unchanged() -> None:
    with pytest.raises(RunError, match=r"^found no money; expected some$") as caught:
        await ask(model(Broke), HELLO)
    assert type(caught.value) is RunError


async def test_cancelling_passes() -> None:
    Endless.began = asyncio.Event()
    asking = asyncio.ensure_future(ask(model(Endless), HELLO))
    await Endless.began.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
