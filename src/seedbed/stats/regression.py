"""Regression: a straight line through points, by least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import scipy

from seedbed.errors import SeedbedError
from seedbed.stats.arrays import check_finite


@dataclass(frozen=True, slots=True)
class Line:
    """A line through `n` points, and the p-value of a slope this far from 0 if there were none."""

    slope: float
    intercept: float
    p: float
    n: int


def fit_line(x: Sequence[float], y: Sequence[float]) -> Line:
    """The line with the least squared distance from `y`. Where all x are equal, or all y, there is no slope to see."""
    if len(x) != len(y) or len(x) < 3:
        raise SeedbedError(f"y: found {len(y)} values for {len(x)} of x; expected as many, and at least 3")
    across, up = check_finite("x", x), check_finite("y", y)
    middle, level = float(across.mean()), float(up.mean())
    spread, variation = float(((across - middle) ** 2).sum()), float(((up - level) ** 2).sum())
    if spread <= 1e-12 or variation <= 1e-12:
        return Line(0.0, level, 1.0, len(x))
    slope = float(((across - middle) * (up - level)).sum()) / spread
    left = max(0.0, variation - slope**2 * spread)
    freedom = len(x) - 2
    t = math.inf if left <= 1e-12 * variation else abs(slope) / math.sqrt(left / freedom / spread)
    return Line(slope, level - slope * middle, 2 * float(scipy.special.stdtr(freedom, -t)), len(x))
