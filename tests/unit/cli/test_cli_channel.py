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
    assert seedbed("channel", "list").out == "No channels yet.\n"


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
    assert lines[0] == "| at | how | from | to | because | gates | by |"
    assert lines[1] == "|---|---|---|---|---|---|---|"
    assert len(lines) == 4
    release = rf"| release | {served[0][3:13]} | {served[1][3:13]} | reason \| number 1 with [b]more[/b] | none | ann |"
    assert lines[2].endswith(release)


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


# Canary


RAMP = WORKSPACE.replace(
    "{require: [better, held_out, rules_kept]}", "{require: [], canary: {shares: [5%, 25%], hold: 1 run}}"
)


@pytest.fixture
def ramped(served: list[str], space: Path, seedbed: Seedbed) -> list[str]:
    """The two releases, and a canary that has its first share."""
    write(space, seedbed__yaml=RAMP)
    child = ("derive", served[0], "--set", "parameters.caution=0.7", "--because", "x")
    digest = seedbed("playbook", *child, "--json").json["playbook"]
    done = seedbed("release", digest, "--to", "production", "--because", "try it", "--json")
    assert keeps_promise(done.json, "release")
    assert (done.json["playbook"], done.json["canary"]) == (served[1], {"playbook": digest, "share": 0.05})
    return [*served, digest]


def met(ramped: list[str], share: float, seedbed: Seedbed) -> str:
    """Somebody who meets the canary."""
    from seedbed.release.assignment import place

    return next(f"user {n}" for n in range(9999) if place("production", ramped[2], f"user {n}") < share)


def test_a_canary_is_promoted_step_by_step(ramped: list[str], seedbed: Seedbed) -> None:
    early = seedbed("channel", "promote", "production", "--because", "at once")
    assert early.code == 1
    assert "0 runs of the canary at this share" in early.err
    key = met(ramped, 0.05, seedbed)
    assert seedbed("run", "production", "--key", key, "text=x", "--json").json["playbook"] == ramped[2]
    before = held()
    promote = ("channel", "promote", "production", "--because", "no complaints", "--json")
    rehearsed = seedbed(*promote, "--dry-run")
    assert keeps_promise(rehearsed.json, "channel", "promote")
    assert (rehearsed.code, rehearsed.json["canary"]["share"], held()) == (0, 0.25, before)
    assert seedbed(*promote).json["canary"]["share"] == 0.25
    seedbed("run", "production", "--key", key, "text=x")
    done = seedbed(*promote)
    assert (done.json["playbook"], done.json["canary"]) == (ramped[2], None)


def test_show_tells_of_the_canary_and_rollback_takes_it_away(ramped: list[str], seedbed: Seedbed) -> None:
    document = seedbed("channel", "show", "production", "--json").json
    assert document["canary"] == {"playbook": ramped[2], "share": 0.05, "runs": 0}
    assert document["ramp"] == {"shares": [0.05, 0.25], "hold": 1, "approval": False}
    out = " ".join(seedbed("channel", "show", "production").out.split())
    assert f"{ramped[1][3:13]} + 5 % {ramped[2][3:13]}" in out
    assert "5 %, 25 %, 1 run each; 0 runs of the canary so far" in out
    assert f"removes the canary {ramped[2][3:13]}" in out
    assert "+ 5 %" in seedbed("channel", "list").out
    assert "+ 5 %" in seedbed("channel", "log", "production", "--markdown").out
    done = seedbed("rollback", "production", "--because", "complaints", "--json")
    assert (done.json["playbook"], done.json["canary"]) == (ramped[1], None)


def test_a_share_is_typed_as_people_write_it(served: list[str], seedbed: Seedbed) -> None:
    release = ("release", served[0], "--to", "production", "--because", "x", "--dry-run", "--json")
    for written in ("12.5%", "0.125"):
        assert seedbed(*release, "--share", written).json["canary"]["share"] == 0.125
    wrong = seedbed(*release, "--share", "5")
    assert wrong.code == 64
    assert "a share above 0 % and up to 100 %" in " ".join(wrong.err.replace("│", " ").split())


def test_a_frozen_channel_says_so_and_moves_only_back(ramped: list[str], seedbed: Seedbed) -> None:
    before = held()
    assert seedbed("channel", "freeze", "production", "--because", "x", "--dry-run").code == 0
    assert held() == before
    done = seedbed("channel", "freeze", "production", "--because", "strange answers", "--json")
    assert keeps_promise(done.json, "channel", "freeze")
    assert done.json["frozen"] is True
    assert ", frozen" in seedbed("channel", "show", "production").out
    refused = seedbed("channel", "promote", "production", "--because", "x")
    assert refused.code == 1
    assert "unfreeze it first" in " ".join(refused.err.split())
    assert seedbed("rollback", "production", "--because", "x").code == 0
    done = seedbed("channel", "unfreeze", "production", "--because", "understood", "--json")
    assert keeps_promise(done.json, "channel", "unfreeze")
    assert done.json["frozen"] is False


def test_assign_shows_whom_somebody_meets_and_writes_nothing_down(ramped: list[str], seedbed: Seedbed) -> None:
    before, key = held(), met(ramped, 0.05, seedbed)
    done = seedbed("channel", "assign", "production", key, "--json")
    assert keeps_promise(done.json, "channel", "assign")
    assert (done.json["arm"], done.json["playbook"], done.json["propensity"]) == ("canary", ramped[2], 0.05)
    assert f"{key} gets {ramped[2][3:13]}, as canary" in seedbed("channel", "assign", "production", key).out
    assert held() == before


def test_a_key_is_for_a_channel_as_it_is(ramped: list[str], seedbed: Seedbed) -> None:
    changed = ("--set", "parameters.caution=0.1")
    assert seedbed("run", "production", "--key", "anna", "text=x", *changed).code == 64
    assert seedbed("run", "production", "key=anna").code == 64
