"""Runs with scores, made up: of which tasks, with which words, and what the score depends on."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from seedbed.evaluation.datasets.dataset import Task
from seedbed.experiments.patterns.traits import ScoredRun
from seedbed.runs.run import Call, Run, Turn

VOCABULARY = [f"word{n}" for n in range(30)]

Chance = Callable[[Task, Run], float]
"""How likely a run is to pass."""


def run(name: str, inputs: dict[str, Any], *, turns: int = 1, tool_error: bool = False, **more: Any) -> Run:
    turn = Turn(
        step="answer",
        role="writer",
        model=more.pop("model", "small"),
        messages=(("user", "Go"),),
        text="yes",
        prompt_tokens=10,
        completion_tokens=2,
        cost_usd=0.001,
        latency_seconds=0.1,
        finish_reason="stop",
        seed=0,
    )
    call = Call(tool="search", arguments={}, result=None, error="down", changes=False, latency_seconds=0.1)
    given: dict[str, Any] = {
        "id": name,
        "playbook": "b2:" + "0" * 64,
        "inputs": inputs,
        "seed": 0,
        "started": datetime(2026, 1, 1, tzinfo=UTC),
        "status": "completed",
        "output": "yes",
        "error": "",
        "turns": (turn,) * turns,
        "tokens": 12 * turns,
        "cost_usd": 0.001 * turns,
        "latency_seconds": 0.1,
        "models": {},
        "calls": (call,) if tool_error else (),
    }
    return Run(**{**given, **more})


def scored(
    seed: int,
    tasks: int = 120,
    *,
    chance: Chance = lambda task, run: 0.6,
    replicates: int = 1,
    sources: int = 0,
    source_spread: float = 0.0,
    topics: bool = False,
) -> list[ScoredRun]:
    """Runs that pass or fail by chance, at tasks with random words, tags, turns and tool errors.

    With `sources` each task has one of so many, which moves its chance by up to the spread; with `topics` the tasks of
    a source share their words.
    """
    draw = random.Random(seed)
    moved = [draw.uniform(-source_spread, source_spread) for _ in range(sources)]
    themes = [draw.sample(VOCABULARY, 6) for _ in range(sources)]
    found = []
    for number in range(tasks):
        source = draw.randrange(sources) if sources else -1
        words = themes[source] if topics and sources else draw.sample(VOCABULARY, 6)
        tags = tuple(tag for tag in ("red", "blue") if draw.random() < 0.4)
        inputs = {"text": f"{' '.join(words)} n{seed}x{number}"}
        task = Task(f"t{number}", inputs, tags=tags, source=f"s{source}" if sources else "")
        for replicate in range(replicates):
            made = run(
                f"{seed:04x}{number:04x}{replicate:04x}",
                inputs,
                turns=draw.randint(1, 5),
                tool_error=draw.random() < 0.3,
                latency_seconds=draw.random(),
            )
            likely = chance(task, made) + (moved[source] if sources else 0.0)
            found.append(ScoredRun(made, float(draw.random() < likely), task))
    return found
