"""Estimate: the difference that live runs would show, from many replays and a few live runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.evaluate import all_cells
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.experiments.experiment import Unit, budget_spent, drawn, expect_score
from seedbed.experiments.replay.coverage import ReplayedRuns
from seedbed.experiments.replay.fidelity import adjust_with_live
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.arrays import Direction
from seedbed.stats.estimates import Interval
from seedbed.stats.scores import difference_interval
from seedbed.storage.store import Digest, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How much live runs of the candidate would differ from those of the control: candidate minus control.

    It is not a verdict: nothing was registered, and no gate accepts it.
    """

    control: Digest
    candidate: Digest
    metric: str
    better: Direction
    difference: Interval
    """The estimate from replays and live runs together."""
    replays_alone: Interval
    """The difference of the replays alone, which may be wrong."""
    live_alone: Interval
    replayed: int
    """Tasks that were replayed, or sources where tasks share them; `live` counts those that were also run live."""
    live: int
    weight: float
    """The weight of the replays, from 0 to 1."""
    worth: float
    """How many times as many live runs it would take without replays; NaN if unknown."""
    failed: int
    """Runs that failed or got no score; they count with the worst score."""
    spent_usd: float

    @property
    def says(self) -> str:
        """`better`, `worse`, or `open` where the interval holds 0."""
        low, high = self.difference.low, self.difference.high
        if self.better == "lower":
            low, high = -high, -low
        return "better" if low > 0 else "worse" if high < 0 else "open"

    def document(self) -> Json:
        document = asdict(self)
        for name in ("difference", "replays_alone", "live_alone"):
            each: Interval = getattr(self, name)
            document[name] = {"mean": known(each.mean), "low": known(each.low), "high": known(each.high)}
        return {"kind": "estimate", **document, "worth": known(self.worth), "says": self.says}


def known(number: float) -> float | None:
    """The number, or None where JSON has no such number."""
    return number if math.isfinite(number) else None


async def estimate_difference(
    control: Playbook,
    candidate: Playbook,
    replays: ReplayedRuns,
    metric: Metric,
    context: EvaluationContext,
    *,
    live_runs: int,
    seed: int = 0,
) -> Estimate:
    """Score all replays of both playbooks, and run `live_runs` of their tasks live, drawn at random (PPI++).

    Tasks of one source are drawn together and count as one. Tools of live runs may change the world. Raises
    BudgetSpent; run it again with more, and what was paid is not paid twice.
    """
    units = drawn(replays.tasks, seed)
    some = units[: min(live_runs, len(units))]
    arms = (control, candidate)
    replayed = [await _scores(arm, units, metric, replays.context) for arm in arms]
    lived = [await _scores(arm, some, metric, context) for arm in arms]
    cheap, true = _differences(*replayed), _differences(*lived)
    adjusted, alone = adjust_with_live(cheap, true), difference_interval(list(true.values()))
    return Estimate(
        control=control.digest,
        candidate=candidate.digest,
        metric=metric.name,
        better=better(metric),
        difference=adjusted.interval.within(-1.0, 1.0) if adjusted.weight else alone,
        replays_alone=difference_interval(list(cheap.values())),
        live_alone=alone,
        replayed=len(units),
        live=len(some),
        weight=adjusted.weight,
        worth=adjusted.worth,
        failed=sum(each.failed for each in (*replayed, *lived)),
        spent_usd=context.ledger.spent_usd,
    )


@dataclass(frozen=True, slots=True)
class _Scored:
    means: Mapping[str, float]
    """The mean score of each unit, by the id of its first task."""
    failed: int


async def _scores(playbook: Playbook, units: Sequence[Unit], metric: Metric, context: EvaluationContext) -> _Scored:
    ledger = context.ledger
    tasks = [task for unit in units for task in unit]
    async with context.present():
        cells = await all_cells(playbook, [(task, 0) for task in tasks], [metric], context)
    for cell in cells:
        expect_score(metric.name, cell)
    worst = float(better(metric) == "lower")
    values = {task.id: cell.value for task, cell in zip(tasks, cells, strict=True)}
    if ledger.is_short and None in values.values():
        raise budget_spent(ledger, "before all runs were scored")

    def score(task: Task) -> float:
        value = values[task.id]
        return worst if value is None else value

    means = {unit[0].id: math.fsum(map(score, unit)) / len(unit) for unit in units}
    return _Scored(means, sum(value is None for value in values.values()))


def _differences(control: _Scored, candidate: _Scored) -> dict[str, float]:
    return {name: candidate.means[name] - score for name, score in control.means.items()}
