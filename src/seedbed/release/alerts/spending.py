"""Alerts about spending: a quota that is half, nearly or all used, and a day that costs far more than usual."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from seedbed.errors import SettingsError
from seedbed.playbooks.library import Library
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.delivery import Patience, send
from seedbed.release.alerts.senders.registry import build_senders
from seedbed.settings import Settings
from seedbed.spending.notices import SpendingNotice

_log = logging.getLogger("seedbed")

SHORT = Patience(timeout_seconds=5.0, attempts=1)
"""A run waits for it; what fails is sent again with other alerts."""


async def tell(library: Library, settings: Settings, notices: Iterable[SpendingNotice]) -> None:
    """Send what people should know about spending to everyone under `alerts`, once for all processes."""
    try:
        senders = build_senders(settings)
    except SettingsError as wrong:  # a run must not fail because nobody can be told what it cost
        _log.error("alerts about spending cannot be sent: %s", wrong)
        return
    for notice in notices:
        alert = Alert(
            channel="quota",
            kind=notice.kind,
            severity="critical" if notice.critical else "warning",
            message=notice.message,
            at=notice.at,
            key=notice.key,
            details=notice.details,
        )
        await send(library, senders, alert, SHORT)
