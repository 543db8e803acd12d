"""LangChain's own suites for chat models, passed by ours as far as their abilities go."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from model_server import Answer, ModelServer, Request, serving
from seedbed.models.cards import Registry
from seedbed.models.chat import Sampling, ask
from seedbed.models.langchain.staged import StagedChat
from seedbed.models.providers.embedded import EmbeddedChat
from seedbed.models.providers.openai import OpenAIChat
from seedbed.models.providers.scripted import ScriptedChat

STANDARD = ("temperature", "max_tokens", "timeout", "stop", "api_key")
"""What LangChain calls standard parameters, but for max_retries: what is tried again is decided elsewhere."""

NO_SWITCH = pytest.mark.xfail(reason="a stream is asked for by calling stream, not by an argument", strict=True)


def clever(request: Request) -> Answer:
    """Calls the tool it is offered until it has a result, with what it finds in the question; talks otherwise."""
    last = request["messages"][-1]
    tools = [tool["function"] for tool in request.get("tools", ())]
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        tools = [tool for tool in tools if tool["name"] == choice["function"]["name"]]
    if not tools or (last["role"] == "tool" and choice is None):
        return Answer(f"I have read {len(request['messages'])} messages.")
    wanted = tools[0]["parameters"].get("properties", {})
    arguments = {name: _filled(schema, str(last["content"])) for name, schema in wanted.items()}
    return Answer(tool_calls=[{"name": tools[0]["name"], "arguments": json.dumps(arguments)}])


def _filled(schema: dict[str, Any], question: str) -> Any:
    if schema.get("type") == "integer":
        return int((re.findall(r"\d+", question) or ["1"])[0])
    return (re.findall(r"'(.+?)'", question) or ["because"])[0]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with serving(script=clever) as server:
        yield server


class Endpoint:
    """What both suites are told about an OpenAI-compatible endpoint."""

    url: ClassVar[str] = "http://127.0.0.1:1/v1"

    @pytest.fixture(autouse=True)
    def _served(self, server: ModelServer) -> None:
        type(self).url = server.url

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return OpenAIChat

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "m-1", "base_url": self.url}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        given = super().standard_chat_model_params  # type: ignore[misc]
        return {name: value for name, value in given.items() if name in STANDARD}


class TestOpenAIChat(Endpoint, ChatModelUnitTests):
    @NO_SWITCH
    def test_init_streaming(self) -> None:
        super().test_init_streaming()


class TestOpenAIChatAnswers(Endpoint, ChatModelIntegrationTests):
    @property
    def supports_model_override(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "m-2"


@pytest.fixture(scope="module")
def other_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop of a run, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class TestStagedChatAnswers(Endpoint, ChatModelIntegrationTests):
    """A role of a run, whose model is an OpenAI-compatible endpoint."""

    loop: ClassVar[Any] = None

    @pytest.fixture(autouse=True)
    def _on(self, other_loop: asyncio.AbstractEventLoop) -> None:
        type(self).loop = other_loop

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return StagedChat

    @property
    def chat_model_params(self) -> dict[str, Any]:
        model = Registry({"m": {"use": "openai", "args": {"model": "m-1", "base_url": self.url}}})["m"]

        async def ask_role(role: str, messages: Any, sampling: Sampling) -> Any:
            return await ask(model, messages, sampling)

        return {"role": "clerk", "ask": ask_role, "loop": self.loop}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return {}

    @property
    def supports_model_override(self) -> bool:
        return False


class Scripted:
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ScriptedChat

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"replies": {"": "I say what is written, whoever asks."}}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return {"max_tokens": 100, "stop": []}

    @property
    def supports_model_override(self) -> bool:
        return False

    @property
    def has_tool_calling(self) -> bool:
        return False  # it calls what its script says, not what it is offered

    @property
    def has_structured_output(self) -> bool:
        return False


class TestScriptedChat(Scripted, ChatModelUnitTests):
    @NO_SWITCH
    def test_init_streaming(self) -> None:
        super().test_init_streaming()


class TestScriptedChatAnswers(Scripted, ChatModelIntegrationTests): ...


class Embedded:
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return EmbeddedChat

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"template": "chat"}

    @property
    def standard_chat_model_params(self) -> dict[str, Any]:
        return {"temperature": 0, "max_tokens": 12, "stop": []}

    @property
    def supports_model_override(self) -> bool:
        return False


@pytest.mark.xdist_group("embedded model")
class TestEmbeddedChat(Embedded, ChatModelUnitTests):
    @NO_SWITCH
    def test_init_streaming(self) -> None:
        super().test_init_streaming()


@pytest.mark.xdist_group("embedded model")
class TestEmbeddedChatAnswers(Embedded, ChatModelIntegrationTests): ...
