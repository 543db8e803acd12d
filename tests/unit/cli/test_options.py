"""What commands share: finding the workspace, reading PATH=VALUE, choosing playbooks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from command_line import SORTER, WORKSPACE, Seedbed, held, write

from seedbed.cli import options
from seedbed.errors import PlaybookError, SettingsError

# The workspace file


def test_the_nearest_workspace_upwards_is_found(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = space / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert options.workspace_file(None) == space / "seedbed.yaml"
    write(space / "a", seedbed__yaml=WORKSPACE)
    assert options.workspace_file(None) == space / "a" / "seedbed.yaml"


def test_a_workspace_that_is_named_wins(space: Path, tmp_path: Path) -> None:
    write(tmp_path, other__yaml=WORKSPACE)
    assert options.workspace_file(Path("other.yaml")) == Path("other.yaml")


@pytest.mark.parametrize("name", ["absent.yaml", "folder"])
def test_a_workspace_that_is_no_file_is_told_with_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(SettingsError, match=f"no file {name}.*seedbed init"):
        options.workspace_file(Path(name))


def test_without_any_workspace_the_way_to_one_is_told(seedbed: Seedbed) -> None:
    done = seedbed("channel", "list")
    assert done.code == 1
    assert "no seedbed.yaml in" in done.err
    assert "seedbed init" in done.err


def test_the_store_lies_beside_the_workspace_file_wherever_one_stands(
    space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (space / "below").mkdir()
    monkeypatch.chdir(space / "below")
    assert seedbed("playbook", "keep", "../sorter.yaml", "--because", "test").code == 0
    assert (space / "seedbed.db").is_file()
    assert not (space / "below" / "seedbed.db").exists()


def test_a_program_beside_the_workspace_file_is_found(
    space: Path, seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        space,
        our_agent__py="async def handle(task, stage):\n    return task['text'][::-1]\n",
        agent__yaml="program: our_agent:handle\n",
    )
    (space / "below").mkdir()
    monkeypatch.chdir(space / "below")
    done = seedbed("run", "../agent.yaml", "text=abc", "--json")
    assert (done.code, done.json["output"]) == (0, "cba")


def test_files_need_no_workspace_and_names_do(tmp_path: Path) -> None:
    write(tmp_path, sorter__yaml=SORTER)
    with options.opened_for(None, "sorter.yaml") as space:
        assert space is None
    with pytest.raises(SettingsError), options.opened_for(None, "sorter.yaml", "better"):
        pass
    with pytest.raises(SettingsError), options.opened_for(Path("absent.yaml"), "sorter.yaml"):
        pass


def test_in_a_dry_run_nothing_is_kept_and_all_can_be_read(kept: str) -> None:
    before = held()
    with options.opened(None, dry_run=True) as space:
        child = space.library.derive(kept, {"parameters.caution": 0.9}, because="try")
        space.library.name("tried", child, because="try")
        assert space.playbook("tried").parameters["caution"].value == 0.9
        assert space.library.entry(child).parents == (kept,)
    assert held() == before


# Values


def test_values_are_read_as_yaml() -> None:
    given = ["a.b=0.2", "c=[x, 1]", "d=true", "e=a=b", "f=", "g=null", "h='1'", "i={value: 1, low: 0}", "j=-3"]
    assert options.assignments(given, "--set") == {
        "a.b": 0.2,
        "c": ["x", 1],
        "d": True,
        "e": "a=b",
        "f": "",
        "g": None,
        "h": "1",
        "i": {"value": 1, "low": 0},
        "j": -3,
    }


@pytest.mark.parametrize(
    "text",
    [
        "Mood: {text}",
        "{text}",
        "{text}: good or bad?",
        "[red]mail[/red]",
        "- first\n- second",
        "# A heading",
        "Answer #1 # not a comment",
        "two\nlines\n\n",
        " spaces ",
        "*",
        "a: b: c",
        '"quoted" words',
        "@home!",
    ],
)
def test_prose_stays_as_it_is(text: str) -> None:
    assert options.assignments([f"a={text}"], "--set") == {"a": text}


@pytest.mark.parametrize("pair", ["nothing", "=x", ""])
def test_a_pair_without_a_name_is_called_wrongly(pair: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected name=value"):
        options.assignments([pair], "--set")


def test_inputs_stay_texts() -> None:
    assert options.texts(["text=1.0", "more=[x]=y"], "NAME=VALUE") == {"text": "1.0", "more": "[x]=y"}


def test_times_without_a_zone_are_local() -> None:
    assert options.moment(None, "--since") is None
    assert options.moment("2026-11-15T14:00+02:00", "--since") == datetime(2026, 11, 15, 12, tzinfo=UTC)
    assert options.moment("2026-11-15", "--since") == datetime(2026, 11, 15).astimezone(UTC)


@pytest.mark.parametrize("text", ["yesterday", "", "2026-13-01", "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"])
def test_a_time_that_is_none_is_called_wrongly(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 2026-11-15"):
        options.moment(text, "--since")


def test_a_metric_is_known_by_its_name(space: Path) -> None:
    with options.opened(None) as opened:
        assert options.metric(opened, "exact_match").name == "exact_match"
        with pytest.raises(typer.BadParameter, match=r"expected one of: .*exact_match"):
            options.metric(opened, "beauty")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("b2:0123abcd", True), ("0123abcd", True), ("a" * 64, True), ("0123abc", False), ("first release", False)],
)
def test_a_digest_is_told_from_a_reason(text: str, is_one: bool) -> None:
    assert options.looks_like_digest(text) is is_one


# Playbooks


def test_any_value_of_a_file_can_be_changed_and_of_a_kept_playbook_its_genes(kept: str) -> None:
    with options.opened(None) as space:
        from_file = options.chosen(space, "sorter.yaml", {"roles.sorter.system": "Other."})
        assert from_file.roles["sorter"].system == "Other."
        from_store = options.chosen(space, kept, {"parameters.caution": 0.25})
        assert from_store.parameters["caution"].value == 0.25
        with pytest.raises(PlaybookError):
            options.chosen(space, kept, {"roles.sorter.system": "Other."})


def test_a_file_is_kept_when_a_digest_is_needed(space: Path) -> None:
    with options.opened(None) as opened:
        digest = options.kept(opened, "sorter.yaml", "needed")
        assert opened.library.entry(digest).because == "needed"
        assert options.kept(opened, digest[:12], "again") == digest


# Money


@pytest.mark.parametrize("amount", ["nan", "inf", "-inf", "-1", "much"])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "sorter.yaml", "text=hi"),
        ("evaluate", "sorter.yaml", "tasks.jsonl"),
        ("compare", "sorter.yaml", "sorter.yaml", "--on", "tasks.jsonl"),
    ],
    ids=lambda command: command[0],
)
def test_what_is_no_amount_of_money_is_refused_before_anything_is_done(
    command: tuple[str, ...], amount: str, space: Path, seedbed: Seedbed
) -> None:
    done = seedbed(*command, f"--max-cost={amount}")
    assert (done.code, done.out) == (64, "")
    assert "--max-cost" in done.err
    assert not (space / "seedbed.db").exists()


def test_no_money_at_all_is_an_amount() -> None:
    assert (options.dollars(0.0), options.dollars(0.5), options.dollars(None)) == (0.0, 0.5, None)
