"""seedbed playbook: look at playbooks. Changing, exchanging and specialising them is in the modules beside this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.syntax import Syntax

from seedbed.cli import options, output
from seedbed.cli.command import Invocation, command
from seedbed.cli.nouns.playbook import changes as playbook_changes
from seedbed.cli.nouns.playbook import files, specialised
from seedbed.cli.options import PLAYBOOK, Changes, PlaybookName, RowLimit
from seedbed.cli.output import Column, line, when
from seedbed.cli.views import lineage
from seedbed.cli.views import playbook as views
from seedbed.playbooks.library import Page, PlaybookFilter
from seedbed.storage.store import short
from seedbed.workspace import Workspace
from seedbed.workspace.nouns.playbooks import builtin_playbooks, failed_text

app = typer.Typer(no_args_is_help=True)

After = Annotated[
    int | None,
    typer.Option("--after", min=0, max=2**63 - 1, help="Continue after this number, printed on the previous page."),
]


BUILT_IN = (
    Column("name", lambda each: line((str(each["name"]), "bold"))),
    Column("inputs", lambda each: ", ".join(each["inputs"])),
    Column("steps", lambda each: str(each["steps"]), number=True),
    Column("what it does", lambda each: str(each["about"]), flexible=True),
)


@command(app, "list")
def list_playbooks(
    call: Invocation,
    limit: RowLimit = 20,
    after: After = None,
    shipped: Annotated[bool, typer.Option("--builtin", help="List the dialogues that ship with seedbed.")] = False,
) -> None:
    """List the stored playbooks, newest first, with their names and scores."""
    if shipped:
        call.list("builtin", builtin_playbooks(), BUILT_IN, "None.")
        return
    with call.open() as space:
        _show_page(call, space, space.playbooks.search(limit=limit, after=after))


@dataclass(frozen=True)
class PlaybookQuery:
    """What a playbook is searched by; all conditions must hold."""

    text: Annotated[str | None, typer.Option("--text", help="Words in the playbook's text.")] = None
    gene: Annotated[
        str | None, typer.Option("--gene", metavar="PATH=VALUE", help="A gene's value: a number or a choice.")
    ] = None
    tag: Annotated[str | None, typer.Option("--tag", help="A tag on the playbook.")] = None
    by: Annotated[str | None, typer.Option("--by", help="The person who stored the playbook.")] = None
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Stored at this time or later.")] = None
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stored before this time.")] = None


@command(app)
def search(call: Invocation, query: PlaybookQuery, limit: RowLimit = 20, after: After = None) -> None:
    """Find stored playbooks, newest first. All conditions must match."""
    first, last = options.moment(query.since, "--since"), options.moment(query.until, "--until")
    with call.open() as space:
        where = PlaybookFilter(text=query.text, gene=query.gene, tag=query.tag, by=query.by, since=first, until=last)
        page = space.playbooks.search(where, limit=limit, after=after)
        _show_page(call, space, page)


def _show_page(call: Invocation, space: Workspace, page: Page) -> None:
    called = space.playbooks.names()
    playbooks = [space.playbooks.describe(entry, called) for entry in page.entries]
    parts: list[RenderableType] = [output.listing(views.COLUMNS, playbooks) if playbooks else line("Nothing found.")]
    if page.after is not None:
        parts.append(line((f"more: add --after {page.after}", "dim")))
    call.show({"playbooks": playbooks, "after": page.after}, *parts)


@command(app)
def show(call: Invocation, playbook: PlaybookName, changes: Changes = None) -> None:
    """Show a playbook and everything on record about it. No workspace is needed for files."""
    with call.open_for_files(playbook) as space:
        chosen = space.resources.playbook(playbook, options.assignments(changes))
        about = space.playbooks.about(chosen)
    document = {"playbook": chosen.digest, "document": chosen.document(), **about}
    pairs: list[tuple[str, RenderableType]] = [
        ("playbook", line((short(chosen.digest), "yellow"))),
        ("names", ", ".join(about["names"])),
        ("tags", ", ".join(about["tags"])),
        ("derived from", ", ".join(map(short, about.get("parents", ())))),
        (
            about.get("how", ""),
            f"{about['because']}, by {about['by']} at {when(about['at'])}" if "at" in about else "",
        ),
        ("scores", views.scores_text(about.get("scores", {}))),
        ("failed", failed_text(about["failed"]) if about.get("failed") else ""),
        ("may evolve", ", ".join(about["genes"])),
    ]
    text = Syntax(chosen.to_yaml(), "yaml", theme="ansi_dark", background_color="default", word_wrap=True)
    call.show(document, output.facts(pairs), line(""), text)


@command(app)
def diff(
    call: Invocation,
    before: Annotated[str, typer.Argument(metavar="A", help=PLAYBOOK)],
    after: Annotated[str, typer.Argument(metavar="B", help="The playbook to compare it with.")],
) -> None:
    """Show the differences between two playbooks, with text compared word by word. No workspace is needed for files."""
    with call.open_for_files(before, after) as space:
        one, other = space.playbooks.get(before), space.playbooks.get(after)
        changes = space.playbooks.diff(one, other)
    document = {
        "before": one.digest,
        "after": other.digest,
        "changes": [views.change_document(change) for change in changes],
    }
    call.show(document, *(map(views.change_view, changes) if changes else [line("no differences")]))


CHANGE_KEYS = ("version", "date", "path", "from", "to", "reason")
CHANGES = (
    Column("version", lambda each: str(each["version"])),
    Column("changed", lambda each: line((str(each["path"]).removeprefix("parameters."), "bold"))),
    Column("from", lambda each: views.value_text(each["from"])),
    Column("to", lambda each: views.value_text(each["to"])),
    Column("because", lambda each: str(each["reason"] or ""), flexible=True),
)


@command(app)
def log(
    call: Invocation,
    playbook: PlaybookName,
    moves: Annotated[bool, typer.Option("--moves", help="Show how the ref itself has moved.")] = False,
) -> None:
    """Show a playbook's ancestors, newest first, and its change log by version; with --moves, show what a ref has
    pointed to over time."""
    with call.open() as space:
        if moves:
            lineage.show_moves(call, *space.playbooks.moves(playbook))
            return
        called = space.playbooks.names()
        ancestry = [space.playbooks.describe(entry, called) for entry in space.playbooks.ancestry(playbook)]
        changes = [{name: each.get(name) for name in CHANGE_KEYS} for each in space.playbooks.change_log(playbook)]
    parts = [line(""), output.listing(CHANGES, changes)] if changes else []
    call.show({"playbooks": ancestry, "changes": changes}, output.listing(views.COLUMNS, ancestry), *parts)


@command(app)
def tree(
    call: Invocation,
    playbook: Annotated[
        str | None,
        typer.Argument(metavar="PLAYBOOK", help="The playbook whose family to show. Default: all named playbooks."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Show at most this many children of each playbook.")
    ] = 12,
    depth: Annotated[int, typer.Option("--depth", min=1, max=100, help="Show at most this many generations.")] = 20,
) -> None:
    """Show which playbooks were derived from which, with their names and scores."""
    with call.open() as space:
        roots = space.playbooks.tree(playbook, limit=limit, depth=depth)
    call.show({"roots": roots}, *map(lineage.view, roots))


for module in (files, playbook_changes, specialised):
    app.add_typer(module.app)
