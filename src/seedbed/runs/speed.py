"""How quick models were, by the turns on record."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seedbed.storage.store import Json, Query, Store

LOOKED_AT = 2_000
"""Older turns than so many say little about today."""


def measured(store: Store) -> dict[str, Json]:
    """Each model's median latency, the one that 95 of 100 turns stay within, and the tokens it wrote a second."""
    return speeds(fact.body for fact in store.facts(Query(kind="turn", newest=True, limit=LOOKED_AT)))


def speeds(turns: Iterable[Mapping[str, Any]]) -> dict[str, Json]:
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for turn in turns:
        by_model.setdefault(turn["model"], []).append(turn)
    return {name: _speed(own) for name, own in by_model.items()}


def _speed(turns: Sequence[Mapping[str, Any]]) -> Json:
    seconds = sorted(turn["latency_seconds"] for turn in turns)
    total = sum(seconds)
    return {
        "turns": len(turns),
        "median_seconds": statistics.median(seconds),
        "slowest_seconds": seconds[math.ceil(0.95 * len(seconds)) - 1],
        "tokens_per_second": sum(turn["completion_tokens"] for turn in turns) / total if total else None,
    }
