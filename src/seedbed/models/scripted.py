"""A model that answers from a script; tests, docs and replay use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ConfigDict, PrivateAttr

from seedbed.errors import ModelUnavailable, shown

__all__ = ["ScriptedChat"]


class ScriptedChat(BaseChatModel):
    """Answers from `replies`: a mapping of regular expressions, or a list that is read out in order.

    The first expression found in the last user message gives the answer. Tokens are words between spaces.
    """

    model_config = ConfigDict(extra="forbid")

    replies: dict[re.Pattern[str], str] | list[str]
    _rest: Iterator[str] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._rest = iter(self.replies) if isinstance(self.replies, list) else iter(())

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text = self._reply(next((str(message.text) for message in reversed(messages) if message.type == "human"), ""))
        read = sum(len(str(message.text).split()) for message in messages)
        written = len(text.split())
        answer = AIMessage(
            content=text,
            usage_metadata={"input_tokens": read, "output_tokens": written, "total_tokens": read + written},
            response_metadata={"finish_reason": "stop"},
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        # Not in a thread, as LangChain would do it: a list must be read out in the order of the questions.
        return self._generate(messages)

    def _reply(self, prompt: str) -> str:
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
