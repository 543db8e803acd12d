"""Files of every kind to tasks: what is read, and how it is told what cannot be."""

from __future__ import annotations

import gzip
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from seedbed.errors import DatasetError
from seedbed.evaluation.datasets import files as rows
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.loading import Columns

TASKS = Dataset(
    (
        Task("a", {"q": "eins, zwei", "n": "1"}, "yes", ("hard", "short"), "doc 1"),
        Task("b", {"q": 'a "quoted"\nline — ü', "n": ""}, None),
    ),
    {"test": ("a",)},
)


def written(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def wrong(path: Path, content: str | bytes, **options: Any) -> dict[str, str]:
    with pytest.raises(DatasetError) as caught:
        Dataset.load(written(path, content), Columns(**options))
    assert caught.value.source == str(path)
    return {problem.path: str(problem) for problem in caught.value.problems}


JSONL = "".join(f"{json.dumps(row)}\n" for row in TASKS.rows())
HEADING = ("id", "inputs.q", "n", "expected", "tags", "source", "split")
FIRST = ("a", '"eins, zwei"', "1", "yes", '"hard,short"', "doc 1", "test")
SECOND = ("b", '"a ""quoted""\nline — ü"', "", "", "", "", "")


def cells(delimiter: str) -> str:
    return "".join(f"{delimiter.join(record)}\n" for record in (HEADING, FIRST, SECOND))


DOCUMENT = {"about": ["me"], "splits": {"test": ["a"]}, "tasks": TASKS.content()["tasks"]}
KINDS = {
    "x.jsonl": JSONL,
    "x.ndjson": JSONL,
    "lines.json": JSONL,
    "list.json": json.dumps(list(TASKS.rows())),
    "document.json": json.dumps(DOCUMENT, indent=2),
    "x.csv": cells(","),
    "semicolons.csv": cells(";"),
    "x.tsv": cells("\t"),
}


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", KINDS)
def test_every_text_format_holds_the_same_dataset(name: str, packed: str, tmp_path: Path) -> None:
    assert Dataset.load(written(tmp_path / f"{name}{packed}", KINDS[name])) == TASKS


@pytest.mark.parametrize("name", KINDS)
def test_byte_order_marks_and_foreign_line_ends_make_no_difference(name: str, tmp_path: Path) -> None:
    assert Dataset.load(written(tmp_path / name, "\ufeff" + KINDS[name].replace("\n", "\r\n"))) == TASKS


def table() -> pa.Table:
    return pa.table(
        {
            "id": [1, 2],
            "q": ["x", "y"],
            "day": [date(2026, 11, 15), None],
            "price": [Decimal("1.50"), Decimal("2.00")],
            "more": [{"a": [1, 2]}, {"a": []}],
            "expected": [0.5, None],
            "tags": [["hard"], []],
        }
    )


def stored(path: Path, form: str) -> Path:
    if form == "parquet":
        parquet.write_table(table(), path)
        return path
    with (ipc.new_stream if form == "stream" else ipc.new_file)(path, table().schema) as sink:
        sink.write_table(table())
    return path


@pytest.mark.parametrize(("name", "form"), [("x.parquet", "parquet"), ("x.arrow", "stream"), ("x.arrow", "file")])
def test_tables_keep_their_types_as_far_as_json_has_them(name: str, form: str, tmp_path: Path) -> None:
    first, second = Dataset.load(stored(tmp_path / name, form))
    inputs = {"q": "x", "day": "2026-11-15", "price": "1.50", "more": {"a": [1, 2]}}
    assert first == Task("1", inputs, 0.5, ("hard",))
    assert (second.id, second.inputs["day"], second.expected, second.tags) == ("2", None, None, ())


def test_rows_of_a_table_that_cannot_be_kept_are_told_by_row_and_column(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"x": [1.0, float("nan"), 2.0], "y": [b"a", None, None]}), path)
    with pytest.raises(DatasetError) as caught:
        Dataset.load(path)
    assert [problem.path for problem in caught.value.problems] == ["row 1.inputs.y", "row 2.inputs.x"]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_a_table_that_is_none_is_told(name: str, tmp_path: Path) -> None:
    assert "file" in wrong(tmp_path / name, b"no table at all")
    assert "file" in wrong(tmp_path / name, b"")


def test_every_bad_record_of_a_table_of_texts_is_told_by_its_first_line(tmp_path: Path) -> None:
    text = 'q,expected\n"two\nlines",yes\ntoo,many,fields\n\nx\n"bad"quote,x\ngood,one\n'
    told = wrong(tmp_path / "x.csv", text)
    assert list(told) == ["line 4", "line 6", "line 7"]
    assert "found 3 fields; expected 2" in told["line 4"]


def test_a_quote_that_is_never_closed_is_told_where_it_opens(tmp_path: Path) -> None:
    assert list(wrong(tmp_path / "x.csv", 'q,expected\nx,y\n"open,y\nz,y\n')) == ["line 3"]


def test_a_column_twice_is_told_and_one_without_a_name_left_out(tmp_path: Path) -> None:
    assert "the same column twice" in wrong(tmp_path / "x.csv", "q,q\n1,2\n")["line 1.q"]
    (task,) = Dataset.load(written(tmp_path / "y.csv", ",q\n0,x\n"))
    assert task.inputs == {"q": "x"}


def test_items_of_a_json_document_are_told_by_line_all_at_once(tmp_path: Path) -> None:
    text = (
        '[\n {"inputs": {"q": 1}},\n {"inputs": {"q": NaN}},\n\n {"inputs": {"q": 1,\n "q": 2}}, 7,\n {"input": {}}\n]'
    )
    assert list(wrong(tmp_path / "x.json", text)) == [
        "line 3.number",
        "line 5.q",
        "line 6.task",
        "line 7.input",
        "line 7.inputs",
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"inputs": {"q": 1}}\n{"inputs": {"q": 2}}]', "line 2, column 1"),
        ('[\n{"inputs": {"q": 1}},\n]', "line 3, column 1"),
        ('[{"inputs": {"q": 1}}] x', "line 1, column 24"),
        ('{"tasks": [{"inputs": {"q": 1}}]', "line 1, column 33"),
        ('{"tasks": {}}', "line 1.tasks"),
        ("7", "line 1.task"),
        ("[" * 100_000, "line 1.text"),
        ("", "file"),
        ("[]", "file"),
        ('{"tasks": [{"id": "a", "inputs": {"q": 1}}], "splits": {"test": ["b"]}}', "splits.test"),
        ('{"tasks": [{"id": "a", "inputs": {"q": 1}}], "splits": ["a"]}', "splits"),
    ],
)
def test_a_json_document_that_holds_no_tasks_is_told_where(text: str, place: str, tmp_path: Path) -> None:
    assert list(wrong(tmp_path / "x.json", text)) == [place]


def test_the_list_of_a_json_document_can_be_named(tmp_path: Path) -> None:
    text = '{"canary": "x", "examples": [{"input": "1+1", "target": "2"}]}'
    assert "--rows examples" in wrong(tmp_path / "x.json", text)["line 1.tasks"]
    (task,) = Dataset.load(tmp_path / "x.json", Columns(rows="examples"), expected="target")
    assert (task.inputs, task.expected) == ({"input": "1+1"}, "2")


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.json", "x.jsonl.gz"])
def test_text_that_is_not_utf8_is_told(name: str, tmp_path: Path) -> None:
    text = 'q\n"für"\n' if "csv" in name else '{"inputs": {"q": "x"}}\n{"inputs": {"q": "für"}}'
    (place,) = wrong(tmp_path / name, text.encode("latin-1"))
    assert place.startswith("byte" if name == "x.json" else "line 2, byte")
    assert "UTF-8" in str(wrong(tmp_path / name, text.encode("utf-16")))


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.jsonl.gz"])
def test_an_endless_line_is_told_and_the_next_one_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "LONGEST_LINE", 100)
    told = wrong(tmp_path / name, f"q\n{'x' * 3_000_000}\n" + "y" * 200)
    assert [path for path in told if "bytes" in told[path]] == ["line 2", "line 3"]
    assert "found 3,000,001 bytes; expected at most 100" in told["line 2"]


@pytest.mark.parametrize(
    ("name", "content"), [("x.jsonl", ""), ("x.csv", "q,expected\n\n"), ("x.tsv", ""), ("x.json.gz", " ")]
)
def test_a_file_without_tasks_is_told(name: str, content: str, tmp_path: Path) -> None:
    assert "no tasks" in wrong(tmp_path / name, content)["file"]


def test_what_is_packed_badly_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(b"not packed")
    (tmp_path / "y.jsonl.gz").write_bytes(gzip.compress(JSONL.encode())[:-12])
    for name in ("x.jsonl.gz", "y.jsonl.gz"):
        with pytest.raises(DatasetError, match="file: found"):
            Dataset.load(tmp_path / name)


@pytest.mark.parametrize("name", ["x.txt", "x", "x.parquet.gz", "x.gz"])
def test_an_ending_that_nobody_knows_is_told_with_those_that_are(name: str, tmp_path: Path) -> None:
    assert ".jsonl" in wrong(tmp_path / name, JSONL)["file"]
