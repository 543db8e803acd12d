"""Sender: one way to notify people of an alert.

The error of a sender names neither a URL nor a password. It repeats no word of the other side, which may repeat ours.
"""

from __future__ import annotations

from typing import Protocol

from seedbed.errors import SeedbedError
from seedbed.release.alerts.alert import SEVERITIES, Alert
from seedbed.settings.alerts import Severity

TIMEOUT_SECONDS = 5.0
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


__all__ = ["TIMEOUT_SECONDS", "NotDelivered", "Sender", "wants"]
