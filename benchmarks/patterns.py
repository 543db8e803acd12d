"""How often patterns are found in runs where there are none, and how often where there is one.

    python benchmarks/patterns.py [--datasets 2000]

Each dataset is made up: tasks of six words out of thirty, two tags, runs of one to five turns, tool errors in three of
ten, scores of 0 and 1. In the first table scores depend on nothing, or only on the source of the task, whose tasks
share their words. A finding there is there by luck: the promise is one in twenty datasets, at most. "Without sources"
is what becomes of it if nobody says which tasks share a source.

In the second table runs pass with a chance of 0.8, and of so much less under one condition.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))

from pattern_samples import scored

from seedbed.experiments.patterns.patterns import Patterns, find_patterns
from seedbed.experiments.patterns.traits import ScoredRun
from seedbed.stats.estimates import exact_rate


def smooth(runs: list[ScoredRun], seed: int) -> list[ScoredRun]:
    """The same runs with scores between 0 and 1, few of them low."""
    draw = random.Random(seed)
    return [replace(each, score=draw.betavariate(5, 1)) for each in runs]


def without_sources(runs: list[ScoredRun]) -> list[ScoredRun]:
    return [replace(each, task=replace(each.task, source="")) for each in runs]


def noise(name: str, seed: int) -> list[ScoredRun]:
    match name:
        case "40 tasks":
            return scored(seed, 40)
        case "120 tasks":
            return scored(seed, 120)
        case "120 tasks, nine in ten pass":
            return scored(seed, 120, chance=lambda *_: 0.9)
        case "120 tasks, scores between 0 and 1":
            return smooth(scored(seed, 120), seed)
        case "60 tasks, three runs each":
            return scored(seed, 60, replicates=3)
    shared = scored(seed, 200, sources=40, source_spread=0.4, topics=True, chance=lambda *_: 0.5)
    return shared if name == SOURCES else without_sources(shared)


SOURCES, FOOLED = "200 tasks of 40 sources that differ", "the same, without sources"
NOISE = ("40 tasks", "120 tasks", "120 tasks, nine in ten pass", "120 tasks, scores between 0 and 1")
NOISE += ("60 tasks, three runs each", SOURCES, FOOLED)


def lucky(datasets: int) -> None:
    print("| nothing to find | datasets | with a finding | share, 95 % exact |")
    print("|---|---:|---:|---:|")
    for name in NOISE:
        hits = sum(bool(find_patterns(noise(name, seed), "m").findings) for seed in range(datasets))
        rate = exact_rate(hits, datasets)
        print(f"| {name} | {datasets:,} | {hits} | {rate.mean:.3f} ({rate.low:.3f} to {rate.high:.3f}) |", flush=True)


def planted(tasks: int, less: float, datasets: int) -> Iterator[Patterns]:
    for seed in range(datasets):
        yield find_patterns(scored(seed, tasks, chance=lambda task, _: 0.8 - less * ("red" in task.tags)), "m")


def power(datasets: int) -> None:
    print("\n| tasks | less for tasks tagged red (0.4 of them) | found | something else besides |")
    print("|---:|---:|---:|---:|")
    for tasks in (60, 120, 240, 480):
        for less in (0.2, 0.4, 0.6):
            told = [
                [each.condition for each in found.findings if each.condition != 'at tasks tagged "red"']
                + ["red"] * any(each.condition == 'at tasks tagged "red"' for each in found.findings)
                for found in planted(tasks, less, datasets)
            ]
            hit = sum("red" in each for each in told) / datasets
            more = sum(any(name != "red" for name in each) for each in told) / datasets
            print(f"| {tasks} | {less} | {hit:.0%} | {more:.1%} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=2000)
    many = parser.parse_args().datasets
    lucky(many)
    power(max(1, many // 10))
