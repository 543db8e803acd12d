"""seedbed init: a first workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Seedbed, keeps_promise

from seedbed.cli.start import init
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.settings.gates import DEFAULT_GATES

FILES = [".gitignore", "instructions.txt", "messages.jsonl", "seedbed.schema.json", "seedbed.yaml", "sorter.yaml"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_writes_a_workspace_that_is_valid(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("init", "a/b c")
    folder = tmp_path / "a" / "b c"
    assert (done.code, names(folder)) == (0, FILES)
    assert "cd 'a/b c'" in done.out
    settings = Settings.load(folder / "seedbed.yaml", {})
    assert [gate.name for gate in settings.channels["production"].require] == [*DEFAULT_GATES]
    assert Playbook.load(folder / "sorter.yaml").rules.never
    assert len(Dataset.load(folder / "messages.jsonl")) > 20
    assert (folder / "instructions.txt").read_text().strip()


def test_editors_find_the_schema_of_the_workspace_file(tmp_path: Path, seedbed: Seedbed) -> None:
    assert seedbed("init").code == 0
    first = (tmp_path / "seedbed.yaml").read_text().splitlines()[0]
    name, _, address = first.partition("=")
    assert name == "# yaml-language-server: $schema"
    assert json.loads((tmp_path / address).read_text())["properties"]["channels"]


def test_json_has_what_it_promises(seedbed: Seedbed) -> None:
    done = seedbed("init", "mail", "--json")
    assert keeps_promise(done.json, "init")
    assert sorted(done.json["files"]) == FILES


def test_the_commands_it_proposes_are_commands_of_its_own_files(tmp_path: Path, seedbed: Seedbed) -> None:
    for line in seedbed("init", "--json").json["next"]:
        assert line.startswith("seedbed ")
    for arguments in init.NEXT:
        words = arguments[: 2 if arguments[0] == "dataset" else 1]
        assert seedbed(*words, "--help").code == 0
        made = {"messages-train.jsonl", "messages-test.jsonl"}
        for name in arguments:
            if name.endswith((".yaml", ".jsonl", ".txt")) and name not in made:
                assert (tmp_path / name).is_file()


def test_a_dry_run_writes_nothing(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("init", "mail", "--dry-run")
    assert done.code == 0
    assert "would write" in done.out
    assert names(tmp_path) == []


def test_nothing_is_overwritten_and_every_obstacle_is_told(tmp_path: Path, seedbed: Seedbed) -> None:
    (tmp_path / "sorter.yaml").write_text("mine")
    (tmp_path / "seedbed.yaml").mkdir()
    done = seedbed("init")
    assert done.code == 1
    assert "2 problems" in done.err
    assert (tmp_path / "sorter.yaml").read_text() == "mine"
    assert names(tmp_path) == ["seedbed.yaml", "sorter.yaml"]


def test_a_gitignore_of_ones_own_stays(tmp_path: Path, seedbed: Seedbed) -> None:
    (tmp_path / ".gitignore").write_text("mine")
    done = seedbed("init")
    assert done.code == 0
    assert "Your .gitignore was left unchanged; add to it: *.db" in done.out
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_a_file_in_the_way_of_the_folder_is_an_error(tmp_path: Path, seedbed: Seedbed) -> None:
    (tmp_path / "mail").write_text("a file")
    done = seedbed("init", "mail")
    assert done.code == 1
    assert "mail" in done.err
    assert "unexpected" not in done.err


@pytest.mark.parametrize(
    ("arguments", "typed"),
    [
        (("run", "a.yaml"), "seedbed run a.yaml"),
        (("run", "text=two words"), "seedbed run text='two words'"),
        (("run", "text=it's"), "seedbed run text='it'\"'\"'s'"),
        (("release", "--because", "a=b c"), "seedbed release --because a='b c'"),
        (("run", "two words"), "seedbed run 'two words'"),
    ],
)
def test_a_command_is_shown_as_a_shell_takes_it(arguments: tuple[str, ...], typed: str) -> None:
    assert init.typed(*arguments) == typed


def test_it_begins_with_a_dialogue_that_ships(tmp_path: Path, seedbed: Seedbed) -> None:
    done = seedbed("init", "--from", "debate", "--json")
    assert names(tmp_path) == [".gitignore", "debate.yaml", "seedbed.schema.json", "seedbed.yaml"]
    assert done.json["next"][1] == "seedbed run debate.yaml question='Should our town buy electric buses?'"
    assert seedbed("playbook", "check", "debate.yaml", "--strict").code == 0
    assert Settings.load(tmp_path / "seedbed.yaml", {}).models["local"].args == {"template": "chat"}
    refused = seedbed("init", "other", "--from", "quarrel")
    assert (refused.code, "expected one of: critique, debate" in refused.err) == (64, True)
    assert not (tmp_path / "other").exists()
