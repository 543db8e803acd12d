"""What commands share: finding the workspace, reading PATH=VALUE, choosing playbooks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from command_line import SORTER, WORKSPACE, Seedbed, held, write

from seedbed.cli import options
from seedbed.cli.command import Invocation
from seedbed.errors import PlaybookError, SettingsError
from seedbed.workspace import find_file

# The workspace file


def test_the_nearest_workspace_upwards_is_found(space: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = space / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_file() == space / "seedbed.yaml"
    write(space / "a", seedbed__yaml=WORKSPACE)
    assert find_file() == space / "a" / "seedbed.yaml"


def test_a_workspace_that_is_named_wins(space: Path, tmp_path: Path) -> None:
    write(tmp_path, other__yaml=WORKSPACE)
    assert find_file(Path("other.yaml")) == Path("other.yaml")


@pytest.mark.parametrize("name", ["absent.yaml", "folder"])
def test_a_workspace_that_is_no_file_is_told_with_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(SettingsError, match=f"no file {name}.*seedbed init"):
        find_file(Path(name))


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
    with Invocation().open_for_files("sorter.yaml") as space:
        assert space.settings.store == "memory:"
    with pytest.raises(SettingsError), Invocation().open_for_files("sorter.yaml", "better"):
        pass
    with pytest.raises(SettingsError), Invocation(Path("absent.yaml")).open_for_files("sorter.yaml"):
        pass


def test_in_a_dry_run_nothing_is_kept_and_all_can_be_read(kept: str) -> None:
    before = held()
    with Invocation(dry_run=True).open() as space:
        library = space.resources.library
        child = library.derive(kept, {"parameters.caution": 0.9}, because="try")
        library.name("tried", child, because="try")
        assert space.playbooks.get("tried").parameters["caution"].value == 0.9
        assert library.entry(child).parents == (kept,)
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


# Playbooks


def test_any_value_of_a_file_can_be_changed_and_of_a_kept_playbook_its_genes(kept: str) -> None:
    with Invocation().open() as space:
        from_file = space.playbooks.get("sorter.yaml", {"roles.sorter.system": "Other."})
        assert from_file.roles["sorter"].system == "Other."
        from_store = space.playbooks.get(kept, {"parameters.caution": 0.25})
        assert from_store.parameters["caution"].value == 0.25
        with pytest.raises(PlaybookError):
            space.playbooks.get(kept, {"roles.sorter.system": "Other."})


def test_a_file_is_kept_when_a_digest_is_needed(space: Path) -> None:
    with Invocation().open() as opened:
        digest = opened.resources.keep("sorter.yaml", "needed")
        assert opened.resources.library.entry(digest).because == "needed"
        assert opened.resources.keep(digest[:12], "again") == digest


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
