"""Recorded turns tell how fast models were."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from seedbed.runs.history import LATEST_TURNS, model_speeds, speeds
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact


def turn(model: str, seconds: float, tokens: int = 10) -> dict[str, Any]:
    return {"model": model, "latency_seconds": seconds, "completion_tokens": tokens}


def test_each_model_has_its_median_its_slowest_and_its_tokens_a_second() -> None:
    turns = [turn("fast", 0.1 * number) for number in range(1, 101)] + [turn("slow", 9.0, 90)]
    told = speeds(turns)
    assert told["fast"] == {
        "turns": 100,
        "median_seconds": pytest.approx(5.05),
        "slowest_seconds": 9.5,
        "tokens_per_second": 1000 / sum(0.1 * number for number in range(1, 101)),
    }
    assert told["slow"]["tokens_per_second"] == 10.0


def test_a_model_that_takes_no_time_has_no_rate() -> None:
    assert speeds([turn("instant", 0.0)])["instant"]["tokens_per_second"] is None


def test_only_the_newest_turns_count() -> None:
    store, at = MemoryStore(), datetime(2026, 1, 1, tzinfo=UTC)
    for number, seconds in enumerate([100.0] * 50 + [1.0] * LATEST_TURNS):
        body = turn("m", seconds)
        store.append([Fact(kind="turn", key=str(number), subject="r", at=at, by="ann", body=body)])
    assert model_speeds(store)["m"]["slowest_seconds"] == 1.0
