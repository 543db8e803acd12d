"""The speed of models, from recorded turns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from seedbed.runs.history import LATEST_TURNS, model_speeds
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact


def turn(model: str, seconds: float, tokens: int = 10) -> dict[str, Any]:
    return {"model": model, "latency_seconds": seconds, "completion_tokens": tokens}


def stored(turns: Sequence[dict[str, Any]]) -> MemoryStore:
    store, at = MemoryStore(), datetime(2026, 1, 1, tzinfo=UTC)
    for number, body in enumerate(turns):
        store.append([Fact(kind="turn", key=str(number), subject="r", at=at, by="ann", body=body)])
    return store


def test_each_model_has_its_median_its_slowest_and_its_tokens_a_second() -> None:
    turns = [turn("fast", 0.1 * number) for number in range(1, 101)] + [turn("slow", 9.0, 90)]
    speeds = model_speeds(stored(turns))
    assert speeds["fast"] == {
        "turns": 100,
        "median_seconds": pytest.approx(5.05),
        "slowest_seconds": 9.5,
        "tokens_per_second": 1000 / sum(0.1 * number for number in range(1, 101)),
    }
    assert speeds["slow"]["tokens_per_second"] == 10.0


def test_a_model_that_takes_no_time_has_no_rate() -> None:
    assert model_speeds(stored([turn("instant", 0.0)]))["instant"]["tokens_per_second"] is None


def test_only_the_newest_turns_count() -> None:
    store = stored([turn("m", seconds) for seconds in [100.0] * 50 + [1.0] * LATEST_TURNS])
    assert model_speeds(store)["m"]["slowest_seconds"] == 1.0
