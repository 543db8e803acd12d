"""Slack: a message to an incoming webhook."""

from __future__ import annotations

from dataclasses import dataclass, field

from seedbed.release.alerts.alert import Alert, as_json, shorten
from seedbed.release.alerts.senders.http import post
from seedbed.settings.alerts import Severity
from seedbed.storage.store import Json


@dataclass(frozen=True, slots=True)
class SlackSender:
    """A message to an incoming webhook of Slack, or of a compatible service."""

    name: str
    at_least: Severity
    url: str = field(repr=False)

    async def send(self, alert: Alert) -> str:
        return await post(self.url, as_json(slack_message(alert)))


def slack_message(alert: Alert) -> Json:
    """A message for an incoming webhook of Slack. No text in it becomes a link or a mention."""
    head = _escape(alert.headline)
    blocks: list[Json] = [{"type": "section", "text": {"type": "mrkdwn", "text": head}}]
    if alert.details:
        figures = "\n".join(f"• {name}: {shorten(value, 80)}" for name, value in alert.details.items())
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": _escape(figures)}})
    when = _escape(f"{alert.kind} · {alert.at:%Y-%m-%d %H:%M:%S %Z}")
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": when}]})
    return {"text": head, "blocks": blocks}


def _escape(text: str) -> str:
    # Shorten first: each character may become five, a block holds 3,000, and a cut escape would be invalid.
    return shorten(text, 590).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
