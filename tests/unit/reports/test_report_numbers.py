"""Numbers as people read them."""

from __future__ import annotations

import math

from seedbed.reports.numbers import (
    counted,
    difference_texts,
    gain_text,
    interval_texts,
    number,
    playbook_name,
    score_text,
    shortened,
)
from seedbed.stats.estimates import Interval, mean_interval

KNOWN = Interval(0.25, -0.1, 0.6, 0.95, 8)
UNKNOWN = Interval(0.25, -math.inf, math.inf, 0.95, 1)


def test_numbers_are_as_long_as_they_need_be() -> None:
    assert [number(value) for value in (0.0, 0.5, 0.00012, 12.3456, 123456.0, -0.25)] == [
        *("0.000", "0.500", "0.00012", "12.346", "123,456", "-0.250")
    ]
    assert interval_texts(mean_interval([0.5])) == ("0.500", "")
    assert interval_texts(mean_interval([])) == ("no score", "")


def test_a_difference_has_its_sign_and_says_where_its_range_is_not_known() -> None:
    assert difference_texts(KNOWN) == ("+0.250", "-0.100 to +0.600")
    assert difference_texts(UNKNOWN) == ("+0.250", "not known")
    assert (gain_text(KNOWN), gain_text(UNKNOWN)) == ("+0.250 [-0.100, +0.600]", "+0.250")


def test_a_score_has_its_range_where_there_is_one() -> None:
    assert (score_text(KNOWN), score_text(UNKNOWN)) == ("0.250 [-0.100, 0.600]", "0.250")
    assert score_text(Interval(math.nan, 0, 1, 0.95, 0)) == "not tried"
    assert str(KNOWN) == "0.250 (-0.100 to 0.600)"


def test_an_interval_is_cut_at_what_values_can_be() -> None:
    assert KNOWN.within(0, 0.5) == Interval(0.25, 0, 0.5, 0.95, 8)
    assert Interval(1.2, -math.inf, math.inf, 0.95, 1).within(0, 1) == Interval(1, -math.inf, math.inf, 0.95, 1)


def test_names_are_short_and_on_one_line() -> None:
    assert [playbook_name(name) for name in ("a/sorter.yaml", "sorter", "versions/a/1.0.0")] == [
        *("sorter", "sorter", "versions/a/1.0.0")
    ]
    assert shortened("a\nb " * 30) == "a b " * 6 + "a…"
    assert (counted(1, "task"), counted(1200, "task")) == ("1 task", "1,200 tasks")
