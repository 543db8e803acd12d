"""Front: which of several playbooks no other beats, when quality, cost, speed and safety all count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from seedbed.errors import SeedbedError, shown
from seedbed.evaluation.intervals import mean_score
from seedbed.evaluation.scorecard import Scorecard, interval_document
from seedbed.stats.arrays import Direction
from seedbed.stats.estimates import Interval
from seedbed.stats.pareto import FrontPosition, standings
from seedbed.storage.store import Digest, Json

RUNS = ("cost_usd", "latency_seconds")
"""What every run records, with or without a metric for it."""


@dataclass(frozen=True)
class Front:
    """Playbooks by several measures at once, and which of them no other surely beats.

    `unscored` says how many cells of each have no score: means leave those out, and may be better for it.
    """

    better: Mapping[str, Direction]
    measured: Mapping[str, Mapping[str, Interval]]
    standings: Mapping[str, FrontPosition]
    playbooks: Mapping[str, Digest]
    unscored: Mapping[str, int]

    @property
    def names(self) -> list[str]:
        """The playbooks on the front, estimated from their intervals."""
        return [name for name, standing in self.standings.items() if standing.on_front]

    def document(self) -> Json:
        return {
            "measures": dict(self.better),
            "front": self.names,
            "playbooks": [
                {
                    "name": name,
                    "playbook": self.playbooks[name],
                    "on_front": standing.on_front,
                    "dominated_by": list(standing.dominated_by),
                    "rank": standing.rank,
                    "unscored": self.unscored[name],
                    "measures": {measure: interval_document(each) for measure, each in self.measured[name].items()},
                }
                for name, standing in self.standings.items()
            ],
        }


def front(cards: Mapping[str, Scorecard]) -> Front:
    """Where each playbook stands by all metrics of its scorecard, by what its runs cost and by how long they took.

    Raises SeedbedError for fewer than two, for other tasks, and for other metrics.
    """
    if len(cards) < 2:
        raise SeedbedError(f"playbooks: found {len(cards)}; expected at least two, to see which of them stand out")
    first_name, first = next(iter(cards.items()))
    for name, card in cards.items():
        if card.tasks.keys() != first.tasks.keys():
            raise SeedbedError(
                f"{name}: found other tasks than those of {first_name}; expected the same. Evaluate both on them"
            )
        if {*card.metrics} != {*first.metrics}:
            raise SeedbedError(f"{name}: found metrics {shown(card.metrics)}; expected {shown(first.metrics)}")
    better: dict[str, Direction] = {name: "lower" if name in first.lower else "higher" for name in first.metrics}
    measured = {name: {metric: card.of(metric).interval for metric in first.metrics} for name, card in cards.items()}
    for measure in RUNS:
        if measure not in better and all(card.runs for card in cards.values()):
            better[measure] = "lower"
            for name, card in cards.items():
                measured[name][measure] = _of_runs(card, measure)
    return Front(
        better,
        measured,
        standings(measured, better),
        {name: card.playbook for name, card in cards.items()},
        {name: sum(len(card.of(metric).unscored) for metric in card.metrics) for name, card in cards.items()},
    )


def _of_runs(card: Scorecard, measure: str) -> Interval:
    """What a run of a task costs, or takes, on average over tasks."""
    runs: dict[str, tuple[str, float]] = {}
    for cell in card.cells:
        if cell.run:
            # Each cell of a run may have the cost of its own judge besides.
            known = runs.get(cell.run, (cell.task, math.inf))[1]
            runs[cell.run] = cell.task, min(known, getattr(cell, measure))
    by_task: dict[str, list[float]] = {}
    for task, value in runs.values():
        by_task.setdefault(task, []).append(value)
    means = [math.fsum(values) / len(values) for values in by_task.values()]
    return mean_score(measure, means, card.sources(by_task))
