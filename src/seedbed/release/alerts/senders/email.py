"""E-mail to some people."""

from __future__ import annotations

import asyncio
import re
import smtplib
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import cast
from urllib.parse import urlsplit

from seedbed.release.alerts.alert import Alert, shorten
from seedbed.release.alerts.senders.sender import TIMEOUT_SECONDS, NotDelivered
from seedbed.settings.alerts import Severity


@dataclass(frozen=True, slots=True)
class EmailSender:
    """Sends e-mail, encrypted if the server supports it. A password is never sent unencrypted."""

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
        try:
            server = self._connect()
            try:
                refused = server.send_message(
                    email_message(alert, self.sender, list(self.to)), self.sender, list(self.to)
                )
                with suppress(smtplib.SMTPException, OSError):  # the message was accepted already
                    server.quit()
            finally:
                server.close()
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
            again = all(400 <= code < 500 for code, _ in refused.values())
            raise NotDelivered(f"found {self._refusal(refused)}; expected recipients", again) from None
        except smtplib.SMTPResponseException as error:
            reason = f"found {type(error).__name__} ({error.smtp_code}); expected the server to accept the message"
            raise NotDelivered(f"{reason}. Check server, user and password", 400 <= error.smtp_code < 500) from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            reason = f"found {type(error).__name__}; expected an answer of the server"
            raise NotDelivered(f"{reason}. Check server and the network", isinstance(error, OSError)) from None
        return self._refusal(refused) if refused else ""

    def _refusal(self, refused: Mapping[str, tuple[int, bytes]]) -> str:
        refusals = [f"to[{self.to.index(address)}] refused ({code})" for address, (code, _) in refused.items()]
        return ", ".join(refusals)

    def _connect(self) -> smtplib.SMTP:
        parts = urlsplit(self.server)
        host, trust = cast("str", parts.hostname), ssl.create_default_context()
        encrypted = parts.scheme == "smtps"
        server: smtplib.SMTP
        if encrypted:
            server = smtplib.SMTP_SSL(host, parts.port or 465, timeout=TIMEOUT_SECONDS, context=trust)
        else:
            server = smtplib.SMTP(host, parts.port or 587, timeout=TIMEOUT_SECONDS)
        try:
            server.ehlo_or_helo_if_needed()
            if not encrypted and server.has_extn("starttls"):
                server.starttls(context=trust)
                encrypted = True
            if self.user:
                if not encrypted and host not in ("localhost", "127.0.0.1", "::1"):
                    reason = "found a server that offers no encryption; expected it before a password is sent"
                    raise NotDelivered(f"{reason}. Use smtps://", again=False)
                server.login(self.user, self.password)
        except BaseException:
            server.close()
            raise
        return server


def email_message(alert: Alert, sender: str, to: list[str]) -> EmailMessage:
    """A message in plain text, with the same Message-ID however often it is sent."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"] = sender, ", ".join(to)
    message["Subject"] = shorten(" ".join(re.sub(r"[\x00-\x1f\x7f]", " ", alert.headline).split()), 200)
    message["Date"] = format_datetime(alert.at)
    message["Message-ID"] = f"<{alert.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # so that no out-of-office reply comes back
    figures = [f"{name}: {shorten(value, 2000)}" for name, value in alert.details.items()]
    state = "resolved" if alert.resolved else alert.severity
    about = [f"channel: {alert.channel}", f"what: {alert.kind}", f"severity: {state}", f"at: {alert.at.isoformat()}"]
    message.set_content("\n".join([alert.message, "", *about, *figures, ""]), cte="quoted-printable")
    return message
