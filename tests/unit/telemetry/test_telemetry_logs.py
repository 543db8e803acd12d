from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from telemetry_samples import ALL, OTHERS, STARTED, settings_of

from seedbed.errors import SettingsError
from seedbed.telemetry import emit, listeners, switch_on, within
from seedbed.telemetry.events import LogLevel
from seedbed.telemetry.logs import json_logs


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
        "tool_ended",
        "run_ended",
    ]
    assert [line["level"] for line in lines] == ["info", "warning", "warning", "info", "warning", "info"]
    assert all(line["correlation_id"] == line["trace_id"] == "child" for line in lines)
    assert all(line["run"] == "child" and line["step"] == "facts" for line in lines)
    assert all(line["timestamp"].endswith("+00:00") for line in lines)
    assert lines[3] | {"timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "turn_ended",
        "correlation_id": "child",
        "trace_id": "child",
        "run": "child",
        "step": "facts",
        "role": "critic",
        "model": "large",
        "provider": "openai",
        "provided": "gpt-large",
        "temperature": 0.5,
        "seed": 7,
        "prompt_tokens": 70,
        "completion_tokens": 5,
        "cost_usd": 0.25,
        "latency_seconds": 1.5,
        "waited_seconds": 0.5,
        "finish_reason": "stop",
    }


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


@pytest.mark.parametrize(("least", "count"), [("debug", 7), ("info", 6), ("warning", 3), ("error", 1)])
def test_what_is_less_serious_is_left_out(least: LogLevel, count: int) -> None:
    stream = io.StringIO()
    listeners.append(json_logs(stream, least))
    for event in OTHERS:
        emit(event)
    assert len(stream.getvalue().splitlines()) == count


def test_a_line_names_the_trace_that_was_under_way() -> None:
    tracer = TracerProvider().get_tracer("mine")
    stream = io.StringIO()
    listeners.append(json_logs(stream))
    with tracer.start_as_current_span("request") as span, within(run="one"):
        emit(STARTED)
    line = json.loads(stream.getvalue())
    assert (line["correlation_id"], line["trace_id"]) == ("one", f"{span.get_span_context().trace_id:032x}")
