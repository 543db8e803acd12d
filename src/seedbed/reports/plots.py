"""Figures as SVG: intervals, shares, how values are spread, paths over tasks, outcomes in order, several measures.

The shape of a mark says what it means, and its colour says it again. Every figure has a title and a description in
words.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_up
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from seedbed.reports.figure import Figure
from seedbed.reports.numbers import counted, interval_texts, number, shortened

if TYPE_CHECKING:
    from seedbed.stats.estimates import Interval

WIDTH, LABEL, TEXT, ROW = 760, 190, 190, 26
"""Of a figure with a line for each row: its width, the room for labels on the left and for numbers on the right, and
the height of a row."""


# Intervals, shares and spreads

ForestRow: TypeAlias = "tuple[str, Interval, int]"
"""A name, where it lies, and which of the playbooks it belongs to: that one's colour."""

IntervalTexts: TypeAlias = "Callable[[Interval], tuple[str, str]]"
"""A mean and its range in words."""


def forest(
    rows: Sequence[ForestRow], title: str, *, line: float | None = None, texts: IntervalTexts = interval_texts
) -> Figure:
    """Means with their intervals, a row each, on one scale, which includes `line`; that is drawn through all rows."""
    bounds = [bound for _, each, _ in rows for bound in (each.low, each.mean, each.high)]
    low, high = scale([*bounds, *([] if line is None else [line])])
    bottom = len(rows) * ROW + 6
    left, right = LABEL, WIDTH - TEXT

    def x(value: float) -> float:
        return left + (min(max(value, low), high) - low) / (high - low) * (right - left)

    marks = [f'<g class="grid">{"".join(tick(x(at), bottom, at) for at in ticks(low, high))}</g>']
    if line is not None:
        marks.append(f'<line class="mark" x1="{x(line):.1f}" x2="{x(line):.1f}" y1="0" y2="{bottom}"/>')
    words = []
    for place, (name, interval, series) in enumerate(rows):
        middle = place * ROW + ROW / 2
        marks.append(label(LABEL - 12, middle, shortened(name), "label", name))
        if interval.n:
            if math.isfinite(interval.low):
                ends = f'x1="{x(interval.low):.1f}" x2="{x(interval.high):.1f}"'
                marks.append(f'<line class="s{series % 6}" {ends} y1="{middle}" y2="{middle}"/>')
            marks.append(f'<circle class="s{series % 6}" cx="{x(interval.mean):.1f}" cy="{middle}" r="5"/>')
        mean, reach = texts(interval)
        marks.append(label(right + 16, middle, f"{mean}  {reach}".strip(), "value"))
        words.append(f"{shortened(name)}: {mean}" + (f", {reach}" if reach else ""))
    return _figure(title, "; ".join(words), bottom + 20, marks)


def bars(rows: Sequence[tuple[str, float, str]], title: str) -> Figure | None:
    """Shares of a whole, a row each: a name, the share, and that in words."""
    marks = []
    for place, (name, share, text) in enumerate(rows):
        top, wide = place * ROW + 5, WIDTH - LABEL - TEXT
        marks.append(label(LABEL - 12, top + 8, shortened(name), "label", name))
        marks.append(f'<rect class="whole" x="{LABEL}" y="{top}" width="{wide}" height="16" rx="3"/>')
        full = wide * min(max(share, 0.0), 1.0)
        marks.append(f'<rect class="s1" x="{LABEL}" y="{top}" width="{full:.1f}" height="16" rx="3"/>')
        marks.append(label(LABEL + wide + 16, top + 8, text, "value"))
    words = "; ".join(f"{shortened(name)}: {text}" for name, _, text in rows)
    return _figure(title, words, len(rows) * ROW, marks) if rows else None


def histogram(
    values: Sequence[float], title: str, marks: Sequence[tuple[str, float]] = (), series: int = 0
) -> Figure | None:
    """How many values lie where; `marks` are places with a name, such as the median."""
    if not values:
        return None
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
    for row, (name, at) in enumerate(marks):
        x = (at - low) / (high - low) * wide
        drawn.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 22}" y2="{foot}"/>')
        side = "tick last" if x > wide / 2 else "tick first"
        drawn.append(label(x + (4 if x <= wide / 2 else -4), 8 + 12 * (row % 2), name, side))
    width = (high - low) / bins
    bounds = [(low + place * width, low + (place + 1) * width, count) for place, count in enumerate(counts)]
    words = [f"{count} from {number(start)} to {number(end)}" for start, end, count in bounds if count]
    words += [f"{name} {number(at)}" for name, at in marks]
    return _figure(title, f"{counted(len(values), 'value')}: {'; '.join(words)}", foot + 26, drawn, wide)


def scale(values: Iterable[float], *, tight: bool = False) -> tuple[float, float]:
    """A range that holds all values: 0 to 1 if it can, else round numbers; if `tight`, not much wider than needed."""
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


def tick(x: float, bottom: float, value: float) -> str:
    """A line down a figure, with its value below it."""
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>'
    return line + label(x, bottom + 12, f"{value:.4g}", "tick")


def label(x: float, y: float, text: str, kind: str, full: str = "") -> str:
    """A text at a place; a pointer over it shows `full`."""
    hint = f"<title>{html.escape(full)}</title>" if full and full != text else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{html.escape(text)}{hint}</text>'


def _figure(title: str, description: str, tall: float, marks: Iterable[str], wide: float = WIDTH) -> Figure:
    return Figure(title, description, wide, tall, "".join(marks))


# Values as they came

Point: TypeAlias = tuple[int, float | None]
"""A number of tasks, runs or steps, and the value by then; None where there is none."""

LEFT, RIGHT, TALL = 52, 170, 220
"""Of a chart: room for the numbers on the left and the names on the right; its height."""

TEN = math.log(10)

FINE = 600
"""How many points can be seen at this width."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart: its name, its points, and what it is."""

    name: str
    points: Sequence[Point]
    kind: Literal["path", "bound", "limit"]
    """What is watched; where it ends in favour of the candidate, or another bound; where it ends against it."""


@dataclass(frozen=True, slots=True)
class Axes:
    """How a chart is drawn: `over` what, whether its values are `logs`, and whether the scale includes `zero`."""

    over: str = "tasks"
    logs: bool = False
    zero: bool = True


PLAIN = Axes()


def chart(
    lines: Sequence[Series], title: str, axes: Axes = PLAIN, band: Sequence[tuple[int, float, float]] = ()
) -> Figure | None:
    """Values over tasks, with a `band` around them. Logs are labelled with what they are the logs of."""
    seen = [y for line in lines for _, y in line.points if y is not None]
    last = max((n for line in lines for n, _ in line.points), default=0)
    if not seen or not last:
        return None
    values = [*seen, *(bound for _, *bounds in band for bound in bounds), *([0.0] if axes.zero else [])]
    marks, (low, high) = _axis(values, axes.logs)
    right = WIDTH - RIGHT

    def at(n: float, value: float) -> tuple[float, float]:
        return LEFT + n / last * (right - LEFT), 8 + (high - value) / (high - low) * (TALL - 16)

    drawn = [f'<g class="grid">{"".join(_level(at(0, value)[1], right, text) for value, text in marks)}</g>']
    drawn += [label(at(n, 0)[0], TALL + 10, f"{n:g}", "tick") for n in _counts(last)]
    drawn.append(label(right, TALL + 10, f"{last:,} {axes.over}", "tick"))
    if axes.zero and low < 0 < high:
        drawn.append(f'<path class="zero" d="{_path([at(0, 0.0), at(last, 0.0)])}"/>')
    if band:
        edge = [at(n, upper) for n, _, upper in band] + [at(n, lower) for n, lower, _ in reversed(band)]
        drawn.append(f'<path class="band" d="{_path(edge)}Z"/>')
    names = []
    for line in lines:
        points = _thinned(line.points)
        drawn.append(f'<path class="line {line.kind}" d="{"".join(_pieces(points, at))}"/>')
        if end := _last(points):
            x, y = at(*end)
            if line.kind == "path":
                drawn.append(f'<circle class="s1" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
            names.append((y, line.name))
    drawn += [label(right + 12, y, name, "name") for y, name in _apart(names)]
    words = "; ".join(filter(None, (_course(line, axes) for line in lines)))
    return _figure(title, words, TALL + 22, drawn)


def _course(line: Series, axes: Axes) -> str:
    """Where a line begins and ends, in words."""
    ends = _last(line.points[::-1]), _last(line.points)
    if not ends[0] or not ends[1]:
        return ""
    (first, start), (last, end) = ((n, _power(y / TEN) if axes.logs else number(y)) for n, y in (ends[0], ends[1]))
    return f"{line.name}: {start} at {first:,}, {end} at {last:,} {axes.over}"


def _power(power: float) -> str:
    return f"{10.0**power:.3g}" if abs(power) < 300 else f"1e{power:.0f}"


def _last(points: Sequence[Point]) -> tuple[int, float] | None:
    return next(((n, y) for n, y in reversed(points) if y is not None), None)


def _axis(values: Sequence[float], logs: bool) -> tuple[list[tuple[float, str]], tuple[float, float]]:
    """The places of the labels and their texts, and the range of all."""
    if not logs:
        low, high = scale(values)
        return [(value, f"{value:.4g}") for value in ticks(low, high)], (low, high)
    first, last = math.floor(min(values) / TEN), math.ceil(max(values) / TEN)
    step = max(1, math.ceil((last - first) / 6))
    powers = range(first, max(last, first + 1) + step, step)
    texts = [f"{10.0**power:g}" if abs(power) <= 4 else f"1e{power}" for power in powers]
    return [(power * TEN, each) for power, each in zip(powers, texts, strict=True)], (first * TEN, powers[-1] * TEN)


def _counts(last: int) -> list[float]:
    """Round numbers of tasks, none near the last one."""
    _, high = scale([0.0, float(last)])
    return [n for n in ticks(0.0, high) if n == int(n) and n < 0.85 * last]


def _level(y: float, right: float, text: str) -> str:
    return f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>' + label(LEFT - 8, y, text, "tick last")


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


# Outcomes in order

OUTCOMES = {"+": "better", "=": "same", "-": "worse"}


def strip(outcomes: str, title: str) -> Figure | None:
    """Wins, ties and losses in order, row by row: triangles that point up, dots, and triangles that point down."""
    if not outcomes:
        return None
    size = 15.2 if len(outcomes) <= 500 else 7.6
    in_row = int(WIDTH / size)
    shapes: dict[str, list[str]] = {"+": [], "=": [], "-": []}
    r = 0.4 * size
    for place, sign in enumerate(outcomes):
        x, y = (place % in_row + 0.5) * size, (place // in_row + 0.5) * size * 1.25
        if sign == "=":
            shapes[sign].append(f"M{x:.1f} {y:.1f}h0")
        else:
            base, tip = (y + r, -2 * r) if sign == "+" else (y - r, 2 * r)
            shapes[sign].append(f"M{x - r:.1f} {base:.1f}h{2 * r:.1f}l{-r:.1f} {tip:.1f}z")
    drawn = [f'<path class="{OUTCOMES[sign]}" d="{"".join(paths)}"/>' for sign, paths in shapes.items() if paths]
    words = ", ".join(f"{outcomes.count(sign):,} {word}" for sign, word in OUTCOMES.items())
    return _figure(title, words, -(-len(outcomes) // in_row) * size * 1.25, drawn)


# Several measures at once


NAMED = 12
"""Of more points than that only those on the front have their names beside them."""


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """Something in a plane: its name, its interval on each axis, and whether it is on the front."""

    name: str
    x: Interval
    y: Interval
    on_front: bool


def scatter(points: Iterable[ScatterPoint], x_name: str, y_name: str, title: str) -> Figure | None:
    """Means with crosses for their intervals. A point that is not on the front is a hollow square in grey."""
    points = [point for point in points if math.isfinite(point.x.mean) and math.isfinite(point.y.mean)]
    if not points:
        return None
    (left, right), (low, high) = (
        scale(_bounds(each), tight=True) for each in ([p.x for p in points], [p.y for p in points])
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
    words = []
    for point in sorted(points, key=lambda point: (point.on_front, y(point.y.mean))):
        across, down = x(point.x.mean), y(point.y.mean)
        drawn.append(_cross(point, x, y))
        if point.on_front:
            drawn.append(f'<circle class="s1" cx="{across:.1f}" cy="{down:.1f}" r="5.5"/>')
        else:
            drawn.append(f'<rect class="dim" x="{across - 5:.1f}" y="{down - 5:.1f}" width="10" height="10"/>')
        if point.on_front or len(points) <= NAMED:
            height = _free(across, down, names)
            names.append((across, height))
            past = across > 0.7 * WIDTH
            kind = ("label" if past else "name") + ("" if point.on_front else " faint")
            drawn.append(label(across + (-9 if past else 9), height, shortened(point.name), kind, point.name))
        front = "on the front" if point.on_front else "not on the front"
        words.append(f"{shortened(point.name)}: {number(point.x.mean)}, {number(point.y.mean)}, {front}")
    return _figure(title, f"{x_name}; {y_name}. {'; '.join(words)}", foot + 44, drawn)


def _bounds(intervals: Iterable[Interval]) -> list[float]:
    return [bound for each in intervals for bound in (each.low, each.mean, each.high)]


def _cross(point: ScatterPoint, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    """The intervals through a point, where they are known."""
    kind = "cross" if point.on_front else "cross dim"
    across, down = x(point.x.mean), y(point.y.mean)
    places = []
    if math.isfinite(point.x.low) and math.isfinite(point.x.high):
        places.append([(x(point.x.low), down), (x(point.x.high), down)])
    if math.isfinite(point.y.low) and math.isfinite(point.y.high):
        places.append([(across, y(point.y.low)), (across, y(point.y.high))])
    return "".join(f'<path class="{kind}" d="{_path(ends)}"/>' for ends in places)


def _free(x: float, y: float, taken: Sequence[tuple[float, float]]) -> float:
    """The height for a name nearest to its point, above it or below, that no other name covers."""
    heights = (height for step in count_up(0, 5) for height in (y - 12 - step, y + 14 + step))
    return next(
        height
        for height in heights
        if not any(abs(x - other) < 150 and abs(height - near) < 15 for other, near in taken)
    )
