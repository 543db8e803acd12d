"""Regular expressions of others are matched as Python does, but not for ever."""

from __future__ import annotations

import re

import pytest

from seedbed.expressions import count, find


@pytest.mark.parametrize(
    ("pattern", "text", "whole", "match"),
    [
        ("a+", "baab", False, "aa"),
        ("a+", "baab", True, None),
        ("(a*)b", "aab", True, "aa"),
        ("(x)?b*", "b", False, ""),
        ("order", "my order", False, "order"),
        ("o(r)", "my order", False, "r"),
        ("[ä🙂]+", "x🙂ä\ny", False, "🙂ä"),
        ("z+", "abc", False, None),
    ],
)
def test_a_match_is_its_first_group_or_all_of_it(pattern: str, text: str, whole: bool, match: str | None) -> None:
    assert find(pattern, text, whole=whole) == match


def test_matches_are_counted() -> None:
    assert (count("a+", "aa ba", flags=re.IGNORECASE), count("A", "aA a", flags=re.IGNORECASE)) == (2, 3)


def test_what_is_no_expression_is_an_error() -> None:
    with pytest.raises(re.error):
        find("(unclosed [", "text")


def test_one_that_takes_too_long_is_ended_and_the_next_is_matched() -> None:
    with pytest.raises(ValueError, match="took longer than 1 s"):
        find("(a|a)*(a|aa)+$", "a" * 60 + "b")
    assert find("b+", "abba") == "bb"
