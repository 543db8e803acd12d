"""seedbed dataset: tasks and their expected answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import SORTER, WORKSPACE, Seedbed, held, keeps_promise, tasks, write

from seedbed.evaluation.datasets.dataset import Dataset

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


def test_check_names_what_repeats_and_leaks(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("dataset", "check", "odd.jsonl", "--json")
    assert keeps_promise(done.json, "dataset", "check")
    assert (done.code, done.json["units"], len(done.json["unanswered"])) == (0, 3, 1)
    assert "No duplicates or leaks." in seedbed("dataset", "check", "odd.jsonl").out
    rows = [("a", "Where is my parcel?", "train"), ("b", "where is  my parcel", "test"), ("c", "Thanks a lot", "test")]
    lines = [json.dumps({"id": name, "inputs": {"text": text}, "split": split}) for name, text, split in rows]
    write(tmp_path, leaky__jsonl="\n".join(lines))
    leaky = seedbed("dataset", "check", "leaky.jsonl")
    assert leaky.code == 1
    for words in ("3, asking 2 different questions", "duplicate", "leak", "train: a", "test: b"):
        assert words in leaky.out


def test_check_names_the_tasks_that_a_playbook_shows(tmp_path: Path, seedbed: Seedbed) -> None:
    texts = ("Where is my parcel from Monday?", "Can I return the blue kettle?", "Do you sell green umbrellas?")
    lines = [json.dumps({"id": f"t{n}", "inputs": {"text": text}}) for n, text in enumerate(texts)]
    shows = SORTER.replace("Message: {text}", "Say bad to 'can i return the blue kettle'. Message: {text}")
    demos = f"demos: {{label: [{{inputs: {{text: '{texts[0].replace('parcel', 'parcell')}'}}, output: bad}}]}}\n"
    write(tmp_path, three__jsonl="\n".join(lines), shows__yaml=shows + demos)
    done = seedbed("dataset", "check", "three.jsonl", "--playbook", "shows.yaml", "--json")
    assert keeps_promise(done.json, "dataset", "check")
    expected = [{"task": "t0", "where": "demos.label[0]"}, {"task": "t1", "where": "steps[0].prompt"}]
    assert (done.code, done.json["shown"]) == (1, expected)
    assert "shows.yaml: steps[0].prompt" in seedbed("dataset", "check", "three.jsonl", "--playbook", "shows.yaml").out
    assert seedbed("dataset", "check", "three.jsonl").code == 0


def test_split_loses_no_task_and_shares_none(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("dataset", "split", "tasks.jsonl", "--share", "0.3", "--json")
    assert keeps_promise(done.json, "dataset", "split")
    train, test = (Dataset.load(tmp_path / f"tasks-{name}.jsonl") for name in ("train", "test"))
    assert (len(train), len(test)) == (6, 14)
    assert [train.digest, test.digest] == [part["dataset"] for part in done.json["parts"]]
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
        return str(done.json["parts"][0]["dataset"])

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
    assert "at least one in each part" in done.err
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


# Kept datasets

PLAIN = "".join(
    json.dumps({"prompt": f"I {word} {n}", "answer": answer, "no": f"{answer}-{n}", "lang": "en", "doc": n // 2}) + "\n"
    for n in range(6)
    for word, answer in (("love", "good"), ("hate", "bad"))
)
FIELDS = ("--expected", "answer", "--input", "text=prompt", "--id", "no", "--tag", "lang", "--source", "doc")


@pytest.fixture
def space(tmp_path: Path) -> Path:
    write(tmp_path, seedbed__yaml=WORKSPACE, sorter__yaml=SORTER, plain__jsonl=PLAIN)
    return tmp_path


def added(seedbed: Seedbed, *more: str) -> None:
    assert seedbed("dataset", "add", "plain.jsonl", "--name", "mail", *FIELDS, *more).code == 0


def test_add_keeps_a_dataset_under_its_name(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("dataset", "add", "plain.jsonl", *FIELDS, "--json")
    assert keeps_promise(done.json, "dataset", "add")
    assert (done.json["name"], done.json["tasks"], done.json["version"]) == ("plain", 12, 1)
    (space / "plain.jsonl").unlink()
    shown = seedbed("dataset", "show", "plain", "--json").json
    assert keeps_promise(shown, "dataset", "show")
    assert (shown["inputs"], shown["expected"], shown["tags"], shown["sources"]) == (
        ["text"],
        {"good": 6, "bad": 6},
        {"en": 12},
        3,
    )
    assert seedbed("dataset", "show", done.json["dataset"], "--json").json == shown
    listed = seedbed("dataset", "list", "--json").json
    assert keeps_promise(listed, "dataset", "list")
    assert [(each["name"], each["tasks"]) for each in listed["datasets"]] == [("plain", 12)]
    assert "plain" in seedbed("dataset", "list").out


def test_the_same_again_changes_nothing_and_other_tasks_move_the_name(space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    before = held()
    added(seedbed)
    assert held() == before
    done = seedbed("dataset", "add", "tasks.jsonl", "--name", "mail", "--json").json
    assert (done["version"], done["tasks"]) == (2, 20)


def test_adding_can_be_rehearsed(space: Path, seedbed: Seedbed) -> None:
    assert seedbed("dataset", "list").out.strip() == "No datasets yet."
    before = held()
    done = seedbed("dataset", "add", "plain.jsonl", *FIELDS, "--dry-run")
    assert (done.code, "would store plain, 12 tasks" in done.out) == (0, True)
    assert held() == before


@pytest.mark.parametrize("name", ["mail.jsonl", "a b", "a:b", ""])
def test_a_name_that_could_not_be_typed_is_refused(name: str, space: Path, seedbed: Seedbed) -> None:
    done = seedbed("dataset", "add", "tasks.jsonl", "--name", name or "/")
    assert done.code == 1
    assert "--name" in done.err


def test_repeated_rows_are_counted(space: Path, seedbed: Seedbed) -> None:
    write(space, plain__jsonl=PLAIN + PLAIN)
    assert seedbed("dataset", "add", "plain.jsonl", *FIELDS).code == 1
    assert "12 repeated rows left out" in seedbed("dataset", "add", "plain.jsonl", *FIELDS, "--once").out


def test_splits_of_a_kept_dataset_are_kept_with_it(space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    before = sorted(space.iterdir())
    done = seedbed("dataset", "split", "mail", "--share", "0.75", "--stratify", "expected", "--json")
    assert keeps_promise(done.json, "dataset", "split")
    assert [(part["split"], part["file"], part["tasks"]) for part in done.json["parts"]] == [
        ("train", None, 9),
        ("test", None, 3),
    ]
    assert seedbed("dataset", "show", "mail", "--json").json["splits"] == {"train": 9, "test": 3}
    assert seedbed("dataset", "show", "mail:test", "--json").json["dataset"] == done.json["parts"][1]["dataset"]
    assert sorted(space.iterdir()) == before
    again = seedbed("dataset", "split", "mail")
    assert (again.code, "a split that exists" in again.err) == (1, True)
    assert seedbed("dataset", "split", "mail:train", "--into", "fit,tune").code == 0
    splits = seedbed("dataset", "show", "mail", "--json").json["splits"]
    assert sum(splits[name] for name in ("fit", "tune")) == 9


def test_a_split_by_source_tears_none_apart(space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    assert seedbed("dataset", "split", "mail", "--share", "0.6", "--stratify", "source").code == 0
    sources = [
        {task["source"] for task in seedbed("dataset", "show", f"mail:{part}", "--limit", "99", "--json").json["first"]}
        for part in ("train", "test")
    ]
    assert all(sources)
    assert not sources[0] & sources[1]


def test_folds_are_kept_by_name_or_written_to_one_file(space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    assert seedbed("dataset", "split", "mail", "--folds", "3", "--dry-run").code == 0
    assert seedbed("dataset", "show", "mail", "--json").json["splits"] == {}
    assert seedbed("dataset", "split", "mail", "--folds", "3").code == 0
    splits = seedbed("dataset", "show", "mail", "--json").json["splits"]
    assert splits == {f"fold-{n}-{part}": size for n in (1, 2, 3) for part, size in (("train", 8), ("test", 4))}
    done = seedbed("dataset", "split", "tasks.jsonl", "--folds", "4", "--json").json
    assert {part["file"] for part in done["parts"]} == {"tasks-folds.jsonl"}
    shown = seedbed("dataset", "show", "tasks-folds.jsonl:fold-2-test", "--json").json
    assert shown["tasks"] == 5
    assert seedbed("dataset", "split", "tasks.jsonl", "--folds", "99").code == 1


def test_a_sample_is_written_or_kept(space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    options = ("-n", "4", "--seed", "3", "--stratify", "expected")
    rehearsed = seedbed("dataset", "sample", "mail", *options, "-o", "few.jsonl", "--dry-run")
    assert (rehearsed.code, (space / "few.jsonl").exists()) == (0, False)
    done = seedbed("dataset", "sample", "mail", *options, "-o", "few.jsonl", "--json").json
    assert keeps_promise(done, "dataset", "sample")
    few = Dataset.load(space / "few.jsonl")
    assert sorted(task.expected for task in few) == ["bad", "bad", "good", "good"]
    assert few.digest == done["dataset"]
    kept = seedbed("dataset", "sample", "mail", *options, "--name", "few", "--json").json
    assert (kept["dataset"], kept["version"], kept["file"]) == (few.digest, 1, None)
    assert seedbed("dataset", "sample", "mail", *options, "-o", "few.jsonl").code == 1
    assert seedbed("dataset", "sample", "mail", *options).code == 64


def test_a_kept_dataset_and_its_splits_work_wherever_one_is_asked_for(space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    assert seedbed("dataset", "split", "mail", "--share", "0.5").code == 0
    write(space, bank__txt="Good or bad? {text}\n")
    assert seedbed("evaluate", "sorter.yaml", "mail:train", "--json").json["tasks"] == 6
    whole = seedbed("evaluate", "sorter.yaml", "mail", "--json").json
    assert (whole["tasks"], whole["reused"]) == (12, 6)
    found = seedbed("evolve", "sorter.yaml", "mail:train", "--bank", "bank.txt", "--json")
    assert (found.code, found.json["improved"]) == (2, True)  # six tasks confirm nothing
    verdict = seedbed("compare", "sorter.yaml", found.json["best"], "--on", "mail:test", "--json").json
    assert verdict["at_most"] == 3  # sources


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nail", "one of: mail"),
        ("mail:tset", "tset"),
        ("nail:test", '"nail"'),
        ("absent.jsonl:test", "absent.jsonl"),
    ],
)
def test_a_dataset_that_is_not_there_is_told(name: str, told: str, space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    for command in (("dataset", "show", name), ("evaluate", "sorter.yaml", name)):
        done = seedbed(*command)
        assert done.code == 1
        assert told in done.err


def test_splits_of_a_file_need_no_workspace(tmp_path: Path, seedbed: Seedbed) -> None:
    row = '{{"inputs": {{"q": "{0}"}}, "split": "{0}"}}\n'
    write(tmp_path, parts__jsonl=row.format("train") + row.format("test"))
    assert seedbed("dataset", "show", "parts.jsonl:test", "--json").json["tasks"] == 1
    assert "--workspace" in seedbed("dataset", "show", "mail").err


def test_a_file_or_folder_is_meant_before_a_kept_name(space: Path, seedbed: Seedbed) -> None:
    added(seedbed)
    (space / "mail").mkdir()
    write(space / "mail", test__csv="text,expected\nx,good\n")
    write(space, **{"a:b__jsonl": tasks(2)})
    assert seedbed("dataset", "show", "mail:test", "--json").json["tasks"] == 1
    assert seedbed("dataset", "show", "datasets/mail", "--json").json["tasks"] == 12
    assert seedbed("dataset", "show", "a:b.jsonl", "--json").json["tasks"] == 2
    assert seedbed("dataset", "split", "datasets/mail").code == 0
    assert seedbed("dataset", "show", "datasets/mail:test", "--json").json["tasks"] == 6


def test_parts_of_a_split_of_a_file_are_named_after_both(space: Path, seedbed: Seedbed) -> None:
    assert seedbed("dataset", "split", "tasks.jsonl", "--folds", "2").code == 0
    done = seedbed("dataset", "split", "tasks-folds.jsonl:fold-1-test")
    assert "wrote tasks-folds-fold-1-test-train.jsonl, 5 tasks" in done.out
