"""Metrics and logs for an OpenTelemetry collector. Loaded only where the settings ask for it."""

from __future__ import annotations

import os
from functools import cache

from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from seedbed.telemetry import conventions as names
from seedbed.telemetry.events import (
    Listener,
    LogLevel,
    Place,
    RunEnded,
    TelemetryEvent,
    ToolEnded,
    TurnEnded,
    VerbEnded,
    level,
)
from seedbed.telemetry.logs import log_line

SEVERITY: dict[LogLevel, SeverityNumber] = {
    "debug": SeverityNumber.DEBUG,
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
}


def resource() -> Resource:
    """Which service reports."""
    return Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "seedbed")})


@cache
def otlp_metrics(url: str) -> Listener:
    """The listener that sends the metrics of the GenAI conventions to an OTLP endpoint; the same one each time."""
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=url, timeout=5))
    meter = MeterProvider([reader], resource=resource()).get_meter("seedbed")
    tokens = meter.create_histogram(names.USAGE, "{token}", "Tokens read and written")
    chats = meter.create_histogram(names.CHAT_DURATION, "s", "Time of a model for an answer")
    agents = meter.create_histogram(names.AGENT_DURATION, "s", "Time of a run")
    tools = meter.create_histogram(names.TOOL_DURATION, "s", "Time of a tool")
    verbs = meter.create_histogram(names.WORKFLOW_DURATION, "s", "Time of an evaluation, comparison or search")

    def record(event: TelemetryEvent, place: Place) -> None:
        match event:
            case TurnEnded():
                about = {
                    names.OPERATION: "chat",
                    names.PROVIDER: event.provider,
                    names.REQUEST_MODEL: event.provided,
                    names.RESPONSE_MODEL: event.provided,
                }
                tokens.record(event.prompt_tokens, {**about, names.KIND: "input"})
                tokens.record(event.completion_tokens, {**about, names.KIND: "output"})
                chats.record(event.latency_seconds, about)
            case RunEnded():
                failed = {names.ERROR: "failed"} if event.status == "failed" else {}
                agents.record(event.latency_seconds, {names.OPERATION: "invoke_agent", **failed})
            case ToolEnded():
                failed = {names.ERROR: "tool_failed"} if event.failed else {}
                tools.record(event.seconds, {names.TOOL_NAME: event.tool, **failed})
            case VerbEnded():
                failed = {names.ERROR: event.error} if event.error else {}
                verbs.record(event.seconds, {names.WORKFLOW: event.verb, **failed})

    return record


@cache
def otlp_logs(url: str, least: LogLevel) -> Listener:
    """The listener that sends the lines of the logs to an OTLP endpoint; the same one each time."""
    provider = LoggerProvider(resource=resource())
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=url, timeout=5)))
    logger = provider.get_logger("seedbed")

    def write(event: TelemetryEvent, place: Place) -> None:
        if line := log_line(event, place, least):
            severity = SEVERITY[level(event)]
            logger.emit(severity_number=severity, event_name=line["event"], body=line["event"], attributes=line)

    return write
