"""Calls without LangChain's preparations for listeners: only where nobody listens, and with the same reply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import AsyncCallbackHandler, get_usage_metadata_callback
from langchain_core.globals import set_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.runnables import RunnableLambda

from seedbed.models.cards import Model
from seedbed.models.chat import Message, Reply, Sampling, ask
from seedbed.models.langchain.messages import is_plain
from seedbed.settings import Card

HELLO = [Message("system", "Be brief."), Message("user", "hello there")]


class Telling(BaseChatModel):
    """Tells of an answer in all three places where LangChain looks."""

    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "telling"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.calls += 1
        answer = AIMessage(
            content=" ".join(message.text for message in messages),
            response_metadata={"model_name": "m-1"},
            usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
        )
        generation = ChatGeneration(message=answer, generation_info={"finish_reason": "stop"})
        return ChatResult(generations=[generation], llm_output={"cost_usd": 0.25})


class OwnWay(Telling):
    async def ainvoke(self, *args: Any, **kwargs: Any) -> AIMessage:
        return AIMessage(content="in a way of its own")


class Listener(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.started = 0

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.started += 1


def model(chat: BaseChatModel) -> Model:
    made = Model("fast", Card(use="tests.Telling"))
    vars(made)["chat"] = chat
    return made


@contextmanager
def a_cache() -> Iterator[None]:
    set_llm_cache(InMemoryCache())
    try:
        yield
    finally:
        set_llm_cache(None)


async def test_the_reply_is_the_one_that_langchain_itself_would_give() -> None:
    chat = Telling()
    assert is_plain(chat)
    direct = await ask(model(chat), HELLO, Sampling(stop=["x"]))
    listened = Telling(callbacks=[Listener()])
    assert not is_plain(listened)
    usual = await ask(model(listened), HELLO, Sampling(stop=["x"]))

    def told(reply: Reply) -> tuple[Any, ...]:
        return reply.text, reply.usage, reply.cost_usd, reply.finish_reason

    assert told(direct) == told(usual)
    assert told(direct)[2:] == (0.25, "stop")


async def test_callbacks_of_a_model_are_called() -> None:
    listener = Listener()
    await ask(model(Telling(callbacks=[listener])), HELLO)
    assert listener.started == 1


async def test_callbacks_around_us_are_called() -> None:
    listener, fast = Listener(), model(Telling())

    async def within(_: str) -> str:
        return (await ask(fast, HELLO)).text

    await RunnableLambda(within).ainvoke("go", config={"callbacks": [listener]})
    assert listener.started == 1


async def test_a_count_of_usage_around_us_counts() -> None:
    with get_usage_metadata_callback() as counted:
        await ask(model(Telling()), HELLO)
    assert counted.usage_metadata["m-1"]["total_tokens"] == 7


async def test_a_cache_for_all_models_is_used() -> None:
    chat = Telling()
    with a_cache():
        for _ in range(2):
            await ask(model(chat), HELLO)
    assert chat.calls == 1


async def test_a_model_that_goes_its_own_way_does() -> None:
    assert (await ask(model(OwnWay()), HELLO)).text == "in a way of its own"


@pytest.mark.parametrize(
    "given",
    [
        {"rate_limiter": InMemoryRateLimiter(requests_per_second=1_000)},
        {"cache": InMemoryCache()},
        {"verbose": True},
        {"output_version": "v1"},
    ],
)
def test_whoever_sets_something_up_has_the_usual_way(given: dict[str, Any]) -> None:
    assert not is_plain(Telling(**given))


@pytest.mark.parametrize("traced", [True, False])
def test_traces_are_made_where_they_are_switched_on(traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from langsmith.utils import get_env_var

    monkeypatch.setenv("LANGSMITH_TRACING", str(traced).lower())
    get_env_var.cache_clear()
    try:
        assert is_plain(Telling()) is not traced
    finally:
        monkeypatch.undo()
        get_env_var.cache_clear()
