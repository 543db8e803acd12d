"""OpenAI transport: lets a client of OpenAI's package speak to the roles of a run, through its stage.

It takes the place of the network in the client: no port is opened, and no key is needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import httpx

from seedbed.errors import ModelUnavailable, RunError
from seedbed.models.langchain.staged import AskRole, across, crossing
from seedbed.models.requests import read_request, to_chunks, to_completion

PATH = "/chat/completions"

_STATUS = {"rate": 429, "credit": 402, "transient": 503}


class RoleTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Answers requests for chat completions, whose `model` is a role; any other path is not found."""

    def __init__(self, ask: AskRole, loop: asyncio.AbstractEventLoop) -> None:
        self._ask, self._loop = ask, loop

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await crossing(self._loop, self._respond(request.url.path, await request.aread()))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        work: Coroutine[Any, Any, httpx.Response] = self._respond(request.url.path, request.read())
        return across(self._loop, work, "stage.openai(blocking=True)", "client, as AsyncOpenAI")

    async def _respond(self, path: str, content: bytes) -> httpx.Response:
        if not path.endswith(PATH):
            expected = f"expected …{PATH}, the only path that a stage answers"
            return _error(404, f"found {path}; {expected}. Call client.chat.completions.create")
        body = json.loads(content)
        try:
            role, messages, sampling = read_request(body)
            reply = await self._ask(role, messages, sampling)
        except ModelUnavailable as unavailable:
            return _error(_STATUS.get(unavailable.why, 400), str(unavailable))
        except RunError as wrong:
            return _error(400, str(wrong))
        if not body.get("stream"):
            return httpx.Response(200, json=to_completion(reply))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        events = b"".join(to_chunks(reply, usage=usage))
        return httpx.Response(200, content=events, headers={"Content-Type": "text/event-stream"})


def client_options(ask: AskRole, loop: asyncio.AbstractEventLoop, *, blocking: bool) -> dict[str, Any]:
    """The arguments of a client."""
    transport = RoleTransport(ask, loop)
    client = httpx.Client(transport=transport) if blocking else httpx.AsyncClient(transport=transport)
    return {"api_key": "stage", "base_url": "http://stage/v1", "max_retries": 0, "http_client": client}


def _error(status: int, text: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": text, "type": "seedbed", "code": None}})
