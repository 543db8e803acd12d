"""seedbed init: a first workspace that runs offline."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from seedbed.cli.command import Invocation, command
from seedbed.cli.output import line
from seedbed.errors import Problem, SettingsError
from seedbed.settings.schema import SCHEMA_FILE
from seedbed.workspace.nouns.playbooks import builtin_playbooks
from seedbed.workspace.resources import FILE

app = typer.Typer(add_completion=False)

IGNORED = ".gitignore"
STARTER = {
    FILE: "starter/seedbed.yaml",
    SCHEMA_FILE.name: str(SCHEMA_FILE),
    "sorter.yaml": "starter/sorter.yaml",
    "messages.jsonl": "starter/messages.jsonl",
    "instructions.txt": "starter/instructions.txt",
    IGNORED: "starter/gitignore",
}
"""The files of a first workspace, and where each is in this package. Editors check the first with the second."""

SETTINGS = (FILE, SCHEMA_FILE.name, IGNORED)
"""Those that a workspace for a built-in dialogue has too."""

MESSAGE = "text=My parcel arrived crushed and the lamp is broken."
NEXT = (
    ("run", "sorter.yaml", MESSAGE),
    ("dataset", "split", "messages.jsonl"),
    ("evaluate", "sorter.yaml", "messages-train.jsonl"),
    ("evolve", "sorter.yaml", "messages-train.jsonl", "--instructions", "instructions.txt", "--branch", "better"),
    ("release", "sorter.yaml", "--to", "production", "--because", "first release"),
    ("compare", "sorter.yaml", "better", "--on", "messages-test.jsonl"),
    ("release", "better", "--to", "production"),
)
"""What to try then, in this order."""

CHATTING = ("template: raw", "template: chat")
"""In a dialogue the embedded model answers; in the starter it continues a text."""

EXAMPLE = "Should our town buy electric buses?"


@command(app, workspace=False, dry_run=True)
def init(
    call: Invocation,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to write to. Default: the current folder.")
    ] = Path("."),
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="NAME", help="Start with a built-in dialogue; seedbed playbook list --builtin lists them."
        ),
    ] = None,
) -> None:
    """Create a starter workspace that runs offline: settings, a playbook, tasks and instructions to try.

    Existing files are not overwritten.
    """
    files, following = _begin_with(source)
    names = write_starter(folder, files, dry_run=call.dry_run)
    commands = [typed(*arguments) for arguments in following]
    document = {"folder": str(folder), "files": names, "next": commands, "dry_run": call.dry_run}
    mark = ("would write ", "yellow") if call.dry_run else ("✓ wrote ", "bold green")
    parts = [line(mark, f"{folder / name}") for name in names]
    if IGNORED not in names:
        parts.append(line(f"Your {IGNORED} was left unchanged; add to it: *.db, *.db-wal, *.db-shm"))
    change = [] if folder == Path(".") else [f"cd {shlex.quote(str(folder))}"]
    parts += [line("\nNow try, in this order:"), *(line((f"  {each}", "cyan")) for each in (*change, *commands))]
    call.show(document, *parts)


def _begin_with(source: str | None) -> tuple[dict[str, str], Sequence[tuple[str, ...]]]:
    """The files of a workspace that begins with a built-in dialogue, or of the starter, and what to try then."""
    if source is None:
        return STARTER, NEXT
    known = {each["name"]: each for each in builtin_playbooks()}
    if source not in known:
        raise typer.BadParameter(f"found {source!r}; expected one of: {', '.join(known)}", param_hint="--from")
    file, (name, *_) = f"{source}.yaml", known[source]["inputs"]
    files = {**{each: STARTER[each] for each in SETTINGS}, file: str(known[source]["file"])}
    return files, [("playbook", "check", file), ("run", file, f"{name}={EXAMPLE}"), ("runs", "list")]


def write_starter(folder: Path, files: Mapping[str, str] = STARTER, *, dry_run: bool = False) -> list[str]:
    """Write the starter files and say which. Raises SettingsError for each that is there already."""
    # Most folders that are under version control have one; ours is only a convenience.
    names = [name for name in files if name != IGNORED or not (folder / name).exists()]
    remedy = "Choose another folder, or move it away."
    taken = [
        Problem(str(folder / name), "a file that exists", "nothing there yet", remedy)
        for name in names
        if (folder / name).exists()
    ]
    if taken:
        raise SettingsError(taken, "init")
    if not dry_run:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            text = Path(__file__).parent.joinpath(files[name]).read_text(encoding="utf-8")
            (folder / name).write_text(text.replace(*CHATTING) if files is not STARTER else text, encoding="utf-8")
    return names


def typed(*arguments: str) -> str:
    """A command as people type it: a value with spaces is quoted, its name is not."""
    return " ".join(["seedbed", *map(_quoted, arguments)])


def _quoted(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return f"{name}={shlex.quote(value)}" if equals and name.isidentifier() else shlex.quote(argument)
