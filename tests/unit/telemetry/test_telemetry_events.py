from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from telemetry_samples import ENDED, FAILED, STARTED, TURN, settings_of

from seedbed.errors import ReleaseRefused, SettingsError, StoreUnavailable
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.journal import Journal
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, now
from seedbed.telemetry import (
    ChannelMoved,
    GateRefused,
    Place,
    RunEnded,
    RunStarted,
    StoreFailed,
    TelemetryEvent,
    ToolEnded,
    TurnEnded,
    VerbEnded,
    VerbStarted,
    during,
    emit,
    listeners,
    place,
    switch_on,
    within,
)
from seedbed.workspace import Workspace


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
    one = Place(run="one", correlation="one", trace="one")
    assert sorted(failures, key=lambda each: each.step) == [
        replace(one, step="facts", model="model of facts"),
        replace(one, step="logic", model="model of logic"),
    ]
    assert in_run == one
    assert outside == Place()


async def test_a_run_within_a_run_names_its_parent(heard: list[tuple[TelemetryEvent, Place]]) -> None:
    async def child(name: str) -> None:
        with within(run=name):
            emit(STARTED)

    with within(run="parent"), within(step="research", model="large"):
        await asyncio.gather(child("first"), child("second"))
        emit(TURN)
    assert [where for _, where in heard] == [
        Place(run="first", parent="parent", correlation="parent", trace="parent"),
        Place(run="second", parent="parent", correlation="parent", trace="parent"),
        Place(run="parent", step="research", model="large", correlation="parent", trace="parent"),
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


def test_runs_of_a_verb_belong_to_it_and_its_error_is_told(heard: list[tuple[TelemetryEvent, Place]]) -> None:
    def fail() -> None:
        with during("evaluate"), within(run="one"):
            emit(STARTED)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    (began, outside), (_, inside), (ended, _) = heard
    assert began == VerbStarted(verb="evaluate")
    assert isinstance(ended, VerbEnded)
    assert ended.error == "LookupError"
    assert inside.verb == inside.correlation == outside.correlation != ""
    assert inside.run == "one"
    assert place() == Place()


async def test_what_the_store_does_not_take_is_an_event(heard: list[tuple[TelemetryEvent, Place]]) -> None:
    class Full(MemoryStore):
        def append(self, *_: object) -> int:
            raise StoreUnavailable("the disk is full")

    with pytest.raises(StoreUnavailable):
        await Journal(Full()).add(Fact(kind="turn", key="k", subject="s", at=now(), by="ada"))
    assert [event for event, _ in heard] == [StoreFailed(kind="turn", error="StoreUnavailable")]


async def test_a_whole_loop_is_seen(heard: list[tuple[TelemetryEvent, Place]]) -> None:
    def refund(order: str) -> str:
        return "done"

    async def clerk(task: Any, stage: Stage) -> str:
        await stage.call("refund", order="7")
        return str((await stage.ask("writer", "ok")).text)

    cards = {"a": {"use": "scripted", "args": {"replies": {".": "ok"}}}}
    settings = Settings.model_validate(
        {"by": "ada", "models": cards, "channels": {"production": {"require": ["better"]}}}
    )
    space = Workspace(settings, MemoryStore(), tools=[tool(refund, effect="reads")])
    playbook = Playbook.from_document({"roles": {"writer": {"model": "a"}}, "rules": {"allow": ["refund"]}})
    other = Playbook.from_document({"roles": {"writer": {"model": "a", "system": "Say ok."}}})
    await space.evaluate(playbook, Dataset([Task("1", {"q": "?"}, "ok")]), program=clerk)
    await space.release(playbook, to="production", because="first")
    with pytest.raises(ReleaseRefused):
        await space.release(other, to="production", because="next")
    seen = [type(event) for event, _ in heard]
    assert seen == [
        VerbStarted,
        RunStarted,
        ToolEnded,
        TurnEnded,
        RunEnded,
        VerbEnded,
        ChannelMoved,
        GateRefused,
    ]
    turn = next(event for event, _ in heard if isinstance(event, TurnEnded))
    assert (turn.provider, turn.provided) == ("seedbed", "a")


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
    named = {"playbook", "role", "model", "finish_reason", "status", "why", "requested", "used", "provider", "provided"}
    named |= {"tool", "verb", "error", "channel", "gate", "move", "kind", "temperature", "max_tokens"}
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
