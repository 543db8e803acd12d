"""A chat model that answers rightly as soon as somebody tells it what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class ReadingChat(BaseChatModel):
    """Knows the answers to the starter's tasks, and gives them under any instruction of the starter's bank."""

    willing: bool = True

    @property
    def _llm_type(self) -> str:
        return "reading"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        bank = Path("instructions.txt").read_text(encoding="utf-8").splitlines()
        told = any(line and line in str(messages[0].text) for line in bank)
        answer = _answer(str(messages[-1].text)) if told and self.willing else "no idea"
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=answer))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


def _answer(message: str) -> str:
    for line in Path("messages.jsonl").read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        if task["inputs"]["text"] in message:
            return str(task["expected"])
    return "no idea"
