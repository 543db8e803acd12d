"""Scripts use a workspace without await, by the same methods."""

from __future__ import annotations

import inspect

import pytest
from loop_samples import ORACLE, agent, numbers

import seedbed
from seedbed import SeedbedError
from seedbed.workspace.workspace import PARTS


def test_scripts_need_no_await() -> None:
    with seedbed.open_blocking(models={"oracle": ORACLE}, by="ada") as space:
        run = space.run(agent(".*"), n=3)
        assert run.output == "3"
        assert space.runs.get(run.id) == run
        assert space.evaluate(agent(".*"), numbers(3)).interval.mean == 1.0
        assert space.acting("ben").run(agent(".*"), n=4).output == "4"
        assert {*PARTS} <= {*dir(space)}
        with pytest.raises(SeedbedError, match="no playbook named"):
            space.playbooks.get("nobody")


def test_a_recording_is_entered_and_left_without_await() -> None:
    with seedbed.open_blocking(models={"oracle": ORACLE}, by="ada") as space:
        with space.runs.recording(agent(".*"), n=5) as stage:
            stage.output = "five"
        assert space.runs.recent(1)[0].output == "five"
        with pytest.raises(ZeroDivisionError), space.runs.recording(agent(".*"), n=6):
            _ = 1 / 0
        assert space.runs.recent(1)[0].status == "failed"


def test_methods_keep_their_names_and_words() -> None:
    with seedbed.open_blocking(store="memory:", by="ada") as space:
        assert space.compare.__doc__ == seedbed.Workspace.compare.__doc__
        assert repr(space).startswith("Blocking(Workspace(")
        assert inspect.signature(seedbed.open_blocking) == inspect.signature(seedbed.open)


def test_models_and_judges_are_read_by_name_and_counted() -> None:
    with seedbed.open_blocking(models={"oracle": ORACLE}, by="ada") as space:
        assert (list(space.models), len(space.models), "oracle" in space.models) == (["oracle"], 1, True)
        assert space.models["oracle"].name == "oracle"
        assert (list(space.judges), len(space.judges), "x" in space.judges) == ([], 0, False)
        with pytest.raises(SeedbedError, match="judge: found"):
            space.judges["x"]
        assert space.judges
