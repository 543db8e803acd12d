"""Connections to endpoints: one HTTP client for each event loop, shared by all models and closed with the loop.

Redirects are followed within an origin only, and no answer is read to its end that is longer than any can be.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from weakref import WeakKeyDictionary

import httpx

from seedbed.errors import ModelUnavailable

MOST_BYTES = 32_000_000
"""No answer of an endpoint is longer, even with the probabilities of all its tokens."""

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
    hooks = {"response": [_expect_origin]}
    return httpx.Client(verify=_certificates(), event_hooks=hooks, follow_redirects=True, max_redirects=3)


async def abounded(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The pieces of an answer. Raises ModelUnavailable instead of reading more than MOST_BYTES."""
    size = 0
    async for piece in answer.aiter_bytes():
        size = _add(size, piece)
        yield piece


def bounded(answer: httpx.Response) -> Iterator[bytes]:
    """As `abounded`, without an event loop."""
    size = 0
    for piece in answer.iter_bytes():
        size = _add(size, piece)
        yield piece


def _add(size: int, piece: bytes) -> int:
    if size + len(piece) > MOST_BYTES:
        problem = f"found an answer of more than {MOST_BYTES:,} bytes; expected fewer. It was cut off"
        raise ModelUnavailable(problem, "transient", paid=True)
    return size + len(piece)


async def _aexpect_origin(answer: httpx.Response) -> None:
    _expect_origin(answer)


def _expect_origin(answer: httpx.Response) -> None:
    """Raise ModelUnavailable for a redirect that leads elsewhere: whoever is there gets neither prompts nor keys."""
    if not answer.has_redirect_location:
        return
    here, there = answer.url, answer.url.join(answer.headers["location"])
    if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port):
        problem = f"found a redirect from {here.host} to another origin, {there.scheme}://{there.host}"
        raise ModelUnavailable(f"{problem}; expected an answer. Correct base_url if it has moved", "ours")


async def _own_client(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Closes its client with the loop: before a loop closes, it ends all generators that still wait."""
    limits = httpx.Limits(max_connections=500, max_keepalive_connections=100)
    hooks = {"response": [_aexpect_origin]}
    async with httpx.AsyncClient(
        verify=_certificates(), limits=limits, event_hooks=hooks, follow_redirects=True, max_redirects=3
    ) as opened:
        try:
            yield opened
        finally:
            _clients.pop(loop, None)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificates, read once: this is the slowest part of making a client."""
    return httpx.create_ssl_context()
