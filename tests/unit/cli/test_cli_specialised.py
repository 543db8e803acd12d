"""seedbed playbook specialise, rebase, base, specialised, as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SORTER, Seedbed, held, keeps_promise, write

WHY = ("--because", "a [b]reason[/b]")
PROMPT = "steps.label.prompt"


def edited(seedbed: Seedbed, name: str, *changes: str) -> None:
    sets = [part for change in changes for part in ("--set", change)]
    assert seedbed("playbook", "derive", name, *sets, "--branch", name, *WHY).code == 0


@pytest.fixture
def law(kept: str, seedbed: Seedbed) -> str:
    """A specialised playbook with a change of its own, and a base that moved on elsewhere."""
    seedbed("playbook", "name", "main", kept, *WHY)
    assert seedbed("playbook", "specialise", "main", "law/sort", *WHY).code == 0
    edited(seedbed, "corpora/law/sort", "parameters.caution=0.9")
    edited(seedbed, "main", "roles.sorter.temperature=0.1")
    return kept


COMMANDS = {
    "specialise": ("main", "mail/sort", *WHY),
    "rebase": ("law/sort",),
    "base": ("law/sort", *WHY),
}


@pytest.mark.usefixtures("law")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_rehearsal_says_what_the_command_says_and_changes_nothing(command: str, seedbed: Seedbed) -> None:
    before = held()
    rehearsed = seedbed("playbook", command, *COMMANDS[command], "--dry-run", "--json")
    assert rehearsed.code == 0
    assert keeps_promise(rehearsed.json, "playbook", command)
    assert "dry run: " in seedbed("playbook", command, *COMMANDS[command], "--dry-run").out
    assert held() == before
    done = seedbed("playbook", command, *COMMANDS[command], "--json")
    assert done.json == {**rehearsed.json, "dry_run": False}
    assert held() != before


@pytest.mark.usefixtures("law")
@pytest.mark.parametrize("command", ["specialise", "base"])
def test_a_reason_is_asked_for(command: str, seedbed: Seedbed) -> None:
    done = seedbed("playbook", command, *(each for each in COMMANDS[command] if each not in WHY))
    assert (done.code, "--because" in done.err) == (64, True)


def test_the_list_says_how_far_each_is_and_whether_its_base_has_moved(law: str, seedbed: Seedbed) -> None:
    seedbed("playbook", "specialise", "main", "mail/sort", *WHY)
    done = seedbed("playbook", "specialised", "--json")
    assert keeps_promise(done.json, "playbook", "specialised")
    one, other = done.json["specialised"]
    assert (one["name"], one["base"], one["inherited"]) == ("corpora/law/sort", "branches/main", law)
    assert (one["changes"], one["base_changes"]) == (["parameters.caution"], ["roles.sorter.temperature"])
    assert (one["behind"], other["behind"]) == (True, False)
    assert one["distance"] > other["distance"] == 0
    shown = seedbed("playbook", "specialised").out
    assert "1 change: seedbed playbook rebase corpora/law/sort" in shown
    assert "has not moved" in shown
    assert seedbed("playbook", "specialised", "qa").out == "No specialised playbooks yet.\n"
    seedbed("playbook", "archive", "main", *WHY)
    assert "its name is gone" in seedbed("playbook", "specialised").out


@pytest.mark.usefixtures("law")
def test_rebase_shows_what_came_and_then_has_nothing_to_do(seedbed: Seedbed) -> None:
    done = seedbed("playbook", "rebase", "corpora/law/sort")
    assert done.code == 0
    assert "roles.sorter.temperature  0.5 → 0.1" in done.out
    genes = seedbed("playbook", "show", "corpora/law/sort", "--json").json["genes"]
    assert (genes["parameters.caution"], genes["roles.sorter.temperature"]) == (0.9, 0.1)
    again = seedbed("playbook", "rebase", "law/sort")
    assert (again.code, again.out) == (0, "branches/main has not moved: nothing to do\n")


@pytest.fixture
def clashing(law: str, seedbed: Seedbed) -> str:
    edited(seedbed, "corpora/law/sort", f"{PROMPT}=A court's {{text}}")
    edited(seedbed, "main", f"{PROMPT}=Read: {{text}}", "parameters.caution=0.7")
    return law


@pytest.mark.usefixtures("clashing")
def test_clashes_are_listed_with_both_sides_and_nothing_moves(seedbed: Seedbed) -> None:
    before = held()
    done = seedbed("playbook", "rebase", "law/sort")
    assert done.code == 1
    assert "2 clashes between corpora/law/sort and branches/main; nothing was changed" in done.out
    assert "parameters.caution  0.5 → 0.9" in done.out
    assert "parameters.caution  0.5 → 0.7" in done.out
    told = seedbed("playbook", "rebase", "law/sort", "--json")
    assert told.code == 1
    assert told.json["clashes"] == [
        {"path": "parameters.caution", "base": 0.5, "ours": 0.9, "theirs": 0.7},
        {"path": PROMPT, "base": "Message: {text}", "ours": "A court's {text}", "theirs": "Read: {text}"},
    ]
    assert held() == before


@pytest.mark.usefixtures("clashing")
@pytest.mark.parametrize(
    ("take", "caution", "prompt"),
    [
        (["ours"], 0.9, "A court's {text}"),
        (["theirs"], 0.7, "Read: {text}"),
        (["mean", "theirs"], 0.8, "Read: {text}"),
        (["theirs", "parameters.caution=ours"], 0.9, "Read: {text}"),
        (["parameters.caution=0.3", f"{PROMPT}=Read the court's: {{text}}"], 0.3, "Read the court's: {text}"),
    ],
    ids=["ours", "theirs", "mean where it can be", "one otherwise", "by hand"],
)
def test_clashes_are_settled_as_told(take: list[str], caution: float, prompt: str, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "rebase", "law/sort", *(part for each in take for part in ("--take", each)), "--json")
    assert done.code == 0
    assert [each["path"] for each in done.json["settled"]] == ["parameters.caution", PROMPT]
    genes = seedbed("playbook", "show", "corpora/law/sort", "--json").json["genes"]
    assert genes["parameters.caution"] == pytest.approx(caution)
    assert (genes[PROMPT], genes["roles.sorter.temperature"]) == (prompt, 0.1)


@pytest.mark.usefixtures("clashing")
def test_a_choice_that_cannot_be_meant_is_refused(seedbed: Seedbed) -> None:
    before = held()
    done = seedbed("playbook", "rebase", "law/sort", "--take", "hers")
    assert done.code == 64
    assert "expected ours, theirs, mean, or a PATH" in done.err
    done = seedbed("playbook", "rebase", "law/sort", "--take", "theirs", "--take", "roles.sorter.temperature=0.3")
    assert done.code == 1
    assert "no clash" in done.err
    assert held() == before


@pytest.mark.usefixtures("clashing")
def test_one_path_that_is_settled_leaves_the_others_to_be_settled(seedbed: Seedbed) -> None:
    done = seedbed("playbook", "rebase", "law/sort", "--take", "parameters.caution=ours", "--json")
    assert (done.code, [each["path"] for each in done.json["clashes"]]) == (1, [PROMPT])


@pytest.mark.usefixtures("law")
def test_a_rule_that_stays_although_the_base_let_go_of_it_is_told(space: Path, seedbed: Seedbed) -> None:
    write(space, looser__yaml=SORTER.replace("never: [delete_message]", "confirm: [delete_message]"))
    seedbed("playbook", "name", "main", "looser.yaml", *WHY)
    done = seedbed("playbook", "rebase", "law/sort")
    assert done.code == 0
    assert "rules.never: nothing was proposed, but the stricter ['delete_message'] is kept" in done.out


def test_back_to_base_is_one_command_and_can_be_traced(law: str, seedbed: Seedbed) -> None:
    own = seedbed("playbook", "show", "corpora/law/sort", "--json").json["playbook"]
    done = seedbed("playbook", "base", "law/sort", *WHY, "--json")
    main = seedbed("playbook", "show", "main", "--json").json["playbook"]
    assert (done.json["before"], done.json["playbook"], done.json["behind"]) == (own, main, False)
    [latest, *_] = seedbed("playbook", "log", "corpora/law/sort", "--moves", "--json").json["moves"]
    assert (latest["from"], latest["because"]) == (own, WHY[1])
    assert "already at its base" in seedbed("playbook", "base", "law/sort", *WHY).out


@pytest.mark.usefixtures("law")
def test_another_base_can_be_inherited(seedbed: Seedbed) -> None:
    seedbed("playbook", "version", "sorter", "1.0.0", "main", *WHY)
    done = seedbed("playbook", "rebase", "law/sort", "--onto", "versions/sorter/1.0.0", "--json")
    assert (done.json["base"], done.json["behind"]) == ("versions/sorter/1.0.0", False)


@pytest.mark.usefixtures("law")
@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("specialise", "sorter.yaml", "mail/sort", *WHY), 64, "seedbed playbook name main sorter.yaml"),
        (("specialise", "main", "mail", *WHY), 1, "such as law/qa"),
        (("specialise", "mian", "mail/sort", *WHY), 1, "expected one of: "),
        (("rebase", "mail/sort"), 1, "seedbed playbook specialise BASE mail/sort"),
        (("base", "mail/sort", *WHY), 1, "corpora/law/sort"),
    ],
)
def test_mistakes_are_told_with_what_to_do(arguments: tuple[str, ...], code: int, told: str, seedbed: Seedbed) -> None:
    done = seedbed("playbook", *arguments)
    assert done.code == code
    assert told in " ".join(done.err.split())
