from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path


def test_metrics_are_listed_and_served_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "seedbed.yaml").write_text("store: sqlite:///seedbed.db\nquota: {runs_per_day: 7}")
    command = [sys.executable, "-m", "seedbed", "metrics"]
    listed = subprocess.run([*command, "list", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    gauges = json.loads(listed.stdout)["gauges"]
    assert {"name": "quota_limit", "labels": {"of": "runs"}, "value": 7} in gauges
    serving = subprocess.Popen(
        [*command, "serve", "--port", "0", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, env=os.environ
    )
    try:
        assert serving.stdout is not None
        address = json.loads(b"".join(serving.stdout.readline() for _ in range(3)))["address"]
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert "seedbed_quota_runs 0.0" in answer.read().decode()
        serving.send_signal(signal.SIGINT)
        assert serving.wait(20) == 0
    finally:
        serving.kill()
        serving.wait()
