"""One event of each kind, and settings with a telemetry section."""

from __future__ import annotations

from pathlib import Path

from seedbed.settings import Settings
from seedbed.telemetry import ModelFailed, RunEnded, RunStarted, Substituted, TelemetryEvent, TurnEnded

STARTED = RunStarted(playbook="b2:00")
TURN = TurnEnded(
    role="critic",
    model="large",
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
ALL: tuple[TelemetryEvent, ...] = (STARTED, FAILED, SUBSTITUTED, TURN, ENDED)


def settings_of(folder: Path, telemetry: str) -> Settings:
    path = folder / "seedbed.yaml"
    path.write_text(f"telemetry: {{{telemetry}}}")
    return Settings.load(path, {})
