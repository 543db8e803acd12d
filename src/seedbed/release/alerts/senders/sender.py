"""Sender: one way to notify people of an alert.

The error of a sender names neither a URL nor a password. It quotes no answer of the other side, which may contain them.
"""

from __future__ import annotations

from typing import Protocol

from seedbed.errors import SeedbedError
from seedbed.release.alerts.alert import SEVERITIES, Alert
from seedbed.settings.alerts import Severity

TIMEOUT_SECONDS = 5.0
"""How long to wait for the other side."""


class NotDelivered(SeedbedError):
    """An alert reached no recipient. `again` says whether another attempt may help."""

    def __init__(self, message: str, again: bool) -> None:
        super().__init__(message)
        self.again = again


class Sender(Protocol):
    """One way to notify people. Its name is unique in a workspace."""

    @property
    def name(self) -> str: ...

    @property
    def at_least(self) -> Severity: ...

    async def send(self, alert: Alert) -> str:
        """Notify people. Returns whom it did not reach, if some. Raises NotDelivered if it reached no one."""


def wants(sender: Sender, alert: Alert) -> bool:
    """Whether an alert is severe enough for a sender."""
    return SEVERITIES.index(alert.severity) >= SEVERITIES.index(sender.at_least)
