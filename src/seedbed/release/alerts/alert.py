"""Alert: something about a channel that people should know."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from seedbed.settings.alerts import Severity
from seedbed.storage.store import Json

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something about a channel that people should know: `message` is one sentence, `details` are its figures.

    An alert with the same `key` is sent once. When it is over, one with the same key is sent that is `resolved`.
    """

    channel: str
    kind: str
    severity: Severity
    message: str
    at: datetime
    key: str
    details: Json = field(default_factory=dict)
    resolved: bool = False

    def __post_init__(self) -> None:
        # Infinite numbers and broken characters fit into neither JSON nor a store, and must not stop an alert.
        object.__setattr__(self, "message", " ".join(_plain(self.message).split()))
        object.__setattr__(self, "details", _plain(self.details))

    @property
    def id(self) -> str:
        """A short id of the message, the same however often it is sent."""
        return hashlib.blake2b(self.record_key.encode(), digest_size=16).hexdigest()

    @property
    def record_key(self) -> str:
        """The key of its fact. The end of an alert has another one than its beginning."""
        return f"{self.key}/resolved" if self.resolved else self.key

    @property
    def headline(self) -> str:
        return f"[{'resolved' if self.resolved else self.severity}] {self.channel}: {self.message}"

    def document(self) -> Json:
        """The alert as JSON, for webhooks and logs."""
        return {
            "id": self.id,
            "key": self.key,
            "channel": self.channel,
            "kind": self.kind,
            "severity": self.severity,
            "told": self.message,
            "details": self.details,
            "at": self.at.isoformat(),
            "resolved": self.resolved,
        }


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


def as_json(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def shorten(value: object, limit: int) -> str:
    """A value as text of at most so many characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
