"""Plots: marks stand where their numbers are."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.reports.figure import Figure
from seedbed.reports.plots import (
    FINE,
    Axes,
    ScatterPoint,
    Series,
    bars,
    chart,
    forest,
    histogram,
    scatter,
    strip,
)
from seedbed.stats.estimates import Interval


def drawn(picture: Figure | None) -> ElementTree.Element:
    assert picture is not None
    return ElementTree.fromstring(picture.__html__())


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
    assert bars([], "spent") is None


def test_a_histogram_counts_every_value_once() -> None:
    picture = histogram([0.0, 0.05, 0.1, 0.5, 1.0, 1.0], "m")
    assert picture is not None
    counts = [int(each) for each in re.findall(r'class="count"[^>]*>(\d+)<', picture.marks)]
    assert (sum(counts), counts) == (6, [2, 1, 1, 2])


def test_right_and_wrong_are_two_bars() -> None:
    assert len(list(drawn(histogram([0.0, 1.0, 1.0], "m")).iter("rect"))) == 2


def test_marks_are_named() -> None:
    picture = drawn(histogram([1.0, 2.0, 30.0], "seconds", [("p50", 2.0)]))
    assert "p50" in "".join(picture.itertext())


def test_every_figure_says_in_words_what_it_shows() -> None:
    interval = Interval(0.5, 0.25, 0.75, 0.95, 9)
    line = Series("now", [(1, 0.0), (2, None), (3, 2.0)], "path")
    for figure, words in (
        (forest([("a", interval, 0)], "m"), "a: 0.500, 0.250 to 0.750"),
        (bars([("runs", 0.5, "5 of 10")], "m"), "runs: 5 of 10"),
        (histogram([0.0, 1.0, 1.0], "m", [("p50", 1.0)]), "3 values: 1 from 0.000 to 0.500; 2 from 0.500 to 1.000"),
        (chart([line], "m"), "now: 0.000 at 1, 2.000 at 3 tasks"),
        (strip("+=-+", "m"), "2 better, 1 same, 1 worse"),
        (scatter([spot("a", 0.5, 0.25)], "cost", "quality", "m"), "a: 0.500, 0.250, on the front"),
    ):
        assert words in (drawn(figure).findtext("desc") or "")
        assert drawn(figure).findtext("title") == drawn(figure).get("aria-label") == "m"


def test_nothing_has_no_picture() -> None:
    assert histogram([], "m") is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), st.text(max_size=20))
def test_any_values_and_names_give_a_picture(values: list[float], name: str) -> None:
    name = "".join(letter for letter in name if letter.isprintable())
    rows = [(name, Interval(value, value - 1, value + 1, 0.95, 3), n) for n, value in enumerate(values)]
    for picture in (forest(rows, name), histogram(values, name)):
        assert picture is not None
        numbers = re.findall(r' (?:x|y|x1|x2|cx|width|height)="([^"]*)"', picture.__html__())
        assert all(math.isfinite(float(number)) for number in numbers)
        drawn(picture)


# Lines, outcomes and several measures

finite = st.floats(-1e6, 1e6)


def places(picture: Figure | None, kind: str) -> list[list[tuple[float, float]]]:
    """The corners of each stretch of a line."""
    found = []
    for path in drawn(picture).iter("path"):
        if kind in (path.get("class") or "").split():
            for stretch in path.get("d", "").split("M")[1:]:
                corners = (corner.split() for corner in stretch.removesuffix("Z").split("L"))
                found.append([(float(x), float(y)) for x, y in corners])
    return found


def spot(name: str, x: float, y: float, reach: float = 0.1, lit: bool = True) -> ScatterPoint:
    ends = (Interval(mean, mean - reach, mean + reach, 0.95, 9) for mean in (x, y))
    return ScatterPoint(name, *ends, lit)


def test_evidence_that_reaches_its_bound_is_drawn_there() -> None:
    path = Series("now", [(1, 0.0), (2, 1.0), (3, 2.0)], "path")
    bound = Series("ends in favour", [(1, None), (2, 2.0), (3, 2.0)], "bound")
    picture = chart([path, bound], "evidence")
    (walk,), (end,) = places(picture, "path"), places(picture, "bound")
    assert walk[-1] == end[-1]
    assert len(end) == 2
    assert walk[0][1] - walk[1][1] == pytest.approx(walk[1][1] - walk[2][1], abs=0.2)
    assert walk[1][0] - walk[0][0] == pytest.approx(walk[2][0] - walk[1][0], abs=0.2)


def test_a_bound_has_a_gap_where_no_value_would_end_the_test() -> None:
    bound = Series("ends", [(1, 1.0), (2, 1.0), (3, None), (4, 2.0)], "bound")
    assert [len(each) for each in places(chart([bound], "evidence"), "bound")] == [2, 1]


def test_kinds_of_lines_differ_in_more_than_colour() -> None:
    style = forest([], "m").to_svg()
    dashes = [re.search(rf"path\.{kind}{{stroke-dasharray:([\d ]+)", style) for kind in ("bound", "limit")]
    assert len({found and found[1] for found in dashes}) == 2
    assert None not in dashes


def test_logs_are_told_as_what_they_are_logs_of() -> None:
    picture = chart([Series("now", [(1, math.log(0.5)), (2, math.log(20))], "path")], "e", Axes(logs=True))
    told = "".join(drawn(picture).itertext())
    assert all(number in told for number in ("0.1", "1", "10", "100"))


def test_no_fortune_is_too_large_or_too_small_to_tell() -> None:
    picture = chart([Series("now", [(1, -2000.0), (2, 2000.0)], "path")], "e", Axes(logs=True))
    assert "1e-869" in "".join(drawn(picture).itertext())


def test_a_long_path_is_thinned_and_keeps_its_end() -> None:
    points = [(n, float(n % 7)) for n in range(1, 10_001)]
    (walk,) = places(chart([Series("now", points, "path")], "evidence"), "path")
    assert len(walk) <= FINE + 1
    (again,) = places(chart([Series("now", points[-2:], "path")], "evidence"), "path")
    assert walk[-1][0] == again[-1][0]


def test_the_band_is_around_the_line() -> None:
    picture = chart([Series("mean", [(1, 0.0), (2, 0.1)], "path")], "difference", band=[(1, -1.0, 1.0), (2, -0.2, 0.4)])
    (walk,), (edge,) = places(picture, "path"), places(picture, "band")
    first_high, last_high, last_low, first_low = (y for _, y in edge)
    assert first_high < walk[0][1] < first_low
    assert last_high < walk[1][1] < last_low
    assert last_low - last_high == pytest.approx(0.3 * (first_low - first_high), abs=0.3)


def test_every_outcome_has_a_mark_of_its_own_shape_in_its_place() -> None:
    picture = strip("+=-+", "order")
    shapes = {path.get("class"): path.get("d", "") for path in drawn(picture).iter("path")}
    starts = {kind: [float(x) for x in re.findall(r"M([\d.]+)", d)] for kind, d in shapes.items()}
    assert {kind: len(found) for kind, found in starts.items()} == {"better": 2, "same": 1, "worse": 1}
    assert starts["better"][0] < starts["same"][0] < starts["worse"][0] < starts["better"][1]
    up, down = (re.findall(r"l-[\d.]+ (-?)[\d.]+z", shapes[kind]) for kind in ("better", "worse"))
    assert (up, down) == (["-", "-"], [""])


def test_ten_thousand_outcomes_are_a_picture_of_moderate_size() -> None:
    picture = strip("+=-=" * 2500, "order")
    assert picture is not None
    assert picture.marks.count("M") == 10_000
    assert len(picture.marks) < 500_000


def test_crosses_reach_as_far_as_their_intervals() -> None:
    picture = scatter([spot("a", 0.5, 0.5), spot("b", 0.8, 0.6, 0.2)], "cost", "quality", "front")
    widths = sorted(ends[1][0] - ends[0][0] for ends in places(picture, "cross") if ends[0][1] == ends[1][1])
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.3)


def test_what_is_beaten_is_a_square_and_what_is_not_a_circle() -> None:
    picture = drawn(scatter([spot("a", 0.5, 0.5), spot("b", 0.8, 0.6, lit=False)], "cost", "quality", "front"))
    assert (len(list(picture.iter("circle"))), len(list(picture.iter("rect")))) == (1, 1)
    faint = [text.text for text in picture.iter("text") if "faint" in (text.get("class") or "")]
    assert faint == ["b"]


def test_names_of_near_spots_do_not_cover_each_other() -> None:
    picture = drawn(scatter([spot(f"playbook {n}", 0.5, 0.5 + n / 1000) for n in range(5)], "x", "y", "front"))
    heights = [float(text.get("y", 0)) for text in picture.iter("text") if (text.text or "").startswith("playbook")]
    assert len(heights) == 5
    assert all(abs(a - b) >= 15 for n, a in enumerate(heights) for b in heights[:n])


def test_lines_and_points_without_values_have_no_picture() -> None:
    unknown = Interval(math.nan, -math.inf, math.inf, 0.95, 0)
    assert chart([Series("now", [], "path")], "m") is None
    assert chart([Series("now", [(1, None)], "path")], "m") is None
    assert strip("", "m") is None
    assert scatter([ScatterPoint("a", unknown, unknown, True)], "x", "y", "m") is None


@given(st.lists(finite, min_size=1, max_size=30), st.booleans(), st.text(max_size=20))
def test_any_lines_and_points_give_a_picture(values: list[float], logs: bool, name: str) -> None:
    name = "".join(letter for letter in name if letter.isprintable())
    values = [value / 1e4 for value in values] if logs else values
    line = Series(name, list(enumerate(values, 1)), "path")
    spots = [spot(name, value, -value, abs(value)) for value in values]
    for picture in (chart([line], name, Axes(logs=logs)), scatter(spots, name, name, name)):
        drawn(picture)
        assert picture is not None
        numbers = re.findall(r' (?:x|y|x1|x2|y1|y2|cx|cy)="([^"]*)"', picture.__html__())
        assert all(math.isfinite(float(number)) for number in numbers)
