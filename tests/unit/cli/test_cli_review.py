"""seedbed review: who asked for one, what there is to look at, and yes or no."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import BETTER, WORKSPACE, Seedbed, held, keeps_promise, write

REVIEWED = WORKSPACE.replace("[better, held_out, rules_kept]", "[{review: {when: always}}]")
RELEASE = ("release", "sorter.yaml", "--to", "production")
ABOUT = ("production", "sorter.yaml")


@pytest.fixture
def reviewed(kept: str, space: Path) -> str:
    """The digest of a playbook that ann made, for a channel that asks for a review."""
    write(space, seedbed__yaml=REVIEWED)
    return kept


def test_somebody_else_approves_and_it_can_be_rehearsed(
    reviewed: str, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve = ("review", "approve", *ABOUT, "--because", "read it")
    assert "seedbed review approve production" in seedbed(*RELEASE).err
    own = seedbed(*approve)
    assert own.code == 1
    assert "ann, who made it" in own.err
    monkeypatch.setenv("SEEDBED_BY", "bob")
    before = held()
    rehearsed = seedbed(*approve, "--dry-run", "--json")
    assert keeps_promise(rehearsed.json, "review", "approve")
    assert (rehearsed.code, rehearsed.json["playbook"], held()) == (0, reviewed, before)
    assert seedbed(*approve).code == 0
    monkeypatch.setenv("SEEDBED_BY", "ann")
    assert seedbed(*RELEASE).code == 0


def test_a_request_waits_in_the_queue_until_it_is_answered(
    reviewed: str, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seedbed("review", "list").out == "No reviews are waiting.\n"
    asked = seedbed("review", "request", *ABOUT, "--because", "please [b]look[/b]", "--json")
    assert keeps_promise(asked.json, "review", "request")
    waiting = seedbed("review", "list", "--json")
    assert keeps_promise(waiting.json, "review", "list")
    (item,) = waiting.json["reviews"]
    assert (item["playbook"], item["status"], item["by"]) == (reviewed, "waiting", "ann")
    assert "please [b]look[/b]" in seedbed("review", "list").out
    monkeypatch.setenv("SEEDBED_BY", "bob")
    refused = seedbed("review", "refuse", *ABOUT, "--because", "too terse", "--json")
    assert keeps_promise(refused.json, "review", "refuse")
    assert seedbed("review", "list", "--json").json["reviews"] == []
    (item,) = seedbed("review", "list", "--all", "--json").json["reviews"]
    assert (item["status"], item["refused_by"]) == ("refused", ["bob"])
    assert "a refusal by bob: too terse" in seedbed(*RELEASE).err


def test_a_refusal_can_be_seen_and_taken_back_by_who_gave_it(
    reviewed: str, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDBED_BY", "bob")
    seedbed("review", "refuse", *ABOUT, "--because", "too terse")
    seedbed("review", "approve", *ABOUT, "--because", "I was wrong")
    said = seedbed("review", "show", *ABOUT, "--json").json["answers"]
    assert [(each["answer"], each["because"]) for each in said] == [
        ("refused", "too terse"),
        ("approved", "I was wrong"),
    ]
    out = seedbed("review", "show", *ABOUT).out
    assert "refused by bob" in out
    assert "I was wrong" in out
    assert seedbed(*RELEASE).code == 0


def test_only_reviewers_of_the_workspace_file_are_heard(
    kept: str, space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = REVIEWED.replace("{when: always}", "{roles: [safety], expires: 30 days}")
    write(space, seedbed__yaml=f"{roles}\nreviewers: {{bob: [safety], cy: [product]}}\n")
    for name in ("eve", "cy"):
        monkeypatch.setenv("SEEDBED_BY", name)
        done = seedbed("review", "approve", *ABOUT, "--because", "fine")
        assert done.code == 1
        assert f"{name}, who is not a reviewer of this channel" in done.err
    monkeypatch.setenv("SEEDBED_BY", "bob")
    assert seedbed("review", "approve", *ABOUT, "--because", "fine").code == 0
    assert seedbed(*RELEASE).code == 0


def test_show_tells_changes_evidence_gates_and_outputs_without_telling_whose(
    kept: str, space: Path, seedbed: Seedbed
) -> None:
    write(space, seedbed__yaml=WORKSPACE.replace("[better, held_out, rules_kept]", "[]"))
    seedbed("release", kept, "--to", "production", "--because", "first")
    change = ("--set", f"steps.label.prompt={BETTER}", "--because", "try")
    child = seedbed("playbook", "derive", kept, *change, "--json").json["playbook"]
    write(space, seedbed__yaml=WORKSPACE)
    before = seedbed("review", "show", "production", child, "--json")
    assert keeps_promise(before.json, "review", "show")
    assert [each["path"] for each in before.json["refusals"]] == ["better", "held_out"]
    assert (before.json["verdict"], before.json["samples"]) == (None, [])
    assert seedbed("compare", kept, child, "--on", "tasks.jsonl").code == 0
    blind, again = (seedbed("review", "show", "production", child, "--json").json for _ in range(2))
    assert blind == again
    assert [each["path"] for each in blind["changes"]] == ["steps.label.prompt"]
    assert (blind["verdict"].partition(":")[0], blind["refusals"]) == ("superior", [])
    assert [each["candidate"] for each in blind["samples"]] == [None] * 5
    revealed = seedbed("review", "show", "production", child, "--reveal", "--json").json
    for hidden, told in zip(blind["samples"], revealed["samples"], strict=True):
        assert {**hidden, "candidate": told["candidate"]} == told
        assert told[told["candidate"]] in ("good", "bad")
    out = seedbed("review", "show", "production", child, "--samples", "2").out
    assert out.count("unsure [bold]ä[/bold]") == 2
    assert "candidate  " not in out.partition("left")[2]


@pytest.mark.parametrize("command", ["request", "approve", "refuse"])
def test_a_channel_that_nobody_declared_is_a_slip_of_the_pen(command: str, reviewed: str, seedbed: Seedbed) -> None:
    done = seedbed("review", command, "prodution", "sorter.yaml", "--because", "x")
    assert done.code == 1
    assert "prodution" in done.err
