"""Which words content is found by."""

from __future__ import annotations

import pytest

from seedbed.storage.content import SEARCHED_CHARACTERS, words, words_of


def test_words_are_letters_and_digits_in_lower_case() -> None:
    assert words("The Quick-brown_fox: it's über Straße, 日本 4.") == (
        ["the", "quick", "brown", "fox", "it", "s", "über", "strasse", "日本", "4"]
    )


def test_a_text_is_found_however_it_is_written() -> None:
    assert words("STRASSE ΣΊΣΥΦΟΣ") == words("straße σίσυφος")


def test_a_body_has_the_words_of_all_its_texts_and_of_no_key() -> None:
    assert words_of({"key": "one", "more": ["two", {"deep": "three"}, 4, None, ""]}) == ["one", "two", "three"]


def test_texts_side_by_side_do_not_grow_together() -> None:
    assert words_of(["rain", "bow"]) == ["rain", "bow"]


@pytest.mark.parametrize("body", [{"sealed": "1:QUJD"}, {}, {"a": None}, [], 7])
def test_a_body_without_readable_text_has_no_words(body: object) -> None:
    assert words_of(body) == []


def test_a_field_that_happens_to_be_called_sealed_is_text_like_any_other() -> None:
    assert words_of({"box": {"sealed": "envelope"}}) == ["envelope"]


def test_long_words_are_cut_and_so_are_long_texts() -> None:
    assert [len(word) for word in words("x" * 450)] == [200, 200, 50]
    assert words("x " * SEARCHED_CHARACTERS) == ["x"] * (SEARCHED_CHARACTERS // 2)
