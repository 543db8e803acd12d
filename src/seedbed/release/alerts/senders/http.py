"""Requests over HTTP that carry an alert, without its URL in any log or error."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import httpx

from seedbed.release.alerts.senders.sender import TIMEOUT_SECONDS, NotDelivered


async def post(url: str, body: bytes, headers: Mapping[str, str] | None = None) -> str:
    try:
        # A client of its own: busy connections to models must not delay an alert.
        with _unlogged():
            async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
                answer = await client.post(
                    url, content=body, headers={"Content-Type": "application/json", **(headers or {})}
                )
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        # Without its message and its cause: either may quote the URL.
        reason = f"found {type(error).__name__}; expected an answer. Check url and the network"
        raise NotDelivered(reason, again=not isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol)) from None
    if not answer.is_success:
        status = answer.status_code
        remedy = "Try again" if _passes(status) else "Check url, and key or secret"
        raise NotDelivered(f"found status {status}; expected 2xx. {remedy}", again=_passes(status))
    return ""


def _passes(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status >= 500 or status in (408, 425, 429)


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def _not_ours(record: logging.LogRecord) -> bool:
    return not _quiet.get()


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep httpx from logging the URL of requests in this block: it may hold a token."""
    logging.getLogger("httpx").addFilter(_not_ours)  # once: a logger keeps no filter twice
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)
