"""PagerDuty: an event that begins an incident, or ends it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from seedbed.release.alerts.alert import Alert, as_json, shorten
from seedbed.release.alerts.senders.http import post
from seedbed.settings.alerts import Severity
from seedbed.storage.store import Json


@dataclass(frozen=True, slots=True)
class PagerDutySender:
    """An event of PagerDuty's Events API v2, or of a compatible service: it begins an incident, or ends it."""

    name: str
    at_least: Severity
    url: str = field(repr=False)
    key: str = field(repr=False)

    async def send(self, alert: Alert) -> str:
        return await post(self.url, as_json(pagerduty_event(alert, self.key)))


def pagerduty_event(alert: Alert, key: str) -> Json:
    """An event as PagerDuty's Events API v2 takes it. The end of an alert ends the incident that it began."""
    event: Json = {
        "routing_key": key,
        "event_action": "resolve" if alert.resolved else "trigger",
        "dedup_key": alert.key if len(alert.key) <= 255 else hashlib.sha256(alert.key.encode()).hexdigest(),
    }
    event["payload"] = {
        "summary": shorten(f"{alert.channel}: {alert.message}", 1024),
        "source": f"seedbed channel {alert.channel}",
        "severity": alert.severity,
        "timestamp": alert.at.isoformat(),
        "component": alert.channel,
        "class": alert.kind,
        "custom_details": alert.details,
    }
    return event
