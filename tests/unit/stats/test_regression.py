"""A straight line through points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from seedbed.errors import SeedbedError
from seedbed.stats.regression import Line, fit_line


@pytest.mark.parametrize("seed", range(5))
def test_line_and_p_value_are_those_of_scipy(seed: int) -> None:
    chance = np.random.default_rng(seed)
    x, noise = chance.normal(size=30 + seed), chance.normal(size=30 + seed)
    y = 0.3 * seed * x + noise - 1
    line, known = fit_line(x.tolist(), y.tolist()), stats.linregress(x, y)
    assert math.isclose(line.slope, known.slope, rel_tol=1e-9)
    assert math.isclose(line.intercept, known.intercept, rel_tol=1e-9)
    assert math.isclose(line.p, known.pvalue, rel_tol=1e-6)


def test_points_on_a_line_leave_no_doubt() -> None:
    line = fit_line([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 5.0, 7.0])
    assert (line.slope, line.intercept, line.p) == (2.0, 1.0, 0.0)


@pytest.mark.parametrize(("x", "y"), [([1.0] * 4, [0.0, 1.0, 0.0, 1.0]), ([1.0, 2.0, 3.0, 4.0], [0.5] * 4)])
def test_without_spread_no_slope_is_seen(x: list[float], y: list[float]) -> None:
    assert fit_line(x, y) == Line(0.0, 0.5, 1.0, 4)


def test_two_points_are_too_few() -> None:
    with pytest.raises(SeedbedError, match="at least 3"):
        fit_line([0.0, 1.0], [0.0, 1.0])
