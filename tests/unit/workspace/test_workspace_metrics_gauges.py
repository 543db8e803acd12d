"""Gauges: what channels serve and how it is rated, what waits for people, and what was spent."""

from __future__ import annotations

import urllib.request

import pytest
from loop_samples import agent
from workspace_samples import in_memory

from seedbed.errors import SettingsError


async def test_gauges_show_ratings_by_arm_and_what_was_spent() -> None:
    space = in_memory(quota={"usd_per_day": 500})
    await space.release(agent(".*"), to="production", because="first")
    for number, rating in enumerate((1.0, 0.5)):
        run = await space.run("production", key=f"user {number}", n=3)
        space.feedback(run, 0.0)
        space.feedback(run, rating)  # the newest counts
    values = {(each.name, *each.labels.values()): each.value for each in space.metrics.gauges()}
    assert values["rating", "production", "stable", "rating"] == 0.75
    assert values["ratings", "production", "stable", "rating"] == 2
    assert values["canary_share", "production"] == values["channel_frozen", "production"] == 0
    assert values["quota_runs",] == 2
    assert values["quota_limit", "usd"] == 500
    assert values["waiting", "questions"] == 0


def test_prometheus_reads_gauges_and_the_figures_of_the_process() -> None:
    space = in_memory()
    with space.metrics.serve(port=0) as address:
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        port = int(address.split(":")[2].split("/")[0])
        with pytest.raises(SettingsError, match="expected a free port"), space.metrics.serve(port=port):
            pass
    assert 'seedbed_waiting{for="questions"} 0.0' in text
    assert "process_cpu_seconds_total" in text
