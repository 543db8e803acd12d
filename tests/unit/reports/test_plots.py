"""Plots: marks stand where their numbers are."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.reports.plots import bars, forest, histogram
from seedbed.stats.estimates import Interval

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def test_intervals_are_drawn_to_scale() -> None:
    picture = drawn(forest([("a", Interval(0.5, 0.25, 0.75, 0.95, 9), 0), ("b", Interval(1, 0.5, 1, 0.95, 9), 1)], "m"))
    lines = [line for line in picture.iter("line") if line.get("class")]
    first, second = ((float(line.get("x1", 0)), float(line.get("x2", 0))) for line in lines)
    (a, b) = (float(circle.get("cx", 0)) for circle in picture.iter("circle"))
    assert first[1] - first[0] == pytest.approx(second[1] - second[0], abs=0.2)
    assert a == pytest.approx((first[0] + first[1]) / 2, abs=0.2)
    assert b == second[1]
    assert a == second[0]


def test_what_has_no_interval_is_a_point_and_what_has_no_score_a_word() -> None:
    rows = [("one", Interval(0.5, -math.inf, math.inf, 0.95, 1), 0), ("none", Interval(math.nan, 0, 1, 0.95, 0), 0)]
    picture = drawn(forest(rows, "m"))
    assert len(list(picture.iter("circle"))) == 1
    assert not [line for line in picture.iter("line") if line.get("class")]
    assert "no score" in "".join(picture.itertext())


def test_bars_are_shares_of_the_whole_and_never_longer() -> None:
    picture = drawn(bars([("half", 0.5, "5 of 10"), ("more", 1.5, "15 of 10"), ("none", 0.0, "0 of 10")], "spent"))
    wide = {
        kind: [float(each.get("width", 0)) for each in picture.iter("rect") if each.get("class") == kind]
        for kind in ("whole", "s1")
    }
    assert [part / whole for part, whole in zip(wide["s1"], wide["whole"], strict=True)] == [0.5, 1.0, 0.0]
    assert "15 of 10" in "".join(picture.itertext())
    assert bars([], "spent") == ""


def test_a_histogram_counts_every_value_once() -> None:
    picture = histogram([0.0, 0.05, 0.1, 0.5, 1.0, 1.0], "m")
    counts = [int(each) for each in re.findall(r'class="count"[^>]*>(\d+)<', picture)]
    assert (sum(counts), counts) == (6, [2, 1, 1, 2])


def test_right_and_wrong_are_two_bars() -> None:
    assert len(list(drawn(histogram([0.0, 1.0, 1.0], "m")).iter("rect"))) == 2


def test_marks_are_named() -> None:
    picture = drawn(histogram([1.0, 2.0, 30.0], "seconds", [("p50", 2.0)]))
    assert "p50" in "".join(picture.itertext())


def test_nothing_has_no_picture() -> None:
    assert histogram([], "m") == ""


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), st.text(max_size=20))
def test_any_values_and_names_give_a_picture(values: list[float], name: str) -> None:
    name = "".join(letter for letter in name if letter.isprintable())
    rows = [(name, Interval(value, value - 1, value + 1, 0.95, 3), n) for n, value in enumerate(values)]
    for picture in (forest(rows, name), histogram(values, name)):
        numbers = re.findall(r' (?:x|y|x1|x2|cx|width|height)="([^"]*)"', picture)
        assert all(math.isfinite(float(number)) for number in numbers)
        drawn(picture)
