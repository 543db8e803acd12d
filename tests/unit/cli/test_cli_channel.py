"""seedbed channel: what is served, and how it came there."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import WORKSPACE, Seedbed, held, keeps_promise, write

FREE = WORKSPACE.replace("{require: [better, held_out, rules_kept]}", "{require: []}")


@pytest.fixture
def served(kept: str, space: Path, seedbed: Seedbed) -> list[str]:
    """A channel with two releases; their digests, oldest first."""
    write(space, seedbed__yaml=FREE)
    child = ("derive", kept, "--set", "parameters.caution=0.9", "--because", "x")
    digests = [kept, seedbed("playbook", *child, "--json").json["playbook"]]
    for number, digest in enumerate(digests):
        because = f"reason | number {number}\nwith [b]more[/b]"
        assert seedbed("release", digest, "--to", "production", "--because", because).code == 0
    return digests


def test_channels_without_a_release_are_listed_too(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("channel", "list", "--json")
    assert keeps_promise(done.json, "channel", "list")
    (channel,) = done.json["channels"]
    assert (channel["channel"], channel["playbook"], channel["standing"]) == ("production", None, [])
    assert "nothing yet" in seedbed("channel", "list").out
    assert "nothing yet" in seedbed("channel", "show", "production").out


def test_a_workspace_without_channels_says_so(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml="by: ann\n")
    assert seedbed("channel", "list").out == "no channels yet\n"


def test_show_tells_what_is_served_its_gates_and_what_a_rollback_returns_to(
    served: list[str], seedbed: Seedbed
) -> None:
    done = seedbed("channel", "show", "production", "--json")
    assert keeps_promise(done.json, "channel", "show")
    assert (done.json["playbook"], done.json["standing"], done.json["require"]) == (served[1], served, [])
    out = seedbed("channel", "show", "production").out
    assert f"returns to {served[0][3:13]}" in out
    assert "none: everything passes" in out
    assert "with [b]more[/b]" in out


def test_log_shows_every_move_newest_first(served: list[str], seedbed: Seedbed) -> None:
    seedbed("rollback", "production", "--because", "complaints")
    done = seedbed("channel", "log", "production", "--json")
    assert keeps_promise(done.json, "channel", "log")
    assert [move["to"]["stable"] for move in done.json["moves"]] == [served[0], served[1], served[0]]
    assert [move["to"]["how"] for move in done.json["moves"]] == ["rollback", "release", "release"]
    out = seedbed("channel", "log", "production").out
    assert "complaints" in out
    assert "[b]more[/b]" in out


def test_the_log_is_a_markdown_table_that_no_reason_can_break(served: list[str], seedbed: Seedbed) -> None:
    lines = seedbed("channel", "log", "production", "--markdown").out.splitlines()
    assert lines[0] == "| at | how | from | to | because | by |"
    assert lines[1] == "|---|---|---|---|---|---|"
    assert len(lines) == 4
    assert lines[2].endswith(
        rf"| release | {served[0][3:13]} | {served[1][3:13]} | reason \| number 1 with [b]more[/b] | ann |"
    )


@pytest.mark.parametrize("command", ["show", "log"])
def test_an_unknown_channel_is_told(command: str, space: Path, seedbed: Seedbed) -> None:
    done = seedbed("channel", command, "[bold]")
    assert (done.code, done.out) == (1, "")
    assert "[bold]" in done.err


def test_a_gate_that_nobody_knows_is_told(space: Path, seedbed: Seedbed) -> None:
    write(space, seedbed__yaml=WORKSPACE.replace("held_out", "held_up"))
    for command in (("channel", "show", "production"), ("release", "sorter.yaml", "--to", "production")):
        done = seedbed(*command)
        assert done.code == 1
        assert "channels.production.require[1]" in done.err
        assert "held_up" in done.err


# approve


def test_somebody_else_approves_and_it_can_be_rehearsed(
    kept: str, space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(space, seedbed__yaml=WORKSPACE.replace("[better, held_out, rules_kept]", "[{review: {when: always}}]"))
    release = ("release", "sorter.yaml", "--to", "production")
    approve = ("channel", "approve", "production", "sorter.yaml", "--because", "read it")
    assert "seedbed channel approve production" in seedbed(*release).err
    own = seedbed(*approve)
    assert own.code == 1
    assert "another person" in own.err
    monkeypatch.setenv("SEEDBED_BY", "bob")
    before = held()
    rehearsed = seedbed(*approve, "--dry-run", "--json")
    assert keeps_promise(rehearsed.json, "channel", "approve")
    assert (rehearsed.code, rehearsed.json["playbook"], held()) == (0, kept, before)
    assert seedbed(*approve).code == 0
    monkeypatch.setenv("SEEDBED_BY", "ann")
    assert seedbed(*release).code == 0
