"""Tool calling: what the providers share that call tools in the way of OpenAI's API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import ToolCall, tool_call
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_function, convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field


class RequestedCall(BaseModel):
    """One call of a tool in an answer that was written down."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ToolCallingChat(BaseChatModel):
    """A chat model that is offered tools as OpenAI's API describes them."""

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Let the model call tools. `tool_choice` is "auto", "none", "any" (it must call one) or the name of one."""
        if tool_choice is True or tool_choice == "any":
            tool_choice = "required"
        elif isinstance(tool_choice, str) and tool_choice not in ("auto", "none", "required"):
            tool_choice = {"type": "function", "function": {"name": tool_choice}}
        choice = {"tool_choice": tool_choice} if tool_choice else {}
        return self.bind(tools=[convert_to_openai_tool(tool, strict=strict) for tool in tools], **choice, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: str = "function_calling",
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Structured answers: by a call of a tool, or with `method="json_schema"` in the endpoint's own JSON mode."""
        if method != "json_schema" or include_raw or not isinstance(schema, dict):
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        function = convert_to_openai_function(schema)
        form = {"name": function["name"], "schema": function["parameters"]}
        return self.bind(response_format={"type": "json_schema", "json_schema": form}) | JsonOutputParser()


def last_prompt(messages: Sequence[BaseMessage]) -> str:
    """The last message of the user or of a tool: what an answer follows on."""
    return next((str(message.text) for message in reversed(messages) if message.type in ("human", "tool")), "")


def with_ids(calls: Iterable[RequestedCall], messages: Sequence[BaseMessage]) -> list[ToolCall]:
    """Calls in LangChain's form, with ids that none before them has."""
    before = sum(len(message.tool_calls) for message in messages if isinstance(message, AIMessage))
    return [tool_call(name=each.tool, args=each.arguments, id=f"call_{n}") for n, each in enumerate(calls, before + 1)]
