"""Spans for an OpenTelemetry collector. Loaded only where the settings ask for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cache

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.util.types import AttributeValue

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
)


@cache
def spans(url: str) -> Listener:
    """The listener that sends spans to an OTLP endpoint over HTTP; the same one each time."""
    return Spans(url)


class Spans:
    """A span for each run, with one for each answer and each failed request in it.

    A run within another, or within a span of your own, is its child. The last spans are sent when the process exits.
    """

    def __init__(self, url: str) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME", "seedbed")
        provider = TracerProvider(resource=Resource.create({"service.name": name}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=5)))
        self._tracer = provider.get_tracer("seedbed")
        self._running: dict[str, Span] = {}
        """The spans of the runs under way, by their ids."""

    def __call__(self, event: TelemetryEvent, place: Place) -> None:
        about: dict[str, AttributeValue]
        match event:
            case RunStarted():
                self._start_run(event, place)
            case TurnEnded():
                about = {
                    "gen_ai.response.model": event.model,
                    "gen_ai.agent.name": event.role,
                    "gen_ai.usage.input_tokens": event.prompt_tokens,
                    "gen_ai.usage.output_tokens": event.completion_tokens,
                    "gen_ai.response.finish_reasons": [event.finish_reason],
                    "seedbed.cost_usd": event.cost_usd,
                    "seedbed.waited_seconds": event.waited_seconds,
                }
                self._add_call(place, event.model, event.latency_seconds, about)
            case ModelFailed():
                self._add_call(place, event.model, event.seconds, {"error.type": event.why}, failed=True)
            case Substituted() if run := self._running.get(place.run):
                about = {"asked": event.requested, "used": event.used, "step": place.step}
                run.add_event("seedbed.substituted", about)
            case Hedged() if run := self._running.get(place.run):
                about = {"model": event.model, "after_seconds": event.after_seconds, "won": event.won}
                run.add_event("seedbed.hedged", {**about, "step": place.step})
            case RunEnded() if run := self._running.pop(place.run, None):
                run.set_attributes({"seedbed.status": event.status, "seedbed.cost_usd": event.cost_usd})
                if event.status == "failed":
                    run.set_attribute("error.type", "failed")
                    run.set_status(StatusCode.ERROR)
                run.end()

    def _start_run(self, event: RunStarted, place: Place) -> None:
        about: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "seedbed",
            "gen_ai.agent.id": event.playbook,
            "gen_ai.conversation.id": place.run,
            "seedbed.resumed": event.resumed,
        }
        span = self._tracer.start_span("invoke_agent", self._inside(place.parent), attributes=about)
        self._running[place.run] = span

    def _add_call(
        self, place: Place, model: str, seconds: float, about: Mapping[str, AttributeValue], *, failed: bool = False
    ) -> None:
        """Add the span of a call to a model that took so many seconds and ended now."""
        now = time.time_ns()
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "seedbed",
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": place.run,
            "seedbed.step": place.step,
            **about,
        }
        start, context = now - int(seconds * 1e9), self._inside(place.run)
        span = self._tracer.start_span(f"chat {model}", context, SpanKind.CLIENT, attributes, start_time=start)
        if failed:
            span.set_status(StatusCode.ERROR)
        span.end(now)

    def _inside(self, run: str) -> Context | None:
        return set_span_in_context(self._running[run]) if run in self._running else None
