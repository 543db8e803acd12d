"""seedbed playbook keep, derive, merge, name, version, branch, archive, tag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import BETTER, Seedbed, held, keeps_promise

WHY = ("--because", "a [b]reason[/b]")


def derived(seedbed: Seedbed, parent: str, *changes: str, branch: str | None = None) -> str:
    sets = [part for change in changes for part in ("--set", change)]
    named = ("--branch", branch) if branch else ()
    return str(seedbed("playbook", "derive", parent, *sets, *named, *WHY, "--json").json["playbook"])


def shown(seedbed: Seedbed, name: str) -> Any:
    return seedbed("playbook", "show", name, "--json").json


# Every command at once


COMMANDS: dict[str, tuple[str, ...]] = {
    "keep": ("sorter.yaml", *WHY),
    "derive": ("careful", "--set", "parameters.caution=0.25", *WHY),
    "merge": ("careful", "warm", *WHY),
    "name": ("best", "careful", *WHY),
    "version": ("sorter", "1.0.0", "careful", *WHY),
    "branch": ("new", "careful", *WHY),
    "archive": ("careful", *WHY),
    "tag": ("careful", "odd"),
}


@pytest.fixture
def branches(kept: str, seedbed: Seedbed) -> None:
    derived(seedbed, kept, "parameters.caution=0.9", branch="careful")
    derived(seedbed, kept, "roles.sorter.temperature=0.9", branch="warm")


@pytest.mark.usefixtures("branches")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_rehearsal_says_what_the_command_says_and_changes_nothing(command: str, seedbed: Seedbed) -> None:
    before = held()
    rehearsed = seedbed("playbook", command, *COMMANDS[command], "--dry-run", "--json")
    assert rehearsed.code == 0
    assert keeps_promise(rehearsed.json, "playbook", command)
    if command != "tag":
        assert "dry run: " in seedbed("playbook", command, *COMMANDS[command], "--dry-run").out
    assert held() == before
    done = seedbed("playbook", command, *COMMANDS[command], "--json")
    assert done.code == 0
    assert {**done.json, "at": 0} == {**rehearsed.json, "at": 0, "dry_run": False}
    if command != "keep":
        assert held() != before


@pytest.mark.usefixtures("branches")
@pytest.mark.parametrize("command", ["keep", "derive", "merge", "name", "version", "archive"])
def test_whatever_moves_or_adds_must_be_given_a_reason(command: str, seedbed: Seedbed) -> None:
    done = seedbed("playbook", command, *(each for each in COMMANDS[command] if each not in WHY))
    assert done.code == 64
    assert "--because" in done.err


# keep and derive


def test_keep_says_where_a_playbook_came_from(kept: str, space: Path, seedbed: Seedbed) -> None:
    text = (space / "sorter.yaml").read_text()
    (space / "child.yaml").write_text(text.replace("value: 0.5", "value: 0.8"))
    done = seedbed("playbook", "keep", "child.yaml", "--parent", kept[:12], *WHY, "--json")
    about = shown(seedbed, done.json["playbook"])
    assert (about["parents"], about["how"], about["because"]) == ([kept], "edited", "a [b]reason[/b]")


def test_a_child_differs_in_the_genes_given(kept: str, seedbed: Seedbed) -> None:
    child = derived(seedbed, kept, "parameters.caution=0.25", f"steps.label.prompt={BETTER}", branch="both")
    about = shown(seedbed, "both")
    assert about["playbook"] == child
    assert (about["genes"]["parameters.caution"], about["genes"]["steps.label.prompt"]) == (0.25, BETTER)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("parameters.caution=2", "parameters.caution"),
        ("roles.sorter.system=Other", "locked"),
        ("parameters.absent=1", "parameters.absent"),
        ("rules.never=[]", "rules.never"),
    ],
)
def test_bounds_locks_and_rules_hold_on_the_command_line(change: str, told: str, kept: str, seedbed: Seedbed) -> None:
    before = held()
    done = seedbed("playbook", "derive", kept, "--set", change, *WHY)
    assert done.code == 1
    assert told in done.err
    assert held() == before


# merge


def test_a_merge_joins_what_both_changed(kept: str, seedbed: Seedbed) -> None:
    derived(seedbed, kept, "parameters.caution=0.9", branch="careful")
    derived(seedbed, kept, "roles.sorter.temperature=0.9", branch="warm")
    done = seedbed("playbook", "merge", "careful", "warm", *WHY)
    assert "merged careful and warm into" in done.out
    genes = shown(seedbed, "careful")["genes"]
    assert (genes["parameters.caution"], genes["roles.sorter.temperature"]) == (0.9, 0.9)
    states = {each["branch"]: each["state"] for each in seedbed("playbook", "branch", "--json").json["branches"]}
    assert states == {"careful": "active", "warm": "merged"}


def test_a_merge_archives_the_other_branches_if_it_is_told_to(kept: str, seedbed: Seedbed) -> None:
    for name, value in {"careful": 0.9, "warm": 0.8, "bold": 0.7}.items():
        gene = "parameters.caution" if name == "careful" else "roles.sorter.temperature"
        derived(seedbed, kept, f"{gene}={value}", branch=name)
    done = seedbed("playbook", "merge", "careful", "warm", "--archive-others", *WHY, "--json")
    assert keeps_promise(done.json, "playbook", "merge")
    assert done.json["archived"] == ["bold"]
    states = {each["branch"]: each["state"] for each in seedbed("playbook", "branch", "--json").json["branches"]}
    assert states == {"careful": "active", "warm": "merged", "bold": "archived"}


def test_a_clash_is_told_and_can_be_settled(kept: str, seedbed: Seedbed) -> None:
    derived(seedbed, kept, "parameters.caution=0.9", branch="careful")
    derived(seedbed, kept, "parameters.caution=0.1", branch="bold")
    before = held()
    clash = seedbed("playbook", "merge", "careful", "bold", *WHY)
    assert clash.code == 1
    for told in ("parameters.caution", "ours 0.9, theirs 0.1", "it was 0.5"):
        assert told in clash.err
    assert held() == before

    def settled(*how: str) -> Any:
        done = seedbed("playbook", "merge", "careful", "bold", *WHY, *how, "--dry-run", "--json")
        (clash,) = done.json["settled"]
        return clash["path"], done.json["playbook"]

    results = [
        settled("--resolve", "ours"),
        settled("--resolve", "theirs"),
        settled("--resolve", "mean"),
        settled("--set", "parameters.caution=0.3", "--resolve", "ours"),
    ]
    assert {path for path, _ in results} == {"parameters.caution"}
    assert len({digest for _, digest in results}) == 4
    done = seedbed("playbook", "merge", "careful", "bold", *WHY, "--set", "parameters.caution=0.3")
    assert "1 clash settled" in done.out
    assert shown(seedbed, "careful")["genes"]["parameters.caution"] == 0.3


# Names


def test_a_version_never_moves(kept: str, seedbed: Seedbed) -> None:
    child = derived(seedbed, kept, "parameters.caution=0.9")
    assert seedbed("playbook", "version", "sorter", "1.0.0", kept, *WHY).code == 0
    assert seedbed("playbook", "version", "sorter", "1.0.0", kept, *WHY).code == 0
    done = seedbed("playbook", "version", "sorter", "1.0.0", child, *WHY)
    assert done.code == 1
    assert "Versions never move" in done.err
    assert shown(seedbed, "versions/sorter/1.0.0")["playbook"] == kept


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("name", "channels/production", "sorter.yaml"), "seedbed release"),
        (("name", "versions/a/1.0.0", "sorter.yaml"), "seedbed playbook version"),
        (("name", "a b", "sorter.yaml"), "odd characters"),
        (("name", "../x", "sorter.yaml"), "odd characters"),
        (("version", "sorter", "one", "sorter.yaml"), "a semantic version such as 2.0.0"),
        (("name", "best", "absent"), "no playbook named"),
        (("archive", "absent"), "no active branch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_name_that_cannot_be_is_refused_with_the_way_to_go(
    command: tuple[str, ...], told: str, space: Path, seedbed: Seedbed
) -> None:
    done = seedbed("playbook", *command, *WHY)
    assert done.code == 1
    assert told in done.err
    assert held()[2] == []


def test_a_branch_name_that_is_taken_is_refused(kept: str, seedbed: Seedbed) -> None:
    assert seedbed("playbook", "branch", "careful", kept, *WHY).code == 0
    done = seedbed("playbook", "branch", "careful", kept, *WHY)
    assert done.code == 1
    assert "branches/careful" in done.err
    assert "unexpected" not in done.err


def test_branches_are_listed_with_how_they_ended(kept: str, seedbed: Seedbed) -> None:
    assert seedbed("playbook", "branch").out == "No branches yet.\n"
    for name in ("a", "b", "c"):
        seedbed("playbook", "branch", name, kept, *WHY)
    seedbed("playbook", "archive", "b", *WHY)
    seedbed("playbook", "archive", "c", "--failed", *WHY)
    done = seedbed("playbook", "branch", "list", "--json")
    assert keeps_promise(done.json, "playbook", "branch", form="JSON of the list")
    states = {each["branch"]: each["state"] for each in done.json["branches"]}
    assert states == {"a": "active", "b": "archived", "c": "failed"}
    assert "a [b]reason[/b]" in seedbed("playbook", "branch").out


def test_a_branch_that_comes_back_is_rehearsed_with_its_true_version(kept: str, seedbed: Seedbed) -> None:
    seedbed("playbook", "branch", "careful", kept, *WHY)
    seedbed("playbook", "archive", "careful", *WHY)
    rehearsed = seedbed("playbook", "branch", "careful", kept, *WHY, "--dry-run", "--json").json
    assert rehearsed["version"] == seedbed("playbook", "branch", "careful", kept, *WHY, "--json").json["version"] == 3


# tag


def test_tags_are_added_once_and_shown(kept: str, seedbed: Seedbed) -> None:
    seedbed("playbook", "tag", kept, "warm", "ä [b]")
    assert seedbed("playbook", "tag", kept, "warm", "--json").json["tags"] == ["warm", "ä [b]"]
    assert "warm, ä [b]" in seedbed("playbook", "tag", kept).out


def test_asking_for_tags_keeps_nothing(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "tag", "sorter.yaml")
    assert done.code == 0
    assert "no tags" in done.out
    assert held() == ([], [], [])
