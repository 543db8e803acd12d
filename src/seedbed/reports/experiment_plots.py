"""The order of outcomes as SVG that stands within a page, and the style of the pages of comparisons.

What a mark means is told by its shape, and by its colour besides.
"""

from __future__ import annotations

from seedbed.reports import plots
from seedbed.reports.plots import WIDTH, svg


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


STYLE = (
    plots.STYLE
    + """
.better{fill:var(--s1)}.worse{fill:var(--s2)}.same{stroke:var(--soft);stroke-width:4;stroke-linecap:round}
.alarm{border-color:var(--s5);font-weight:600}
.status{display:block;overflow-x:auto;padding:.5rem .7rem;border:1px solid var(--line);border-radius:6px}
.flips td:nth-child(2){white-space:nowrap}
.flips td:nth-child(3){width:60%}.flips th:nth-child(n+4){max-width:14rem;white-space:normal}
"""
)
"""What the pages of comparisons need besides the style of every page."""
