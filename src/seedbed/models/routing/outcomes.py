"""Outcomes of routing: how each model did at each type of task, and whether routing helped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from seedbed.stats.bandits import LoggedChoice, blind_worth, gain_over_uniform
from seedbed.stats.estimates import Interval, mean_interval
from seedbed.stats.scores import score_interval

ENOUGH = 50
"""How many random choices, or choices of the same information, it takes to say whether routing helps."""


def helps(decisions: Iterable[Mapping[str, Any]], confidence: float = 0.95) -> dict[str, Any]:
    """Whether routed choices scored better than random ones among the same models would have.

    Takes documents of choices with the `score` each led to, and its `run` if several belong to one. Choices without
    a score, and those that could not have fallen on every model that fits (preferred, no other fits, no exploration),
    are left out and counted. It is undecided while they tell less than 50 random choices would: `blind_worth`.
    """
    used: list[LoggedChoice] = []
    runs: list[Hashable] = []
    left_out = 0
    for each in decisions:
        fitting = [one for one in each["considered"] if not one["rejected"]]
        odds = {one["model"]: one["chance"] for one in fitting}
        if each.get("score") is None or len(odds) < 2 or min(odds.values()) <= 0:
            left_out += 1
            continue
        guesses = {one["model"]: one["expected"] for one in fitting}
        used.append(LoggedChoice(each["model"], odds, guesses, each["score"]))
        runs.append(each["run"] if "run" in each else ("no run", len(runs)))
    gain = mean_interval([gain_over_uniform(each) for each in used], runs, confidence)
    blind = blind_worth(used)
    verdict = "undecided"
    if blind >= ENOUGH:
        verdict = "helps" if gain.low > 0 else "hurts" if gain.high < 0 else "undecided"
    routed = math.fsum(each.score for each in used) / len(used) if used else None
    return {
        "verdict": verdict,
        "n": len(used),
        "left_out": left_out,
        "routed": routed,
        "blind": routed - gain.mean if routed is not None else None,
        "gain": _to_json(gain),
        "blind_worth": blind,
    }


def table(outcomes: Iterable[Mapping[str, Any]], decisions: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """One row for every model at every type of task, sorted.

    `share` is the model's share of the choices for that type of task; None without decisions.
    """
    seen: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for each in outcomes:
        seen.setdefault((each["task_type"], each["model"]), []).append(each)
    chosen = Counter((each["task_type"], each["model"]) for each in decisions)
    per_task = Counter(task for task, _ in chosen.elements())
    rows = []
    for task, model in sorted(seen.keys() | chosen.keys()):
        own = seen.get((task, model), [])
        scores = [each["score"] for each in own]
        bounded = all(0 <= score <= 1 for score in scores)
        rows.append(
            {
                "task_type": task,
                "model": model,
                "n": len(own),
                "score": _to_json(score_interval(scores) if bounded else mean_interval(scores)),
                "cost_usd": _mean(each.get("cost_usd") for each in own),
                "latency_seconds": _mean(each.get("latency_seconds") for each in own),
                "share": chosen[task, model] / per_task[task] if per_task[task] else None,
            }
        )
    return rows


def _to_json(interval: Interval) -> dict[str, float | None]:
    """An interval as JSON, which has no word for infinite."""
    values = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
