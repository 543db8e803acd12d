from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from telemetry_samples import Received

from seedbed.telemetry import Place, TelemetryEvent, listeners


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


KINDS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


@pytest.fixture
def collector() -> Iterator[tuple[str, Received]]:
    """The address of an OTLP receiver, and what it has received, by path."""
    received: Received = defaultdict(list)

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Type"] == "application/x-protobuf":
                received[self.path].append(KINDS[self.path].FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()
    thread.join()
