"""How alike two answers are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.stage.dialogue.answers import COMPARED, AnswerText


def likeness(one: str, other: str) -> float:
    return AnswerText(one).like(AnswerText(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the answer is 12", "the answer is 13"),
        ("after the checks this is safe to release", "after the checks this is not safe to release"),
        ("it is done, we can ship it", "it isn't done, we can ship it"),
        ("a notice of three months, a deposit of two", "a notice of two months, a deposit of two"),
    ],
)
def test_a_number_or_a_negation_makes_texts_unlike(one: str, other: str) -> None:
    assert likeness(one, other) <= 0.5 < likeness(one, f"{one}, as I said")


@given(st.text(max_size=200), st.text(max_size=200))
def test_likeness_is_a_share_the_same_both_ways_and_1_for_equal_texts(one: str, other: str) -> None:
    assert 0 <= likeness(one, other) <= 1
    assert likeness(one, other) == pytest.approx(likeness(other, one))
    assert likeness(one, one) == 1


def test_of_a_huge_answer_only_the_ends_are_read() -> None:
    body = "lorem ipsum dolor " * COMPARED
    assert likeness(f"{body}12", f"{body}12, and that is all") > 0.5
    assert likeness(f"{body}12", f"{body}13") <= 0.5
