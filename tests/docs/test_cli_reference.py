"""The pages about the command line agree with the commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import cli_reference

from seedbed.cli.main import loaded_commands

JSON_PAGE = cli_reference.PAGE.with_name("json.md")


def commands() -> Iterator[tuple[str, Any]]:
    for name, command in loaded_commands().items():
        for each, inner in getattr(command, "commands", {"": command}).items():
            yield f"{name} {each}".strip(), inner


def test_the_reference_is_up_to_date() -> None:
    written = cli_reference.PAGE.read_text(encoding="utf-8")
    assert written == cli_reference.page(), f"docs/cli.md is stale. Run: {cli_reference.COMMAND}"


def test_every_command_has_its_section() -> None:
    sections = re.findall(r"^### seedbed (.+)$", cli_reference.page(), re.MULTILINE)
    assert sections == [name for name, _ in commands()]
    assert {"init", "run", "rollback", "playbook merge", "store copy", "channel log"} <= set(sections)


def test_the_json_keys_of_every_command_are_documented() -> None:
    sections = re.findall(r"^## (.+)$", JSON_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    printing = {name for name, command in commands() if any("--json" in each.opts for each in command.params)}
    assert printing == {name for name, _ in commands()}
    assert sections == sorted(printing - {"playbook schema"})  # it prints a JSON Schema


def test_no_option_is_there_by_accident() -> None:
    options = {option for _, command in commands() for each in command.params for option in each.opts}
    assert not {option for option in options if "completion" in option}
