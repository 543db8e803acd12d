"""seedbed dataset hold-out and retire, compare on what is held out or fresh, and evidence attempts, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import BETTER, SORTER, WORKSPACE, Seedbed, keeps_promise, tasks, write

CHANNELS = WORKSPACE.replace("rules_kept]}", "rules_kept], attempts: {first: 80%}}")


@pytest.fixture(autouse=True)
def mail(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml=CHANNELS, tasks__jsonl=tasks(60), few__jsonl=tasks(40))
    write(space, better__yaml=SORTER.replace("Message: {text}", BETTER))
    assert seedbed("dataset", "add", "tasks.jsonl", "--name", "mail").code == 0
    assert seedbed("release", "sorter.yaml", "--to", "production", "--because", "the first").code == 0


def test_held_out_tasks_are_opened_by_a_comparison_that_may_release(seedbed: Seedbed) -> None:
    would = seedbed("dataset", "hold-out", "mail", "--share", "0.5", "--seed", "1", "--dry-run")
    assert "dry run: 30 tasks of mail held out" in would.out
    done = seedbed("dataset", "hold-out", "mail", "--share", "0.5", "--seed", "1", "--json")
    assert keeps_promise(done.json, "dataset", "hold-out")
    assert len(done.json["held_out"]) == 30
    (listed,) = seedbed("dataset", "list", "--json").json["datasets"]
    assert (listed["tasks"], listed["held_out"]) == (60, 30)
    assert seedbed("dataset", "show", "mail", "--json").json["tasks"] == 30
    refused = seedbed("evaluate", "better.yaml", "mail:held-out")
    assert refused.code == 1
    assert "30 that are held out in mail" in refused.err
    card = seedbed("evaluate", "better.yaml", "mail", "--json")
    assert (card.code, card.json["tasks"]) == (0, 30)
    assert "30 tasks of mail are held out" in card.err
    verdict = seedbed("compare", "sorter.yaml", "better.yaml", "--on", "mail:held-out", "--json").json
    assert (verdict["mode"], verdict["at_most"]) == ("confirmatory", 30)
    assert seedbed("evidence", "verify").code == 0


def test_every_attempt_is_listed(seedbed: Seedbed) -> None:
    assert "No attempts yet." in seedbed("evidence", "attempts").out
    verdict = seedbed("compare", "sorter.yaml", "better.yaml", "--on", "mail", "--json").json
    for name in ((), ("production",), ("sorter.yaml",)):
        listed = seedbed("evidence", "attempts", *name, "--json")
        assert keeps_promise(listed.json, "evidence", "attempts")
        (attempt,) = listed.json["attempts"]
        assert (attempt["experiment"], attempt["number"], attempt["finding"]) == (verdict["experiment"], 1, "superior")
        assert (attempt["share"], attempt["level"]) == (0.8, pytest.approx(0.04))
    shown = seedbed("evidence", "show", verdict["experiment"])
    assert "0.8000" in shown.out
    assert seedbed("evidence", "attempts", "nobody").code == 1


def test_a_report_lists_every_attempt(space: Path, seedbed: Seedbed) -> None:
    seedbed("compare", "sorter.yaml", "better.yaml", "--on", "mail", "-o", "report.md")
    text = (space / "report.md").read_text(encoding="utf-8")
    assert "All attempts to replace" in text
    assert "0.8000" in text


def test_a_retired_task_is_gone_or_missing(seedbed: Seedbed) -> None:
    first, second = (task["id"] for task in seedbed("dataset", "show", "mail", "--limit", "2", "--json").json["first"])
    done = seedbed("dataset", "retire", "mail", first, "--because", "a wrong answer", "--json")
    assert keeps_promise(done.json, "dataset", "retire")
    assert not done.json["known"]
    assert seedbed("evaluate", "sorter.yaml", "mail", "--json").json["tasks"] == 59
    assert "counts as a missing answer" in seedbed("dataset", "retire", "mail", second, "--because", "another").out
    verdict = seedbed("compare", "sorter.yaml", "better.yaml", "--on", "mail", "--json").json
    assert (verdict["mode"], verdict["at_most"]) == ("confirmatory", 59)


def test_what_is_fresh_is_new_to_both(seedbed: Seedbed) -> None:
    seedbed("evaluate", "better.yaml", "few.jsonl")
    verdict = seedbed("compare", "sorter.yaml", "better.yaml", "--on", "mail:fresh", "--json").json
    assert (verdict["mode"], verdict["at_most"]) == ("confirmatory", 20)


REFUSED = {
    ("hold-out", "mail", "--share", "1.5"): "more than 0 and less than 1",
    ("hold-out", "letters"): "no stored dataset is called",
    ("hold-out", "tasks.jsonl"): "no stored dataset is called",
    ("retire", "mail", "nothing", "--because", "x"): "expected the id of a task",
    ("show", "mail:held-out"): "expected tasks that are held out",
    ("show", "mail:fresh"): "expected two playbooks that they are new to",
    ("check", "mail", "--not-leaked", "x"): "expected a reason",
}


def test_what_cannot_be_is_refused(seedbed: Seedbed) -> None:
    for command, says in REFUSED.items():
        done = seedbed("dataset", *command)
        assert done.code in (1, 64)
        assert says in " ".join(done.err.replace("│", " ").split())
