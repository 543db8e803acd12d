"""Numbers, intervals and names as people read them, and rows of such texts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from seedbed.errors import amount as amount

if TYPE_CHECKING:
    from seedbed.stats.estimates import Interval


TableRow: TypeAlias = tuple[str, ...]


def number(value: float) -> str:
    """Three digits after the point for scores; as many as matter for a very small or very large number."""
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def plus(value: float) -> str:
    """A difference: a positive one has its sign."""
    return f"+{number(value)}" if value > 0 else number(value)


def interval_texts(interval: Interval) -> tuple[str, str]:
    """A mean and its range, which is empty where there is none."""
    if not interval.n:
        return "no score", ""
    if not math.isfinite(interval.low):
        return number(interval.mean), ""
    return number(interval.mean), f"{number(interval.low)} to {number(interval.high)}"


def difference_texts(interval: Interval) -> tuple[str, str]:
    """A difference and its range, both with their signs; the range says so where there is none."""
    if not interval.n:
        return "no score", ""
    if not math.isfinite(interval.low):
        return plus(interval.mean), "not known"
    return plus(interval.mean), f"{plus(interval.low)} to {plus(interval.high)}"


def interval_text(interval: Interval, none: str = "no score") -> str:
    """A mean with its range in brackets; `none` if it is a mean of nothing."""
    if not interval.n:
        return none
    if not math.isfinite(interval.low):
        return number(interval.mean)
    return f"{number(interval.mean)} [{number(interval.low)}, {number(interval.high)}]"


def score_text(interval: Interval) -> str:
    """The score of a candidate with its range in brackets."""
    return interval_text(interval, "not tried")


def gain_text(interval: Interval) -> str:
    """A difference with its range in brackets."""
    if not math.isfinite(interval.low):
        return plus(interval.mean)
    return f"{plus(interval.mean)} [{plus(interval.low)}, {plus(interval.high)}]"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 task`, `2 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


def split_text(e: float, p: float) -> str:
    """Whether units are split between two arms as planned, in words, by the e-value and the exact p-value of that."""
    split = "not as planned" if e >= 100 else "doubtful" if p <= 0.01 else "as planned"
    return f"{split}: p = {p:.2g} for a split this uneven by chance; e = {e:.3g}, where 100 is proof of a cause"


def clipped(text: object, limit: int = 60) -> str:
    """A text on one line, cut off if it is long."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def playbook_name(name: str) -> str:
    """The name of a playbook without the folder and the ending of its file."""
    return Path(name).stem if name.endswith((".yaml", ".yml", ".json")) else name


def shortened(name: str, limit: int = 26) -> str:
    """A name as it fits into a figure."""
    return clipped(name, limit)


def cost(usd: float, unpriced: int = 0) -> str:
    """An amount with four places, or that it is the least that it can be."""
    return amount(usd, unpriced, "${:.4f}".format)
