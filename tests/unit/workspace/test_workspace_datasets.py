"""Datasets by name, and their splits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from loop_samples import numbers
from workspace_samples import in_memory

from seedbed.errors import DatasetError, NotFound
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.loading import Columns
from seedbed.workspace.nouns.datasets import Draw, part_file, read_file, write_files


def test_a_dataset_is_found_by_its_name_or_digest() -> None:
    space = in_memory()
    digest = space.store.put("dataset", numbers(3).content())
    space.store.move("datasets/digits", digest, expected=None, because="kept", by="ada")
    for name in ("digits", "datasets/digits", digest):
        assert space.datasets.get(name).digest == numbers(3).digest
    other = space.store.put("note", {"text": "no tasks"})
    for name in ("digit", other):
        with pytest.raises(NotFound, match=r"no dataset named .* one of: digits\."):
            space.datasets.get(name)


def test_the_same_tasks_under_the_same_name_move_nothing() -> None:
    space = in_memory()
    first = space.datasets.add("digits", numbers(3), because="the first")
    assert space.datasets.add("digits", numbers(3), because="again") == first
    second = space.datasets.add("digits", numbers(4), because="more")
    assert (second.version, second.because) == (first.version + 1, "more")
    (described,) = space.datasets.describe()
    assert (described["name"], described["tasks"], described["by"]) == ("digits", 4, "ada")
    with pytest.raises(DatasetError, match="a word such as mail"):
        space.datasets.add("digits.jsonl", numbers(3), because="a file")


def test_splits_are_added_once() -> None:
    space = in_memory()
    space.datasets.add("digits", numbers(8), because="the first")
    parts = Draw(share=0.25).parts(numbers(8), ["train", "test"])
    space.datasets.add_splits("digits", parts, because="split")
    assert [len(space.datasets.get(f"digits:{name}")) for name in parts] == [2, 6]
    with pytest.raises(DatasetError, match=r"splits\.train: found a split that exists"):
        space.datasets.add_splits("digits", parts, because="again")


def test_folds_have_numbers_and_a_part_without_tasks_is_refused() -> None:
    folds = Draw(folds=2).parts(numbers(4), ["train", "test"])
    assert list(folds) == ["fold-1-train", "fold-1-test", "fold-2-train", "fold-2-test"]
    with pytest.raises(DatasetError, match="found 0 tasks and 1 task; expected at least one in each part"):
        Draw().parts(numbers(1), ["train", "test"])


def test_files_are_read_by_columns_and_parts_are_written_beside_them(tmp_path: Path) -> None:
    file = tmp_path / "digits.csv"
    file.write_text("n,answer\n1,one\n2,two\n1,one\n")
    tasks, repeated = read_file(file, Columns(expected="answer"), once=True)
    assert ([task.expected for task in tasks], repeated) == (["one", "two"], 1)
    place = part_file(str(file), "small", "train")
    assert place == tmp_path / "digits-small-train.jsonl"
    write_files({place: tasks}, dry_run=True)
    assert not place.exists()
    write_files({place: tasks})
    assert Dataset.load(place).digest == tasks.digest
    assert json.loads(place.read_text().splitlines()[0])["expected"] == "one"
    with pytest.raises(DatasetError, match="a file that exists"):
        write_files({tmp_path / "other.jsonl": tasks, place: tasks})
    assert not (tmp_path / "other.jsonl").exists()
