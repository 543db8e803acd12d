"""seedbed playbook check, explain, schema, import, export: playbooks as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from seedbed import documents
from seedbed.cli import options, output
from seedbed.cli.command import Invocation, command, import_beside, wait_for
from seedbed.cli.options import Changes, OutputFile, PlaybookName, Strict
from seedbed.cli.output import BLOCKED, PASS, Column, line
from seedbed.cli.views import playbook as views
from seedbed.errors import PlaybookError, SettingsError
from seedbed.reports.numbers import clipped, counted
from seedbed.settings import Settings
from seedbed.storage.store import Json, short
from seedbed.workspace import find_file
from seedbed.workspace.nouns import playbooks
from seedbed.workspace.resources import FileChecker

app = typer.Typer()


@command(app)
def check(
    call: Invocation,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Playbooks, strategies, modes, profiles or prompts.")
    ],
    strict: Strict = False,
) -> None:
    """Report every mistake in playbook files, and warn about likely mistakes.

    No workspace is needed. If there is one, rules are checked against its tools, and programs against those it allows.

    Exits with code 1 if anything is wrong or, with --strict, if there are warnings.
    """
    checked: list[Json] = []
    parts: list[RenderableType] = []
    checker = _checker(call)
    for file in files:
        try:
            document, unclear = checker.check(file)
            call.say_warnings([] if call.as_json and not strict else unclear, strict, str(file))
        except PlaybookError as wrong:
            problems = output.problem_documents(wrong.problems)
            checked.append({"file": str(file), "playbook": None, "problems": problems, "warnings": []})
            parts.append(line(("✗ ", "bold red"), f"{file}: {counted(len(problems), 'problem')}"))
            parts += map(output.problem_view, wrong.problems)
        else:
            digest, warnings = document.playbook.digest, output.problem_documents(unclear)
            checked.append({"file": str(file), "playbook": digest, "problems": [], "warnings": warnings})
            parts.append(line(("✓ ", "bold green"), f"{file}: {document.format} {short(digest)}"))
    call.show({"files": checked}, *parts)
    raise typer.Exit(BLOCKED if any(each["problems"] for each in checked) else PASS)


def _checker(call: Invocation) -> FileChecker:
    """Checks files by the workspace that is here, if there is one that can be read."""
    try:
        path = find_file(call.workspace)
        settings = Settings.load(path)
    except SettingsError:
        if call.workspace:
            raise
        return FileChecker()
    import_beside(path)
    return wait_for(FileChecker.of(settings))


VALUES = (
    Column("path", lambda each: line((str(each["path"]), "bold"))),
    Column("value", lambda each: clipped(views.value_text(each["value"]), 70), flexible=True),
    Column("from", lambda each: line((str(each["origin"]), "dim")), drop=1),
)


@command(app, workspace=False)
def explain(
    call: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A playbook in YAML or JSON.")],
    changes: Changes = None,
) -> None:
    """Show each value in a playbook file with the file and line it came from. No workspace is needed."""
    digest, values = playbooks.explain(file, options.assignments(changes))
    call.show({"playbook": digest, "values": values}, output.listing(VALUES, values))


@command(app, workspace=False)
def schema(
    call: Invocation,
    of: Annotated[
        str, typer.Option("--format", help="playbook; or strategy, mode or profile for files from other tools.")
    ] = "playbook",
) -> None:
    """Print the JSON Schema for playbook files, for use in editors. The output is always JSON."""
    if of not in playbooks.SCHEMAS:
        known = ", ".join(playbooks.SCHEMAS)
        raise typer.BadParameter(f"found {of!r}; expected one of: {known}", param_hint="--format")
    output.show(playbooks.SCHEMAS[of](), True)


@command(app, "import", dry_run=True)
def import_file(
    call: Invocation,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A strategy, a mode, a prompt profile, or a prompt in a .txt or .md file."),
    ],
    strict: Strict = False,
) -> None:
    """Import a playbook written for another tool, with its names, history and limits.

    If it has limits that protect a channel, they are printed for you to add to seedbed.yaml.
    """
    foreign = playbooks.read_foreign(file)
    call.say_warnings([] if call.as_json and not strict else foreign.warnings, strict, str(file))
    with call.open() as space:
        digest = space.playbooks.import_foreign(foreign, because=f"imported from {file.name}")
    names = list(foreign.refs)
    document = {
        "playbook": digest,
        "format": foreign.format,
        "names": names,
        "facts": len(foreign.facts),
        "protection": foreign.protection,
        "warnings": output.problem_documents(foreign.warnings),
        "dry_run": call.dry_run,
    }
    pairs: list[tuple[str, RenderableType]] = [
        ("would store" if call.dry_run else "stored", line((short(digest), "yellow"), f", a {foreign.format}")),
        ("names", ", ".join(names)),
        ("facts", counted(len(foreign.facts), "fact")),
    ]
    parts: list[RenderableType] = [output.facts(pairs)]
    if foreign.protection:
        text = documents.to_yaml({"channels": {"production": foreign.protection}})
        parts += [line("Its limits protect a channel. Add this to seedbed.yaml:"), line((text, "cyan"))]
    call.show(document, *parts)


@command(app)
def export(
    call: Invocation,
    playbook: PlaybookName,
    to: Annotated[
        str, typer.Option("--format", help="yaml or json for seedbed; strategy, mode, profile or text for other tools.")
    ] = "yaml",
    file: OutputFile = None,
) -> None:
    """Export a playbook for another tool, or in seedbed's own format."""
    if to not in playbooks.FORMATS:
        known = ", ".join(playbooks.FORMATS)
        raise typer.BadParameter(f"found {to!r}; expected one of: {known}", param_hint="--format")
    with call.open() as space:
        digest, document = space.playbooks.export(playbook, to)
    in_json = file.suffix == ".json" if file else to == "json"
    text = documents.to_json(document) if in_json else documents.to_yaml(document)
    text = document["text"] if to == "text" and not (file and file.suffix in (".json", ".yaml", ".yml")) else text
    output.hand_over({"playbook": digest, "format": to, "document": document}, text, file, call.as_json)
