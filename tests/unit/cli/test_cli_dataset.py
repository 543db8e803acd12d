"""seedbed dataset: tasks and their expected answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Seedbed, keeps_promise, tasks, write

from seedbed.evaluation.dataset import Dataset

ODD = (
    '{"id": "one", "inputs": {"text": "line\\u2028two [b]bold[/b] 日本 🙂"}, "expected": "ja\\n"}\n'
    '{"inputs": {"text": "open"}}\n'
    '{"inputs": {"text": "number", "more": 2}, "expected": 2.5}\n'
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    write(tmp_path, tasks__jsonl=tasks(20), odd__jsonl=ODD)


def test_show_counts_tasks_inputs_and_answers(seedbed: Seedbed) -> None:
    done = seedbed("dataset", "show", "odd.jsonl", "--json")
    assert keeps_promise(done.json, "dataset", "show")
    assert (done.json["tasks"], done.json["inputs"], done.json["without_answer"]) == (3, ["text", "more"], 1)
    assert done.json["expected"] == {"ja\n": 1, "2.5": 1}
    assert done.json["first"][0]["inputs"]["text"] == "line\u2028two [b]bold[/b] 日本 🙂"
    out = seedbed("dataset", "show", "odd.jsonl").out
    assert "[b]bold[/b] 日本 🙂" in out
    assert "None" not in out


def test_show_prints_as_many_tasks_as_asked_for(seedbed: Seedbed) -> None:
    assert len(seedbed("dataset", "show", "tasks.jsonl", "--limit", "3", "--json").json["first"]) == 3
    assert "I love" not in seedbed("dataset", "show", "tasks.jsonl", "--limit", "0").out


def test_split_loses_no_task_and_shares_none(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("dataset", "split", "tasks.jsonl", "--share", "0.3", "--json")
    assert keeps_promise(done.json, "dataset", "split")
    train, test = (Dataset.load(tmp_path / f"tasks-{name}.jsonl") for name in ("train", "test"))
    assert (len(train), len(test)) == (6, 14)
    assert (train.digest, test.digest) == (done.json["train"]["dataset"], done.json["test"]["dataset"])
    whole = {task.id: task for task in Dataset.load(tmp_path / "tasks.jsonl")}
    assert {task.id: task for task in (*train, *test)} == whole


def test_odd_texts_survive_a_split(tmp_path: Path, seedbed: Seedbed) -> None:
    assert seedbed("dataset", "split", "odd.jsonl").code == 0
    parts = [task for name in ("train", "test") for task in Dataset.load(tmp_path / f"odd-{name}.jsonl")]
    assert sorted(map(str, parts)) == sorted(map(str, Dataset.load(tmp_path / "odd.jsonl")))


def test_the_same_seed_draws_the_same_tasks(tmp_path: Path, seedbed: Seedbed) -> None:
    def drawn(seed: int, name: str) -> str:
        files = ("--train", f"{name}.jsonl", "--test", f"{name}-rest.jsonl")
        done = seedbed("dataset", "split", "tasks.jsonl", "--seed", str(seed), *files, "--json")
        return str(done.json["train"]["dataset"])

    assert drawn(1, "a") == drawn(1, "b") != drawn(2, "c")


def test_a_split_can_be_rehearsed(tmp_path: Path, seedbed: Seedbed) -> None:
    before = sorted(tmp_path.iterdir())
    done = seedbed("dataset", "split", "tasks.jsonl", "--dry-run")
    assert done.code == 0
    assert "would write tasks-train.jsonl, 10 tasks" in done.out
    assert sorted(tmp_path.iterdir()) == before


def test_a_split_overwrites_nothing_and_writes_neither_file_then(tmp_path: Path, seedbed: Seedbed) -> None:
    write(tmp_path, mine__jsonl="mine")
    done = seedbed("dataset", "split", "tasks.jsonl", "--test", "mine.jsonl")
    assert done.code == 1
    assert "a file that exists" in done.err
    assert (tmp_path / "mine.jsonl").read_text() == "mine"
    assert not (tmp_path / "tasks-train.jsonl").exists()


@pytest.mark.parametrize("share", ["0.01", "0.99"])
def test_a_split_leaves_no_file_empty(share: str, tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("dataset", "split", "tasks.jsonl", "--share", share)
    assert done.code == 1
    assert "at least one in each file" in done.err
    assert not (tmp_path / "tasks-train.jsonl").exists()


def test_both_halves_cannot_go_into_one_file(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("dataset", "split", "tasks.jsonl", "--train", "x.jsonl", "--test", "./x.jsonl")
    assert done.code == 64
    assert not (tmp_path / "x.jsonl").exists()


@pytest.mark.parametrize("command", ["show", "split"])
def test_every_bad_line_is_told(command: str, tmp_path: Path, seedbed: Seedbed) -> None:
    write(tmp_path, bad__jsonl='{"inputs": {"text": "x"}}\nnonsense\n{"input": {}}\n')
    done = seedbed("dataset", command, "bad.jsonl")
    assert done.code == 1
    assert "line 2" in done.err
    assert "line 3" in done.err
