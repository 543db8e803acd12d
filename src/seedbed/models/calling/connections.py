"""Connections to endpoints: one HTTP client for each event loop, shared by all models and closed with the loop."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator
from weakref import WeakKeyDictionary

import httpx

_OwnedClient = tuple[httpx.AsyncClient, AsyncGenerator[httpx.AsyncClient, None]]
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _OwnedClient] = WeakKeyDictionary()


async def shared_client() -> httpx.AsyncClient:
    """The client of the running event loop. Callers do not close it."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        owner = _own_client(loop)
        _clients[loop] = (await anext(owner), owner)
    return _clients[loop][0]


def client() -> httpx.Client:
    """A client for callers without an event loop, who close it."""
    return httpx.Client(verify=_certificates())


async def _own_client(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Closes its client with the loop: before a loop closes, it ends all generators that still wait."""
    limits = httpx.Limits(max_connections=500, max_keepalive_connections=100)
    async with httpx.AsyncClient(verify=_certificates(), limits=limits) as opened:
        try:
            yield opened
        finally:
            _clients.pop(loop, None)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates, read once: this is the slowest part of making a client."""
    return httpx.create_ssl_context()
