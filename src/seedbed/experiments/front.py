"""Front: which of several playbooks are worth having, when quality, cost, speed and safety all count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seedbed.errors import SeedbedError, shown
from seedbed.evaluation.metrics import Better
from seedbed.evaluation.page import document, figure, grid, safe
from seedbed.evaluation.plots import STYLE, Spot, scatter
from seedbed.evaluation.report import inert, interval_document, table
from seedbed.evaluation.scorecard import Scorecard
from seedbed.stats.estimates import Interval, mean_interval
from seedbed.stats.pareto import Standing, standings
from seedbed.storage.store import Digest, Json

RUNS = ("cost_usd", "latency_seconds")
"""What every run tells of itself, whether or not a metric asks."""

TITLE = "Which playbooks are worth having"

MEANING = (
    "A playbook is off the front only where another is at least as good by every measure and better by one, wherever "
    "in their intervals the true values are. While intervals overlap, nobody knows yet: more tasks may tell."
)


@dataclass(frozen=True)
class Front:
    """Playbooks by several measures at once, and which of them no other surely beats.

    `unscored` says how many cells of each have no score: means leave those out, and may be better for it.
    """

    better: Mapping[str, Better]
    measured: Mapping[str, Mapping[str, Interval]]
    standings: Mapping[str, Standing]
    playbooks: Mapping[str, Digest]
    unscored: Mapping[str, int]

    @property
    def names(self) -> list[str]:
        """Those on the front, as far as anybody knows."""
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
    better: dict[str, Better] = {name: "lower" if name in first.lower else "higher" for name in first.metrics}
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
    return mean_interval(means, card.sources(by_task))


# For people


def rows(found: Front) -> list[tuple[str, ...]]:
    """A row for each playbook: whether it is on the front, each measure, what beats it, cells without a score."""
    lines = []
    for name, standing in found.standings.items():
        mark = "●\u00a0front" if standing.on_front else "□\u00a0beaten"
        measures = (_told(found.measured[name][measure]) for measure in found.better)
        lines.append((name, mark, *measures, ", ".join(standing.dominated_by), f"{found.unscored[name]}"))
    return lines


def heads(found: Front) -> tuple[str, ...]:
    measures = (f"{name} {'↑' if better == 'higher' else '↓'}" for name, better in found.better.items())
    return ("playbook", "stands", *measures, "beaten by", "not scored")


def _told(interval: Interval) -> str:
    """A mean and its range with three digits that matter: costs of runs differ far behind the point."""
    if not interval.n:
        return "no score"
    mean, low, high = (
        f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        for value in (interval.mean, interval.low, interval.high)
    )
    return f"{mean} ({low} to {high})" if math.isfinite(interval.low) else mean


def to_markdown(found: Front, title: str = TITLE) -> str:
    """A table to read. Arrows point to where each measure is better."""
    return f"# {inert(title)}\n\n{table(heads(found), rows(found))}\n\n{MEANING}\n"


def pictures(found: Front) -> dict[str, str]:
    """The first measure against each of the others, as SVG, by the name of the other."""
    first, *others = found.better
    return {other: scatter(_spots(found, other, first), *_axes(found, other, first)) for other in others}


def _spots(found: Front, across: str, up: str) -> Iterable[Spot]:
    for name, standing in found.standings.items():
        yield Spot(name, found.measured[name][across], found.measured[name][up], standing.on_front)


def _axes(found: Front, across: str, up: str) -> tuple[str, str, str]:
    x, y = (f"{measure}, {found.better[measure]} is better" for measure in (across, up))
    return x, y, f"{up} and {across} with 95 % intervals"


def section(found: Front) -> str:
    """The front as a part of a page, which needs STYLE of `plots`."""
    first = next(iter(found.better))
    drawn = "".join(figure(f"{first} and {other}", picture) for other, picture in pictures(found).items())
    key = "<div class=key><span><b class=up>●</b> on the front</span><span>□ beaten by another</span></div>"
    table_of_all = grid(heads(found), rows(found))
    return f"<section><h2>Front</h2>{key}{drawn}{table_of_all}<p class=note>{safe(MEANING)}</p></section>"


def to_html(found: Front, title: str = TITLE) -> str:
    """The front as a page of its own."""
    told = f"{len(found.names)} of {len(found.standings)} playbooks are on the front"
    return document(title, [f"<h1>{safe(title)}</h1><p class=told>{safe(told)}</p>", section(found)], STYLE)


__all__ = ["Front", "front", "section", "to_html", "to_markdown"]
