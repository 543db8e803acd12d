"""Logs: one JSON object on a line for each event."""

from __future__ import annotations

import atexit
import json
import re
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TextIO, get_args

from seedbed.errors import Problem, SettingsError
from seedbed.files import private
from seedbed.redaction import redact
from seedbed.telemetry.events import Listener, Place, TelemetryEvent

_EVENTS = {kind: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(TelemetryEvent)}
_KEYS = {"requested": "asked"}
"""Fields that the logs name differently."""


def json_logs(stream: TextIO) -> Listener:
    """A listener that writes each event: its time, its name, where it happened, its numbers."""

    def write(event: TelemetryEvent, place: Place) -> None:
        line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(), "event": _EVENTS[type(event)]}
        line |= {name: value for name in place.__slots__ if (value := getattr(place, name))}
        line |= {_KEYS.get(name, name): getattr(event, name) for name in event.__slots__}
        stream.write(redact(json.dumps(line)) + "\n")

    return write


@cache
def log_to_stderr() -> Listener:
    return json_logs(sys.stderr)


@cache
def log_to_file(path: Path) -> Listener:
    """Appends to a file until the process exits. Raises SettingsError if it cannot be written."""
    try:
        stream = open(path, "a", encoding="utf-8", buffering=1, opener=private)  # noqa: SIM115 - closed at exit
    except OSError as error:
        problem = Problem("telemetry.logs", f"{path}: {error.strerror}", "a file that can be written")
        raise SettingsError([problem]) from error
    atexit.register(stream.close)
    return json_logs(stream)
