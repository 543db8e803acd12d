"""The front of several playbooks, as a part of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable

from seedbed.evaluation.pareto_front import Front
from seedbed.reports.figure import Figure
from seedbed.reports.numbers import TableRow
from seedbed.reports.page import PagePart, PageSection, PageTable, Prose, picture, section
from seedbed.reports.plots import ScatterPoint, scatter
from seedbed.stats.estimates import Interval

LEGEND = "● on the front, □ beaten by another"
MEANING = (
    "A playbook is off the front only if another one is at least as good by every measure and better by one, wherever "
    "the true values lie in their intervals. Where intervals overlap, the answer is open; more tasks might settle it."
)


def sections(front: Front) -> list[PageSection]:
    """The front as a part of a page."""
    first = next(iter(front.better))
    pictures: list[PagePart] = []
    for other, figure in figures(front).items():
        pictures += picture(f"{first} and {other}", figure, LEGEND)
    return section("Front", *pictures, PageTable(heads(front), rows(front)), Prose(MEANING))


def rows(front: Front) -> list[TableRow]:
    """A row for each playbook: whether it is on the front, each measure, what beats it, cells without a score."""
    lines = []
    for name, standing in front.standings.items():
        mark = "●\u00a0front" if standing.on_front else "□\u00a0beaten"
        measures = (_measure_text(front.measured[name][measure]) for measure in front.better)
        lines.append((name, mark, *measures, ", ".join(standing.dominated_by), f"{front.unscored[name]}"))
    return lines


def heads(front: Front) -> TableRow:
    """The heads of the rows. Arrows point to where a measure is better."""
    measures = (f"{name} {'↑' if better == 'higher' else '↓'}" for name, better in front.better.items())
    return ("playbook", "stands", *measures, "beaten by", "not scored")


def _measure_text(interval: Interval) -> str:
    """A mean and its range with three digits that matter: costs of runs differ far behind the point."""
    if not interval.n:
        return "no score"
    mean, low, high = (
        f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        for value in (interval.mean, interval.low, interval.high)
    )
    return f"{mean} ({low} to {high})" if math.isfinite(interval.low) else mean


def figures(front: Front) -> dict[str, Figure]:
    """The first measure against each of the others, by the name of the other."""
    first, *others = front.better
    drawn = {other: scatter(_points(front, other, first), *_axes(front, other, first)) for other in others}
    return {other: figure for other, figure in drawn.items() if figure}


def _points(front: Front, across: str, up: str) -> Iterable[ScatterPoint]:
    for name, standing in front.standings.items():
        yield ScatterPoint(name, front.measured[name][across], front.measured[name][up], standing.on_front)


def _axes(front: Front, across: str, up: str) -> tuple[str, str, str]:
    x, y = (f"{measure}, {front.better[measure]} is better" for measure in (across, up))
    return x, y, f"{up} and {across} with 95 % intervals"
