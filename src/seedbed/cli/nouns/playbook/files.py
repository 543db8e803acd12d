"""seedbed playbook check, explain, schema, import, export: playbooks as files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Changes, DryRun, PlaybookName, WorkspaceFile
from seedbed.cli.output import BLOCKED, PASS, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.playbooks.formats import Import, Note
    from seedbed.storage.store import Digest, Json
    from seedbed.workspace import Workspace

app = typer.Typer()

NOTES = ("change", "score", "parent", "import")
"""The kinds of fact that come with a foreign document."""


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Playbooks as YAML or JSON.")],
    as_json: AsJson = False,
) -> None:
    """Find everything that is wrong with playbook files. Needs no workspace.

    JSON: files (file, playbook, problems). Exit code 1 if anything is wrong.
    """
    from seedbed.errors import PlaybookError
    from seedbed.playbooks.playbook import Playbook
    from seedbed.storage.store import short

    found: list[Json] = []
    parts: list[RenderableType] = []
    for file in files:
        try:
            digest = Playbook.load(file).digest
        except PlaybookError as wrong:
            problems = output.problem_documents(wrong.problems)
            found.append({"file": str(file), "playbook": None, "problems": problems})
            parts.append(line(("✗ ", "bold red"), f"{file}: {output.counted(len(problems), 'problem')}"))
            parts += map(output.problem_view, wrong.problems)
        else:
            found.append({"file": str(file), "playbook": digest, "problems": []})
            parts.append(line(("✓ ", "bold green"), f"{file}: playbook {short(digest)}"))
    output.show({"files": found}, as_json, *parts)
    raise typer.Exit(BLOCKED if any(each["problems"] for each in found) else PASS)


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A playbook as YAML or JSON.")],
    changes: Changes = None,
    as_json: AsJson = False,
) -> None:
    """Show each value of a playbook file with the file and line it came from. Needs no workspace.

    JSON: playbook, values (path, value, origin).
    """
    from seedbed.cli.views import run as views
    from seedbed.playbooks import loading
    from seedbed.playbooks.playbook import Playbook

    values = options.assignments(changes, "--set")
    loaded = loading.load(file, values)
    digest = Playbook.load(file, values).digest
    found = [
        {"path": path, "value": value, "origin": loaded.origins.get(path, str(file))}
        for path, _, value in loading.leaves(loaded.document)
    ]
    rows = [
        (
            line((str(each["path"]), "bold")),
            output.clipped(views.value_text(each["value"]), 70),
            line((str(each["origin"]), "dim")),
        )
        for each in found
    ]
    output.show({"playbook": digest, "values": found}, as_json, output.table("path", "value", "from", rows=rows))


@app.command()
def schema(as_json: AsJson = False) -> None:
    """Print the JSON Schema of a playbook file, for editors. Always JSON."""
    from seedbed.playbooks.playbook import Playbook

    output.show(Playbook.file_schema(), True)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A strategy, a mode or a prompt profile.")],
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep a playbook that was written for another tool, with its names, its history and its limits.

    Its protection, if it has any, belongs under a channel in seedbed.yaml.

    JSON: playbook, format, names, facts, protection, dry_run.
    """
    from seedbed import documents
    from seedbed.playbooks.formats import load_foreign
    from seedbed.storage.store import short

    found = load_foreign(file)
    with options.opened(workspace, dry_run=dry_run) as space:
        digest, names = _imported(space, found, file)
    document = {
        "playbook": digest,
        "format": found.format,
        "names": names,
        "facts": len(found.facts),
        "protection": found.protection,
        "dry_run": dry_run,
    }
    told = "would keep" if dry_run else "kept"
    pairs: list[tuple[str, RenderableType]] = [
        (told, line((short(digest), "yellow"), f", a {found.format}")),
        ("names", ", ".join(names)),
        ("facts", output.counted(len(found.facts), "fact")),
    ]
    parts: list[RenderableType] = [output.facts(pairs)]
    if found.protection:
        text = documents.to_yaml({"channels": {"production": found.protection}})
        parts += [line("Its limits protect a channel. Put this into seedbed.yaml:"), line((text, "cyan"))]
    output.show(document, as_json, *parts)


def _imported(space: Workspace, found: Import, file: Path) -> tuple[Digest, list[str]]:
    from seedbed.storage.store import Fact

    library = space.library
    because = f"imported from {file.name}"
    known = [space.store.ref(str(note.body.get("ref", ""))) for note in found.facts if note.kind == "parent"]
    parents = [str(ref.target) for ref in known if ref]
    digest = library.keep(found.playbook, because=because, parents=parents, how="imported")
    # Versions first: they may be refused, and then no other name has moved.
    for name, to in found.refs.items():
        if name.startswith("versions/"):
            _, series, number = name.split("/")
            library.version(series, number, of=to, because=because)
    for name, to in found.refs.items():
        current = space.store.ref(name)
        if not name.startswith("versions/") and (current is None or current.target != to):
            library.name(name, to, because=because)
    at = datetime.now(UTC)
    space.store.append(
        Fact(kind=note.kind, key=note.key, subject=digest, at=at, by=space.by, body=note.body) for note in found.facts
    )
    return digest, list(found.refs)


@app.command()
def export(
    playbook: PlaybookName,
    to: Annotated[
        str, typer.Option("--format", help="yaml or json for seedbed's own; strategy, mode or profile for others.")
    ] = "yaml",
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; else printed.")] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a playbook for another tool, or as a file of seedbed's own.

    JSON: playbook, format, document, file.
    """
    from seedbed import documents
    from seedbed.cli.views import run as views
    from seedbed.playbooks import formats

    if to not in ("yaml", "json", *formats.FORMATS):
        known = ", ".join(("yaml", "json", *formats.FORMATS))
        raise typer.BadParameter(f"found {to!r}; expected one of: {known}", param_hint="--format")
    with options.opened(workspace) as space:
        chosen = space.playbook(playbook)
        if to in ("yaml", "json"):
            document = chosen.document()
        else:
            called = views.names(space.store).get(chosen.digest, [])
            document = formats.export(chosen, to, _notes(space, chosen.digest), called)
    in_json = file.suffix == ".json" if file else to == "json"
    text = documents.to_json(document) if in_json else documents.to_yaml(document)
    told = {"playbook": chosen.digest, "format": to, "document": document}
    output.hand_over(told, text, file, as_json)


def _notes(space: Workspace, digest: Digest) -> list[Note]:
    """What was recorded about a playbook and what it grew from, oldest first."""
    from seedbed.errors import NotFound
    from seedbed.playbooks.formats import Note
    from seedbed.storage.store import Query

    library = space.library
    try:
        library.entry(digest)
    except NotFound:
        return []
    found = [
        fact
        for entry in library.ancestry(digest)
        for kind in NOTES
        for fact in space.store.facts(Query(kind=kind, subject=entry.digest))
    ]
    return [Note(fact.kind, fact.key, fact.body) for fact in sorted(found, key=lambda fact: fact.number)]
