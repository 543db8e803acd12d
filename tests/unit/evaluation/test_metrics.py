from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from seedbed.evaluation.dataset import Task
from seedbed.evaluation.metrics import ExactMatch, Score
from seedbed.runs.run import Run


async def score(output: Any, expected: Any) -> Score:
    run = Run(
        id="r",
        playbook="b2:0",
        inputs={},
        seed=1,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        status="completed",
        output=output,
        error="",
        turns=(),
        tokens=0,
        cost_usd=0.0,
        latency_seconds=0.0,
        models={},
    )
    return await ExactMatch()(run, Task("t", {"q": 1}, expected))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("positive", "positive"),
        ("  Positive.\n", "positive"),
        ('"POSITIVE"!', "positive"),
        ("**positive**", "positive"),
        ("“Straße”", "STRASSE"),
        (4, "4"),
        ("4", 4),
        (4.0, 4),
        ("4.", 4.0),
        (True, "true"),
        ({"b": 1, "a": [2]}, {"a": [2.0], "b": 1}),
        ("", ""),
        (".", "."),
    ],
)
async def test_the_expected_answer_scores_one_whatever_its_case_and_quotes(output: Any, expected: Any) -> None:
    assert (await score(output, expected)).value == 1.0


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("negative", "positive"),
        ("not positive", "positive"),
        ("positive negative", "positive"),
        ("5", "-5"),
        ("-5", 5),
        ("5", ".5"),
        ("5", "5%"),
        ("C", "C++"),
        ("C", "C#"),
        ("-", "+"),
        ("", "+"),
        ("!", "?"),
        ("", "positive"),
        (None, "positive"),
        ("1", True),
        ("posi tive", "positive"),
    ],
)
async def test_any_other_answer_scores_zero_and_says_what_was_expected(output: Any, expected: Any) -> None:
    told = await score(output, expected)
    assert told.value == 0.0
    assert told.reason.startswith("expected ")


@pytest.mark.parametrize("output", ["", None, "anything", 0])
async def test_a_task_without_an_expected_answer_is_unscored_and_not_a_zero(output: Any) -> None:
    told = await score(output, None)
    assert told.value is None
    assert "no expected answer" in told.reason


@pytest.mark.parametrize("expected", ["", 0, False])
async def test_an_expected_answer_that_happens_to_be_empty_is_scored(expected: Any) -> None:
    assert (await score("something", expected)).value == 0.0


async def test_a_score_tells_the_answer_it_took_for_one() -> None:
    assert (await score('"Positive".', "negative")).answer == "positive"


def test_what_people_call_a_metric_is_no_part_of_what_it_is() -> None:
    assert ExactMatch(name="accuracy").identity == ExactMatch().identity
