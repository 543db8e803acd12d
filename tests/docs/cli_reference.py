"""docs/cli.md, from the commands themselves. Run as a script it writes the page anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seedbed.cli.main import COMMANDS, loaded_commands

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
COMMAND = ".venv/bin/python tests/docs/cli_reference.py"
SHARED = ("--workspace", "--dry-run", "--json")

INTRODUCTION = f"""\
<!-- Written by {COMMAND}: change the commands, or the introduction in there. -->
# Command line

Verbs do the work: `run`, `evaluate`, `compare`, `evolve`, `release`, `rollback`. Nouns look things up: `playbook`,
`runs`, `sessions`, `dataset`, `judge`, `model`, `channel`, `search`, `experiment`, `evidence`, `store`. Every command
has `--help`; to see them all at work, try `seedbed demo`.

Where a command asks for a PLAYBOOK it takes a file (`sorter.yaml`), a digest or the first characters of one
(`4f2a91`), a ref (`versions/sorter/1.0.0`), a branch (`better`) or a channel (`production`).

## What all commands share

| option or variable | what it does |
|---|---|
| `--json` | Prints one JSON document with stable keys ([which](json.md)); an error is one too, on the error stream. |
| `--dry-run` | Says what would happen and changes nothing. Every command that changes something has it. |
| `--workspace FILE`, `-w` | The workspace file. Default: `seedbed.yaml` in this folder or one above. |
| `NO_COLOR` | If it is set, nothing is coloured; a pipe never is. Changed words are marked `[-so-]` and `{{+so+}}`. |
| `SEEDBED_…` | Settings from outside, such as `SEEDBED_STORE`: see [Workspace and settings](workspace.md). |
| `SEEDBED_DEBUG` | If it is set, a defect of seedbed shows its traceback. Otherwise nothing ever does. |

Results go to standard output; errors and live progress go to the error stream. An error says where it is, what was
found, what was expected and what to do. The exit code tells a script how it went:

| exit code | meaning |
|---|---|
| 0 | done, or yes |
| 1 | no: worse, refused, or something is wrong |
| 2 | not known yet: too few tasks, nothing better was found, or the budget ran out |
| 64 | called wrongly |
| 70 | a defect of seedbed |
| 130 | interrupted with Ctrl-C; what was recorded so far is stored |
"""


def page() -> str:
    parts, panel = [INTRODUCTION], ""
    for name, command in loaded_commands().items():
        if hasattr(command, "commands"):
            parts.append(f"## {name}\n\n{command.help}\n")
            parts += (section(f"{name} {each}", inner) for each, inner in command.commands.items())
        else:
            if COMMANDS[name][0] != panel:
                panel = COMMANDS[name][0]
                parts.append(f"## {panel}\n")
            parts.append(section(name, command))
    return "\n".join(parts)


def section(name: str, command: Any) -> str:
    """One command: what it does, how it is called, what it prints, how it ends."""
    paragraphs = [" ".join(each.split()) for each in command.callback.__doc__.split("\n\n")]
    ending = re.compile(r"(With --\w+, )?[Ee]xit code")
    parts = [f"### seedbed {name}", *(each for each in paragraphs if not ending.match(each))]
    parts.append(f"```text\nseedbed {name} {' '.join(usage(command))}\n```")
    if rows := [f"| `{called(each)}` | {meaning(each)} |" for each in command.params if each.opts[0] not in SHARED]:
        parts.append("\n".join(["| name | meaning |", "|---|---|", *rows]))
    parts.append(f"Also: {', '.join(f'`{each.opts[0]}`' for each in command.params if each.opts[0] in SHARED)}.")
    if own := " ".join(each for each in paragraphs if ending.match(each)):
        parts.append(own)
    return "\n\n".join(parts) + "\n"


def usage(command: Any) -> Iterator[str]:
    for each in command.params:
        more = "..." if each.nargs == -1 else ""
        if each.required:
            yield called(each) + more
        elif each.param_type_name == "argument":
            yield f"[{each.metavar}]{more}"
    yield "[OPTIONS]"


def called(parameter: Any) -> str:
    """An argument by what stands for it, an option also by its names."""
    words = {"int": "N", "float": "NUMBER", "str": "TEXT", "bool": ""}
    value = parameter.metavar or words[re.findall(r"\w+", parameter.display_type(None))[0]]
    return f"{', '.join(parameter.opts)} {value}".strip() if parameter.param_type_name == "option" else value


def meaning(parameter: Any) -> str:
    silent = parameter.default in (None, Path(), "list") or parameter.default is False
    return (parameter.help or "") + ("" if silent else f" Default: `{parameter.default}`.")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
