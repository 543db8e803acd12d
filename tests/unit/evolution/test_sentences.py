from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variation_samples import random_text

from seedbed.evolution.variation import sentences
from seedbed.evolution.variation.sentences import CUES, FORMS, INSTRUCTIONS, split
from seedbed.playbooks.prompts import placeholders

TEXT = "Read it. Be exact. Be brief.\nMessage: {text}\nMood:"

Way = Callable[[str, np.random.Generator], str | None]
WAYS: dict[str, Way] = {
    "dropped": sentences.drop_sentence,
    "swapped": sentences.swap_sentences,
    "duplicated": sentences.repeat_sentence,
    "inserted": lambda text, chance: sentences.insert_sentence(text, INSTRUCTIONS, chance),
    "exchanged": lambda text, chance: sentences.replace_sentence(text, INSTRUCTIONS, chance),
    "crossed": lambda text, chance: sentences.cross_sentences(
        text, "Read all. Be exact. {other} is it.\nResult:", chance
    ),
    "formed": sentences.change_form,
    "cued": sentences.change_cue,
    "switched": sentences.toggle_list,
}


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def all_of(way: Way, text: str) -> set[str | None]:
    """What a way gives by many chances."""
    return {way(text, chance(seed)) for seed in range(200)}


# Splitting


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Read it. Be brief! Sure?", ["Read it.", "Be brief!", "Sure?"]),
        ("No full stop\nNext line", ["No full stop", "Next line"]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("Use 3.5, e.g. here. Mr. Who vs. Dr. No.", ["Use 3.5, e.g. here.", "Mr. Who vs. Dr. No."]),
        ("1. First. 2nd\n2. Second", ["1. First.", "2nd", "2. Second"]),
        ("Run:\n```\na. b.\n\nc\n```\nDone.", ["Run:", "```\na. b.\n\nc\n```", "Done."]),
        ('{"a": "x. y",\n "b": {"c": 1}}\nGo.', ['{"a": "x. y",\n "b": {"c": 1}}', "Go."]),
        ("你好。再见！ Ok", ["你好。", "再见！", "Ok"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_a_text_is_split_by_lines_and_sentences(text: str, pieces: list[str]) -> None:
    assert list(split(text).texts) == pieces


@given(st.text(alphabet=' \n\t.!?{}`ab。:-1"', max_size=80) | st.text(max_size=80))
def test_sentences_put_together_give_the_text_back(text: str) -> None:
    found = split(text)
    assert str(found) == text
    assert all(each.strip() for each in found.texts)
    assert all(not gap.strip() for gap in found.gaps)


# What holds for all of them


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(WAYS)))
def test_no_way_loses_or_adds_a_placeholder_or_gives_the_same_text(seed: int, way: str) -> None:
    text = random_text(random.Random(seed), "text", "other")
    changed = WAYS[way](text, chance(seed))
    if changed is not None:
        assert set(placeholders(changed)) == set(placeholders(text))
        assert changed != text
        assert changed.strip()


@pytest.mark.parametrize("way", sorted(WAYS))
def test_the_same_chance_gives_the_same_text_and_others_give_others(way: str) -> None:
    assert WAYS[way](TEXT, chance(1)) == WAYS[way](TEXT, chance(1))
    assert len(all_of(WAYS[way], TEXT)) >= (1 if way == "switched" else 3)


@pytest.mark.parametrize("way", sorted({*WAYS} - {"cued"}))
def test_a_cue_stays_at_the_end(way: str) -> None:
    assert all(text.endswith("\nMood:") for text in all_of(WAYS[way], TEXT) if text)


@pytest.mark.parametrize("way", sorted({*WAYS} - {"inserted", "formed", "crossed"}))
def test_there_is_nothing_to_change_in_an_empty_text(way: str) -> None:
    assert WAYS[way]("", chance()) is None


# Each of them


def test_each_sentence_but_those_with_placeholders_can_be_dropped() -> None:
    assert all_of(sentences.drop_sentence, TEXT) == {
        "Be exact. Be brief.\nMessage: {text}\nMood:",
        "Read it. Be brief.\nMessage: {text}\nMood:",
        "Read it. Be exact.\nMessage: {text}\nMood:",
    }
    assert all_of(sentences.drop_sentence, "{text}\nRead it.\n") == {"{text}\n"}
    assert all_of(sentences.drop_sentence, "Only this.") == {None}


def test_sentences_change_places_and_white_space_stays() -> None:
    assert all_of(sentences.swap_sentences, "A.\nB. {c}") == {"B.\nA. {c}", "{c}\nB. A.", "A.\n{c} B."}
    assert all_of(sentences.swap_sentences, "A. A.") == {None}


def test_a_sentence_is_said_once_more_and_never_thrice() -> None:
    assert all_of(sentences.repeat_sentence, "A. B.") == {"A. B. A.", "A. B. B.", "A. A. B.", "B. A. B."}
    assert all_of(sentences.repeat_sentence, "A. A.") == {None}


def test_a_sentence_of_the_bank_comes_to_any_place_before_the_cue() -> None:
    def way(text: str, by: np.random.Generator) -> str | None:
        return sentences.insert_sentence(text, ["Be kind", "Ask {nobody}.", "A."], by)

    assert all_of(way, "A. {b}\nMood:") == {
        "Be kind. A. {b}\nMood:",
        "A. Be kind.\n{b}\nMood:",
        "A. {b}\nBe kind.\nMood:",
    }
    assert all_of(way, "A.") == {"Be kind. A.", "A. Be kind."}
    assert all_of(way, "") == {"Be kind", "A."}


def test_what_comes_to_a_list_is_an_item() -> None:
    def way(text: str, by: np.random.Generator) -> str | None:
        return sentences.insert_sentence(text, ["Be kind", "a"], by)

    assert all_of(way, "- a\n- b") == {"- Be kind\n- a\n- b", "- a\n- Be kind\n- b", "- a\n- b\n- Be kind"}


def test_a_sentence_is_replaced_by_one_of_the_bank() -> None:
    def way(text: str, by: np.random.Generator) -> str | None:
        return sentences.replace_sentence(text, ["C.", "D."], by)

    assert all_of(way, "A. {b}") == {"C. {b}", "D. {b}"}
    assert all_of(way, "{b}") == {None}


def test_a_mixture_has_what_both_share_and_of_the_rest_each_from_one() -> None:
    mixed = all_of(lambda text, by: sentences.cross_sentences(text, "One. Same. Two.", by), "Uno. Same. Due.")
    assert mixed == {None, "One. Same. Due.", "Uno. Same. Two."}


def test_a_mixture_tells_the_task_once() -> None:
    for text in all_of(
        lambda text, by: sentences.cross_sentences(text, "Be so kind. Text: {text}", by), "{text}\nBe brief."
    ):
        assert text is None or text.count("{text}") == 1


def test_a_text_asks_for_one_form_of_answer_at_most() -> None:
    first = all_of(sentences.change_form, "Read it.")
    assert first == {f"Read it. {form}" for form in FORMS}
    second = all_of(sentences.change_form, f"Read it. {FORMS[0]}")
    assert second == {"Read it."} | {f"Read it. {form}" for form in FORMS[1:]}


def test_a_cue_is_set_exchanged_and_taken_away() -> None:
    assert all_of(sentences.change_cue, "Text: {text}") == {f"Text: {{text}}\n{cue}" for cue in CUES}
    assert all_of(sentences.change_cue, "{text}\nMood:") == {"{text}", *(f"{{text}}\n{cue}" for cue in CUES)}
    assert all_of(sentences.change_cue, "Read the message.") == {None}
    assert all_of(sentences.change_cue, "The mood of {text} is:") == {None}


def test_sentences_become_a_list_and_a_list_sentences() -> None:
    listed = "- Read it.\n- Be exact.\n- Be brief.\nMessage: {text}\nMood:"
    assert sentences.make_list(TEXT) == listed
    assert sentences.make_prose(listed) == TEXT
    assert sentences.make_prose("Mind:\n1. this\n2) that") == "Mind:\nthis. that."
    assert sentences.make_list("One only.") is None
    assert sentences.make_prose("No list.") is None
