"""Small pictures of scores as SVG that stands within a page: intervals, and how values are spread."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from seedbed.evaluation.report import interval_texts, number

if TYPE_CHECKING:
    from seedbed.stats.estimates import Interval

WIDTH, LABEL, TEXT, ROW = 760, 190, 190, 26
"""Of an interval plot in its own units: all of it, its labels on the left, its numbers on the right; a line."""

Row = tuple[str, "Interval", int]
"""What it is called, where it lies, and which of the playbooks it belongs to, which says its colour."""

Told = Callable[["Interval"], tuple[str, str]]
"""A mean and its range in words."""


def forest(rows: Sequence[Row], title: str, *, line: float | None = None, told: Told = interval_texts) -> str:
    """Means with their intervals, one line each, on one scale that holds `line`, which is drawn through all of them."""
    bounds = [bound for _, each, _ in rows for bound in (each.low, each.mean, each.high)]
    low, high = scale([*bounds, *([] if line is None else [line])])
    bottom = len(rows) * ROW + 6
    left, right = LABEL, WIDTH - TEXT

    def x(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (right - left)

    marks = [f'<g class="grid">{"".join(_tick(x(at), bottom, at) for at in ticks(low, high))}</g>']
    if line is not None:
        marks.append(f'<line class="mark" x1="{x(line):.1f}" x2="{x(line):.1f}" y1="0" y2="{bottom}"/>')
    for place, (name, interval, series) in enumerate(rows):
        middle = place * ROW + ROW / 2
        marks.append(label(LABEL - 12, middle, shortened(name), "label", name))
        if interval.n:
            if math.isfinite(interval.low):
                ends = f'x1="{x(interval.low):.1f}" x2="{x(interval.high):.1f}"'
                marks.append(f'<line class="s{series % 6}" {ends} y1="{middle}" y2="{middle}"/>')
            marks.append(f'<circle class="s{series % 6}" cx="{x(interval.mean):.1f}" cy="{middle}" r="5"/>')
        mean, reach = told(interval)
        marks.append(label(right + 16, middle, f"{mean}  {reach}".strip(), "value"))
    return svg(WIDTH, bottom + 20, title, marks)


def histogram(values: Sequence[float], title: str, marks: Sequence[tuple[str, float]] = (), series: int = 0) -> str:
    """How many values lie where; `marks` are places worth a name, such as the median."""
    if not values:
        return ""
    low, high = scale(values)
    wide, tall, top = 360, 110, 36 if marks else 22
    bins = 2 if {*values} <= {0.0, 1.0} else 10
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    most, step = max(counts), wide / bins
    drawn = []
    for place, count in enumerate(counts):
        height = count / most * tall
        where = f'x="{place * step + 2:.1f}" y="{top + tall - height:.1f}" width="{step - 4:.1f}" height="{height:.1f}"'
        drawn.append(f'<rect class="s{series % 6}" {where} rx="2"/>')
        if count:
            drawn.append(label((place + 0.5) * step, top + tall - height - 8, str(count), "count"))
    foot = top + tall
    drawn.append(f'<g class="grid"><line x1="0" x2="{wide}" y1="{foot}" y2="{foot}"/></g>')
    for at, anchor in ((low, "first"), (high, "last")):
        drawn.append(label((at - low) / (high - low) * wide, foot + 14, number(at), f"tick {anchor}"))
    for name, at in marks:
        x = (at - low) / (high - low) * wide
        drawn.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 22}" y2="{foot}"/>')
        drawn.append(label(x + (4 if x <= wide / 2 else -4), 8, name, "tick last" if x > wide / 2 else "tick first"))
    return svg(wide, foot + 26, title, drawn)


def scale(values: Iterable[float], *, tight: bool = False) -> tuple[float, float]:
    """A range that holds all of them: 0 to 1 if it can, else round numbers; if `tight`, none that is much too wide."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    if not tight and low >= 0 and (0.5 < high <= 1 or high == 0):
        return 0.0, 1.0
    low = min(low, 0.0) if low < 0.5 * high and not tight else low
    step = _step(low, high)
    return math.floor(low / step) * step, max(math.ceil(high / step), math.floor(low / step) + 1) * step


def _step(low: float, high: float) -> float:
    rough = max(high - low, abs(high) * 0.1, 1e-9) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from one end of a scale to the other."""
    step = _step(low, high)
    return [low + step * place for place in range(round((high - low) / step) + 1)]


def _tick(x: float, bottom: float, value: float) -> str:
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>'
    return line + label(x, bottom + 12, f"{value:.4g}", "tick")


def label(x: float, y: float, text: str, kind: str, full: str = "") -> str:
    """A text at a place; `full` is what one sees who points at it."""
    hint = f"<title>{html.escape(full)}</title>" if full and full != text else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{html.escape(text)}{hint}</text>'


def shortened(name: str, limit: int = 26) -> str:
    """A name on one line that is not too long."""
    flat = " ".join(name.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def svg(wide: float, tall: float, title: str, marks: Iterable[str]) -> str:
    """A picture of its marks, which keeps its shape on narrow screens."""
    return (
        f'<svg viewBox="0 0 {wide} {tall:.0f}" width="{wide}" role="img" aria-label="{html.escape(title)}">'
        f"{''.join(marks)}</svg>"
    )
