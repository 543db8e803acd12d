"""Staged: a role of a playbook as a LangChain chat model, and its tools as LangChain tools.

An agent made of them goes through the stage of its run, whatever thread or event loop it works in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.model_profile import ModelProfile
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field

from seedbed.errors import RunError, shown
from seedbed.models.chat import Message, Reply, Sampling
from seedbed.models.langchain.messages import calls_of
from seedbed.models.requests import offer_of

Result = TypeVar("Result")
AskRole: TypeAlias = Callable[[str, Sequence[Message], Sampling], Awaitable[Reply]]
"""Asks a role with these messages and tools."""

UseTool: TypeAlias = Callable[[str, str, dict[str, Any]], Awaitable[str]]
"""Calls a tool under the id of the model's call. Raises ToolException for what the model is told."""

NATIVE = "native_class"
"""Where an answer says which class of model understands what is native in it."""

_SPEAKERS = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}
_call_id: ContextVar[str] = ContextVar("call_id", default="")


class StagedChat(BaseChatModel):
    """A role as a chat model: its model, its settings and its limits are those of the playbook."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    role: str
    stop: tuple[str, ...] = ()
    ask: AskRole = Field(exclude=True, repr=False)
    loop: asyncio.AbstractEventLoop = Field(exclude=True, repr=False)

    @property
    def _llm_type(self) -> str:
        return "seedbed-role"

    def _resolve_model_profile(self) -> ModelProfile | None:
        return {"tool_calling": True}

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | bool | dict[str, Any] | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Let the role call tools. `tool_choice` is "auto", "none", "any" (it must call one) or the name of one."""
        choice = {"tool_choice": tool_choice} if tool_choice else {}
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], **choice, **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return across(self.loop, self._answer(messages, stop, **kwargs), f"role {self.role}", "ainvoke")

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return await crossing(self.loop, self._answer(messages, stop, **kwargs))

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        yield _whole(self._generate(messages, stop, **kwargs))

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        yield _whole(await self._agenerate(messages, stop, **kwargs))

    async def _answer(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None,
        tools: Sequence[dict[str, Any]] = (),
        tool_choice: Any = None,
        **more: Any,
    ) -> ChatResult:
        if unknown := sorted(name for name in more if not name.startswith("ls_")):
            expected = f"it in the playbook, under roles.{self.role}"
            raise RunError(f"role {self.role}: found {', '.join(unknown)} bound to its model; expected {expected}")
        sampling = Sampling(stop=tuple(stop or self.stop), offer=offer_of(tools, tool_choice))
        listening = var_child_runnable_config.set(
            None
        )  # or else those who listen to this model hear the one behind it too
        try:
            reply = await self.ask(self.role, [_message(each) for each in messages], sampling)
        finally:
            var_child_runnable_config.reset(listening)
        return ChatResult(generations=[ChatGeneration(message=_answer(reply))])


class StagedTool(BaseTool):
    """A tool of the stage. The model is told of its own failures and of refusals; all other errors end the run."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    use: UseTool = Field(exclude=True, repr=False)
    loop: asyncio.AbstractEventLoop = Field(exclude=True, repr=False)
    handle_tool_error: Any = True

    def run(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **kwargs: Any) -> Any:
        token = _call_id.set(tool_call_id or "")
        try:
            return super().run(tool_input, *args, tool_call_id=tool_call_id, **kwargs)
        finally:
            _call_id.reset(token)

    async def arun(self, tool_input: Any, *args: Any, tool_call_id: str | None = None, **kwargs: Any) -> Any:
        token = _call_id.set(tool_call_id or "")
        try:
            return await super().arun(tool_input, *args, tool_call_id=tool_call_id, **kwargs)
        finally:
            _call_id.reset(token)

    def _run(self, **arguments: Any) -> str:
        work = self.use(_call_id.get(), self.name, arguments)
        return across(self.loop, work, f"tool {self.name}", "ainvoke")

    async def _arun(self, **arguments: Any) -> str:
        return await crossing(self.loop, self.use(_call_id.get(), self.name, arguments))


async def crossing(loop: asyncio.AbstractEventLoop, work: Awaitable[Result]) -> Result:
    """The result of work that belongs to an event loop, from this one or another."""
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_awaited(work), loop))


def across(loop: asyncio.AbstractEventLoop, work: Awaitable[Result], who: str, asynchronous: str) -> Result:
    """The result of work that belongs to an event loop, waited for in another thread. Raises RunError in the loop's own
    thread, which would wait for itself."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:
        if asyncio.iscoroutine(work):
            work.close()
        remedy = f"Await its {asynchronous}, or call the agent in a thread: await asyncio.to_thread(agent.invoke, …)"
        raise RunError(f"{who}: found a blocking call on the event loop of its run; expected it elsewhere. {remedy}")
    return asyncio.run_coroutine_threadsafe(_awaited(work), loop).result()


async def _awaited(work: Awaitable[Result]) -> Result:
    return await work


def tool_error(error: Exception) -> ToolException:
    """An error of a tool as the model is told of it."""
    return ToolException(str(error))


def _whole(result: ChatResult) -> ChatGenerationChunk:
    """An answer as a stream of one piece: the pieces of a turn go to those who watch the run."""
    fields = result.generations[0].message.model_dump(exclude={"type"})
    for each in fields["invalid_tool_calls"]:  # the beginning of JSON would be completed where pieces are joined
        each["args"] = f"not JSON: {each['args']}"
    return ChatGenerationChunk(message=AIMessageChunk(**fields))


def _message(message: BaseMessage) -> Message:
    """One of ours for one of LangChain's. Raises RunError for what is no text."""
    if message.type not in _SPEAKERS:
        raise RunError(f"found a message of type {message.type}; expected one of: {', '.join(_SPEAKERS)}")
    if isinstance(message, ToolMessage):
        return Message("tool", message.text, call=message.tool_call_id, failed=message.status == "error")
    if isinstance(message, AIMessage):
        calls, kind = calls_of(message), message.response_metadata.get(NATIVE)
        native = {"class": kind, "content": message.content, "extra": message.additional_kwargs} if kind else None
        return Message("assistant", str(message.text), calls, native=native)
    blocks = message.content if isinstance(message.content, list) else []
    if other := [each for each in blocks if isinstance(each, dict) and each.get("type") != "text"]:
        raise RunError(f"found {shown(other[0].get('type'))} in a message; expected text")
    return Message("system" if message.type == "system" else "user", str(message.text))


def _answer(reply: Reply) -> AIMessage:
    """LangChain's message for an answer."""
    native = reply.native or {}
    read, written = reply.usage.prompt_tokens, reply.usage.completion_tokens
    metadata = {
        "model_name": reply.model,
        "finish_reason": reply.finish_reason,
        **({NATIVE: native["class"]} if native else {}),
    }
    wrong = [each for each in reply.calls if each.arguments is None]
    return AIMessage(
        content=native.get("content", reply.text),
        additional_kwargs=native.get("extra", {}),
        tool_calls=[
            tool_call(name=each.tool, args=each.arguments, id=each.id)
            for each in reply.calls
            if each.arguments is not None
        ],
        invalid_tool_calls=[
            invalid_tool_call(name=each.tool, args=each.unreadable, id=each.id, error=None) for each in wrong
        ],
        usage_metadata={
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
            "input_token_details": {"cache_read": reply.cached_tokens},
        },
        response_metadata=metadata,
    )
