"""Labels as they stand in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import DatasetError
from seedbed.evaluation.judges import labels

GOOD = {"inputs": {"question": "Capital of France?"}, "expected": "Paris", "output": "It is Paris.", "label": 1}


def written(folder: Path, *rows: Any, name: str = "labels.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return file


def problems(file: Path) -> list[tuple[str, str]]:
    with pytest.raises(DatasetError) as wrong:
        labels.read_labels(file)
    assert wrong.value.source == str(file)
    return [(problem.path, problem.found) for problem in wrong.value.problems]


def test_an_answer_is_read_with_its_task_and_its_label(tmp_path: Path) -> None:
    found = labels.read_labels(written(tmp_path, GOOD, "", {**GOOD, "output": {"city": "Lyon"}, "label": False}))
    assert list(found) == ["line 1", "line 3"]
    first, last = found.values()
    assert (first.run.output, first.task.expected, dict(first.task.inputs)) == ("It is Paris.", "Paris", GOOD["inputs"])
    assert (first.label, last.label, last.run.output) == (1.0, 0.0, {"city": "Lyon"})


def test_a_label_may_be_about_a_dialogue(tmp_path: Path) -> None:
    said = [{"role": "critic", "text": "No."}, {"role": "writer", "text": "Yes."}]
    (found,) = labels.read_labels(written(tmp_path, {**GOOD, "turns": said})).values()
    assert [(turn.role, turn.text) for turn in found.run.turns] == [("critic", "No."), ("writer", "Yes.")]


def test_all_bad_rows_are_named_by_line_and_field_at_once(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"inputs": {}, "label": 3},
        "no json",
        [1],
        GOOD,
        {**GOOD, "output": "x", "lable": 1},
        {**GOOD, "output": "y", "turns": [{"role": "critic"}]},
        {**GOOD, "output": "z", "label": "good"},
        {**GOOD, "output": "nan", "label": float("nan")},
    )
    assert [path for path, _ in problems(file)] == [
        "line 1.inputs",
        "line 1.output",
        "line 1.label",
        "line 2",
        "line 3",
        "line 5.lable",
        "line 6.turns",
        "line 7.label",
        "line 8",
    ]


def test_an_answer_that_is_there_twice_is_refused_whatever_its_label(tmp_path: Path) -> None:
    # Forty copies of one label would look like forty people.
    file = written(tmp_path, GOOD, {**GOOD, "label": 0})
    assert problems(file) == [("line 2.output", "the same answer as on line 1")]


def test_labels_stay_the_same_labels_when_lines_move(tmp_path: Path) -> None:
    one, other = GOOD, {**GOOD, "output": "Lyon"}
    here = labels.read_labels(written(tmp_path, one, other))
    there = labels.read_labels(written(tmp_path, other, one, name="moved.jsonl"))
    assert here["line 1"] == there["line 2"]


@pytest.mark.parametrize(
    ("name", "rows", "problem"),
    [
        ("labels.jsonl", [], ("file", "no labels")),
        ("labels.csv", ["output,label", "a,1"], ("file", 'the ending ".csv"')),
    ],
)
def test_a_file_without_labels_is_refused(name: str, rows: list[Any], problem: tuple[str, str], tmp_path: Path) -> None:
    assert problems(written(tmp_path, *rows, name=name)) == [problem]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.jsonl") == [("file", "No such file or directory")]


def test_very_many_problems_are_counted(tmp_path: Path) -> None:
    found = problems(written(tmp_path, *[{"label": 1, "output": n} for n in range(60)]))
    assert len(found) == 51
    assert found[-1] == ("and so on", "10 more problems")
