"""The command line as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import Seedbed, promised

from seedbed import cli
from seedbed.cli.main import loaded_commands


def commands(found: Any = None, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if found is not None and not hasattr(found, "commands"):
        yield words, found
        return
    for name, each in (loaded_commands() if found is None else found.commands).items():
        yield from commands(each, *words, name)


COMMANDS = dict(commands())


def test_the_version_is_that_of_the_package(seedbed: Seedbed) -> None:
    assert seedbed("--version").out == f"seedbed {version('seedbed')}\n"


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_every_verb_and_noun(arguments: tuple[str, ...], seedbed: Seedbed) -> None:
    done = seedbed(*arguments)
    assert done.code == 0
    for name in {words[0] for words in COMMANDS}:
        assert re.search(rf"\b{name}\b", done.out), name


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(words: tuple[str, ...], seedbed: Seedbed) -> None:
    done = seedbed(*words, "--help")
    assert done.code == 0
    assert f"seedbed {' '.join(words)}" in done.out


@pytest.mark.parametrize("words", [("compare",), ("evolve",)], ids=" ".join)
def test_help_is_wrapped_once_and_shows_defaults(
    words: tuple[str, ...], seedbed: Seedbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text, options = seedbed(*words, "--help").out.split("╭", 1)
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        for line, following in pairwise(lines):
            assert len(line) + 1 + len(following.split()[0]) > 78, line
    assert "Default: exact_match" in " ".join(re.sub("[│╰╯]", " ", options).split())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_json_and_says_its_keys(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert "--json" in [option for each in command.params for option in each.opts]
    assert words in (("playbook", "schema"), ("demo",)) or promised(*words)


READ_ONLY = {
    # The only effect of these is what they record, and that is what they are for.
    ("evidence", "sentinel"),
    ("metrics", "serve"),
    ("alerts", "test"),  # to send it is what it is for
    ("demo",),  # in a folder of its own
    *(("runs", "patterns"), ("experiment", "report")),  # they write a new file, and nothing else
    ("sessions", "compare"),  # it stores nothing
    ("evidence", "sign"),  # to sign is what it is for
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_that_changes_something_can_be_rehearsed(words: tuple[str, ...]) -> None:
    looks = {"list", "show", "search", "diff", "log", "tree", "check", "explain", "schema", "export", "try"}
    looks |= {"specialised", "verify", "stats", "tail", "budget", "screen", "assign"}
    looks |= {"plan", "head", "attempts", "key", "doubt"}
    dry = "--dry-run" in [option for each in COMMANDS[words].params for option in each.opts]
    pays = words == ("judge", "check")  # it looks, at a price
    assert dry is (pays or (words not in READ_ONLY and words[-1] not in looks))


NOUNS = [
    *("playbook", "runs", "sessions", "dataset", "judge", "model", "channel", "search", "experiment", "evidence"),
    *("store", "alerts", "confirm", "metrics"),
]


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_alone_shows_what_it_can(noun: str, seedbed: Seedbed) -> None:
    done = seedbed(noun)
    assert (done.code, done.err) == (0, "")
    assert done.out.rstrip() == seedbed(noun, "--help").out.rstrip()
    assert "Commands" in done.out


OPEN = ("workspace", "settings", "reports", "errors", "documents", "plugins", "files", "redaction", "cli")
WORDS = {"short", "in_words", "missing_in_words", "percent", "question_text", "rows", "summary", "canonical"}
"""Functions that put a noun into words. Those that check arguments begin with `expect_`."""


def test_only_nouns_are_taken_from_below_the_workspace() -> None:
    for path in Path(cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("seedbed.") and module.split(".")[1] not in OPEN:
                taken = {each.name for each in node.names if each.name[0].islower()}
                engines = {name for name in taken - WORDS if not name.startswith("expect_")}
                assert not engines, f"{path}: add what {engines} does to the workspace"
