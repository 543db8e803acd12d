"""The tasks by which benchmarks/embedded.py compares optimisers."""

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from embedded_tasks import FAMILIES, SIZES, Family

EVERY = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))


@EVERY
def test_a_seed_always_makes_the_same_tasks_and_another_seed_makes_others(family: Family) -> None:
    assert family.tasks(7) == family.tasks(7)
    assert family.tasks(7)["test"] != family.tasks(8)["test"]


@EVERY
def test_no_text_that_tests_was_read_or_decided_before(family: Family) -> None:
    parts = family.tasks(7)
    assert {part: len(tasks) for part, tasks in parts.items()} == SIZES
    texts = Counter(task.inputs["text"] for tasks in parts.values() for task in tasks)
    assert set(texts.values()) == {1}


@EVERY
def test_the_wanted_answer_is_right_and_that_of_another_task_is_not(family: Family) -> None:
    wanted = sorted({task.expected for task in family.tasks(7)["test"]})
    assert all(family.is_right(each, each) for each in wanted)
    assert not family.is_right("", wanted[0])
    results = {each.split("=")[-1] for each in wanted}  # of sums only the result counts
    assert sum(family.is_right(each, wanted[0]) for each in results) == 1


@EVERY
def test_labels_are_balanced_enough_that_always_saying_the_same_does_not_pay(family: Family) -> None:
    (_, most), *_ = Counter(task.expected for task in family.tasks(7)["test"]).most_common()
    assert most <= 0.65 * SIZES["test"]


@EVERY
def test_the_start_is_asked_about_the_text_of_the_task(family: Family) -> None:
    assert family.start.needed_inputs == {"text"}
    assert not any("{text}" in instruction for instruction in (family.instruction, *family.bank))


@pytest.mark.parametrize(
    ("family", "answer", "wanted", "right"),
    [
        ("sentiment", "Positive.", "positive", True),
        ("sentiment", "not positive", "positive", False),
        ("topic", "The topic is food", "food", False),
        ("extraction", "Anna, Oslo, 3.", "Anna, Oslo, 3", True),
        ("extraction", "Anna, Oslo, 3, lamps", "Anna, Oslo, 3", True),
        ("extraction", "Anna, Oslo, 33", "Anna, Oslo, 3", False),
        ("arithmetic", "The answer is 12", "7 + 5 = 12", True),
        ("arithmetic", "7 + 5 = 13", "7 + 5 = 12", False),
        ("arithmetic", "12 because 7 + 5", "7 + 5 = 12", False),
    ],
)
def test_what_counts_as_right(family: str, answer: str, wanted: str, right: bool) -> None:
    assert FAMILIES[family].is_right(answer, wanted) is right
