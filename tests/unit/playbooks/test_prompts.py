"""Placeholders: only what is meant as one is filled, and what was filled in is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.playbooks.prompts import Placeholder, fill, placeholders


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("{question}", ["{question}"]),
        ("{a} and {b.model} and {a}", ["{a}", "{b.model}"]),
        ('{"json": {"a": 1}} {not a name} {1} {} {{literal}}', []),
        ("{größe} {日本}", ["{größe}", "{日本}"]),
        ("{{{x}}}", []),
    ],
)
def test_what_counts_as_a_placeholder(prompt: str, names: list[str]) -> None:
    assert [str(each) for each in placeholders(prompt)] == names


def test_filled_text_is_not_searched_again() -> None:
    assert fill("{a} {b}", {Placeholder("a"): "{b}", Placeholder("b"): "{{a}}"}) == "{b} {{a}}"


def test_doubled_braces_are_plain_text() -> None:
    assert fill("{{name}} {name}", {Placeholder("name"): "x"}) == "{name} x"


def test_the_model_of_a_step_has_its_own_value() -> None:
    values = {Placeholder("a"): "answer", Placeholder("a", of_model=True): "fast"}
    assert fill("{a.model} said {a}", values) == "fast said answer"


def test_a_placeholder_without_value_raises() -> None:
    with pytest.raises(KeyError):
        fill("{a}", {})


@given(st.text())
def test_text_without_placeholders_stays_as_it_is(text: str) -> None:
    if "{" not in text:
        assert fill(text, {}) == text
