"""One event of each kind, and settings with a telemetry section."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from seedbed.settings import Settings
from seedbed.telemetry import (
    ChannelMoved,
    ChannelWatched,
    GateRefused,
    Hedged,
    ModelFailed,
    RunEnded,
    RunStarted,
    StoreFailed,
    Substituted,
    TelemetryEvent,
    ToolEnded,
    TurnEnded,
    VerbEnded,
    VerbStarted,
)

Received: TypeAlias = dict[str, list[Any]]

STARTED = RunStarted(playbook="b2:00")
TURN = TurnEnded(
    role="critic",
    model="large",
    provider="openai",
    provided="gpt-large",
    temperature=0.5,
    max_tokens=None,
    seed=7,
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
TOOL = ToolEnded(tool="refund", seconds=0.25, failed=True)
ALL: tuple[TelemetryEvent, ...] = (STARTED, FAILED, SUBSTITUTED, TURN, TOOL, ENDED)
OTHERS: tuple[TelemetryEvent, ...] = (
    Hedged(model="small", after_seconds=2.0, won=True),
    VerbStarted(verb="evaluate"),
    VerbEnded(verb="evaluate", seconds=60.0),
    GateRefused(channel="production", gate="better"),
    ChannelMoved(channel="production", move="rollback", playbook="b2:00"),
    ChannelWatched(channel="production", alarms=1, moved=True),
    StoreFailed(kind="turn", error="StoreUnavailable"),
)


def settings_of(folder: Path, telemetry: str) -> Settings:
    path = folder / "seedbed.yaml"
    path.write_text(f"telemetry: {{{telemetry}}}")
    return Settings.load(path, {})


def attributes(thing: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        held = getattr(value, kind)
        return [plain(each) for each in held.values] if kind == "array_value" else held

    return {each.key: plain(each.value) for each in thing.attributes}
