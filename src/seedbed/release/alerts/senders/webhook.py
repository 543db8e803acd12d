"""Webhook: JSON to a URL, signed so that its receiver can tell who sent it and when."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from seedbed.release.alerts.alert import Alert, as_json
from seedbed.release.alerts.senders.http import post
from seedbed.settings.alerts import Severity

SIGNATURE, IDENTITY = "Seedbed-Signature", "Seedbed-Alert"
"""The headers of a webhook: when and by whom it was signed; the id of the alert, the same however often it is sent."""


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """JSON to a URL, signed with a secret that its receiver knows too."""

    name: str
    at_least: Severity
    url: str = field(repr=False)
    secret: str = field(repr=False)

    async def send(self, alert: Alert) -> str:
        body = as_json(alert.document())
        signed = signature(self.secret, body, datetime.now(UTC))
        return await post(self.url, body, {SIGNATURE: signed, IDENTITY: alert.id})


def signature(secret: str, body: bytes, now: datetime) -> str:
    """The header that says when and by whom a body was signed."""
    at = int(now.timestamp())
    return f"t={at},v1={_mac(secret, at, body)}"


def signed_by(
    secret: str, headers: Mapping[str, str], body: bytes, now: datetime, tolerance_seconds: float = 300
) -> bool:
    """Whether this body was signed with the secret, not long ago. For receivers of a webhook."""
    header = next((value for name, value in headers.items() if name.lower() == SIGNATURE.lower()), "")
    match = re.fullmatch(r"t=(\d{1,12}),v1=([0-9a-f]{64})", header, re.ASCII)
    if not secret or not match:
        return False
    at = int(match[1])
    genuine = hmac.compare_digest(_mac(secret, at, body), match[2])
    return genuine and abs(now.timestamp() - at) <= tolerance_seconds


def _mac(secret: str, at: int, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
