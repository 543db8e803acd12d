"""Spans for an OpenTelemetry collector. Loaded only where the settings ask for it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.util.types import AttributeValue

from seedbed.telemetry import conventions as names
from seedbed.telemetry.events import (
    Hedged,
    Listener,
    ModelFailed,
    Place,
    RunEnded,
    RunStarted,
    Substituted,
    TelemetryEvent,
    ToolEnded,
    TurnEnded,
    VerbEnded,
    VerbStarted,
    place,
)
from seedbed.telemetry.otlp import resource

SHOWN = 10
"""How many characters of a digest name an agent."""


@cache
def spans(url: str) -> Listener:
    """The listener that sends spans to an OTLP endpoint over HTTP; the same one each time."""
    return Spans(url)


class TraceIds(RandomIdGenerator):
    """A trace has the id of its outermost run or verb, so that logs and records find it."""

    def generate_trace_id(self) -> int:
        return int(place().trace or "0", 16) or super().generate_trace_id()


class Spans:
    """A span for each run and each verb, with one for each answer and each use of a tool in it.

    A run within another, within a verb, or within a span of your own, is its child. Failed requests, fallbacks and
    hedges are events of their run. The last spans are sent when the process exits.
    """

    def __init__(self, url: str) -> None:
        provider = TracerProvider(resource=resource(), id_generator=TraceIds())
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=5)))
        self._tracer = provider.get_tracer("seedbed")
        self._open: dict[str, Span] = {}
        """The spans of the runs and verbs under way, by their ids."""

    def __call__(self, event: TelemetryEvent, place: Place) -> None:
        match event:
            case VerbStarted():
                about = {names.OPERATION: "invoke_workflow", names.WORKFLOW: event.verb}
                self._open[place.verb] = self._tracer.start_span(
                    f"invoke_workflow {event.verb}", self._inside(place.run), attributes=about
                )
            case VerbEnded() if span := self._open.pop(place.verb, None):
                _end(span, event.error)
            case RunStarted():
                self._start_run(event, place)
            case TurnEnded():
                self._add_turn(event, place)
            case ToolEnded():
                about = {names.OPERATION: "execute_tool", names.TOOL_NAME: event.tool, names.TOOL_TYPE: "function"}
                failure = "tool_failed" if event.failed else ""
                self._add(f"execute_tool {event.tool}", SpanKind.INTERNAL, place, event.seconds, about, failure)
            case ModelFailed() | Substituted() | Hedged() if run := self._open.get(place.run):
                values = {name: getattr(event, name) for name in event.__slots__}
                run.add_event(f"seedbed.{_event_names[type(event)]}", {**values, "step": place.step})
            case RunEnded() if run := self._open.pop(place.run, None):
                run.set_attributes({"seedbed.status": event.status, "seedbed.cost_usd": event.cost_usd})
                _end(run, "failed" if event.status == "failed" else "")

    def _start_run(self, event: RunStarted, place: Place) -> None:
        name = event.playbook.removeprefix("b2:")[:SHOWN]
        about: dict[str, AttributeValue] = {
            names.OPERATION: "invoke_agent",
            names.PROVIDER: "seedbed",
            names.AGENT_ID: event.playbook,
            names.AGENT_NAME: name,
            names.CONVERSATION: place.run,
            "seedbed.resumed": event.resumed,
        }
        within = self._inside(place.parent) or self._inside(place.verb)
        self._open[place.run] = self._tracer.start_span(f"invoke_agent {name}", within, attributes=about)

    def _add_turn(self, event: TurnEnded, place: Place) -> None:
        about: dict[str, AttributeValue | None] = {
            names.OPERATION: "chat",
            names.PROVIDER: event.provider,
            names.REQUEST_MODEL: event.provided,
            names.RESPONSE_MODEL: event.provided,
            names.AGENT_NAME: event.role,
            names.TEMPERATURE: event.temperature,
            names.MAX_TOKENS: event.max_tokens,
            names.SEED: event.seed,
            names.INPUT_TOKENS: event.prompt_tokens,
            names.OUTPUT_TOKENS: event.completion_tokens,
            names.FINISH_REASONS: [event.finish_reason],
            "seedbed.model": event.model,
            "seedbed.cost_usd": event.cost_usd,
            "seedbed.waited_seconds": event.waited_seconds,
        }
        known = {name: value for name, value in about.items() if value is not None}
        self._add(f"chat {event.provided}", SpanKind.CLIENT, place, event.latency_seconds, known)

    def _add(
        self,
        name: str,
        kind: SpanKind,
        place: Place,
        seconds: float,
        about: Mapping[str, AttributeValue],
        error: str = "",
    ) -> None:
        """Add the span of something in a run that took so many seconds and ended now."""
        now = time.time_ns()
        attributes = {names.CONVERSATION: place.run, "seedbed.step": place.step, **about}
        start = now - int(seconds * 1e9)
        span = self._tracer.start_span(name, self._inside(place.run), kind, attributes, start_time=start)
        _end(span, error, now)

    def _inside(self, name: str) -> Context | None:
        return set_span_in_context(self._open[name]) if name in self._open else None


_event_names = {ModelFailed: "model_failed", Substituted: "substituted", Hedged: "hedged"}


def _end(span: Span, error: str, at: int | None = None) -> None:
    if error:
        span.set_attribute(names.ERROR, error)
        span.set_status(StatusCode.ERROR)
    span.end(at)
