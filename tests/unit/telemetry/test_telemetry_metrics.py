from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from telemetry_samples import ALL, OTHERS, STARTED, settings_of

from seedbed.telemetry import emit, listeners, switch_on, within
from seedbed.telemetry.metrics import LAG_EVERY_SECONDS, prometheus

GAUGES = {"canary_share", "channel_frozen", "attempts", "rating", "ratings", "waiting", "quota_runs", "quota_usd"}
GAUGES |= {"quota_limit"}
PAGE = Path(__file__).parents[3] / "docs" / "telemetry.md"


def test_prometheus_scrapes_what_the_docs_name() -> None:
    registry = CollectorRegistry()
    listeners.append(prometheus(registry))

    async def tell() -> None:
        with within(run="one"):
            for event in (*ALL, *OTHERS):
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
    events, gauges = PAGE.read_text().split("### Gauges")
    assert exposed == set(re.findall(r"`(seedbed_\w+)", events))
    assert set(re.findall(r"`seedbed_(\w+)", gauges)) == GAUGES
    for line in (
        'seedbed_run_seconds_count{status="completed"} 1.0',
        'seedbed_turn_seconds_sum{model="large"} 1.5',
        'seedbed_waited_seconds_total{model="large"} 0.5',
        'seedbed_tokens_total{kind="prompt",model="large"} 70.0',
        'seedbed_tokens_total{kind="completion",model="large"} 5.0',
        'seedbed_cost_usd_total{model="large"} 0.25',
        'seedbed_model_errors_total{model="small",why="rate"} 1.0',
        'seedbed_substitutions_total{asked="small",used="large"} 1.0',
        'seedbed_tool_seconds_count{failed="yes",tool="refund"} 1.0',
        'seedbed_verb_seconds_sum{error="",verb="evaluate"} 60.0',
        'seedbed_gate_refusals_total{channel="production",gate="better"} 1.0',
        'seedbed_channel_moves_total{channel="production",move="rollback"} 1.0',
        'seedbed_channel_looks_total{alarmed="yes",channel="production"} 1.0',
        'seedbed_store_failures_total{kind="turn"} 1.0',
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
