from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from telemetry_samples import ENDED, FAILED, STARTED, TURN, settings_of

from seedbed.errors import SettingsError
from seedbed.telemetry import Place, TelemetryEvent, emit, listeners, place, switch_on, within


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


def test_events_have_no_room_for_what_was_said() -> None:
    named = {"playbook", "role", "model", "finish_reason", "status", "why", "requested", "used"}
    for kind in get_args(TelemetryEvent):
        texts = {each.name for each in fields(kind) if each.type not in ("int", "float", "bool")}
        assert texts <= named, kind


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
