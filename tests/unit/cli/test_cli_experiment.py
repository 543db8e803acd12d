"""seedbed experiment, as it is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import BETTER, SORTER, WORKSPACE, Seedbed, held, keeps_promise, tasks, write

COMPARE = ("compare", "sorter.yaml", "better.yaml", "--on", "tasks.jsonl", "--json")
LISTED = ["experiment", "status", "begun", "by", "hypothesis", "finding", "tasks", "at_most", "alpha", "channel"]


@pytest.fixture
def verdict(space: Path, seedbed: Seedbed) -> Any:
    """A comparison that has ended."""
    write(space, tasks__jsonl=tasks(60), better__yaml=SORTER.replace("Message: {text}", BETTER))
    return seedbed(*COMPARE).json


@pytest.fixture
def running(space: Path, seedbed: Seedbed) -> str:
    """A comparison whose money did not last."""
    role = SORTER.replace("temperature: 0.5", "max_tokens: 1")
    write(
        space,
        seedbed__yaml=WORKSPACE.replace("[1000, 2000]", "[0, 1000000]").replace("unsure [bold]ä[/bold] 🙂", "hm"),
        tasks__jsonl=tasks(60),
        sorter__yaml=role,
        better__yaml=role.replace("Message: {text}", BETTER),
    )
    assert seedbed(*COMPARE, "--max-cost", "3").code == 2
    (each,) = seedbed("experiment", "list", "--json").json
    assert (each["status"], each["finding"]) == ("running", None)
    return str(each["experiment"])


def test_comparisons_are_listed_the_newest_first(verdict: Any, seedbed: Seedbed) -> None:
    newer = seedbed(*COMPARE, "--seed", "1").json["experiment"]
    found = seedbed("experiment", "list", "--json").json
    assert [list(each) for each in found] == [LISTED, LISTED]
    assert [each["experiment"] for each in found] == [newer, verdict["experiment"]]
    assert len(seedbed("experiment", "list", "--limit", "1", "--json").json) == 1
    assert "superior" in seedbed("experiment", "list").out


def test_where_nothing_was_compared_that_is_said(space: Path, seedbed: Seedbed) -> None:
    assert seedbed("experiment", "list", "--json").json == []
    assert "No comparisons yet" in seedbed("experiment", "list").out


def test_what_was_registered_is_shown_with_what_came_of_it(verdict: Any, seedbed: Seedbed) -> None:
    done = seedbed("experiment", "show", verdict["experiment"][:12], "--json")
    assert keeps_promise(done.json, "experiment", "show")
    assert (done.json["status"], done.json["verdict"]) == ("completed", verdict)
    assert done.json["registered"]["candidate"] == verdict["candidate"]
    told = seedbed("experiment", "show", verdict["experiment"].removeprefix("b2:")[:8]).out
    assert "superior: " in told
    assert "hypothesis" in told


def test_a_running_one_has_no_verdict_and_no_report(running: str, seedbed: Seedbed) -> None:
    assert seedbed("experiment", "show", running, "--json").json["verdict"] is None
    done = seedbed("experiment", "report", running, "-o", "report.md")
    assert done.code == 1
    assert "has no verdict" in done.err
    assert not Path("report.md").exists()


def test_one_that_was_stopped_by_hand_is_invalid_for_ever(running: str, seedbed: Seedbed) -> None:
    before = held()
    rehearsed = seedbed("experiment", "abort", running, "--because", "too dear", "--dry-run", "--json")
    assert (rehearsed.code, rehearsed.json["finding"], held()) == (0, "invalid", before)
    done = seedbed("experiment", "abort", running, "--because", "too dear", "--json")
    assert keeps_promise(done.json, "experiment", "abort")
    assert (done.code, done.json["because"]) == (0, "stopped by hand: too dear")
    again = seedbed(*COMPARE)
    assert (again.code, again.json["finding"], again.json["aborted"]) == (2, "invalid", True)
    assert "invalid: stopped by hand: too dear" in seedbed("experiment", "show", running).out
    assert seedbed("evidence", "verify").code == 0


def test_one_that_has_ended_cannot_be_stopped_any_more(verdict: Any, seedbed: Seedbed) -> None:
    done = seedbed("experiment", "abort", verdict["experiment"], "--because", "I do not like it", "--json")
    assert done.json["finding"] == "superior"
    assert seedbed(*COMPARE).json == verdict


@pytest.mark.parametrize("because", [(), ("--because", " ")], ids=["none", "blank"])
def test_whoever_stops_one_says_why(because: tuple[str, ...], running: str, seedbed: Seedbed) -> None:
    assert seedbed("experiment", "abort", running, *because).code == (1 if because else 64)
    assert seedbed("experiment", "show", running, "--json").json["status"] == "running"


@pytest.mark.parametrize("command", [("show",), ("abort", "--because", "x"), ("report", "-o", "new.md")], ids=str)
def test_what_was_never_begun_is_told(command: tuple[str, ...], verdict: Any, seedbed: Seedbed) -> None:
    done = seedbed("experiment", command[0], "0123456789", *command[1:])
    assert (done.code, done.out) == (1, "")
    assert "is not an experiment in this store" in done.err
    assert "seedbed experiment list" in done.err


@pytest.mark.parametrize(("name", "begins"), [("report.md", "# "), ("report.html", "<!doctype html>")])
def test_a_report_can_be_written_later(name: str, begins: str, verdict: Any, seedbed: Seedbed) -> None:
    done = seedbed("experiment", "report", verdict["experiment"], "-o", name, "--json")
    assert done.json == {"file": name}
    assert Path(name).read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize(("name", "code"), [("mine.md", 1), ("absent/new.md", 1), ("new.pdf", 64)])
def test_a_report_overwrites_nothing(name: str, code: int, verdict: Any, seedbed: Seedbed) -> None:
    write(Path(), mine__md="mine")
    done = seedbed("experiment", "report", verdict["experiment"], "-o", name)
    assert (done.code, Path("mine.md").read_text()) == (code, "mine")
    assert name.rpartition("/")[2] in done.err
