"""Telemetry: JSON logs, Prometheus metrics and OpenTelemetry spans of runs. Off by default.

Events hold names and numbers only. Prompts, answers, inputs and error messages are in the record of the run, which can
be encrypted; they never leave the process this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seedbed.plugins import optional
from seedbed.telemetry.events import (
    ChannelMoved,
    ChannelWatched,
    GateRefused,
    Hedged,
    Listener,
    ModelFailed,
    Place,
    RunEnded,
    RunStarted,
    StoreFailed,
    Substituted,
    TelemetryEvent,
    ToolEnded,
    TurnEnded,
    VerbEnded,
    VerbStarted,
    during,
    emit,
    listeners,
    place,
    within,
)
from seedbed.telemetry.logs import log_to_file, log_to_stderr

if TYPE_CHECKING:
    from seedbed.settings import Settings

__all__ = [
    "ChannelMoved",
    "ChannelWatched",
    "GateRefused",
    "Hedged",
    "Listener",
    "ModelFailed",
    "Place",
    "RunEnded",
    "RunStarted",
    "StoreFailed",
    "Substituted",
    "TelemetryEvent",
    "ToolEnded",
    "TurnEnded",
    "VerbEnded",
    "VerbStarted",
    "during",
    "emit",
    "listeners",
    "place",
    "switch_on",
    "within",
]


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def switch_on(settings: Settings) -> None:
    """Start what the settings ask for, once and for the rest of the process.

    Raises SettingsError if a package is missing or the log file cannot be written.
    """
    wanted = settings.telemetry
    logs, metrics, least = wanted.logs, wanted.metrics, wanted.level
    chosen: list[Listener] = []
    if isinstance(logs, str) and is_url(logs):  # its module imports libraries that take a while to load, as below
        chosen.append(optional(f"{__name__}.otlp", extra="otel", needed_for="telemetry.logs").otlp_logs(logs, least))
    elif logs:
        file = isinstance(logs, str) and settings.path(logs)
        chosen.append(log_to_file(file, least) if file else log_to_stderr(least))
    if isinstance(metrics, str):
        chosen.append(optional(f"{__name__}.otlp", extra="otel", needed_for="telemetry.metrics").otlp_metrics(metrics))
    elif metrics:
        module = optional(f"{__name__}.metrics", extra="metrics", needed_for="telemetry.metrics")
        chosen.append(module.prometheus())
    if wanted.spans:
        module = optional(f"{__name__}.spans", extra="otel", needed_for="telemetry.spans")
        chosen.append(module.spans(wanted.spans))
    listeners.extend(each for each in chosen if each not in listeners)
