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
from seedbed.telemetry.events import Listener, LogLevel, Place, TelemetryEvent, level

_EVENTS = {kind: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(TelemetryEvent)}
_KEYS = {"requested": "asked", "correlation": "correlation_id", "trace": "trace_id"}
"""Fields that the logs name differently."""

LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)


def log_line(event: TelemetryEvent, place: Place, least: LogLevel) -> dict[str, Any]:
    """An event as the logs have it: when, how serious, what, where, and its numbers. Empty if it is less serious."""
    serious = level(event)
    if LEVELS.index(serious) < LEVELS.index(least):
        return {}
    line: dict[str, Any] = {"timestamp": datetime.now(UTC).isoformat(), "level": serious, "event": _EVENTS[type(event)]}
    line |= {_KEYS.get(name, name): value for name in place.__slots__ if (value := getattr(place, name))}
    values = {_KEYS.get(name, name): getattr(event, name) for name in event.__slots__}
    return line | {name: value for name, value in values.items() if value is not None}


def json_logs(stream: TextIO, least: LogLevel = "info") -> Listener:
    """A listener that writes a line for each event that is serious enough."""

    def write(event: TelemetryEvent, place: Place) -> None:
        if line := log_line(event, place, least):
            stream.write(redact(json.dumps(line)) + "\n")

    return write


@cache
def log_to_stderr(least: LogLevel) -> Listener:
    return json_logs(sys.stderr, least)


@cache
def log_to_file(path: Path, least: LogLevel) -> Listener:
    """Appends to a file until the process exits. Raises SettingsError if it cannot be written."""
    try:
        stream = open(path, "a", encoding="utf-8", buffering=1, opener=private)  # noqa: SIM115 - closed at exit
    except OSError as error:
        problem = Problem("telemetry.logs", f"{path}: {error.strerror}", "a file that can be written")
        raise SettingsError([problem]) from error
    atexit.register(stream.close)
    return json_logs(stream, least)
