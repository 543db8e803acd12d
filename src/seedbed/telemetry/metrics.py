"""Metrics: counters and histograms for Prometheus. Loaded only where the settings ask for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cache
from threading import Thread
from weakref import WeakSet
from wsgiref.simple_server import WSGIServer

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, Metric, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

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
    listeners,
)
from seedbed.telemetry.gauges import Gauge

LAG_EVERY_SECONDS = 0.1
"""How often the lag of the event loop is measured."""

_SLOW = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


def prometheus(registry: CollectorRegistry = REGISTRY) -> Listener:
    """The listener that counts in a registry; the same one each time. Default: the registry of the process."""
    return _metrics(registry)


class PrometheusMetrics:
    """The metrics of one registry. Called with an event, it counts it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"seedbed_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"seedbed_{name}", about, labels, registry=registry, buckets=buckets)

        self._runs = histogram("run_seconds", "Time of a whole run", _SLOW, "status")
        self._turns = histogram("turn_seconds", "Time of the model for one answer", _SLOW, "model")
        self._waited = counter("waited_seconds_total", "Time spent on our own rate limits and pauses", "model")
        self._tokens = counter("tokens_total", "Tokens read (prompt) and written (completion)", "model", "kind")
        self._cost = counter("cost_usd_total", "US dollars", "model")
        self._errors = counter("model_errors_total", "Requests that got no answer", "model", "why")
        self._fallbacks = counter("substitutions_total", "Answers of one model in place of another", "asked", "used")
        self._hedged = counter("hedged_total", "Requests sent twice because the answer took long", "model", "won")
        self._tools = histogram("tool_seconds", "Time of a tool", _QUICK + _SLOW[7:], "tool", "failed")
        self._verbs = histogram("verb_seconds", "Time of an evaluation, comparison or search", _SLOW, "verb", "error")
        self._refused = counter("gate_refusals_total", "Releases and promotions that a gate refused", "channel", "gate")
        self._moves = counter("channel_moves_total", "What changed on a channel", "channel", "move")
        self._looks = counter("channel_looks_total", "Looks of the monitor", "channel", "alarmed")
        self._store = counter("store_failures_total", "Facts that the store did not take", "kind")
        self._lag = histogram("loop_lag_seconds", "How late the event loop is", _QUICK)
        self._loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    def __call__(self, event: TelemetryEvent, place: Place) -> None:
        match event:
            case RunStarted():
                self._watch_loop()
            case TurnEnded(model=model):
                self._turns.labels(model).observe(event.latency_seconds)
                self._waited.labels(model).inc(event.waited_seconds)
                self._tokens.labels(model, "prompt").inc(event.prompt_tokens)
                self._tokens.labels(model, "completion").inc(event.completion_tokens)
                self._cost.labels(model).inc(event.cost_usd)
            case RunEnded():
                self._runs.labels(event.status).observe(event.latency_seconds)
            case ModelFailed():
                self._errors.labels(event.model, event.why).inc()
            case Substituted():
                self._fallbacks.labels(event.requested, event.used).inc()
            case Hedged():
                self._hedged.labels(event.model, _yes_no(event.won)).inc()
            case _:
                self._count_decision(event)

    def _count_decision(self, event: TelemetryEvent) -> None:
        match event:
            case ToolEnded():
                self._tools.labels(event.tool, _yes_no(event.failed)).observe(event.seconds)
            case VerbEnded():
                self._verbs.labels(event.verb, event.error).observe(event.seconds)
            case GateRefused():
                self._refused.labels(event.channel, event.gate).inc()
            case ChannelMoved():
                self._moves.labels(event.channel, event.move).inc()
            case ChannelWatched():
                self._looks.labels(event.channel, _yes_no(bool(event.alarms))).inc()
            case StoreFailed():
                self._store.labels(event.kind).inc()

    def _watch_loop(self) -> None:
        """Measure the lag of the running loop from now on, by a timer: it ends with its loop, unlike a task."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops.add(loop)
            self._plan(loop)

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + LAG_EVERY_SECONDS
        loop.call_at(due, self._measure_lag, loop, due)

    def _measure_lag(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._lag.observe(max(loop.time() - due, 0.0))
        if self in listeners:
            self._plan(loop)
        else:
            self._loops.discard(loop)


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


_metrics = cache(PrometheusMetrics)


class GaugeReader(Collector):
    """Gauges that are read when Prometheus asks for them."""

    def __init__(self, read: Callable[[], Iterable[Gauge]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        families: dict[str, GaugeMetricFamily] = {}
        for gauge in self._read():
            family = families.setdefault(
                gauge.name, GaugeMetricFamily(f"seedbed_{gauge.name}", gauge.about, labels=[*gauge.labels])
            )
            family.add_metric([*gauge.labels.values()], gauge.value)
        return families.values()


def serve(read: Callable[[], Iterable[Gauge]], host: str, port: int) -> tuple[WSGIServer, Thread]:
    """Serve these gauges, the figures of this process and those of its runs under /metrics."""
    registry = CollectorRegistry()
    registry.register(GaugeReader(read))
    registry.register(REGISTRY)
    return start_http_server(port, host, registry)
