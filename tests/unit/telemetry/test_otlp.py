from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from telemetry_samples import ENDED, FAILED, STARTED, TOOL, TURN, Received, attributes


def test_metrics_and_logs_reach_a_collector_before_the_process_ends(
    tmp_path: Path, collector: tuple[str, Received]
) -> None:
    url, received = collector
    (tmp_path / "seedbed.yaml").write_text(
        f"telemetry: {{metrics: '{url}/v1/metrics', logs: '{url}/v1/logs', level: warning}}"
    )
    script = f"""
from seedbed.settings import Settings
from seedbed.telemetry import *
switch_on(Settings.load("seedbed.yaml", {{}}))
with during("evaluate"), within(run="one"):
    for event in ({STARTED}, {FAILED}, {TURN}, {TOOL}, {ENDED}):
        emit(event)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not done.stderr
    scopes = [scope for each in received["/v1/metrics"] for one in each.resource_metrics for scope in one.scope_metrics]
    metrics = {metric.name: metric for scope in scopes for metric in scope.metrics}
    assert set(metrics) == {
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
        "gen_ai.invoke_agent.duration",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_workflow.duration",
    }
    tokens = metrics["gen_ai.client.token.usage"].histogram.data_points
    assert {attributes(point)["gen_ai.token.type"]: point.sum for point in tokens} == {"input": 70, "output": 5}
    logs = [scope for each in received["/v1/logs"] for one in each.resource_logs for scope in one.scope_logs]
    records = [record for scope in logs for record in scope.log_records]
    assert [record.body.string_value for record in records] == ["model_failed", "tool_ended"]
    assert attributes(records[0])["run"] == "one"
