"""seedbed playbook: looking at playbooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import BETTER, SORTER, Done, Seedbed, keeps_promise, write

CAREFUL = SORTER.replace("value: 0.5", "value: 0.9").replace("Message: {text}", "Read this message: {text}")


def derived(seedbed: Seedbed, parent: str, caution: float) -> str:
    change = ("--set", f"parameters.caution={caution}")
    done = seedbed("playbook", "derive", parent, *change, "--because", f"caution {caution}", "--json")
    return str(done.json["playbook"])


@pytest.fixture
def family(kept: str, seedbed: Seedbed) -> list[str]:
    """The sorter and six children, oldest first."""
    return [kept, *(derived(seedbed, kept, number / 10) for number in range(1, 5)), *_named(seedbed, kept)]


def _named(seedbed: Seedbed, parent: str) -> list[str]:
    digests = [derived(seedbed, parent, number / 10) for number in (6, 7)]
    seedbed("playbook", "name", "careful", digests[1], "--because", "test")
    return digests


def found(done: Done) -> list[str]:
    return [each["playbook"] for each in done.json["playbooks"]]


# list and search


def test_list_shows_the_newest_first_with_names(family: list[str], seedbed: Seedbed) -> None:
    done = seedbed("playbook", "list", "--json")
    assert found(done) == family[::-1]
    assert keeps_promise(done.json, "playbook", "list")
    assert done.json["playbooks"][0]["names"] == ["branches/careful"]
    assert done.json["after"] is None
    assert " careful " in seedbed("playbook", "list").out


@pytest.mark.parametrize("query", [("list",), ("search", "--tag", "warm"), ("search", "--text", "message")])
def test_pages_visit_everything_once(query: tuple[str, ...], family: list[str], seedbed: Seedbed) -> None:
    for each in family:
        seedbed("playbook", "tag", each, "warm")
    seen: list[str] = []
    more: tuple[str, ...] = ()
    while True:
        done = seedbed("playbook", *query, "--limit", "3", *more, "--json")
        seen += found(done)
        if done.json["after"] is None:
            break
        more = ("--after", str(done.json["after"]))
        assert f"more: add --after {more[1]}" in seedbed("playbook", *query, "--limit", str(len(seen))).out
    assert sorted(seen) == sorted(family)
    assert len(seen) == len(family)


@pytest.mark.parametrize(
    ("query", "positions"),
    [
        (("--gene", "parameters.caution=0.3"), [3]),
        (("--text", "MESSAGE"), [6, 5, 4, 3, 2, 1, 0]),
        (("--text", "nowhere"), []),
        (("--by", "ann", "--gene", "parameters.caution=0.5"), [0]),
        (("--by", "bob"), []),
        (("--since", "2020-01-01", "--limit", "1"), [6]),
        (("--until", "2020-01-01"), []),
        (("--tag", "absent"), []),
    ],
)
def test_search_finds_what_all_conditions_hold_for(
    query: tuple[str, ...], positions: list[int], family: list[str], seedbed: Seedbed
) -> None:
    done = seedbed("playbook", "search", *query, "--json")
    assert found(done) == [family[position] for position in positions]
    assert keeps_promise(done.json, "playbook", "search")


def test_nothing_found_is_said(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "list")
    assert (done.code, done.out) == (0, "Nothing found.\n")


# show and diff


def test_show_of_a_file_needs_no_workspace(tmp_path: Path, seedbed: Seedbed) -> None:
    write(tmp_path, sorter__yaml=SORTER)
    done = seedbed("playbook", "show", "sorter.yaml", "--json")
    assert keeps_promise(done.json, "playbook", "show")
    assert done.json["document"]["roles"]["sorter"]["system"] == "Sort [red]mail[/red]."
    assert set(done.json["genes"]) == {
        "parameters.caution",
        "roles.sorter.model",
        "roles.sorter.temperature",
        "steps.label.prompt",
        "demos.label",
    } & set(done.json["genes"])
    assert "Sort [red]mail[/red]." in seedbed("playbook", "show", "sorter.yaml").out
    assert not (tmp_path / "seedbed.db").exists()


def test_show_of_a_kept_playbook_tells_what_is_known_of_it(family: list[str], seedbed: Seedbed) -> None:
    seedbed("playbook", "tag", "careful", "warm", "[b]odd[/b]")
    done = seedbed("playbook", "show", "careful", "--json")
    assert keeps_promise(done.json, "playbook", "show", also="JSON of a stored one also")
    assert (done.json["parents"], done.json["tags"]) == ([family[0]], ["warm", "[b]odd[/b]"])
    out = seedbed("playbook", "show", "careful").out
    for told in ("branches/careful", "warm, [b]odd[/b]", "caution 0.7, by ann at"):
        assert told in out


@pytest.mark.parametrize("value", ["0.75", "Read [i]{text}[/i] ä🙂"])
def test_show_can_change_values_first(value: str, space: Path, seedbed: Seedbed) -> None:
    path = "parameters.caution" if value == "0.75" else "steps.label.prompt"
    genes = seedbed("playbook", "show", "sorter.yaml", "--set", f"{path}={value}", "--json").json["genes"]
    assert str(genes[path]) == value


def test_diff_shows_numbers_from_and_to_and_texts_word_by_word(tmp_path: Path, seedbed: Seedbed) -> None:
    write(tmp_path, a__yaml=SORTER, b__yaml=CAREFUL)
    done = seedbed("playbook", "diff", "a.yaml", "b.yaml")
    assert "0.5 → 0.9" in done.out
    assert "[-Message:-]{+Read this message:+} {text}" in done.out
    document = seedbed("playbook", "diff", "a.yaml", "b.yaml", "--json").json
    assert keeps_promise(document, "playbook", "diff")
    assert len(document["changes"]) == 2
    assert seedbed("playbook", "diff", "a.yaml", "a.yaml").out == "no differences\n"


def test_diff_of_names_and_files_together(kept: str, space: Path, seedbed: Seedbed) -> None:
    write(space, careful__yaml=CAREFUL)
    assert seedbed("playbook", "diff", kept[3:13], "careful.yaml").out.count("\n") == 2


# log and tree


def test_log_goes_back_to_the_beginning(family: list[str], seedbed: Seedbed) -> None:
    done = seedbed("playbook", "log", "careful", "--json")
    assert found(done) == [family[-1], family[0]]
    assert keeps_promise(done.json, "playbook", "log")
    assert "caution 0.7" in seedbed("playbook", "log", "careful").out


def test_log_shows_the_changes_that_a_document_brought(space: Path, seedbed: Seedbed) -> None:
    seedbed("playbook", "import", str(Path(__file__).parents[3] / "examples" / "formats" / "parcel-desk.yaml"))
    done = seedbed("playbook", "log", "parcel-desk", "--json")
    assert keeps_promise(done.json, "playbook", "log")
    assert [each["to"] for each in done.json["changes"]] == [0.9, 0.35, 60]
    assert "refund_readiness" in seedbed("playbook", "log", "parcel-desk").out


def test_the_dialogues_that_ship_are_listed_and_shown_without_a_workspace(seedbed: Seedbed) -> None:
    done = seedbed("playbook", "list", "--builtin", "--json")
    assert keeps_promise(done.json, "playbook", "list", form="JSON with --builtin")
    assert [each["name"] for each in done.json["builtin"]] == [
        *("critique", "debate", "dynamic", "loop", "panel", "pipeline", "podcast", "research")
    ]
    assert "Two sides argue" in seedbed("playbook", "list", "--builtin").out
    shown = seedbed("playbook", "show", "debate", "--json").json
    assert shown["playbook"] == done.json["builtin"][1]["playbook"]
    assert seedbed("playbook", "check", "debate", "--strict").code == 0
    assert seedbed("playbook", "explain", "debate").code == 0


def test_log_shows_where_a_ref_pointed(family: list[str], seedbed: Seedbed) -> None:
    seedbed("playbook", "name", "careful", family[1], "--because", "calmer [b]now[/b]")
    done = seedbed("playbook", "log", "careful", "--moves", "--json")
    assert keeps_promise(done.json, "playbook", "log", form="JSON with --moves")
    assert [move["to"] for move in done.json["moves"]] == [family[1], family[-1]]
    assert "calmer [b]now[/b]" in seedbed("playbook", "log", "careful", "--moves").out


def test_tree_shows_who_grew_from_whom(family: list[str], seedbed: Seedbed) -> None:
    done = seedbed("playbook", "tree", "--json")
    assert keeps_promise(done.json, "playbook", "tree")
    (root,) = done.json["roots"]
    assert (root["playbook"], len(root["children"])) == (family[0], 6)
    out = seedbed("playbook", "tree", "sorter.yaml", "--limit", "2").out
    assert "branches/careful" in out
    assert "… and 4 more" in out


def test_the_tree_of_an_empty_store_is_empty(space: Path, seedbed: Seedbed) -> None:
    assert seedbed("playbook", "tree", "--json").json == {"roots": []}
    assert seedbed("playbook", "tree").code == 0


@pytest.mark.parametrize("command", [("log",), ("tree",), ("show",), ("diff", "sorter.yaml")])
def test_a_playbook_that_is_not_there_is_told(command: tuple[str, ...], kept: str, seedbed: Seedbed) -> None:
    for name in ("absent", "0000", "b2:" + "0" * 64, "absent.yaml", "[bold]", "a/../b", "ä", ""):
        done = seedbed("playbook", *command, name)
        assert (done.code, done.out) == (1, ""), name
        assert done.err.startswith("✗ ")
        assert "unexpected" not in done.err


def test_a_file_that_is_not_kept_has_no_log_yet(space: Path, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "log", "sorter.yaml")
    assert done.code == 1
    assert "Keep it first" in done.err


def test_better_words_are_found_by_their_text(kept: str, seedbed: Seedbed) -> None:
    done = seedbed("playbook", "derive", kept, "--set", f"steps.label.prompt={BETTER}", "--because", "x", "--json")
    assert found(seedbed("playbook", "search", "--text", "good bad", "--json")) == [done.json["playbook"]]
