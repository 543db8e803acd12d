"""Evaluations as commands do them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from command_line import SORTER, write

from seedbed.cli import output
from seedbed.cli.command import Invocation
from seedbed.cli.verbs import evaluate
from seedbed.evaluation.cells import Cell


def test_an_interruption_says_how_far_it_came_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    cell = Cell(key="k", playbook="b2:0", task="t", replicate=0, metric="m", value=1.0)

    def interrupted() -> None:
        with evaluate.watched(1_500) as watch:
            for _ in range(1_200):
                watch("sorter", cell)
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        interrupted()
    assert ended.value.exit_code == 130
    assert "Stopped after 1,200 of 1,500 results. To continue: seedbed" in capsys.readouterr().err


def test_what_is_told_goes_to_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    output.warn("the money [b]did not last[/b]")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "! the money [b]did not last[/b]\n")


def test_files_are_called_by_their_names_unless_two_are_called_alike(space: Path) -> None:
    for folder in ("one", "two"):
        (space / folder).mkdir()
        write(space / folder, sorter__yaml=SORTER.replace("0.5", "0.25"), other__yaml=SORTER.replace("0.5", "0.75"))
    with Invocation().open() as workspace:
        named = [*workspace.scorecards.called(["sorter.yaml", "one/sorter.yaml", "two/other.yaml", "sorter.yaml"])]
    assert named == ["sorter.yaml", "one/sorter.yaml", "other.yaml"]
