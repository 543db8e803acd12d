"""seedbed demo: the whole loop, told with commands. Here a model that knows the answers speaks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, Seedbed, held, keeps_promise

from seedbed.cli.start import demo


def speaks(willing: bool) -> str:
    return json.dumps({"use": "reading_chat.ReadingChat", "args": {"willing": willing}})


def commands(done: Done) -> dict[str, Any]:
    """What each command printed, by its first words."""
    return {" ".join(step["command"].split()[1:3]): step["output"] for step in done.json["steps"]}


@pytest.mark.slow
def test_the_story_goes_as_it_is_told(tmp_path: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEDBED_MODELS__LOCAL", speaks(willing=True))
    done = seedbed("demo", "--json")
    assert done.code == 0
    assert keeps_promise(done.json, "demo")
    steps = done.json["steps"]
    ended = [step for step in steps if step["exit_code"] == 1]
    assert [step["output"].get("error") for step in ended] == ["DatasetError", "ReleaseRefused", "ReleaseRefused", None]
    shortcut, unseen, careless, poor = (step["output"] for step in ended)
    assert "evolved on or is shown" in shortcut["message"]
    assert [problem["path"] for problem in unseen["problems"]] == ["review"]
    assert {"better", "rules_kept"} <= {problem["path"] for problem in careless["problems"]}
    assert (poor["reaction"], poor["moved"]["because"]) == ("roll back", poor["alarms"][0]["told"])
    told = commands(done)
    assert told["compare sorter.yaml"]["finding"] == "superior"
    assert told["store verify"]["clean"] is True
    assert [each["problems"] for each in told["evidence verify"]] == [[]]
    moves = [(move["to"]["how"], move["by"]) for move in reversed(told["channel log"]["moves"])]
    ada = [("release", "ada"), ("release", "ada"), ("promote", "ada"), ("promote", "ada")]
    assert moves == [*ada, ("release", "sam"), ("rollback", "monitor")]
    assert held(f"sqlite:///{tmp_path}/seedbed-demo/seedbed.db")[2]


@pytest.mark.slow
def test_without_a_better_candidate_nothing_is_released_and_that_is_said(
    tmp_path: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDBED_MODELS__LOCAL", speaks(willing=False))
    monkeypatch.setenv("SEEDBED_STORE", f"sqlite:///{tmp_path}/mine.db")
    folder = tmp_path / "show"
    folder.mkdir()
    (folder / demo.MARKER).touch()
    (folder / "stale.txt").touch()
    done = seedbed("demo", "--folder", "show")
    assert done.code == 2
    assert "No candidate proved better" in done.out
    assert "$ seedbed run sorter.yaml text='" in done.out
    assert held(f"sqlite:///{folder}/seedbed.db")[2] == []
    # What an earlier demo left is gone, and the store of this shell was not touched.
    assert not (folder / "stale.txt").exists()
    assert not (tmp_path / "mine.db").exists()
    assert os.environ["SEEDBED_STORE"] == f"sqlite:///{tmp_path}/mine.db"
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_no_demo_made_is_left_alone(kind: str, tmp_path: Path, seedbed: Seedbed) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "mine.txt").write_text("mine")
    if kind == "folder":
        real.rename(tmp_path / "seedbed-demo")
    elif kind == "file":
        (tmp_path / "seedbed-demo").write_text("mine")
    else:
        (real / demo.MARKER).touch()
        (tmp_path / "seedbed-demo").symlink_to(real)
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    done = seedbed("demo", "--json")
    assert done.code == 1
    assert json.loads(done.err)["problems"][0]["remedy"] == "Choose another with --folder."
    assert {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")} == before
