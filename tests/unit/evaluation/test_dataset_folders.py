"""Folders as Hugging Face lays them out, to one dataset with splits."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from seedbed.errors import DatasetError
from seedbed.evaluation.datasets.dataset import Dataset


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def row(text: str) -> str:
    return json.dumps({"inputs": {"q": text}}) + "\n"


def splits(folder: Path) -> dict[str, list[str]]:
    tasks = Dataset.load(folder)
    return {name: [task.inputs["q"] for task in tasks.only(split=name)] for name in tasks.splits}


def saved(folder: Path, split: str | None, *texts: str) -> None:
    """As `save_to_disk` writes it: Arrow streams, and what they are in state.json."""
    folder.mkdir(parents=True)
    names = []
    for number, text in enumerate(texts):
        data = pa.table({"q": [text], "expected": ["yes"]})
        names.append(f"data-{number:05}-of-{len(texts):05}.arrow")
        with ipc.new_stream(folder / names[-1], data.schema) as sink:
            sink.write_table(data)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": split}
    write(folder, {"state.json": json.dumps(state), "dataset_info.json": "{}"})


@pytest.mark.parametrize(
    "files",
    [
        {"train.jsonl": row("a"), "test.jsonl": row("b")},
        {"data/train-00000-of-00001.jsonl": row("a"), "data/test-00000-of-00001.jsonl": row("b")},
        {"train/one.jsonl": row("a"), "test/one.jsonl": row("b"), "other/two.jsonl": row("c")},
        {"mail_train.csv": "q\na\n", "mail_test.csv": "q\nb\n", "dataset_infos.json": "{}", ".hidden.jsonl": "x"},
        {
            "Train1.tsv": "q\na\n",
            "TEST.json": f"[{row('b')}]",
            "notes.md": "x",
            "README.md": "---\nlicense: mit\n---\n",
        },
    ],
)
def test_files_are_of_the_split_they_are_named_after(files: dict[str, str], tmp_path: Path) -> None:
    assert splits(write(tmp_path / "mail", files)) == {"test": ["b"], "train": ["a"]}


def test_files_of_one_split_belong_together(tmp_path: Path) -> None:
    names = [f"train-0000{number}-of-00003.parquet" for number in range(3)]
    for number, name in enumerate(names):
        parquet.write_table(pa.table({"q": [str(number)]}), tmp_path / name)
    write(tmp_path, {"extra-00000-of-00001.jsonl": row("x")})
    assert splits(tmp_path) == {"extra": ["x"], "train": ["0", "1", "2"]}


def test_the_front_matter_of_a_readme_says_which_files_are_what(tmp_path: Path) -> None:
    front = (
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: parts/*.jsonl\n"
        "  - split: held\n    path: [../secret.jsonl, last.jsonl]\n"
        "- config_name: other\n  data_files: []\n---\n# Mail\n"
    )
    files = {"README.md": front, "parts/1.jsonl": row("a"), "parts/2.jsonl": row("b"), "last.jsonl": row("c")}
    write(tmp_path, {"secret.jsonl": row("s")})
    assert splits(write(tmp_path / "mail", files)) == {"train": ["a", "b"], "held": ["c"]}


def test_what_was_saved_to_disk_is_read_without_the_library_that_wrote_it(tmp_path: Path) -> None:
    both = tmp_path / "both"
    saved(both / "train", "train", "a", "b")
    saved(both / "test", "test", "c")
    write(both, {"dataset_dict.json": '{"splits": ["train", "test"]}'})
    assert splits(both) == {"train": ["a", "b"], "test": ["c"]}
    assert splits(both / "train") == {"train": ["a", "b"]}
    saved(tmp_path / "one", None, "a")
    assert [task.expected for task in Dataset.load(tmp_path / "one")] == ["yes"]


def test_bad_rows_of_all_files_are_told_by_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, {"train.jsonl": row("a") + "x\n", "test.csv": "q\n1,2\n", "dev.jsonl": row("a")})
    with pytest.raises(DatasetError) as caught:
        Dataset.load(tmp_path)
    assert caught.value.source == str(tmp_path)
    assert [problem.path for problem in caught.value.problems] == [
        "test.csv line 2",
        "train.jsonl line 1.id",
        "train.jsonl line 2, column 1",
    ]
    assert "as on dev.jsonl line 1" in caught.value.problems[1].found


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"notes.md": "x"}, "no file named after a split"),
        ({"a.jsonl": row("a"), "main/train.jsonl": row("b")}, "Name a file or folder in it: a.jsonl, main."),
        ({"state.json": "[]"}, "a mapping, as save_to_disk writes it"),
        ({"dataset_dict.json": '{"splits": ["train"]}'}, "nothing there"),
    ],
)
def test_a_folder_that_is_no_dataset_is_told(files: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=told):
        Dataset.load(write(tmp_path / "mail", files))


def test_what_is_saved_reaches_no_file_outside_its_folder(tmp_path: Path) -> None:
    saved(tmp_path / "secret", None, "s")
    state = {"_data_files": [{"filename": "../secret/data-00000-of-00001.arrow"}]}
    with pytest.raises(DatasetError, match=r"arrow file: found No such file"):
        Dataset.load(write(tmp_path / "mail", {"state.json": json.dumps(state)}))
