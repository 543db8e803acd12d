"""Alert: what people are told about a channel, and how it reads in the forms that others understand.

Nothing is sent here. A webhook is signed so that its receiver can tell who sent it and when: see `signed_by`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, Literal, TypeAlias, get_args

from seedbed.storage.store import Json

Severity: TypeAlias = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From what may be read tomorrow to what somebody is woken up for."""

SIGNATURE, IDENTITY = "Seedbed-Signature", "Seedbed-Alert"
"""The headers of a webhook: when and by whom it was signed; what names it, the same however often it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something about a channel that people should know: `told` is one sentence, `details` are its figures.

    The same `key` is told once. That it is over is told by an alert with the same key that is `resolved`.
    """

    channel: str
    kind: str
    severity: Severity
    told: str
    at: datetime
    key: str
    details: Json = field(default_factory=dict)
    resolved: bool = False

    def __post_init__(self) -> None:
        # What JSON and a store can hold: an interval without an end, or half a character, shall silence no alert.
        object.__setattr__(self, "told", " ".join(_plain(self.told).split()))
        object.__setattr__(self, "details", _plain(self.details))

    @property
    def id(self) -> str:
        """What names this message: short, and the same however often it is sent."""
        return hashlib.blake2b(self.record_key.encode(), digest_size=16).hexdigest()

    @property
    def record_key(self) -> str:
        """The key under which it is recorded: that of its beginning is another than that of its end."""
        return f"{self.key}/resolved" if self.resolved else self.key

    @property
    def headline(self) -> str:
        return f"[{'resolved' if self.resolved else self.severity}] {self.channel}: {self.told}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_plain(str(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def document(alert: Alert) -> Json:
    """An alert as JSON: what a webhook is sent and a log holds."""
    return {
        "id": alert.id,
        "key": alert.key,
        "channel": alert.channel,
        "kind": alert.kind,
        "severity": alert.severity,
        "told": alert.told,
        "details": alert.details,
        "at": alert.at.isoformat(),
        "resolved": alert.resolved,
    }


def as_json(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


# Webhooks


def signature(secret: str, body: bytes, now: datetime) -> str:
    """The header that says when and by whom a body was signed."""
    at = int(now.timestamp())
    return f"t={at},v1={_mac(secret, at, body)}"


def signed_by(
    secret: str, headers: Mapping[str, str], body: bytes, now: datetime, tolerance_seconds: float = 300
) -> bool:
    """Whether whoever knows the secret signed exactly this body, not long ago. For those who receive a webhook."""
    given = next((value for name, value in headers.items() if name.lower() == SIGNATURE.lower()), "")
    match = re.fullmatch(r"t=(\d{1,12}),v1=([0-9a-f]{64})", given, re.ASCII)
    if not secret or not match:
        return False
    at = int(match[1])
    genuine = hmac.compare_digest(_mac(secret, at, body), match[2])
    return genuine and abs(now.timestamp() - at) <= tolerance_seconds


def _mac(secret: str, at: int, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()


# Forms of others


def slack(alert: Alert) -> Json:
    """A message for an incoming webhook as Slack has them. Nothing in it is read as a link or calls anybody."""
    head = _escaped(alert.headline)
    blocks: list[Json] = [{"type": "section", "text": {"type": "mrkdwn", "text": head}}]
    if alert.details:
        figures = "\n".join(f"• {name}: {_short(value, 80)}" for name, value in alert.details.items())
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": _escaped(figures)}})
    when = _escaped(f"{alert.kind} · {alert.at:%Y-%m-%d %H:%M:%S %Z}")
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": when}]})
    return {"text": head, "blocks": blocks}


def _escaped(text: str) -> str:
    # Cut before: each character may become five, a block holds 3,000, and half an escape would be none.
    return _short(text, 590).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _short(value: object, limit: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def pagerduty(alert: Alert, key: str) -> Json:
    """An event as PagerDuty's Events API v2 takes it. The end of an alert ends the incident that it began."""
    event: Json = {
        "routing_key": key,
        "event_action": "resolve" if alert.resolved else "trigger",
        "dedup_key": alert.key if len(alert.key) <= 255 else hashlib.sha256(alert.key.encode()).hexdigest(),
    }
    event["payload"] = {
        "summary": _short(f"{alert.channel}: {alert.told}", 1024),
        "source": f"seedbed channel {alert.channel}",
        "severity": alert.severity,
        "timestamp": alert.at.isoformat(),
        "component": alert.channel,
        "class": alert.kind,
        "custom_details": alert.details,
    }
    return event


def email(alert: Alert, sender: str, to: list[str]) -> EmailMessage:
    """A letter in plain text. Sent again it is the same letter, by its Message-ID."""
    letter = EmailMessage(policy=SMTP)
    letter["From"], letter["To"] = sender, ", ".join(to)
    letter["Subject"] = _short(" ".join(re.sub(r"[\x00-\x1f\x7f]", " ", alert.headline).split()), 200)
    letter["Date"] = format_datetime(alert.at)
    letter["Message-ID"] = f"<{alert.id}@{sender.rpartition('@')[2]}>"
    letter["Auto-Submitted"] = "auto-generated"  # so that no absence note answers it
    figures = [f"{name}: {_short(value, 2000)}" for name, value in alert.details.items()]
    state = "resolved" if alert.resolved else alert.severity
    about = [f"channel: {alert.channel}", f"what: {alert.kind}", f"severity: {state}", f"at: {alert.at.isoformat()}"]
    letter.set_content("\n".join([alert.told, "", *about, *figures, ""]), cte="quoted-printable")
    return letter


__all__ = [
    "IDENTITY",
    "SEVERITIES",
    "SIGNATURE",
    "Alert",
    "Severity",
    "as_json",
    "document",
    "email",
    "pagerduty",
    "signature",
    "signed_by",
    "slack",
]
