"""Log: each alert is one line of JSON, on the error stream or in a file."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from seedbed.files import private
from seedbed.release.alerts.alert import Alert
from seedbed.release.alerts.senders.sender import NotDelivered
from seedbed.settings.alerts import Severity


@dataclass(frozen=True, slots=True)
class LogSender:
    """One JSON object on a line for each alert: on the error stream, or at the end of a file."""

    name: str
    at_least: Severity
    file: Path | None = None

    async def send(self, alert: Alert) -> str:
        line = f"{json.dumps(alert.document(), ensure_ascii=False)}\n"
        if self.file is None:
            sys.stderr.write(line)
            return ""
        try:
            await asyncio.to_thread(_append, self.file, line)
        except OSError as error:
            reason = f"found {error.strerror or type(error).__name__}; expected a file that can be written"
            raise NotDelivered(f"{reason}. Check log", again=False) from None
        return ""


def _append(file: Path, line: str) -> None:
    with open(file, "ab", buffering=0, opener=private) as opened:  # one write: lines of two processes do not mix
        opened.write(line.encode())
