"""Pictures of comparisons as SVG that stands within a page: paths, the order of outcomes, fronts.

What a mark means is told by its shape, and by its colour besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from seedbed.evaluation.plots import WIDTH, label, scale, shortened, svg, ticks
from seedbed.stats.estimates import Interval

Point = tuple[int, float | None]
"""How many tasks, and the value by then; None where there is none."""

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
) -> str:
    """Values over tasks, with a `band` around them. Values that are `logs` are told as what they are the logs of."""
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
    drawn.append(label(right, TALL + 10, f"{tasks} tasks", "tick"))
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


def strip(outcomes: str, title: str) -> str:
    """Wins, ties and losses in order, row by row: triangles that point up, dots, and triangles that point down."""
    if not outcomes:
        return ""
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
    kinds = {"+": "better", "=": "same", "-": "worse"}
    drawn = [f'<path class="{kinds[sign]}" d="{"".join(paths)}"/>' for sign, paths in shapes.items() if paths]
    return svg(WIDTH, -(-len(outcomes) // in_row) * size * 1.25, title, drawn)


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
.better{fill:var(--s1)}.worse{fill:var(--s2)}.same{stroke:var(--soft);stroke-width:4;stroke-linecap:round}
path.cross{stroke:var(--s1);stroke-width:2;opacity:.7}path.dim{stroke:var(--soft);stroke-dasharray:4 3;opacity:.6}
rect.dim{fill:var(--card);stroke:var(--soft);stroke-width:1.5}svg .faint{fill:var(--soft)}
.grid line{stroke-width:1}.name{font-size:12px}
.answer{font-size:1.15rem;margin:.25rem 0 .75rem}.alarm{border-color:var(--s5);font-weight:600}
.badge{display:inline-block;border:1.5px solid;border-radius:999px;padding:.1rem .8rem;font-weight:600}
.badge.good{color:var(--s1)}.badge.bad{color:var(--s2)}.badge.open{color:var(--soft)}
.status{display:block;overflow-x:auto;padding:.5rem .7rem;border:1px solid var(--line);border-radius:6px}
.key{display:inline-flex;gap:1.2rem;flex-wrap:wrap;color:var(--soft);font-size:.87rem;margin:0 0 .5rem}
b.up{color:var(--s1)}b.down{color:var(--s2)}
.tiles div{align-content:start}.tiles b{font-size:1.35rem}figcaption small{font-weight:400}
.figures td:nth-child(2),.flips td:nth-child(2){white-space:nowrap}
.flips td:nth-child(3){width:60%}.figures td:first-child,.flips th:nth-child(n+4){max-width:14rem;white-space:normal}
"""
"""What these pictures, and the pages they stand in, need besides the style of every page."""
