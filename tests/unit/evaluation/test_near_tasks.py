"""What is a copy in the same words, what only looks like one, and that near texts are found among very many."""

from __future__ import annotations

import pytest

from seedbed import Task
from seedbed.evaluation.datasets.identity import normal_text
from seedbed.evaluation.datasets.near_tasks import copies, count_alike, leaks
from seedbed.evaluation.datasets.wording import Wording

QUESTION = "If Ann walks four miles to the old market, how many miles is that in a week?"


def tasks(*texts: str) -> list[Task]:
    return [Task(f"t{n}", {"q": text}) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    "copy",
    [
        QUESTION.replace("walks", "walks,"),
        QUESTION.replace("old market", "old–market"),
        f"Good evening! {QUESTION}",
        f"Task 12: {QUESTION} Think about it, please, and then give me the answer in a few words of your own.",
        QUESTION.replace("the old", "the rather old"),
        QUESTION.replace("market", "markket"),
        QUESTION.replace("walks four", "four walks"),
        QUESTION.replace("If Ann", "Suppose that Ann"),
        "如果 " + QUESTION,
    ],
)
def test_the_same_words_are_a_copy(copy: str) -> None:
    one, other = (Wording(normal_text(text)) for text in (QUESTION, copy))
    assert one.repeats(other)
    assert other.repeats(one)


@pytest.mark.parametrize(
    "other",
    [
        QUESTION.replace("four", "seven"),
        QUESTION.replace("is that", "is that not"),
        QUESTION.replace("Ann", "Bob"),
        "If Ann walks four miles",
        "",
    ],
)
def test_another_number_name_or_negation_is_another_question(other: str) -> None:
    assert not Wording(normal_text(QUESTION)).repeats(Wording(normal_text(other)))


def test_signs_of_arithmetic_are_no_punctuation() -> None:
    for one, other in (("1 2", "12"), ("not ( true ) and false", "not true and ( false )"), ("5 - 3", "5 * -3")):
        assert not Wording(one).repeats(Wording(other)), one


AUTHORS = ("Goethe", "Homer", "Thomas Mann", "Jane Austen", "Victor Hugo", "Leo Tolstoy", "Dante", "Ovid", "Cervantes")


def test_another_name_at_the_beginning_is_another_question() -> None:
    about = tasks(*(f"{each} wrote in which language, and in which century did that happen?" for each in AUTHORS))
    assert copies(about) == []
    assert len(copies(about, rules=1)) == len(AUTHORS) - 1  # as verdicts of before are verified


def test_texts_that_differ_by_accents_differ_if_both_have_some() -> None:
    """In Vietnamese an accent makes another word; in a text without any it was added."""
    one, other = (f"Hãy dịch từ sau đây sang tiếng Anh cho tôi nhé: {word}" for word in ("ma", "má"))
    assert not Wording(one).repeats(Wording(other))
    assert Wording(QUESTION).repeats(Wording(QUESTION.replace("a", "á")))


@pytest.mark.parametrize("other", ["2 * 3 * 4", "2 ** 3 * 4", "2 3 4"])
def test_signs_of_arithmetic_are_no_markup(other: str) -> None:
    assert not Wording("2 * 3 ** 4").repeats(Wording(other))


def test_upper_case_makes_another_task_where_case_is_part_of_it() -> None:
    words = tasks(*(f"How many capital letters does this word of our customer have: {word}?" for word in ("aB", "AB")))
    assert [each.task for each in copies(words)] == ["t1"]
    assert copies(words, case="keep") == []


def test_copies_of_copies_are_copies_of_the_first() -> None:
    many = tasks(QUESTION, f"Hello! {QUESTION}", f"Hello! {QUESTION} Thanks a lot, that is all.", "Something else?")
    assert [(each.task, each.other) for each in copies(many)] == [("t1", "t0"), ("t2", "t0")]


def test_a_copy_is_found_beside_any_number_of_its_pattern() -> None:
    """Buckets of a fixed size would be full of tasks of the same pattern."""
    pattern = "Please sort the words of list number {} by their last letter: pear apple plum cherry quince melon"
    seen = [{"q": pattern.format(n)} for n in range(400)]
    own = tasks(pattern.format(3).replace("list", "list,"), *(pattern.format(n) for n in range(1000, 1200)))
    assert [(each.task, each.other) for each in leaks(own, seen)] == [("t0", "3")]


def test_several_copies_of_a_task_are_no_pattern_but_many_are() -> None:
    synonyms = [
        QUESTION.replace("walks", word) for word in ("goes", "runs", "rides", "jogs", "hikes", "drives", "flies")
    ]
    assert len(leaks(tasks(*synonyms[:3]), [{"q": QUESTION}])) == 3
    assert leaks(tasks(*synonyms), [{"q": QUESTION}]) == []
    assert count_alike(tasks(*synonyms)) == 7
    assert count_alike(tasks(QUESTION, QUESTION.replace("four", "4"))) == 0
