"""docs/cli.md, generated from the commands. Run as a script, it writes the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seedbed.cli.main import COMMANDS, loaded_commands

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
COMMAND = ".venv/bin/python tests/docs/cli_reference.py"
SHARED = ("--workspace", "--dry-run", "--json")

VERBS, NOUNS = (
    ", ".join(f"`{name}`" for name, (panel, *_) in COMMANDS.items() if panel.startswith(kind))
    for kind in ("Verbs", "Nouns")
)

INTRODUCTION = f"""\
<!-- Written by {COMMAND}: edit the commands, or the introduction in that script. -->
# Command line

Verbs do the work: {VERBS}.

Nouns look things up: {NOUNS}.

Every command has `--help`, and `seedbed demo` shows many of them in action. A PLAYBOOK argument is a file
(`sorter.yaml`), a digest or a prefix of one (`4f2a91`), a ref (`versions/sorter/1.0.0`), a branch (`better`) or
a channel (`production`).

## Common options

| option or variable | what it does |
|---|---|
| `--json` | Print one JSON document with [stable keys](json.md). Errors are JSON too, on the error stream. |
| `--dry-run` | Show what would happen without changing anything. Available on every command that changes something. |
| `--workspace FILE`, `-w` | The workspace file. Default: `seedbed.yaml` in the current folder or its nearest parent. |
| `NO_COLOR` | If set, output has no colour, as in a pipe. Changed words are then marked `[-old-]` and `{{+new+}}`. |
| `SEEDBED_…` | Override a setting, for example `SEEDBED_STORE`: see [Workspace and settings](workspace.md). |
| `SEEDBED_DEBUG` | If set, a bug in seedbed prints a traceback. Otherwise, no tracebacks are shown. |

Results go to standard output; errors and live progress go to the error stream. An error says where the problem is,
what was found, what was expected and what to do. Exit codes:

| exit code | meaning |
|---|---|
| 0 | done, or yes |
| 1 | no: worse, refused, or something is wrong |
| 2 | undecided: too few tasks, nothing better was found, or the budget ran out |
| 64 | usage error |
| 70 | a bug in seedbed |
| 130 | interrupted with Ctrl-C; everything recorded so far is stored |

Code 1 means either a negative answer or an error. A script can tell them apart by standard output: an answer, such as
*inferior*, is printed there, while an error leaves it empty and, with `--json`, names its type under `error` on the
error stream.
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
    ending = re.compile(r"(With --\w+, )?[Ee]xits with code")
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
    value = str(parameter.metavar)
    return f"{', '.join(parameter.opts)} {value}".strip() if parameter.param_type_name == "option" else value


def meaning(parameter: Any) -> str:
    silent = parameter.default in (None, "", Path(), "list") or parameter.default is False
    return (parameter.help or "") + ("" if silent else f" Default: `{parameter.default}`.")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
