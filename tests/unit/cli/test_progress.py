"""Live progress: on the error stream, only where somebody watches, and true."""

from __future__ import annotations

import pytest

from seedbed.cli import output, progress
from seedbed.evaluation.cells import Cell
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.experiment.view import status_line
from seedbed.stats.sequential.exact import ExactMcNemar

START = Playbook.from_document({"parameters": {"warmth": {"value": 0.5, "low": 0, "high": 1}}})


def cell(number: int, value: float | None = 1.0) -> Cell:
    return Cell(
        key=str(number),
        playbook=START.digest,
        task=str(number),
        replicate=0,
        metric="exact_match",
        value=value,
        cost_usd=0.5,
    )


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    output.errors.cache_clear()


def everything_once() -> None:
    with progress.candidates(3) as watch:
        for number in range(3):
            watch("sorter", cell(number, None if number == 1 else 1.0))
    with progress.counting("copying") as count:
        count(1, 2)
        count(2, 2)
    rule = ExactMcNemar(alpha=0.05, at_most=3)
    with progress.comparing(3, 0.05) as seen:
        for difference in (1, 0, -1):
            seen(rule.update(difference))


def test_where_nobody_watches_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    everything_once()
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("watched")
def test_whoever_watches_sees_it_on_the_error_stream_only(capsys: pytest.CaptureFixture[str]) -> None:
    everything_once()
    printed = capsys.readouterr()
    assert not printed.out
    for told in ("sorter", "3/3", "mean 1.000", "$1.50", "start", "copying", "tasks 3/3 | W 1 T 1 L 1"):
        assert told in printed.err


@pytest.mark.usefixtures("watched")
def test_the_mean_is_that_of_the_round(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.candidates(3) as watch:
        watch("first", cell(0, 1.0))
        watch("second", cell(0, 0.0))
        watch("second", cell(1, 0.5))
    assert "mean 0.250" in capsys.readouterr().err


def test_a_comparison_is_one_line_of_true_numbers() -> None:
    rule = ExactMcNemar(alpha=0.05, at_most=40)
    for _ in range(4):
        answer = rule.update(1)
    line = status_line(answer, 40, 0.05)
    assert line.startswith(f"tasks 4/40 | W 4 T 0 L 0 | ends at – | spent {answer.spent:.3f}/0.05 | delta +100.0")


def test_a_comparison_of_one_task_has_hardly_an_interval() -> None:
    answer = ExactMcNemar(alpha=0.05, at_most=40).update(0)
    assert status_line(answer, 40, 0.05).endswith("delta +0.0 [-98.9,+98.9]")
