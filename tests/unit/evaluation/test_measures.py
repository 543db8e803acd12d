from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from seedbed.errors import SettingsError
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.measures import Calibration, confidence_of, expected_calibration_error
from seedbed.evaluation.metrics.metric import Score, better, metric
from seedbed.evaluation.metrics.registry import parse_metric
from seedbed.runs.run import Call, Child, Decision, Run
from seedbed.testing.metric import a_run

TASK = Task("t", {"q": 1}, "Paris")


@pytest.mark.parametrize(
    ("name", "value"), [("latency_seconds", 0.5), ("tokens", 24), ("cost_usd", 0.002), ("turns", 2), ("length", 1)]
)
async def test_what_a_run_took_is_measured_and_less_is_better(name: str, value: float) -> None:
    assert await parse_metric(name)(a_run(), TASK) == Score(value)
    assert better(parse_metric(name)) == "lower"


async def test_a_run_is_finished_only_if_it_was_completed() -> None:
    assert await parse_metric("finished")(a_run(), TASK) == Score(1.0)
    assert await parse_metric("finished")(a_run(status="cost_limited"), TASK) == Score(0.0, "cost_limited")
    assert await parse_metric("finished")(a_run(status="failed", error="no model"), TASK) == Score(
        0.0, "failed: no model"
    )


@pytest.mark.parametrize(
    ("written", "output", "value"),
    [
        ("length", "one two  three\n", 3),
        ("length", None, 0),
        ("length(unit='characters')", "naïve", 5),
        ("length_within(at_most=3)", "one two three", 1),
        ("length_within(at_most=2)", "one two three", 0),
        ("length_within(at_least=4)", "one two three", 0),
        ("length_within(at_least=3, at_most=3)", "one two three", 1),
        ("length_within(at_most=5, unit='characters')", "one two", 0),
        ("length_within", "anything", 1),
    ],
)
async def test_length_is_counted_and_bounded(written: str, output: Any, value: float) -> None:
    told = await parse_metric(written)(a_run(output), TASK)
    assert told.value == value
    assert value or output is None or "; expected at" in told.reason


@pytest.mark.parametrize(
    "written", ["length(unit='lines')", "length_within(at_most='five')", "rule_violations(never='x')"]
)
def test_bounds_that_cannot_be_are_refused(written: str) -> None:
    with pytest.raises(SettingsError):
        parse_metric(written)


async def test_offences_are_unsafe_and_plain_words_are_not() -> None:
    chosen = parse_metric("safety")
    for polite in ("The parcel arrives on Monday.", "", None, "I am sorry that it was late."):
        value = (await chosen(a_run(polite), TASK)).value
        assert value is not None
        assert 0.7 < value <= 1
    for rude in ("You are a stupid idiot.", "Shut up, you disgusting pig, I will kill you."):
        value = (await chosen(a_run(rude), TASK)).value
        assert value is not None
        assert 0 <= value < 0.3


def decision(point: str, action: str, confidence: float | None = None) -> Decision:
    return Decision(point=point, action=action, because="", propensity=None, confidence=confidence)


def call(tool: str, error: str = "") -> Call:
    return Call(tool=tool, arguments={}, result=None, error=error, changes=True, latency_seconds=0)


FORBIDDEN = "refund: never: refund"
UNCONFIRMED = "send: confirm: send, and nobody confirmed it"
TROUBLE = {
    "nothing tried": ({}, 0, ""),
    "a refused confirmation": ({"decisions": (decision("confirm send", "no"),)}, 1, "send"),
    "a given confirmation": ({"decisions": (decision("confirm send", "yes"),)}, 0, ""),
    "a forbidden action ended it": ({"status": "failed", "error": FORBIDDEN}, 1, "refund"),
    "the same one twice told": (
        {"status": "failed", "error": UNCONFIRMED, "decisions": (decision("confirm send", "no"),)},
        1,
        "send",
    ),
    "two": ({"error": FORBIDDEN, "decisions": (decision("confirm send", "no"),)}, 2, "send, refund"),
    "an error of another kind": ({"error": "send: timeout", "calls": (call("send", "it never came"),)}, 0, ""),
    "in a run it opened": (
        {"children": (Child(run="c", step="s", status="failed", output=None, error=FORBIDDEN, tokens=0, cost_usd=0),)},
        1,
        "refund",
    ),
}


@pytest.mark.parametrize("name", TROUBLE)
async def test_actions_that_the_rules_stopped_are_counted_and_named(name: str) -> None:
    changes, value, reason = TROUBLE[name]
    assert await parse_metric("rule_violations")(a_run(**changes), TASK) == Score(value, reason)


async def test_actions_that_nothing_stopped_are_counted_by_pattern() -> None:
    run = a_run(calls=(call("delete_all"), call("look")), decisions=(decision("way", "delete_one"), decision("x", "y")))
    told = await parse_metric("rule_violations(never=['delete_*'])")(run, TASK)
    assert told == Score(2.0, "delete_all, delete_one")
    assert better(parse_metric("rule_violations")) == "lower"


async def test_confidence_is_scored_by_how_far_it_was_from_the_truth() -> None:
    chosen = parse_metric("calibration")
    right, wrong = await chosen(a_run("Paris"), TASK), await chosen(a_run("Rome"), TASK)
    assert right.value == pytest.approx(0.01)
    assert wrong.value == pytest.approx(0.81)
    assert (right.reason, right.answer) == ("confidence 0.9, exact_match 1.0", "paris")
    half = await parse_metric("calibration(of='f1')")(a_run("Paris France"), TASK)
    assert half.value == pytest.approx((0.9 - 2 / 3) ** 2)


async def test_the_last_turn_tells_the_confidence_and_without_turns_the_last_decision() -> None:
    (turn, _) = a_run().turns
    decided = (decision("way", "left", 0.2), decision("way", "right"))
    unsure = a_run(turns=(turn, replace(turn, confidence=0.5), replace(turn, confidence=None)), decisions=decided)
    assert (await parse_metric("calibration")(unsure, TASK)).value == pytest.approx(0.25)
    assert (await parse_metric("calibration")(a_run(turns=(), decisions=decided), TASK)).value == pytest.approx(0.64)


async def test_calibration_is_unscored_without_confidence_or_a_truth_to_compare_it_with() -> None:
    chosen = parse_metric("calibration")
    assert confidence_of(a_run(turns=())) is None
    assert await chosen(a_run(turns=()), TASK) == Score(None, "the run has no confidence")
    assert await chosen(a_run(), Task("t", {"q": 1})) == Score(None, "exact_match: the task has no expected answer")
    assert (await Calibration("tokens")(a_run(), TASK)).value is None


async def test_what_calibration_is_follows_the_metric_it_is_of() -> None:
    def right(run: Run, task: Task) -> float:
        return 1.0

    one, two = metric(version=1)(right), metric(version=2)(right)
    assert Calibration(one).identity != Calibration(two).identity
    assert Calibration(one).name == "calibration(of='right')"
    with pytest.raises(SettingsError):
        Calibration("f3")


def test_the_expected_calibration_error_holds_those_who_are_about_as_sure_against_how_often_they_are_right() -> None:
    honest = [n / 100 for n in range(5, 100, 10) for _ in range(100)]
    right = [float(n % 100 < round(sure * 100)) for n, sure in enumerate(honest)]
    assert expected_calibration_error(honest, right) == pytest.approx(0)
    assert expected_calibration_error([1.0] * 4, [1, 0, 0, 0]) == 0.75
    # What is too sure here and not sure enough there does not cancel out.
    assert expected_calibration_error([0.9, 0.1], [0.5, 0.5]) == pytest.approx(0.4)
    assert expected_calibration_error([0.9, 0.1], [0.5, 0.5], bins=1) == pytest.approx(0)


@pytest.mark.parametrize(("sure", "right"), [([], []), ([0.5], []), ([1.5], [1.0]), ([0.5], [float("nan")])])
def test_no_calibration_error_is_told_of_what_is_no_confidence(sure: list[float], right: list[float]) -> None:
    with pytest.raises(ValueError, match=r"found|argument"):
        expected_calibration_error(sure, right)
