"""Scripted model: answers from a script, for tests and docs."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, PrivateAttr

from seedbed.errors import ModelUnavailable, shown
from seedbed.models.providers.tool_calling import RequestedCall, ToolCallingChat, last_prompt, with_ids


class ScriptedReply(BaseModel):
    """An answer that calls tools, and what it says beside that."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: tuple[RequestedCall, ...] = Field(min_length=1)
    text: str = ""


class ScriptedChat(ToolCallingChat):
    """Answers from `replies`: a mapping of regular expressions to answers, or a list of answers in order.

    The first expression that matches the last message of the user or of a tool decides. An answer is a text, or
    `{calls: [{tool: search, arguments: {query: tea}}]}`. Tokens are words between spaces. An answer ends where a
    `stop` text begins, or after `max_tokens`.
    """

    model_config = ConfigDict(extra="forbid")

    replies: dict[re.Pattern[str], str | ScriptedReply] | list[str | ScriptedReply]
    max_tokens: PositiveInt | None = None
    stop: tuple[str, ...] = ()
    _rest: Iterator[str | ScriptedReply] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._rest = iter(self.replies) if isinstance(self.replies, list) else iter(())

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def model_name(self) -> str:
        """Its name in LangChain's traces."""
        return "scripted"

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        words, about = self._answer(messages, stop, **kwargs)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="".join(words), **about))])

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        # Not in a thread, as LangChain would do it: a list must be read in the order of the prompts.
        return self._generate(messages, stop, **kwargs)

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        words, about = self._answer(messages, stop, **kwargs)
        for word in words:
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        about["tool_call_chunks"] = [
            {"name": each["name"], "args": json.dumps(each["args"]), "id": each["id"], "index": place}
            for place, each in enumerate(about.pop("tool_calls"))
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(content="", chunk_position="last", **about))

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in self._stream(messages, stop, **kwargs):
            yield piece

    def _answer(
        self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, max_tokens: int | None = None, **_: Any
    ) -> tuple[list[str], dict[str, Any]]:
        """The words of an answer, each with the space before it, and its metadata."""
        reply = self._reply(last_prompt(messages))
        text, calls = (reply, ()) if isinstance(reply, str) else (reply.text, reply.calls)
        for end in (*self.stop, *(stop or ())):
            text = text.partition(end)[0]
        words = re.findall(r"\s*\S+|\s+$", text)
        limit = max_tokens or self.max_tokens or len(words)
        cut = len(text.split()) > limit
        words = words[:limit] if cut else words
        read, written = sum(len(str(message.text).split()) for message in messages), len("".join(words).split())
        return words, {
            "usage_metadata": {"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
            "response_metadata": {
                "finish_reason": "length" if cut else "tool_calls" if calls else "stop",
                "model_name": self.model_name,
            },
            "tool_calls": with_ids(calls, messages),
        }

    def _reply(self, prompt: str) -> str | ScriptedReply:
        if isinstance(self.replies, list):
            for text in self._rest:
                return text
            raise ModelUnavailable(
                f"the script is over: found the prompt {shown(prompt, 300)}; "
                f"expected no more than {len(self.replies)}. Add a reply for it"
            )
        for pattern, text in self.replies.items():
            if pattern.search(prompt):
                return text
        raise ModelUnavailable(
            f"the script has no reply: found the prompt {shown(prompt, 300)}; expected one that matches "
            f"{' or '.join(shown(pattern.pattern) for pattern in self.replies)}. Add a reply for it"
        )
