"""seedbed runs: what happened."""

from __future__ import annotations

from pathlib import Path

from command_line import BETTER, Seedbed, keeps_promise, promised


def test_the_newest_runs_come_first(space: Path, seedbed: Seedbed) -> None:
    ids = [seedbed("run", "sorter.yaml", f"text=number {each}", "--json").json["run"] for each in range(3)]
    found = seedbed("runs", "list", "--limit", "2", "--json")
    assert [each["run"] for each in found.json["runs"]] == ids[:0:-1]
    assert keeps_promise(found.json, "runs", "list")
    assert len(promised("runs", "list")["runs"]) == 10
    out = seedbed("runs", "list").out
    assert "number 2" in out
    assert "unsure [bold]ä[/bold]" in out


def test_runs_of_one_playbook_can_be_asked_for(kept: str, seedbed: Seedbed) -> None:
    seedbed("run", kept, "text=a")
    other = seedbed("run", kept, "text=b", "--set", f"steps.label.prompt={BETTER}", "--json").json
    found = seedbed("runs", "list", "--playbook", other["playbook"], "--json").json["runs"]
    assert [each["run"] for each in found] == [other["run"]]
    assert seedbed("runs", "list", "--playbook", "sorter.yaml", "--json").json["runs"][0]["inputs"] == {"text": "a"}


def test_without_runs_it_says_so(space: Path, seedbed: Seedbed) -> None:
    assert seedbed("runs", "list").out == "no runs yet\n"


def test_a_run_is_shown_turn_by_turn_by_the_beginning_of_its_id(space: Path, seedbed: Seedbed) -> None:
    run = seedbed("run", "sorter.yaml", "text=hello there", "--json").json["run"]
    done = seedbed("runs", "show", run[:6], "--json")
    assert keeps_promise(done.json, "runs", "show")
    out = seedbed("runs", "show", run[:6]).out
    for told in (
        "label · local",
        "Sort [red]mail[/red].",
        "Message: hello there",
        "→ unsure [bold]ä[/bold] 🙂",
        "1 turn",
    ):
        assert told in out


def test_a_failed_run_shows_its_error(space: Path, seedbed: Seedbed) -> None:
    seedbed("run", "sorter.yaml", "words=x")
    (failed,) = seedbed("runs", "list", "--json").json["runs"]
    assert failed["error"].split(":")[0] in seedbed("runs", "list").out
    assert "✗" in seedbed("runs", "show", failed["run"]).out


def test_an_unknown_run_is_told(space: Path, seedbed: Seedbed) -> None:
    for name in ("0123", "nonsense", "[bold]"):
        done = seedbed("runs", "show", name)
        assert done.code == 1
        assert f'no run "{name}" is recorded here' in done.err
