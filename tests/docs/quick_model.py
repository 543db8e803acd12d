"""A model for the examples of the documentation that is quicker than the embedded one, which other tests ask."""

from __future__ import annotations

import re
import zlib
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

BAD = re.compile(r"\b(no|not|never|broken|late|wrong|cold|rude|crushed|lost|wilted|headache|refund|fail\w*)\b", re.I)


class QuickChat(BaseChatModel):
    """Tells the mood of a message by a few words. Without worked examples it mostly says nothing of use."""

    @property
    def _llm_type(self) -> str:
        return "quick"

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        text = str(messages[-1].text)
        shown = any(message.type == "ai" for message in messages) or zlib.crc32(text.encode()) % 4 == 0
        words = ("negative" if BAD.search(text) else "positive") if shown else "unsure"
        usage = {"input_tokens": len(text.split()), "output_tokens": 1, "total_tokens": len(text.split()) + 1}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=words, usage_metadata=usage))])
