"""Small pictures as SVG that stands within a page: intervals, shares, how values are spread, paths, several measures.

What a mark means is told by its shape, and by its colour besides.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from seedbed.reports.scorecard import interval_texts, number

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


def bars(rows: Sequence[tuple[str, float, str]], title: str) -> str:
    """Shares of a whole, one line each: what it is called, how much of it, and that in words."""
    marks = []
    for place, (name, share, told) in enumerate(rows):
        top, wide = place * ROW + 5, WIDTH - LABEL - TEXT
        marks.append(label(LABEL - 12, top + 8, shortened(name), "label", name))
        marks.append(f'<rect class="whole" x="{LABEL}" y="{top}" width="{wide}" height="16" rx="3"/>')
        full = wide * min(max(share, 0.0), 1.0)
        marks.append(f'<rect class="s1" x="{LABEL}" y="{top}" width="{full:.1f}" height="16" rx="3"/>')
        marks.append(label(LABEL + wide + 16, top + 8, told, "value"))
    return svg(WIDTH, len(rows) * ROW, title, marks) if rows else ""


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


# Values as they came

Point = tuple[int, float | None]
"""How many tasks, or whatever else is counted, and the value by then; None where there is none."""

LEFT, RIGHT, TALL = 52, 170, 220
"""Of a chart: room for the numbers on the left and the names on the right; its height."""

TEN = math.log(10)

FINE = 600
"""More points than that are not told apart at this width."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: what it is called, where it goes, and what it is."""

    name: str
    points: Sequence[Point]
    kind: Literal["path", "bound", "limit"]
    """What is watched; where it ends in favour of the candidate, or for what else; where it ends against it."""


def chart(
    lines: Sequence[Line],
    title: str,
    *,
    band: Sequence[tuple[int, float, float]] = (),
    logs: bool = False,
    zero: bool = True,
    over: str = "tasks",
) -> str:
    """Values `over` tasks, with a `band` around them. Values that are `logs` are told as what they are the logs of."""
    seen = [y for line in lines for _, y in line.points if y is not None]
    tasks = max((n for line in lines for n, _ in line.points), default=0)
    if not seen or not tasks:
        return ""
    values = [*seen, *(bound for _, *bounds in band for bound in bounds), *([0.0] if zero else [])]
    marks, (low, high) = _axis(values, logs)
    right = WIDTH - RIGHT

    def at(n: float, value: float) -> tuple[float, float]:
        return LEFT + n / tasks * (right - LEFT), 8 + (high - value) / (high - low) * (TALL - 16)

    drawn = [f'<g class="grid">{"".join(_level(at(0, value)[1], right, told) for value, told in marks)}</g>']
    drawn += [label(at(n, 0)[0], TALL + 10, f"{n:g}", "tick") for n in _counts(tasks)]
    drawn.append(label(right, TALL + 10, f"{tasks:,} {over}", "tick"))
    if zero and low < 0 < high:
        drawn.append(f'<path class="zero" d="{_path([at(0, 0.0), at(tasks, 0.0)])}"/>')
    if band:
        edge = [at(n, upper) for n, _, upper in band] + [at(n, lower) for n, lower, _ in reversed(band)]
        drawn.append(f'<path class="band" d="{_path(edge)}Z"/>')
    names = []
    for line in lines:
        points = _thinned(line.points)
        drawn.append(f'<path class="line {line.kind}" d="{"".join(_pieces(points, at))}"/>')
        last = next(((n, y) for n, y in reversed(points) if y is not None), None)
        if last:
            x, y = at(*last)
            if line.kind == "path":
                drawn.append(f'<circle class="s1" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
            names.append((y, line.name))
    drawn += [label(right + 12, y, name, "name") for y, name in _apart(names)]
    return svg(WIDTH, TALL + 22, title, drawn)


def _axis(values: Sequence[float], logs: bool) -> tuple[list[tuple[float, str]], tuple[float, float]]:
    """Where to put numbers and which, and the range of all."""
    if not logs:
        low, high = scale(values)
        return [(value, f"{value:.4g}") for value in ticks(low, high)], (low, high)
    first, last = math.floor(min(values) / TEN), math.ceil(max(values) / TEN)
    step = max(1, math.ceil((last - first) / 6))
    powers = range(first, max(last, first + 1) + step, step)
    told = [f"{10.0**power:g}" if abs(power) <= 4 else f"1e{power}" for power in powers]
    return [(power * TEN, each) for power, each in zip(powers, told, strict=True)], (first * TEN, powers[-1] * TEN)


def _counts(tasks: int) -> list[float]:
    """Round numbers of tasks, none near the last one."""
    _, high = scale([0.0, float(tasks)])
    return [n for n in ticks(0.0, high) if n == int(n) and n < 0.9 * tasks]


def _level(y: float, right: float, told: str) -> str:
    return f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>' + label(LEFT - 8, y, told, "tick last")


def _thinned(points: Sequence[Point]) -> list[Point]:
    every = -(-len(points) // FINE)
    return [point for place, point in enumerate(points) if place % every == 0 or place == len(points) - 1]


def _pieces(points: Iterable[Point], at: Callable[[float, float], tuple[float, float]]) -> Iterator[str]:
    """The stretches of a line between the places where it has no value."""
    for known, stretch in groupby(points, key=lambda point: point[1] is not None):
        if known:
            yield _path(at(n, y) for n, y in stretch if y is not None)


def _path(places: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _apart(names: Iterable[tuple[float, str]], room: float = 15) -> list[tuple[float, str]]:
    """Names at about these heights, none over another."""
    placed: list[tuple[float, str]] = []
    for y, name in sorted(names):
        placed.append((max(y, placed[-1][0] + room) if placed else y, name))
    return placed


# Several measures at once


@dataclass(frozen=True, slots=True)
class Spot:
    """Something in a plane: where it is as far as that is known, and whether it is worth a look."""

    name: str
    x: Interval
    y: Interval
    lit: bool


def scatter(spots: Iterable[Spot], x_name: str, y_name: str, title: str) -> str:
    """Means with crosses for their intervals. What is not lit is a hollow square in grey."""
    spots = [spot for spot in spots if math.isfinite(spot.x.mean) and math.isfinite(spot.y.mean)]
    if not spots:
        return ""
    (left, right), (low, high) = (
        scale(_bounds(each), tight=True) for each in ([s.x for s in spots], [s.y for s in spots])
    )
    end, foot = WIDTH - 20, 320

    def x(value: float) -> float:
        return LEFT + 10 + (value - left) / (right - left) * (end - LEFT - 10)

    def y(value: float) -> float:
        return 30 + (high - value) / (high - low) * (foot - 30)

    drawn = [f'<g class="grid">{"".join(_level(y(value), end, f"{value:.4g}") for value in ticks(low, high))}']
    for value in ticks(left, right):
        drawn.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="30" y2="{foot}"/>')
        drawn.append(label(x(value), foot + 12, f"{value:.4g}", "tick"))
    drawn.append("</g>" + label(4, 12, y_name, "name") + label(end, foot + 32, x_name, "label"))
    names: list[tuple[float, float]] = []
    for spot in sorted(spots, key=lambda spot: (spot.lit, y(spot.y.mean))):
        across, down = x(spot.x.mean), y(spot.y.mean)
        drawn.append(_cross(spot, x, y))
        if spot.lit:
            drawn.append(f'<circle class="s1" cx="{across:.1f}" cy="{down:.1f}" r="5.5"/>')
        else:
            drawn.append(f'<rect class="dim" x="{across - 5:.1f}" y="{down - 5:.1f}" width="10" height="10"/>')
        place = _free(across, down - 12, names)
        names.append(place)
        past = across > 0.7 * WIDTH
        kind = ("label" if past else "name") + ("" if spot.lit else " faint")
        drawn.append(label(across + (-9 if past else 9), place[1], shortened(spot.name), kind, spot.name))
    return svg(WIDTH, foot + 44, title, drawn)


def _bounds(intervals: Iterable[Interval]) -> list[float]:
    return [bound for each in intervals for bound in (each.low, each.mean, each.high)]


def _cross(spot: Spot, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    """The intervals through a spot, where they are known."""
    kind = "cross" if spot.lit else "cross dim"
    across, down = x(spot.x.mean), y(spot.y.mean)
    places = []
    if math.isfinite(spot.x.low) and math.isfinite(spot.x.high):
        places.append([(x(spot.x.low), down), (x(spot.x.high), down)])
    if math.isfinite(spot.y.low) and math.isfinite(spot.y.high):
        places.append([(across, y(spot.y.low)), (across, y(spot.y.high))])
    return "".join(f'<path class="{kind}" d="{_path(ends)}"/>' for ends in places)


def _free(x: float, y: float, taken: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The nearest place for a name, upwards, that no other name has."""
    while any(abs(x - other) < 150 and abs(y - above) < 15 for other, above in taken):
        y -= 5
    return x, y


STYLE = """
path.line,path.cross,path.zero{fill:none}path.line{stroke-width:2;stroke:var(--s1)}
path.bound,path.limit{stroke:var(--soft);stroke-width:1.5}path.bound{stroke-dasharray:7 4}
path.limit{stroke-dasharray:2 4}
path.zero{stroke:var(--soft);stroke-width:1}.band{fill:var(--s1);opacity:.16}
path.cross{stroke:var(--s1);stroke-width:2;opacity:.7}path.dim{stroke:var(--soft);stroke-dasharray:4 3;opacity:.6}
rect.dim{fill:var(--card);stroke:var(--soft);stroke-width:1.5}svg .faint{fill:var(--soft)}
.grid line{stroke-width:1}.name{font-size:12px}rect.whole{fill:var(--line)}
.answer{font-size:1.15rem;margin:.25rem 0 .75rem}
.badge{display:inline-block;border:1.5px solid;border-radius:999px;padding:.1rem .8rem;font-weight:600}
.badge.good{color:var(--s1)}.badge.bad{color:var(--s2)}.badge.open{color:var(--soft)}
.key{display:inline-flex;gap:1.2rem;flex-wrap:wrap;color:var(--soft);font-size:.87rem;margin:0 0 .5rem}
b.up{color:var(--s1)}b.down{color:var(--s2)}
.tiles div{align-content:start}.tiles b{font-size:1.35rem}figcaption small{font-weight:400}
.figures td:nth-child(2){white-space:nowrap}.figures td:first-child{max-width:14rem;white-space:normal}
"""
"""What charts and scatters, and the pages they stand in, need besides the style of every page."""
