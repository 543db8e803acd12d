"""Senders: how people are told of an alert. Which ones a workspace has is read in `alert_settings`.

What a sender says when it fails names neither a URL nor a password, and repeats no word of the other side, which may
repeat ours.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import urlsplit

from seedbed.errors import SeedbedError
from seedbed.release.alerts.alert import (
    IDENTITY,
    SEVERITIES,
    SIGNATURE,
    Alert,
    Severity,
    as_json,
    document,
    email,
    pagerduty,
    signature,
    slack,
)

if TYPE_CHECKING:
    import smtplib

SILENCE_SECONDS = 5.0
"""How long the other side may stay silent."""


class NotDelivered(SeedbedError):
    """An alert did not reach anybody. `again` says whether it may in a moment."""

    def __init__(self, message: str, again: bool) -> None:
        super().__init__(message)
        self.again = again


class Sender(Protocol):
    """One way to tell people. Its name is unique in a workspace."""

    @property
    def name(self) -> str: ...

    @property
    def at_least(self) -> Severity: ...

    async def send(self, alert: Alert) -> str:
        """Tell people, and say whom it did not reach, if some. Raises NotDelivered if that is everybody."""


def wants(sender: Sender, alert: Alert) -> bool:
    """Whether an alert is severe enough for a sender."""
    return SEVERITIES.index(alert.severity) >= SEVERITIES.index(sender.at_least)


# Over HTTP


@dataclass(frozen=True, slots=True)
class Webhook:
    """JSON to a URL, signed with a secret that its receiver knows too."""

    name: str
    at_least: Severity
    url: str = field(repr=False)
    secret: str = field(repr=False)

    async def send(self, alert: Alert) -> str:
        body = as_json(document(alert))
        signed = signature(self.secret, body, datetime.now(UTC))
        return await _post(self.url, body, {SIGNATURE: signed, IDENTITY: alert.id})


@dataclass(frozen=True, slots=True)
class Slack:
    """A message to an incoming webhook of Slack, or of what understands the same."""

    name: str
    at_least: Severity
    url: str = field(repr=False)

    async def send(self, alert: Alert) -> str:
        return await _post(self.url, as_json(slack(alert)))


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """An event of PagerDuty's Events API v2, or of what understands the same: it begins an incident, or ends it."""

    name: str
    at_least: Severity
    url: str = field(repr=False)
    key: str = field(repr=False)

    async def send(self, alert: Alert) -> str:
        return await _post(self.url, as_json(pagerduty(alert, self.key)))


async def _post(url: str, body: bytes, headers: Mapping[str, str] | None = None) -> str:
    import httpx

    try:
        # A client of its own: that all connections to models are taken must not keep an alert waiting.
        with _unlogged():
            async with httpx.AsyncClient(timeout=SILENCE_SECONDS) as client:
                answer = await client.post(
                    url, content=body, headers={"Content-Type": "application/json", **(headers or {})}
                )
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        # Without its words and its cause: either may quote the URL.
        found = f"found {type(error).__name__}; expected an answer. Check url and the network"
        raise NotDelivered(found, again=not isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol)) from None
    if not answer.is_success:
        status = answer.status_code
        remedy = "Try again" if _passes(status) else "Check url, and key or secret"
        raise NotDelivered(f"found status {status}; expected 2xx. {remedy}", again=_passes(status))
    return ""


def _passes(status: int) -> bool:
    """Whether the same request may be taken later."""
    return status >= 500 or status in (408, 425, 429)


_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def _not_ours(record: logging.LogRecord) -> bool:
    return not _quiet.get()


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep httpx from logging the URL of what is asked in here: a token may stand in it."""
    logging.getLogger("httpx").addFilter(_not_ours)  # once: a logger keeps no filter twice
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


# By e-mail


@dataclass(frozen=True, slots=True)
class Email:
    """A letter to some people, encrypted on its way if the server can. A password is never sent in the clear."""

    name: str
    at_least: Severity
    to: tuple[str, ...]
    sender: str
    server: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    async def send(self, alert: Alert) -> str:
        return await asyncio.to_thread(self._send, alert)

    def _send(self, alert: Alert) -> str:
        import smtplib

        try:
            server = self._connected()
            try:
                refused = server.send_message(email(alert, self.sender, list(self.to)), self.sender, list(self.to))
                with suppress(smtplib.SMTPException, OSError):  # it has the letter, however it says goodbye
                    server.quit()
            finally:
                server.close()
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
            again = all(400 <= code < 500 for code, _ in refused.values())
            raise NotDelivered(f"found {self._refusal(refused)}; expected recipients", again) from None
        except smtplib.SMTPResponseException as error:
            found = f"found {type(error).__name__} ({error.smtp_code}); expected a letter taken"
            raise NotDelivered(f"{found}. Check server, user and password", 400 <= error.smtp_code < 500) from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            found = f"found {type(error).__name__}; expected an answer of the server"
            raise NotDelivered(f"{found}. Check server and the network", isinstance(error, OSError)) from None
        return self._refusal(refused) if refused else ""

    def _refusal(self, refused: Mapping[str, tuple[int, bytes]]) -> str:
        told = [f"to[{self.to.index(address)}] refused ({code})" for address, (code, _) in refused.items()]
        return ", ".join(told)

    def _connected(self) -> smtplib.SMTP:
        import smtplib
        import ssl

        parts = urlsplit(self.server)
        host, trust = cast("str", parts.hostname), ssl.create_default_context()
        encrypted = parts.scheme == "smtps"
        server: smtplib.SMTP
        if encrypted:
            server = smtplib.SMTP_SSL(host, parts.port or 465, timeout=SILENCE_SECONDS, context=trust)
        else:
            server = smtplib.SMTP(host, parts.port or 587, timeout=SILENCE_SECONDS)
        try:
            server.ehlo_or_helo_if_needed()
            if not encrypted and server.has_extn("starttls"):
                server.starttls(context=trust)
                encrypted = True
            if self.user:
                if not encrypted and host not in ("localhost", "127.0.0.1", "::1"):
                    found = "found a server that offers no encryption; expected it before a password is sent"
                    raise NotDelivered(f"{found}. Use smtps://", again=False)
                server.login(self.user, self.password)
        except BaseException:
            server.close()
            raise
        return server


# To a log


@dataclass(frozen=True, slots=True)
class Log:
    """One JSON object on a line for each alert: on the error stream, or at the end of a file."""

    name: str
    at_least: Severity
    file: Path | None = None

    async def send(self, alert: Alert) -> str:
        line = f"{json.dumps(document(alert), ensure_ascii=False)}\n"
        if self.file is None:
            sys.stderr.write(line)
            return ""
        try:
            await asyncio.to_thread(_append, self.file, line)
        except OSError as error:
            found = f"found {error.strerror or type(error).__name__}; expected a file that can be written"
            raise NotDelivered(f"{found}. Check log", again=False) from None
        return ""


def _append(file: Path, line: str) -> None:
    with file.open("ab", buffering=0) as opened:  # in one write, so that two processes do not mix theirs
        opened.write(line.encode())
