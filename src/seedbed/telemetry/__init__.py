"""Telemetry: JSON logs, Prometheus metrics and OpenTelemetry spans of runs. Off by default.

Events hold names and numbers only. Prompts, answers, inputs and error messages are in the record of the run, which can
be encrypted; they never leave the process this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seedbed.plugins import optional
from seedbed.telemetry.events import (
    Hedged,
    Listener,
    ModelFailed,
    Place,
    RunEnded,
    RunStarted,
    Substituted,
    TelemetryEvent,
    TurnEnded,
    emit,
    listeners,
    place,
    within,
)
from seedbed.telemetry.logs import log_to_file, log_to_stderr

if TYPE_CHECKING:
    from seedbed.settings import Settings

__all__ = [
    "Hedged",
    "Listener",
    "ModelFailed",
    "Place",
    "RunEnded",
    "RunStarted",
    "Substituted",
    "TelemetryEvent",
    "TurnEnded",
    "emit",
    "listeners",
    "place",
    "switch_on",
    "within",
]


def switch_on(settings: Settings) -> None:
    """Start what the settings ask for, once and for the rest of the process.

    Raises SettingsError if a package is missing or the log file cannot be written.
    """
    wanted = settings.telemetry
    chosen: list[Listener] = []
    if wanted.logs:
        chosen.append(log_to_file(settings.path(wanted.logs)) if isinstance(wanted.logs, str) else log_to_stderr())
    if wanted.metrics:  # this module and the next one import their libraries, which take a while to load
        module = optional("seedbed.telemetry.metrics", extra="metrics", needed_for="telemetry.metrics")
        chosen.append(module.prometheus())
    if wanted.spans:
        module = optional("seedbed.telemetry.spans", extra="otel", needed_for="telemetry.spans")
        chosen.append(module.spans(wanted.spans))
    listeners.extend(each for each in chosen if each not in listeners)
