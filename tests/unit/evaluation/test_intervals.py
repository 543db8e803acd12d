from __future__ import annotations

import math

import pytest

from seedbed.evaluation.intervals import mean_gain, mean_score, score_range
from seedbed.stats.estimates import mean_interval, paired_interval
from seedbed.stats.scores import difference_interval, score_interval


def test_scores_from_0_to_1_have_an_interval_inside_that() -> None:
    scores = [0.0, 0.1, 0.05, 0.9]
    assert mean_score("f1", scores) == score_interval(scores)
    assert mean_interval(scores).low < 0 <= mean_score("f1", scores).low
    assert score_range("f1", scores) == (0.0, 1.0)


@pytest.mark.parametrize("metric", ["cost_usd", "length(unit='words')"])
def test_what_is_measured_is_never_below_nothing_and_has_no_largest_value(metric: str) -> None:
    assert score_range(metric, [0.1, 0.2]) == (0.0, math.inf)
    found = mean_score(metric, [0.0, 0.1, 0.9])
    assert (found.low, found.high) == (0.0, mean_interval([0.0, 0.1, 0.9]).high)


def test_other_scores_may_be_anything() -> None:
    assert mean_score("points", [-3.0, 8.0]) == mean_interval([-3.0, 8.0])
    assert mean_gain("points", [3.0, 8.0], [4.0, 7.0]) == paired_interval([3.0, 8.0], [4.0, 7.0])


def test_a_gain_is_the_second_minus_the_first_and_allows_for_sources() -> None:
    before, after, sources = [0.0, 0.5, 1.0, 0.0], [1.0, 0.5, 0.5, 1.0], ["a", "a", "b", "b"]
    assert mean_gain("m", before, after, sources) == difference_interval([1.0, 0.0, -0.5, 1.0], sources)
