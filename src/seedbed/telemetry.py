"""Tell the outside how runs go: JSON logs, Prometheus metrics, OpenTelemetry spans. Off unless somebody listens.

Events hold names and numbers only. What was said (prompts, answers, inputs, the words of an error) is in the record of
the run, which can be encrypted; it never gets out this way.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias, get_args
from weakref import WeakSet

from seedbed.errors import Problem, SettingsError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span
    from prometheus_client import CollectorRegistry

    from seedbed.settings import Settings

# What is told


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run was accepted, or taken up again."""

    playbook: str
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A role has answered. `model` is the one that did, which need not be the one that was asked first."""

    role: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_seconds: float
    waited_seconds: float
    finish_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A run is over. `interrupted` is the status of one that was cancelled and can be taken up again."""

    status: str
    turns: int
    tokens: int
    cost_usd: float
    latency_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """One try of a model gave no answer; `why` is one of `errors.Why`."""

    model: str
    why: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Substituted:
    """One model answered in place of another."""

    asked: str
    used: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedged:
    """A model was asked a second time because its answer took longer than that; `won` if the second one was quicker."""

    model: str
    after_seconds: float
    won: bool


Event: TypeAlias = RunStarted | TurnEnded | RunEnded | ModelFailed | Substituted | Hedged


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where we are: in which run, opened by which one, at which step, asking which model."""

    run: str = ""
    parent: str = ""
    step: str = ""
    model: str = ""


Listener: TypeAlias = Callable[[Event, Place], None]

listeners: list[Listener] = []
"""Who is told. Where telling costs something, ask first: `if listeners: emit(…)`."""


def emit(event: Event) -> None:
    """Tell every listener. One that fails is told about in the log and not called again: no run fails because of it."""
    if not listeners:
        return
    for listener in tuple(listeners):
        try:
            listener(event, place())
        except Exception:
            logging.getLogger("seedbed").exception("a telemetry listener failed and was taken off")
            listeners.remove(listener)


# Where we are

_NOWHERE = Place()
_OFF = nullcontext()
_place: ContextVar[Place] = ContextVar("seedbed_place", default=_NOWHERE)


def place() -> Place:
    """Where the code that asks is; also for the log lines of your own program. Tasks inherit it from their makers."""
    return _place.get()


def within(*, run: str = "", step: str = "", model: str = "") -> AbstractContextManager[None]:
    """Be in a run, or at a step of the present one, for a block. A run within another is its child."""
    return _within(run, step, model) if listeners else _OFF


@contextmanager
def _within(run: str, step: str, model: str) -> Iterator[None]:
    before = _place.get()
    if run:
        here = Place(run=run, parent=before.run if before.run != run else before.parent, step=step, model=model)
    else:
        here = replace(before, step=step or before.step, model=model or before.model)
    _place.set(here)
    try:
        yield
    finally:
        _place.set(before)  # not by a token: the block of a generator may end in another task than it began in


# Who listens


def switch_on(settings: Settings) -> None:
    """Start what the settings ask for, for the rest of the process; once, however often it is asked for.

    Raises SettingsError if a package is missing or the file of the logs cannot be written.
    """
    wanted = settings.telemetry
    chosen: list[Listener] = []
    if wanted.logs:
        chosen.append(_log_file(settings.path(wanted.logs)) if isinstance(wanted.logs, str) else _log_to_stderr())
    if wanted.metrics:
        chosen.append(prometheus())
    if wanted.spans:
        chosen.append(spans(wanted.spans))
    listeners.extend(each for each in chosen if each not in listeners)


_NAMES = {kind: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Event)}


def json_logs(stream: TextIO) -> Listener:
    """One JSON object on a line for each event: its time, its name, where it happened, its numbers."""

    def write(event: Event, place: Place) -> None:
        told: dict[str, Any] = {"time": datetime.now(UTC).isoformat(), "event": _NAMES[type(event)]}
        told |= {name: value for name in place.__slots__ if (value := getattr(place, name))}
        told |= {name: getattr(event, name) for name in event.__slots__}
        stream.write(json.dumps(told) + "\n")

    return write


@cache
def _log_to_stderr() -> Listener:
    return json_logs(sys.stderr)


@cache
def _log_file(path: Path) -> Listener:
    try:
        stream = path.open("a", encoding="utf-8", buffering=1)
    except OSError as wrong:
        found = f"{path}: {wrong.strerror}"
        raise SettingsError([Problem("telemetry.logs", found, "a file that can be written")]) from wrong
    atexit.register(stream.close)
    return json_logs(stream)


LAG_EVERY_SECONDS = 0.1
"""How often the event loop is asked whether it keeps its appointments."""


def prometheus(registry: CollectorRegistry | None = None) -> Listener:
    """Counters and histograms in a registry, or in that of the process; the same listener each time."""
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        raise _missing("metrics", "prometheus-client") from None
    return _meters(registry or REGISTRY)


@cache
def _meters(registry: CollectorRegistry) -> Listener:  # noqa: C901 - a short function per event
    from prometheus_client import Counter, Histogram

    slow = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
    quick = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

    def counter(name: str, about: str, *labels: str) -> Counter:
        return Counter(f"seedbed_{name}", about, labels, registry=registry)

    def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"seedbed_{name}", about, labels, registry=registry, buckets=buckets)

    runs = histogram("run_seconds", "Time of a whole run", slow, "status")
    turns = histogram("turn_seconds", "Time of the model for one answer", slow, "model")
    waited = counter("waited_seconds_total", "Time spent on our own rate limits and pauses", "model")
    tokens = counter("tokens_total", "Tokens read (prompt) and written (completion)", "model", "kind")
    cost = counter("cost_usd_total", "US dollars", "model")
    errors = counter("model_errors_total", "Tries that gave no answer", "model", "why")
    substitutions = counter("substitutions_total", "Answers of one model in place of another", "asked", "used")
    hedged = counter("hedged_total", "Questions asked twice because the answer took long", "model", "won")
    lag = histogram("loop_lag_seconds", "How late the event loop is", quick)
    watched: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    def watch() -> None:
        """Measure the running loop from now on. A timer, unlike a task, asks nobody to end it with its loop."""
        loop = asyncio.get_running_loop()

        def look(due: float) -> None:
            lag.observe(max(loop.time() - due, 0.0))
            if count in listeners:
                plan()
            else:
                watched.discard(loop)

        def plan() -> None:
            due = loop.time() + LAG_EVERY_SECONDS
            loop.call_at(due, look, due)

        if loop not in watched:
            watched.add(loop)
            plan()

    def count(event: Event, place: Place) -> None:
        match event:
            case RunStarted():
                watch()
            case TurnEnded(model=model):
                turns.labels(model).observe(event.latency_seconds)
                waited.labels(model).inc(event.waited_seconds)
                tokens.labels(model, "prompt").inc(event.prompt_tokens)
                tokens.labels(model, "completion").inc(event.completion_tokens)
                cost.labels(model).inc(event.cost_usd)
            case RunEnded():
                runs.labels(event.status).observe(event.latency_seconds)
            case ModelFailed():
                errors.labels(event.model, event.why).inc()
            case Substituted():
                substitutions.labels(event.asked, event.used).inc()
            case Hedged():
                hedged.labels(event.model, "yes" if event.won else "no").inc()

    return count


@cache
def spans(url: str) -> Listener:
    """A span for each run, with one for each answer and each failed try in it, sent to an OTLP endpoint over HTTP.

    A run within another, or within a span of your own, is its child. What is left is sent when the process exits.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
    except ImportError:
        raise _missing("otel", "opentelemetry-sdk, opentelemetry-exporter-otlp-proto-http") from None

    provider = TracerProvider(
        resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "seedbed")})
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=5)))
    tracer = provider.get_tracer("seedbed")
    running: dict[str, Span] = {}

    def inside(run: str) -> Context | None:
        return set_span_in_context(running[run]) if run in running else None

    def chat(place: Place, model: str, seconds: float) -> tuple[Span, int]:
        """A span of so many seconds that is over now."""
        now = time.time_ns()
        about = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "seedbed",
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": place.run,
            "seedbed.step": place.step,
        }
        start = now - int(seconds * 1e9)
        name = f"chat {model}"
        span = tracer.start_span(name, inside(place.run), SpanKind.CLIENT, about, start_time=start)
        return span, now

    def trace(event: Event, place: Place) -> None:
        about: dict[str, Any]
        match event:
            case RunStarted():
                about = {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.provider.name": "seedbed",
                    "gen_ai.agent.id": event.playbook,
                    "gen_ai.conversation.id": place.run,
                    "seedbed.resumed": event.resumed,
                }
                running[place.run] = tracer.start_span("invoke_agent", inside(place.parent), attributes=about)
            case TurnEnded():
                span, now = chat(place, event.model, event.latency_seconds)
                span.set_attribute("gen_ai.response.model", event.model)
                span.set_attribute("gen_ai.agent.name", event.role)
                span.set_attribute("gen_ai.usage.input_tokens", event.prompt_tokens)
                span.set_attribute("gen_ai.usage.output_tokens", event.completion_tokens)
                span.set_attribute("gen_ai.response.finish_reasons", [event.finish_reason])
                span.set_attribute("seedbed.cost_usd", event.cost_usd)
                span.set_attribute("seedbed.waited_seconds", event.waited_seconds)
                span.end(now)
            case ModelFailed():
                span, now = chat(place, event.model, event.seconds)
                span.set_attribute("error.type", event.why)
                span.set_status(StatusCode.ERROR)
                span.end(now)
            case Substituted() if place.run in running:
                about = {"asked": event.asked, "used": event.used, "step": place.step}
                running[place.run].add_event("seedbed.substituted", about)
            case Hedged() if place.run in running:
                about = {"model": event.model, "after_seconds": event.after_seconds, "won": event.won}
                running[place.run].add_event("seedbed.hedged", {**about, "step": place.step})
            case RunEnded() if place.run in running:
                span = running.pop(place.run)
                span.set_attribute("seedbed.status", event.status)
                span.set_attribute("seedbed.cost_usd", event.cost_usd)
                if event.status == "failed":
                    span.set_attribute("error.type", "failed")
                    span.set_status(StatusCode.ERROR)
                span.end()

    return trace


def _missing(extra: str, package: str) -> SettingsError:
    remedy = f"Run pip install 'seedbed[{extra}]'"
    setting = {"metrics": "telemetry.metrics", "otel": "telemetry.spans"}[extra]
    return SettingsError([Problem(setting, f"no package {package}", "it installed", remedy)])
