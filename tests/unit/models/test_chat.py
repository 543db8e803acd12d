"""Messages go in, a priced Reply comes out, whatever LangChain model answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatResult

from seedbed.errors import ModelUnavailable, RunError
from seedbed.models.cards import Model
from seedbed.models.chat import Message, Reply, Sampling, ask, stream
from seedbed.models.usage import Usage
from seedbed.settings import Card


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


class Throttled(Echo):
    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        error = RuntimeError("slow down, holder of not-to-be-seen")
        error.status_code = 429  # type: ignore[attr-defined]
        raise error


class Sure(Echo):
    """Says how sure it was, as OpenAI does."""

    told: Any = None

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        answer = AIMessage(content="yes", response_metadata={"logprobs": self.told})
        return ChatResult(generations=[ChatGeneration(message=answer)])


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


async def heard(model: Model, **wishes: Any) -> list[str | Reply]:
    return [piece async for piece in stream(model, HELLO, Sampling(**wishes))]


def test_importing_it_loads_no_model_library() -> None:
    heavy = "{'langchain_core', 'xllamacpp', 'numpy'}"
    code = f"import sys, seedbed.models.chat; print(sorted({heavy} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


async def test_a_reply_says_what_was_answered_and_what_it_took() -> None:
    reply = await ask(scripted("general Kenobi"), HELLO)
    assert (reply.text, reply.model, reply.finish_reason) == ("general Kenobi", "fast", "stop")
    assert reply.usage == Usage(prompt_tokens=2, completion_tokens=2)


async def test_the_cost_follows_the_card() -> None:
    reply = await ask(scripted("one two three"), HELLO)
    assert reply.cost_usd == 0
    reply = await ask(scripted("one two three", usd_per_million=(0.5, 20.0)), HELLO)
    assert reply.cost_usd == pytest.approx((2 * 0.5 + 3 * 20) / 1_000_000)


async def test_a_cost_is_unknown_if_the_provider_reports_no_usage_or_nobody_knows_its_price() -> None:
    reply = await ask(model(Echo, usd_per_million=(1.0, 1.0)), HELLO)
    assert (reply.usage, reply.cost_usd, reply.cost_known, reply.finish_reason) == (Usage(0, 0), 0, False, "")
    assert not (await ask(model(Echo), HELLO)).cost_known
    assert (await ask(model(Echo, usd_per_million=(0.0, 0.0)), HELLO)).cost_known
    assert (await ask(scripted("yes"), HELLO)).cost_known


@pytest.mark.parametrize(
    ("told", "confidence"),
    [
        ({"content": [{"token": "a", "logprob": 0.0}, {"token": "b", "logprob": -0.6931471805599453}]}, 0.75),
        ({"content": []}, None),
        ({"content": None}, None),
        (None, None),
        ([1, 2], None),
    ],
)
async def test_confidence_is_the_mean_probability_of_the_tokens_if_the_provider_tells(
    told: Any, confidence: float | None
) -> None:
    reply = await ask(model(Sure, args={"told": told}), HELLO)
    assert reply.confidence == (None if confidence is None else pytest.approx(confidence))
    assert reply.waited_seconds == 0.0


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
    reply = await ask(model(SeededEcho), HELLO, Sampling(temperature=0.0, max_tokens=5, seed=0, stop=["\n", "."]))
    assert reply.text.splitlines()[1:] == ["max_tokens=5", "seed=0", "stop=['\\n', '.']", "temperature=0.0"]


async def test_a_model_that_knows_no_seeds_is_given_none() -> None:
    assert "seed" not in (await ask(model(Echo), HELLO, Sampling(seed=7))).text


async def test_a_provider_that_fails_is_unavailable_and_the_message_says_which_and_what_to_do() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await ask(model(Failing), HELLO)
    for told in ('"fast"', "ConnectionError", "connection refused by api.example", "models.fast", "another model"):
        assert told in str(caught.value)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert caught.value.why == "transient"


async def test_a_failure_says_why_and_keeps_the_secrets_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "not-to-be-seen")
    throttled = model(Throttled, args={"name": {"env": "OUR_KEY"}})
    with pytest.raises(ModelUnavailable) as caught:
        await ask(throttled, HELLO)
    assert caught.value.why == "rate"
    assert "slow down, holder of …" in str(caught.value)


async def test_an_answer_may_take_as_long_as_its_card_says() -> None:
    Endless.began = asyncio.Event()
    for asking in (ask(model(Endless, timeout_seconds=0.01), HELLO), heard(model(Endless, timeout_seconds=0.01))):
        with pytest.raises(ModelUnavailable, match=r"TimeoutError.*timeout_seconds: 0\.01") as caught:
            await asking
        assert caught.value.why == "transient"


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


# Streams


async def test_a_stream_gives_pieces_and_then_the_reply_that_ask_would_give() -> None:
    *pieces, reply = await heard(scripted("one two  three", usd_per_million=(1.0, 1.0)), max_tokens=2)
    assert pieces == ["one", " two"]
    whole = await ask(scripted("one two  three", usd_per_million=(1.0, 1.0)), HELLO, Sampling(max_tokens=2))
    assert isinstance(reply, Reply)
    assert replace(reply, latency_seconds=0.0) == replace(whole, latency_seconds=0.0)
    assert reply.finish_reason == "length"


async def test_a_model_that_cannot_stream_answers_in_one_piece() -> None:
    piece, reply = await heard(model(SeededEcho), seed=3)
    assert piece == "human: hello there\nseed=3"
    assert isinstance(reply, Reply)
    assert reply.text == piece


async def test_a_stream_that_fails_says_why() -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await heard(model(Failing))
    assert caught.value.why == "transient"


async def test_only_the_models_time_counts_in_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("seedbed.models.chat.time", clock)
    async for piece in stream(scripted("one two", timeout_seconds=5), HELLO):
        clock.now += 60  # whoever listens takes a break
        last = piece
    assert isinstance(last, Reply)
    assert last.latency_seconds == 0


async def test_a_stream_nobody_listens_to_any_longer_is_closed() -> None:
    pieces = stream(scripted("one two three"), HELLO)
    assert await anext(pieces) == "one"
    await pieces.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(pieces)


class Inconsistent(Echo):
    """What it says beside its text does not add up from piece to piece."""

    async def astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[AIMessageChunk]:
        for text, beside in (("yes", 1), (" it", ["no"]), (" is", {"a": 1})):
            yield AIMessageChunk(content=text, response_metadata={"beside": beside})


async def test_pieces_that_do_not_add_up_lose_no_text() -> None:
    *pieces, reply = await heard(model(Inconsistent, usd_per_million=(1.0, 1.0)))
    assert pieces == ["yes", " it", " is"]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.cost_known) == ("yes it is", False)
