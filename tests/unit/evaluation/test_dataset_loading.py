"""Rows as people have them: which field is what, and all that is wrong at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import DatasetError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.loading import Columns

PLAIN = {"key": 7, "prompt": "1+1", "topic": "sums", "level": 3, "doc": "d1", "answer": "2"}


def load(folder: Path, *rows: Any, name: str = "x.jsonl", **options: Any) -> Dataset:
    (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    once = options.pop("once", False)
    return Dataset.load(folder / name, Columns(**options), once=once)


def wrong(folder: Path, *rows: Any, **options: Any) -> dict[str, str]:
    with pytest.raises(DatasetError) as caught:
        load(folder, *rows, **options)
    return {problem.path: str(problem) for problem in caught.value.problems}


def test_all_fields_that_are_nothing_else_are_inputs(tmp_path: Path) -> None:
    (task,) = load(tmp_path, PLAIN, expected="answer")
    assert (dict(task.inputs), task.expected) == ({key: PLAIN[key] for key in PLAIN if key != "answer"}, "2")


def test_fields_are_what_the_options_say(tmp_path: Path) -> None:
    options = {"id": "key", "tags": ["topic", "level"], "source": "doc", "expected": "answer"}
    (task,) = load(tmp_path, PLAIN, inputs={"question": "prompt"}, **options)
    assert task == Task("7", {"question": "1+1"}, "2", ("sums", "3"), "d1")


def test_a_field_named_as_an_input_is_only_that(tmp_path: Path) -> None:
    (task,) = load(tmp_path, {"id": "x", "source": "s", "text": "t"}, inputs=["text", "source"])
    assert task == Task("x", {"text": "t", "source": "s"})


def test_a_field_can_name_the_split(tmp_path: Path) -> None:
    rows = [{"q": n, "part": part} for n, part in enumerate(["train", "test", "train", None])]
    tasks = load(tmp_path, *rows, split="part")
    assert {name: len(ids) for name, ids in tasks.splits.items()} == {"train": 2, "test": 1}
    assert all(task.inputs.keys() == {"q"} for task in tasks)


def test_rows_with_inputs_can_have_other_names_for_the_rest(tmp_path: Path) -> None:
    (task,) = load(
        tmp_path, {"inputs": {"q": 1}, "answer": 2, "no": 5, "kind": "a"}, expected="answer", id="no", tags=["kind"]
    )
    assert task == Task("5", {"q": 1}, 2, ("a",))
    assert "line 1.more" in wrong(tmp_path, {"inputs": {"q": 1}, "answer": 2, "more": 1}, expected="answer")


def test_without_options_plain_rows_are_refused_with_what_to_do(tmp_path: Path) -> None:
    told = wrong(tmp_path, PLAIN, PLAIN)
    assert list(told) == ["inputs"]
    assert "the rows have answer, doc, key" in told["inputs"]
    assert "--expected answer" in told["inputs"]


def test_an_option_that_names_no_field_is_told_with_the_fields_there_are(tmp_path: Path) -> None:
    told = wrong(tmp_path, {"question": "x", "answer": "y"}, expected="anwser")
    assert "expected one of: answer, question" in told['field "anwser"']


def test_an_answer_may_be_missing_in_some_rows_but_an_input_may_not(tmp_path: Path) -> None:
    rows = [{"q": 1, "answer": 2}, {"q": 2}, {"answer": 3}]
    assert [task.expected for task in load(tmp_path, *rows[:2], expected="answer")] == [2, None]
    assert list(wrong(tmp_path, *rows, inputs=["q"], expected="answer")) == ["line 3.q"]


def test_repeated_tasks_are_left_out_when_asked_and_others_of_the_same_id_never(tmp_path: Path) -> None:
    row, other = {"id": "a", "inputs": {"q": 1}}, {"id": "a", "inputs": {"q": 2}}
    assert "--once" in wrong(tmp_path, row, row)["line 2.id"]
    assert len(load(tmp_path, row, row, once=True)) == 1
    assert list(wrong(tmp_path, row, row, other, once=True)) == ["line 3.id"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("tags", "hard"), ("tags", [1]), ("tags", [" "]), ("source", 3), ("split", "a:b"), ("split", [1]), ("split", "")],
)
def test_fields_of_the_wrong_kind_are_told_by_name(field: str, value: object, tmp_path: Path) -> None:
    assert list(wrong(tmp_path, {"inputs": {"q": 1}, field: value})) == [f"line 1.{field}"]


def test_a_thousand_problems_are_counted_and_fifty_told(tmp_path: Path) -> None:
    told = wrong(tmp_path, {"inputs": {"q": 0}}, *({"inputs": n} for n in range(1_000)))
    assert len(told) == 51
    assert "950 more problems" in told["and so on"]
