"""Confirmation: the result of a search on tasks that it has not seen, and how many it takes to believe it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.identity import unit_of
from seedbed.evaluation.intervals import mean_gain, mean_score
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.evolution.pool import Pool
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Json

RESAMPLES = 200

CHOOSING = 20
"""The best of a search is chosen on at least this many units: tasks, or sources that several tasks share. One chosen on
fewer, because there are no more, is reported, but counts as not confirmed."""

CONFIRMING = 10
"""A gain is confirmed on at least this many units. On fewer, a handful of lucky tasks without any spread would do."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Scores on the confirm tasks, which are used once, after the search has chosen: they are free of selection bias.

    `gain` is that of the best over the start. `over_best_of_n` is the gain over the best of the variations of the start
    that were made without learning. Scores are as the metric gives them; a positive gain is an improvement. `units` is
    how many of the tasks tell something of their own; None if that was not recorded.
    """

    tasks: int
    start: Interval
    best: Interval
    gain: Interval
    best_of_n: Interval | None = None
    over_best_of_n: Interval | None = None
    units: int | None = None

    @property
    def doubt(self) -> str:
        """Why the gain is not confirmed, and what to do; empty if it is. The interval of a gain that is excludes 0."""
        units = self.tasks if self.units is None else self.units
        if not self.gain.mean > 0:
            return "On new tasks it gains nothing."
        if units < CONFIRMING:
            return f"{units} new tasks are too few to confirm a gain; that takes at least {CONFIRMING}."
        return "" if self.gain.low > 0 else "That may be chance: use more tasks to find out."

    def within(self, least: float, most: float) -> Confirmation:
        """The same, cut at the least and the most that a score can be: for display, never for decisions."""
        range_of_gains = least - most, most - least
        return replace(
            self,
            start=self.start.within(least, most),
            best=self.best.within(least, most),
            gain=self.gain.within(*range_of_gains),
            best_of_n=self.best_of_n and self.best_of_n.within(least, most),
            over_best_of_n=self.over_best_of_n and self.over_best_of_n.within(*range_of_gains),
        )

    def body(self) -> Json:
        """As JSON. An infinite end of an interval, as that of a single task, is None."""
        return {name: _bounded(value) if isinstance(value, dict) else value for name, value in asdict(self).items()}

    @classmethod
    def from_body(cls, body: Json) -> Confirmation:
        start, best, gain = (_interval(body[name]) for name in ("start", "best", "gain"))
        others = (body.get(name) for name in ("best_of_n", "over_best_of_n"))
        of_n, over = (_interval(each) if each else None for each in others)
        return cls(body["tasks"], start, best, gain, of_n, over, body.get("units"))


def _bounded(interval: Json) -> Json:
    return {name: value if math.isfinite(value) else None for name, value in interval.items()}


def _interval(body: Json) -> Interval:
    low, high = body["low"], body["high"]
    ends = -math.inf if low is None else low, math.inf if high is None else high
    return Interval(body["mean"], *ends, body["confidence"], body["n"])


def confirm(
    cells: Mapping[Digest, Sequence[Cell]],
    tasks: Dataset,
    start: Digest,
    best: Digest,
    sampled: Digest | None,
    metric: Metric,
) -> Confirmation:
    """Compare the start, the best and the best of N by the metric, on the tasks for which all have a score.

    A failed run counts as 0 where higher is better. Where lower is better that would reward it, so its task is left
    out.
    """
    higher = better(metric) == "higher"
    values = {
        each: {cell.task: cell.value or 0.0 for cell in own if cell.value is not None or higher}
        for each, own in cells.items()
    }
    scored = [task for task in tasks if all(task.id in own for own in values.values())]
    sources: list[Hashable] = [unit_of(task) for task in scored]
    clustered = sources if len({*sources}) < len(sources) else None

    def scores(of: Digest) -> list[float]:
        return [values[of][task.id] for task in scored]

    def gain(over: Digest) -> Interval:
        one, other = map(scores, (over, best) if higher else (best, over))
        return mean_gain(metric.name, one, other, clustered)

    def level(of: Digest) -> Interval:
        return mean_score(metric.name, scores(of), clustered)

    whole = Confirmation(len(scored), level(start), level(best), gain(start), units=len({*sources}))
    if sampled is not None:
        whole = replace(whole, best_of_n=level(sampled), over_best_of_n=gain(sampled))
    shares = all(0 <= value <= 1 for own in values.values() for value in own.values())
    return whole.within(0.0, 1.0) if shares else whole


def units_tried(pool: Pool, place: int, units: Mapping[str, str]) -> int:
    """On how many units a playbook was tried, of those that decide; `units` has the unit of each task."""
    scores = zip(pool.select, pool.row(place).tolist(), strict=True)
    return len({units[task] for task, score in scores if not math.isnan(score)})


def optimism(pool: Pool, chance: np.random.Generator) -> float:
    """The selection bias of the best score, estimated by resampling the tasks.

    Each resample chooses the best of the candidates that were tried on all tasks: its score in the resample, less its
    score over all tasks, is what selection adds by chance.
    """
    table = pool.table()
    whole = table[~np.isnan(table).any(axis=1)]
    if len(whole) < 2:
        return 0.0
    means = whole.mean(axis=1)
    more = []
    for _ in range(RESAMPLES):
        drawn = whole[:, chance.integers(0, whole.shape[1], whole.shape[1])].mean(axis=1)
        chosen = int(drawn.argmax())
        more.append(drawn[chosen] - means[chosen])
    return float(np.mean(more))


def best_of_n(pool: Pool) -> int | None:
    """The best of the candidates that were made from the start without learning, if there are any."""
    means, _, tried = pool.standings()
    sampled = [place for place, arm in enumerate(pool.arms) if arm == "best_of" and tried[place]]
    if not sampled:
        return None
    most = max(int(tried[place]) for place in sampled)
    return max((place for place in sampled if tried[place] == most), key=lambda place: (means[place], -place))
