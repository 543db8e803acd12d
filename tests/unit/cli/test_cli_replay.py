"""seedbed runs replay, as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import BETTER, SORTER, Seedbed, held, keeps_promise, write

AGENT = """\
async def handle(task, stage):
    turn = await stage.ask("sorter", task["text"], step="one/two")
    again = await stage.ask("sorter", "Good or bad? love", step="last")
    return f"{turn.text} {again.text}"
"""


@pytest.fixture
def run(space: Path, seedbed: Seedbed) -> str:
    """A run of two turns."""
    write(
        space,
        replayed_agent__py=AGENT,
        agent__yaml="roles: {sorter: {model: local}}\nprogram: replayed_agent:handle\n",
        other__yaml="roles: {sorter: {model: local, system: Hm.}}\nprogram: replayed_agent:handle\n",
        better__yaml=SORTER.replace("Message: {text}", BETTER),
    )
    return str(seedbed("run", "agent.yaml", "text=I love it", "--json").json["run"])


def replayed(seedbed: Seedbed, *arguments: str) -> Any:
    done = seedbed("runs", "replay", *arguments, "--json")
    assert keeps_promise(done.json, "runs", "replay")
    assert done.code == (1 if done.json["missed"] else 0)
    return done.json


def test_a_run_comes_out_as_it_did(run: str, seedbed: Seedbed) -> None:
    found = replayed(seedbed, run[:8])
    assert (found["of"], found["same"], found["missed"], found["diverges_at"]) == (run, True, False, None)
    assert [(step["name"], step["label"]) for step in found["steps"]] == [("one/two", "exact"), ("last", "exact")]
    assert all(step["recorded"] == step["replayed"] for step in found["steps"])
    assert "same result" in seedbed("runs", "replay", run).out


def test_a_replay_is_made_once_and_is_none_of_the_runs(run: str, seedbed: Seedbed) -> None:
    first = replayed(seedbed, run)
    before = held()
    assert replayed(seedbed, run) == first
    assert held() == before
    assert [each["run"] for each in seedbed("runs", "list", "--json").json["runs"]] == [run]


def test_a_step_that_was_not_recorded_is_missed_and_told(run: str, seedbed: Seedbed) -> None:
    found = replayed(seedbed, run, "--playbook", "other.yaml")
    assert (found["missed"], found["same"], found["diverges_at"], found["status"]) == (True, False, 1, "failed")
    assert [(step["label"], step["replayed"]) for step in found["steps"]] == [("", None), ("", None)]
    done = seedbed("runs", "replay", run, "--playbook", "other.yaml")
    assert done.code == 1
    assert "diverges at step 1" in done.out
    assert "not replayable" in done.out


def test_the_nearest_recording_answers_if_that_is_allowed(run: str, seedbed: Seedbed) -> None:
    found = replayed(seedbed, run, "--playbook", "other.yaml", "--mode", "lenient")
    assert [step["label"] for step in found["steps"]] == ["substituted", "substituted"]
    assert (found["same"], found["diverges_at"]) == (True, 1)


def test_from_a_step_on_it_may_be_live(run: str, seedbed: Seedbed) -> None:
    found = replayed(seedbed, run, "--mode", "fork:2")
    assert [step["label"] for step in found["steps"]] == ["exact", "live"]
    assert (found["diverges_at"], found["same"]) == (2, True)


def test_live_answers_that_are_others_than_recorded_are_counted(run: str, space: Path, seedbed: Seedbed) -> None:
    same = seedbed("runs", "replay", run, "--mode", "fork:2").out
    assert "drift turn last: 0 of 1 live answers differ" in same
    workspace = space / "seedbed.yaml"
    workspace.write_text(workspace.read_text().replace('love": good', 'love": great'))
    drift, other = replayed(seedbed, run, "--mode", "fork:1")["drift"]
    assert (other["name"], other["differ"]) == ("one/two", 0)
    assert (drift["kind"], drift["name"], drift["compared"], drift["differ"]) == ("turn", "last", 1, 1)
    assert drift["path"] == "text"
    out = seedbed("runs", "replay", run, "--mode", "fork:1").out.replace("\n", " ")
    assert "1 of 1 live answers differ from the recorded ones, first at text: " in out


def test_an_outcome_that_is_another_is_told_beside_the_recorded_one(space: Path, seedbed: Seedbed) -> None:
    write(space, better__yaml=SORTER.replace("Message: {text}", BETTER))
    run = seedbed("run", "sorter.yaml", "text=I love it", "--json").json["run"]
    found = replayed(seedbed, run, "--playbook", "better.yaml", "--mode", "fork:1")
    (step,) = found["steps"]
    assert (step["recorded"], step["replayed"], step["differs"]) == ("unsure [bold]ä[/bold] 🙂", "good", True)
    assert (found["output"], found["recorded"]["output"], found["same"]) == ("good", "unsure [bold]ä[/bold] 🙂", False)
    told = seedbed("runs", "replay", run, "--playbook", "better.yaml", "--mode", "fork:1").out
    assert "result good, recorded unsure [bold]ä[/bold] 🙂" in told


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--mode", "fork:0"), 64, "--mode"),
        (("--mode", "quick"), 64, "strict, lenient, or fork:K"),
        (("--playbook", "absent.yaml"), 1, "absent.yaml"),
    ],
    ids=str,
)
def test_what_is_called_wrongly_is_told(
    arguments: tuple[str, ...], code: int, told: str, run: str, seedbed: Seedbed
) -> None:
    before = held()
    done = seedbed("runs", "replay", run, *arguments)
    assert (done.code, done.out, held()) == (code, "", before)
    assert told in done.err


def test_a_run_that_nobody_knows_is_told(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("runs", "replay", "0123456789")
    assert (done.code, done.out) == (1, "")
    assert "seedbed runs list" in done.err
