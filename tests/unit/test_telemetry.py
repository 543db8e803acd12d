from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry, start_http_server

from seedbed.errors import SettingsError
from seedbed.settings import Settings
from seedbed.telemetry import (
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
    switch_on,
    within,
)
from seedbed.telemetry.logs import json_logs
from seedbed.telemetry.metrics import LAG_EVERY_SECONDS, prometheus

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"

STARTED = RunStarted(playbook="b2:00")
TURN = TurnEnded(
    role="critic",
    model="large",
    prompt_tokens=70,
    completion_tokens=5,
    cost_usd=0.25,
    latency_seconds=1.5,
    waited_seconds=0.5,
    finish_reason="stop",
)
ENDED = RunEnded(status="completed", turns=1, tokens=75, cost_usd=0.25, latency_seconds=2.0)
FAILED = ModelFailed(model="small", why="rate", seconds=0.125)
SUBSTITUTED = Substituted(requested="small", used="large")
ALL: tuple[TelemetryEvent, ...] = (STARTED, FAILED, SUBSTITUTED, TURN, ENDED)


@pytest.fixture(autouse=True)
def _nobody_listens_afterwards() -> Iterator[None]:
    before = list(listeners)
    yield
    listeners[:] = before


@pytest.fixture
def heard() -> list[tuple[TelemetryEvent, Place]]:
    told: list[tuple[TelemetryEvent, Place]] = []
    listeners.append(lambda event, place: told.append((event, place)))
    return told


# Off


def test_nothing_is_loaded_or_told_unless_somebody_listens() -> None:
    script = """
import sys
from seedbed.settings import Settings
from seedbed.telemetry import RunStarted, emit, listeners, place, switch_on, within
switch_on(Settings())
with within(run="r"):
    emit(RunStarted(playbook="p"))
    assert not place().run
assert not listeners
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"prometheus_client", "opentelemetry"}.isdisjoint(name.partition(".")[0] for name in done.stdout.split())
    assert not done.stderr


# Where we are


async def test_what_runs_side_by_side_is_told_apart(heard: list[tuple[TelemetryEvent, Place]]) -> None:
    both_inside = asyncio.Barrier(2)

    async def step(name: str) -> None:
        with within(step=name, model=f"model of {name}"):
            await both_inside.wait()
            await asyncio.create_task(fail())

    async def fail() -> None:
        emit(FAILED)

    with within(run="one"):
        await asyncio.gather(step("facts"), step("logic"))
        emit(ENDED)
    emit(ENDED)
    *failures, in_run, outside = [where for _, where in heard]
    assert sorted(failures, key=lambda each: each.step) == [
        Place(run="one", step="facts", model="model of facts"),
        Place(run="one", step="logic", model="model of logic"),
    ]
    assert in_run == Place(run="one")
    assert outside == Place()


async def test_a_run_within_a_run_names_its_parent(heard: list[tuple[TelemetryEvent, Place]]) -> None:
    async def child(name: str) -> None:
        with within(run=name):
            emit(STARTED)

    with within(run="parent"), within(step="research", model="large"):
        await asyncio.gather(child("first"), child("second"))
        emit(TURN)
    assert [where for _, where in heard] == [
        Place(run="first", parent="parent"),
        Place(run="second", parent="parent"),
        Place(run="parent", step="research", model="large"),
    ]


async def test_a_block_may_end_in_another_task_than_it_began_in(heard: list[tuple[TelemetryEvent, Place]]) -> None:
    @asynccontextmanager
    async def recording() -> AsyncIterator[None]:
        with within(run="one"):
            emit(STARTED)
            yield
            emit(ENDED)

    block = recording()
    await asyncio.create_task(block.__aenter__())
    await asyncio.create_task(block.__aexit__(None, None, None))
    assert len(heard) == 2
    assert place() == Place()


def test_a_listener_that_fails_is_taken_off_and_nobody_else_notices(
    heard: list[tuple[TelemetryEvent, Place]], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: TelemetryEvent, place: Place) -> None:
        raise OSError("the disk is full")

    listeners.insert(0, broken)
    emit(STARTED)
    emit(ENDED)
    assert [event for event, _ in heard] == [STARTED, ENDED]
    assert caplog.text.count("OSError: the disk is full") == 1


# Logs


def test_every_event_is_one_line_of_json_with_its_place() -> None:
    stream = io.StringIO()
    listeners.append(json_logs(stream))
    with within(run="child"), within(step="facts", model="small"):
        for event in ALL:
            emit(event)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [
        "run_started",
        "model_failed",
        "substituted",
        "turn_ended",
        "run_ended",
    ]
    assert all(line["run"] == "child" and line["step"] == "facts" for line in lines)
    assert all(line["time"].endswith("+00:00") for line in lines)
    assert lines[3] | {"time": ""} == {
        "time": "",
        "event": "turn_ended",
        "run": "child",
        "step": "facts",
        "role": "critic",
        "model": "large",
        "prompt_tokens": 70,
        "completion_tokens": 5,
        "cost_usd": 0.25,
        "latency_seconds": 1.5,
        "waited_seconds": 0.5,
        "finish_reason": "stop",
    }


def test_events_have_no_room_for_what_was_said() -> None:
    named = {"playbook", "role", "model", "finish_reason", "status", "why", "requested", "used"}
    for kind in get_args(TelemetryEvent):
        texts = {each.name for each in fields(kind) if each.type not in ("int", "float", "bool")}
        assert texts <= named, kind


def test_the_file_of_the_logs_is_seen_from_the_workspace_and_written_once(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "logs: told.jsonl")
    switch_on(settings)
    switch_on(settings)
    emit(STARTED)
    assert [json.loads(line)["event"] for line in (tmp_path / "told.jsonl").read_text().splitlines()] == ["run_started"]


def test_logs_that_are_merely_wished_for_go_to_the_error_stream(tmp_path: Path) -> None:
    (tmp_path / "seedbed.yaml").write_text("telemetry: {logs: true}")
    script = """
from seedbed.settings import Settings
from seedbed.telemetry import RunStarted, emit, switch_on
switch_on(Settings.load("seedbed.yaml", {}))
emit(RunStarted(playbook="p"))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stderr)["playbook"] == "p"
    assert not done.stdout


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"telemetry\.logs: found .*absent"):
        switch_on(settings_of(tmp_path, "logs: absent/told.jsonl"))


# Metrics


def test_prometheus_scrapes_what_the_docs_name() -> None:
    registry = CollectorRegistry()
    listeners.append(prometheus(registry))

    async def tell() -> None:
        with within(run="one"):
            for event in ALL:
                emit(event)

    asyncio.run(tell())
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    exposed = {name for name in re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE) if not name.endswith("_created")}
    assert exposed == set(re.findall(r"`(seedbed_\w+)", PAGE.read_text()))
    for line in (
        'seedbed_run_seconds_count{status="completed"} 1.0',
        'seedbed_turn_seconds_sum{model="large"} 1.5',
        'seedbed_waited_seconds_total{model="large"} 0.5',
        'seedbed_tokens_total{kind="prompt",model="large"} 70.0',
        'seedbed_tokens_total{kind="completion",model="large"} 5.0',
        'seedbed_cost_usd_total{model="large"} 0.25',
        'seedbed_model_errors_total{model="small",why="rate"} 1.0',
        'seedbed_substitutions_total{asked="small",used="large"} 1.0',
    ):
        assert line in text.splitlines(), line


def test_metrics_are_registered_once_however_many_workspaces_are_opened(tmp_path: Path) -> None:
    before = len(listeners)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        switch_on(settings_of(tmp_path / name, "metrics: true"))
    assert len(listeners) == before + 1


async def test_a_loop_that_is_held_up_is_seen_to_lag() -> None:
    registry = CollectorRegistry()
    listeners.append(prometheus(registry))
    emit(STARTED)
    held = 3 * LAG_EVERY_SECONDS
    time.sleep(held)  # what a program must not do
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert registry.get_sample_value("seedbed_loop_lag_seconds_count") == 1
    assert (registry.get_sample_value("seedbed_loop_lag_seconds_sum") or 0) >= held - LAG_EVERY_SECONDS


# Spans


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """The URL of an OTLP receiver, and what it has received."""
    received: list[ExportTraceServiceRequest] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf":
                received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    server.shutdown()
    server.server_close()
    thread.join()


def test_spans_reach_a_collector_before_the_process_ends(
    tmp_path: Path, collector: tuple[str, list[ExportTraceServiceRequest]]
) -> None:
    url, received = collector
    (tmp_path / "seedbed.yaml").write_text(f"telemetry: {{spans: '{url}'}}")
    script = f"""
from seedbed.settings import Settings
from seedbed.telemetry import *
switch_on(Settings.load("seedbed.yaml", {{}}))
with within(run="parent"):
    emit({STARTED})
    with within(run="child"):
        emit({STARTED})
        with within(step="facts", model="small"):
            emit({FAILED})
            emit({SUBSTITUTED})
            emit({TURN})
        emit({RunEnded(status="failed", turns=1, tokens=75, cost_usd=0.25, latency_seconds=2.0)})
    emit({ENDED})
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not done.stderr
    spans = [each for got in received for one in got.resource_spans for two in one.scope_spans for each in two.spans]
    told = {(span.name, attributes(span)["gen_ai.conversation.id"]): span for span in spans}
    parent, child = told["invoke_agent", "parent"], told["invoke_agent", "child"]
    failed, answered = told["chat small", "child"], told["chat large", "child"]
    assert len(spans) == 4
    assert not parent.parent_span_id
    assert child.parent_span_id == parent.span_id
    assert failed.parent_span_id == answered.parent_span_id == child.span_id
    assert len({span.trace_id for span in spans}) == 1
    assert attributes(answered) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "seedbed",
        "gen_ai.request.model": "large",
        "gen_ai.response.model": "large",
        "gen_ai.conversation.id": "child",
        "gen_ai.agent.name": "critic",
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ["stop"],
        "seedbed.step": "facts",
        "seedbed.cost_usd": 0.25,
        "seedbed.waited_seconds": 0.5,
    }
    assert answered.end_time_unix_nano - answered.start_time_unix_nano == 1_500_000_000
    assert attributes(failed)["error.type"] == "rate"
    assert failed.status.code == child.status.code == 2
    assert parent.status.code != 2
    assert [event.name for event in child.events] == ["seedbed.substituted"]
    assert attributes(child)["gen_ai.agent.id"] == "b2:00"


def attributes(thing: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        held = getattr(value, kind)
        return [plain(each) for each in held.values] if kind == "array_value" else held

    return {each.key: plain(each.value) for each in thing.attributes}


# What is missing


@pytest.mark.parametrize(
    ("setting", "module", "extra"),
    [
        ("metrics: true", "prometheus_client", "metrics"),
        ("spans: 'http://127.0.0.1:9/v1/traces'", "opentelemetry.sdk.trace", "otel"),
    ],
)
def test_a_missing_package_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"seedbed.telemetry.{setting.partition(':')[0]}", raising=False)
    with pytest.raises(SettingsError, match=rf"telemetry\.\w+: found no package .*seedbed\[{extra}\]"):
        switch_on(settings_of(tmp_path, setting))
    assert not listeners


def settings_of(folder: Path, telemetry: str) -> Settings:
    path = folder / "seedbed.yaml"
    path.write_text(f"telemetry: {{{telemetry}}}")
    return Settings.load(path, {})
