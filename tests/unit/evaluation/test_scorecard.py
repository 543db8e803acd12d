"""Scorecards: what cells come to, for whom, and how sure that is."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import SettingsError
from seedbed.evaluation.cells import Cell, Cells
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evaluation.scorecard import Percentiles, Scorecard, scorecard
from seedbed.stats.estimates import exact_rate
from seedbed.stats.scores import score_interval

P = f"b2:{'a' * 64}"


def cell(task: str, value: float | None, metric: str = "m", replicate: int = 0, **more: Any) -> Cell:
    about: dict[str, Any] = {"run": f"run {task} {replicate}", **more}
    key = f"{task} {metric} {replicate}"
    return Cell(key=key, playbook=P, task=task, replicate=replicate, metric=metric, value=value, **about)


def card(*cells: Cell, **tasks: Task) -> Scorecard:
    return Scorecard(P, "m", cells, tasks)


def task(name: str, expected: Any = None, source: str = "", *tags: str) -> Task:
    return Task(name, {"n": name}, expected, tags, source)


# Parts


def test_tags_sources_and_answers_have_scores_of_their_own() -> None:
    tasks = {
        name: task(name, answer, source, *tags)
        for name, answer, source, tags in (
            ("a", "yes", "x", ("long", "hard")),
            ("b", "no", "x", ("hard",)),
            ("c", "yes", "y", ()),
        )
    }
    found = card(cell("a", 1.0), cell("b", 0.0), cell("c", 1.0), **tasks).strata
    means = {kind: {name: part.interval.mean for name, part in parts.items()} for kind, parts in found.items()}
    assert means == {
        "tag": {"hard": 0.5, "long": 1.0},
        "source": {"x": 0.5, "y": 1.0},
        "expected": {"no": 0.0, "yes": 1.0},
    }


def test_answers_and_sources_that_are_many_have_none() -> None:
    tasks = {str(n): task(str(n), n, f"s{n}") for n in range(13)}
    assert card(*(cell(name, 1.0) for name in tasks), **tasks).strata == {}


def test_a_source_by_itself_has_the_interval_of_its_tasks() -> None:
    tasks = {str(n): task(str(n), source="even" if n % 2 == 0 else "odd") for n in range(8)}
    whole = card(*(cell(name, float(int(name) < 4)) for name in tasks), **tasks)
    assert whole.strata["source"]["odd"].interval == exact_rate(2, 4)


def test_a_scorecard_over_some_tasks_keeps_what_is_known_of_them() -> None:
    tasks = {"a": task("a", "yes"), "b": task("b", "no")}
    part = card(cell("a", 1.0), cell("b", 0.0), **tasks).only({"b": tasks["b"]})
    assert (part.interval.mean, list(part.tasks), part.metric) == (0.0, ["b"], "m")


# Intervals


def test_tasks_of_one_source_count_for_less() -> None:
    values = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    alone = card(*(cell(str(n), value) for n, value in enumerate(values)))
    shared = {str(n): task(str(n), source=str(n // 3)) for n in range(12)}
    together = card(*(cell(str(n), value) for n, value in enumerate(values)), **shared)
    assert together.interval.mean == alone.interval.mean == 0.5
    assert together.interval.high - together.interval.low > 1.3 * (alone.interval.high - alone.interval.low)


def test_a_rate_of_sources_that_all_agree_is_as_sure_as_so_many_tasks() -> None:
    shared = {str(n): task(str(n), source=str(n // 5)) for n in range(20)}
    perfect = card(*(cell(name, 1.0) for name in shared), **shared)
    assert (perfect.interval.low, perfect.interval.high) == pytest.approx((exact_rate(4, 4).low, 1.0))
    assert perfect.interval.n == 20


def test_of_one_source_nothing_can_be_said() -> None:
    shared = {str(n): task(str(n), source="x") for n in range(4)}
    interval = card(*(cell(name, float(int(name) % 2)) for name in shared), **shared).interval
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)


def test_a_task_named_like_a_source_is_not_of_it() -> None:
    tasks = {"x": task("x"), "y": task("y", source="x"), "z": task("z", source="z")}
    assert card(**tasks).sources(tasks) is None


def covered(rates: list[float], sizes: list[int], truth: float, seed: int, times: int) -> float:
    """How often the interval holds the truth, if each source draws its own rate."""
    draws = random.Random(seed)
    hits = 0
    for _ in range(times):
        tasks, cells = {}, []
        for source, size in enumerate(sizes):
            rate = draws.choice(rates)
            for n in range(size):
                name = f"{source} {n}"
                tasks[name] = task(name, source=str(source))
                cells.append(cell(name, float(draws.random() < rate)))
        interval = card(*cells, **tasks).interval
        hits += interval.low <= truth <= interval.high
    return hits / times


@pytest.mark.parametrize(
    ("rates", "sizes"),
    [
        ([0.5], [1] * 40),  # every task on its own
        ([0.9], [1] * 40),  # and near the edge
        ([0.2, 0.8], [5] * 20),  # alike within their source
        ([0.7, 1.0], [4] * 20),  # alike and near the edge
        ([0.1, 0.9], [1, 2, 3, 6] * 6),  # of unequal sizes
    ],
    ids=["alone", "alone, at the edge", "sources", "sources, at the edge", "unequal sources"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(rates: list[float], sizes: list[int]) -> None:
    # 400 draws at 95 % have a standard error of 1.1 points.
    share = covered(rates, sizes, float(np.mean(rates)), seed=7, times=400)
    assert 0.915 <= share <= 0.99


def test_who_ignores_sources_is_far_too_sure() -> None:
    """The simulation can tell: the interval for independent tasks fails it."""
    draws = random.Random(7)
    hits = 0
    for _ in range(400):
        values = [float(draws.random() < rate) for rate in draws.choices([0.2, 0.8], k=20) for _ in range(5)]
        interval = exact_rate(round(sum(values)), len(values))
        hits += interval.low <= 0.5 <= interval.high
    assert hits / 400 < 0.9


cells_in_any_order = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.none() | st.floats(0, 1)), unique_by=lambda each: each[:2]
)


@given(cells_in_any_order, st.randoms(use_true_random=False))
def test_means_do_not_depend_on_the_order_of_cells(drawn: list[tuple[int, int, float | None]], shuffle: Any) -> None:
    cells = [cell(str(name), value, replicate=replicate) for name, replicate, value in drawn]
    tasks = {str(n): task(str(n), source=str(n // 2)) for n in range(6)}
    moved = list(cells)
    shuffle.shuffle(moved)
    one, other = card(*cells, **tasks), card(*moved, **tasks)
    assert one.means == other.means
    assert (one.interval.n, one.cost_usd, one.reasons) == (other.interval.n, other.cost_usd, other.reasons)
    if one.interval.n:
        assert one.interval.mean == pytest.approx(other.interval.mean)
        assert one.interval.low == pytest.approx(other.interval.low)


def test_columns_and_objects_give_the_same_scorecard() -> None:
    cells = [cell("a", 0.25), cell("a", None, "other", reason="odd"), cell("b", 0.75), cell("b", 1.0, "other")]
    columns = scorecard(P, [ExactMatch("m")], Cells(P, cells), [task("a"), task("b")])
    assert columns.interval == card(*cells).interval == score_interval([0.25, 0.75])
    assert columns.of("other").reasons == {"odd": 1}
    assert columns.metrics == ["m", "other"]


# What went wrong


def test_the_worst_tasks_come_first_and_none_that_is_right() -> None:
    found = card(cell("a", 1.0), cell("b", 0.5), cell("c", 0.0), cell("d", None, reason="lost")).worst()
    assert [(item.task, item.value) for item in found] == [("c", 0.0), ("b", 0.5)]


def test_of_a_metric_that_is_better_low_the_highest_are_worst() -> None:
    slow = Scorecard(P, "m", (cell("a", 3.0), cell("b", 9.0), cell("c", 0.0)), {}, frozenset({"m"}))
    assert [item.task for item in slow.worst()] == ["b", "a"]


def test_a_task_is_shown_by_its_worst_replicate() -> None:
    (item,) = card(cell("a", 1.0), cell("a", 0.0, replicate=1, answer="no"), cell("a", 0.5, replicate=2)).worst()
    assert (item.value, item.cell.answer, item.cell.run) == (0.5, "no", "run a 1")


def test_reasons_are_counted_the_commonest_first() -> None:
    lost = [cell(str(n), None, reason="slow") for n in range(3)]
    assert card(cell("a", None, reason="odd"), *lost, cell("b", 0.0)).reasons == {"slow": 3, "odd": 1}


def test_what_the_money_did_not_last_for_is_known_from_other_failures() -> None:
    found = card(cell("a", None, reason="the money for this evaluation was spent"), cell("b", None, reason="timeout"))
    assert [each.task for each in found.unpaid] == ["a"]


# What it took


def test_latency_is_that_of_runs_however_many_metrics_scored_them() -> None:
    cells = [cell(str(n), 1.0, metric, latency_seconds=n) for n in range(101) for metric in ("m", "other")]
    took = card(*cells, cell("lost", None, run="")).latency_seconds
    assert took == Percentiles(50, 95, 99)
    values = [0.1, 0.4, 0.9, 3.0]
    odd = card(*(cell(str(n), 1.0, latency_seconds=value) for n, value in enumerate(values))).latency_seconds
    assert (odd.p50, odd.p95, odd.p99) == pytest.approx(np.percentile(values, [50, 95, 99]))
    assert card().latency_seconds == Percentiles()


def test_what_runs_are_worth_is_counted_once_whoever_paid() -> None:
    cells = [
        cell("a", 1.0, cost_usd=2.0),
        cell("a", 1.0, "other", cost_usd=2.0),
        cell("b", 1.0, cost_usd=3.0, reused=True),
    ]
    found = card(*cells)
    assert (found.cost_usd, found.worth_usd, found.reused) == (2.0, 5.0, 1)


# Frames


def test_a_frame_has_a_row_for_each_cell() -> None:
    tasks = {"a": task("a", {"day": 1}, "x", "hard", "long")}
    frame = card(
        cell("a", 0.5, answer="hm", cost_usd=0.25), cell("a", None, "other", reason="odd"), **tasks
    ).to_pandas()
    assert list(frame["value"].isna()) == [False, True]
    row = frame.iloc[0]
    assert (row["metric"], row["answer"], row["expected"], row["tags"]) == ("m", "hm", '{"day":1}', "hard long")
    assert frame["cost_usd"].sum() == 0.25
    assert "value" in card().to_pandas().columns


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SettingsError, match=r"seedbed\[frames\]"):
        card().to_pandas()


def test_a_scorecard_warns_of_few_sources_and_of_a_source_that_nobody_named() -> None:
    def warned(*tasks: Task) -> str:
        cells = [cell(task.id, 1.0) for task in tasks]
        return replace(card(*cells), tasks={task.id: task for task in tasks}).warning

    text = "A letter of some length, number {}"
    several = [Task(f"t{n}", {"letter": text.format(n % 10), "question": f"{n}"}) for n in range(80)]
    assert warned(*several).startswith(
        "80 tasks have 10 different texts as letter: if tasks with the same one are alike"
    )
    assert warned(*(Task(f"t{n}", {"question": n % 10}) for n in range(80))).startswith("80 tasks ask 10 different")
    assert warned(*(replace(task, source=task.inputs["letter"]) for task in several)).startswith("too few sources: 10")
    assert not warned(*(Task(f"t{n}", {"question": n}) for n in range(80)))
    assert not warned(*(Task(f"t{n}", {"question": n}, source=f"s{n % 25}") for n in range(80)))
