"""The front of several playbooks as Markdown and as a web page."""

from __future__ import annotations

import math
from collections.abc import Iterable

from seedbed.experiments.front import Front
from seedbed.reports.page import document, figure, grid, safe
from seedbed.reports.plots import STYLE, Spot, scatter
from seedbed.reports.scorecard import inert, table
from seedbed.stats.estimates import Interval

TITLE = "Which playbooks are worth having"


MEANING = (
    "A playbook is off the front only where another is at least as good by every measure and better by one, wherever "
    "in their intervals the true values are. While intervals overlap, nobody knows yet: more tasks may tell."
)


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
