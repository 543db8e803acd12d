from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed import Dataset, Task
from seedbed.evaluation.datasets.check import check_dataset
from seedbed.evaluation.datasets.dataset import Case
from seedbed.evaluation.datasets.identity import normal_text, task_key
from seedbed.evaluation.datasets.near_tasks import leaks, near
from seedbed.experiments.experiment import drawn


@pytest.mark.parametrize(
    ("one", "other"),
    [(7, "7"), (7, " 7"), (7.0, "7"), ("Seven!", "seven"), ("a\u00a0b", "A  b"), (True, "true"), ("Ｆｕｌｌ", "full")],
)
def test_these_ask_the_same(one: object, other: object) -> None:
    assert task_key({"n": one}) == task_key({"n": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [("7", "7.0"), ("a b", "ab"), ("not (a and b)", "not a and b"), (7, -7), ("1 + 2", "1 - 2"), ("x", None), ([], {})],
)
def test_these_ask_something_else(one: object, other: object) -> None:
    assert task_key({"n": one}) != task_key({"n": other})


def test_the_names_of_inputs_count_and_their_order_does_not() -> None:
    assert task_key({"a": 1, "b": 2}) == task_key({"b": 2, "a": 1}) != task_key({"a": 2, "b": 1})
    assert task_key({"a": 1, "b": 2}, {"a"}) == task_key({"a": 1, "c": 3}, {"a"}) != task_key({"a": 1}, {"b"})


@given(st.text())
def test_a_normal_text_stays_as_it_is(text: str) -> None:
    once = normal_text(text)
    assert normal_text(once) in (once, normal_text(normal_text(once)))
    assert task_key({"t": text}) == task_key({"t": f"  {text}\n"})


QUESTIONS = [
    "How many apples does Mary have if she buys 3 bags with 12 apples each and eats 5?",
    "A train leaves at noon with 80 km/h; when does it reach a town 200 km away?",
    "What is the capital of the country whose flag shows a maple leaf?",
    "Translate the following sentence into French: the weather is fine today.",
]


def tasks(*texts: str) -> list[Task]:
    return [Task(f"t{n}", {"q": text}) for n, text in enumerate(texts)]


def test_a_typo_is_nearly_the_same_and_another_number_is_not_a_leak() -> None:
    typo = QUESTIONS[0].replace("apples does", "aples does")
    found = near(tasks(*QUESTIONS, typo), least=0.6)
    assert [(each.task, each.other) for each in found] == [("t0", "t4")]
    assert 0.6 <= found[0].similarity < 1
    assert [each.task for each in leaks(tasks(typo, QUESTIONS[3]), [{"q": QUESTIONS[0]}])] == ["t0"]
    assert leaks(tasks(QUESTIONS[0].replace("12", "13")), [{"q": QUESTIONS[0]}]) == []


def test_tasks_cut_from_one_pattern_are_no_leaks_of_each_other() -> None:
    pattern = "Sort these words alphabetically: {} syndrome therefrom kite"
    own = tasks(*(pattern.format(word) for word in ("apple", "maple", "purple", "people", "couple", "triple")))
    assert leaks(own, [{"q": pattern.format("ample")}]) == []


def test_nothing_is_near_nothing() -> None:
    assert near([]) == leaks([], []) == leaks(tasks("a"), []) == []
    assert near(tasks("", "x")) == []


CASES: tuple[Case, ...] = ("fold", "keep")


def test_letter_case_makes_another_task_only_in_a_dataset_about_letter_case() -> None:
    both = (Task("a", {"q": "Is iPhone spelled right?"}), Task("b", {"q": "is iphone spelled  right"}))
    assert [len(drawn(Dataset(both, case=case), 0, ["q"])) for case in CASES] == [1, 2]
    kept = Dataset(both, {"test": ("a",)}, "keep")
    assert Dataset.from_content(kept.content()) == kept
    assert kept.only(split="test").case == kept.with_splits({"x": ["b"]}).case == "keep"
    assert "identity" not in Dataset(both).content()
    assert check_dataset(kept).units == 2


def test_a_paraphrase_is_a_leak_where_embeddings_are_installed() -> None:
    pytest.importorskip("wordllama")
    asked = "Our old printer is broken, so where may the children in the library print their homework?"
    seen = "Where can kids print homework in the library, as the printer there has broken down?"
    assert [each.task for each in leaks(tasks(*QUESTIONS, asked), [{"q": seen}], by_meaning=True)] == ["t4"]


def test_what_was_looked_at_and_cleared_does_not_leak() -> None:
    typo = QUESTIONS[0].replace("apples does", "aples does")
    data = Dataset(tuple(tasks(*QUESTIONS, typo)), {"train": ("t0",), "test": ("t1", "t2", "t3", "t4")})
    assert [each.other for each in check_dataset(data).leaks] == ["t4"]
    for name in ("t0", "t4"):
        cleared = [task_key(task.inputs) for task in data if task.id == name]
        assert not check_dataset(data, cleared).leaks
