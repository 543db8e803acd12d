"""The embedded model with a memory on disk: what it was asked before, by anybody, it need not work out again."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from seedbed.models.providers.embedded import EmbeddedChat

PLACE = "EMBEDDED_MEMORY"
"""The variable that says where the memory is."""


class Remembered(EmbeddedChat):
    """Answers greedily, so that the same prompt always has the same answer."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        key = self._key(messages, stop, kwargs)
        if (known := memory().get(key)) is not None:
            return _result(known)
        made = super()._generate(messages, stop, **kwargs)
        return _result(memory().keep(key, made.generations[0].message))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        key = self._key(messages, stop, kwargs)
        if (known := memory().get(key)) is not None:
            return _result(known)
        made = await super()._agenerate(messages, stop, **kwargs)
        return _result(memory().keep(key, made.generations[0].message))

    def _key(self, messages: Sequence[BaseMessage], stop: Sequence[str] | None, given: dict[str, Any]) -> str:
        """What decides the answer. A seed does not, without temperature."""
        request = self._request(messages, stop, **{**given, "seed": None})
        assert not request["temperature"]
        return blake2b(json.dumps(request, sort_keys=True).encode(), digest_size=16).hexdigest()


class Memory:
    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._file = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=OFF")
        self._file.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, text TEXT, about TEXT)")

    def get(self, key: str) -> AIMessage | None:
        with self._lock:
            row = self._file.execute("SELECT text, about FROM answers WHERE key = ?", (key,)).fetchone()
        return AIMessage(content=row[0], **json.loads(row[1])) if row else None

    def keep(self, key: str, answer: BaseMessage) -> AIMessage:
        assert isinstance(answer, AIMessage)
        about = {"usage_metadata": answer.usage_metadata, "response_metadata": answer.response_metadata}
        with self._lock:
            row = (key, str(answer.text), json.dumps(about))
            self._file.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", row)
        return answer


@cache
def memory() -> Memory:
    return Memory(os.environ[PLACE])


def _result(answer: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=answer)])
