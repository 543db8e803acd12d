from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from telemetry_samples import ENDED, FAILED, STARTED, SUBSTITUTED, TURN

from seedbed.telemetry import RunEnded


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
