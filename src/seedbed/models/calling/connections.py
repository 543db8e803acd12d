"""Connections to endpoints: one client for each event loop, shared by all models and closed with the loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["client", "shared_client"]

_Kept = tuple["httpx.AsyncClient", AsyncGenerator["httpx.AsyncClient", None]]
_kept: WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = WeakKeyDictionary()


async def shared_client() -> httpx.AsyncClient:
    """The client of the running event loop. Not to be closed by those who use it."""
    loop = asyncio.get_running_loop()
    if loop not in _kept:
        keeper = _keep(loop)
        _kept[loop] = (await anext(keeper), keeper)
    return _kept[loop][0]


def client() -> httpx.Client:
    """A client for those without an event loop, to be closed by them."""
    import httpx

    return httpx.Client(verify=_trust())


async def _keep(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Closes its client with the loop: before a loop closes, it ends all generators that still wait."""
    import httpx

    limits = httpx.Limits(max_connections=500, max_keepalive_connections=100)
    async with httpx.AsyncClient(verify=_trust(), limits=limits) as opened:
        try:
            yield opened
        finally:
            _kept.pop(loop, None)


@functools.cache
def _trust() -> ssl.SSLContext:
    """Whose certificates are believed; reading them takes longer than everything else about a client."""
    import httpx

    return httpx.create_ssl_context()
