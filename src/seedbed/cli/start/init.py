"""seedbed init: a first workspace that runs offline."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from seedbed.cli import output
from seedbed.cli.options import FILE, AsJson, DryRun
from seedbed.cli.output import line

app = typer.Typer()

IGNORED = ".gitignore"
STARTER = {
    FILE: FILE,
    "sorter.yaml": "sorter.yaml",
    "messages.jsonl": "messages.jsonl",
    "instructions.txt": "instructions.txt",
    IGNORED: "gitignore",
}
"""What a workspace begins with, and what each file is called in this package."""

MESSAGE = "text=My parcel arrived crushed and the lamp is broken."
NEXT = (
    ("run", "sorter.yaml", MESSAGE),
    ("dataset", "split", "messages.jsonl"),
    ("evaluate", "sorter.yaml", "messages-train.jsonl"),
    ("evolve", "sorter.yaml", "messages-train.jsonl", "--bank", "instructions.txt", "--branch", "better"),
    ("compare", "sorter.yaml", "better", "--on", "messages-test.jsonl"),
    ("release", "sorter.yaml", "--to", "production", "--because", "first release"),
)
"""What to try then, in this order."""


@app.command(rich_help_panel="Begin")
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where; this folder unless given.")] = Path("."),
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Write a first workspace that runs offline: settings, a playbook, tasks, instructions to try.

    Nothing is overwritten.

    JSON: folder, files, next, dry_run.
    """
    names = written(folder, dry_run)
    commands = [command(*arguments) for arguments in NEXT]
    document = {"folder": str(folder), "files": names, "next": commands, "dry_run": dry_run}
    mark = ("would write ", "yellow") if dry_run else ("✓ wrote ", "bold green")
    parts = [line(mark, f"{folder / name}") for name in names]
    if IGNORED not in names:
        parts.append(line(f"kept your {IGNORED}; add to it: *.db, *.db-wal, *.db-shm"))
    goes = [] if folder == Path(".") else [f"cd {shlex.quote(str(folder))}"]
    parts += [line("\nNow try, in this order:"), *(line((f"  {each}", "cyan")) for each in (*goes, *commands))]
    output.show(document, as_json, *parts)


def written(folder: Path, dry_run: bool = False) -> list[str]:
    """Write the starter files and say which. Raises SettingsError for each that is there already."""
    from seedbed.errors import Problem, SettingsError

    # Most folders that are under version control have one; ours is only a convenience.
    names = [name for name in STARTER if name != IGNORED or not (folder / name).exists()]
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
            (folder / name).write_bytes((files("seedbed.cli.start") / "starter" / STARTER[name]).read_bytes())
    return names


def command(*arguments: str) -> str:
    """A command as one types it: a value with spaces is quoted, its name is not."""
    return " ".join(["seedbed", *map(_typed, arguments)])


def _typed(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return f"{name}={shlex.quote(value)}" if equals and name.isidentifier() else shlex.quote(argument)
