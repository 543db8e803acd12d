"""seedbed playbook: look at playbooks. Changing, exchanging and specialising them is in the modules beside this one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.nouns.playbook import changes as playbook_changes
from seedbed.cli.nouns.playbook import files as playbook_files
from seedbed.cli.nouns.playbook import specialised
from seedbed.cli.options import AsJson, Changes, Limit, PlaybookName, WorkspaceFile
from seedbed.cli.output import line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.playbooks.library import Page
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

After = Annotated[
    int | None, typer.Option("--after", min=0, max=2**63 - 1, help="Go on after this number, from the page before.")
]


@app.command("list")
def list_playbooks(
    limit: Limit = 20, after: After = None, workspace: WorkspaceFile = None, as_json: AsJson = False
) -> None:
    """Show the playbooks that are kept, newest first, with their names and scores.

    JSON: playbooks (playbook, names, parents, how, because, by, at, scores), after.
    """
    with options.opened(workspace) as space:
        _show_page(space, space.library.search(limit=limit, after=after), as_json)


@app.command()
def search(
    text: Annotated[str | None, typer.Option("--text", help="Words that its texts contain.")] = None,
    gene: Annotated[str | None, typer.Option("--gene", metavar="PATH=VALUE", help="A number or a choice.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="A word attached to it.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who kept it.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Kept at that time or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Kept before that time.")] = None,
    limit: Limit = 20,
    after: After = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Find kept playbooks, newest first; all that is given must hold.

    JSON: playbooks (playbook, names, parents, how, because, by, at, scores), after.
    """
    first, last = options.moment(since, "--since"), options.moment(until, "--until")
    with options.opened(workspace) as space:
        page = space.library.search(
            text=text, gene=gene, tag=tag, by=by, since=first, until=last, limit=limit, after=after
        )
        _show_page(space, page, as_json)


def _show_page(space: Workspace, page: Page, as_json: bool) -> None:
    from seedbed.cli.views import run as views

    called = views.names(space.store)
    found = [views.entry_document(entry, called.get(entry.digest, ()), space.store) for entry in page.entries]
    parts: list[RenderableType] = [views.entries_view(found) if found else line("nothing found")]
    if page.after is not None:
        parts.append(line((f"more: add --after {page.after}", "dim")))
    output.show({"playbooks": found, "after": page.after}, as_json, *parts)


@app.command()
def show(
    playbook: PlaybookName, changes: Changes = None, workspace: WorkspaceFile = None, as_json: AsJson = False
) -> None:
    """Show what a playbook says and what is known about it. A file needs no workspace.

    JSON: playbook, document, genes, names, tags.
    JSON of a kept one also: parents, how, because, by, at, scores.
    """
    from rich.syntax import Syntax

    from seedbed.cli.views import run as views
    from seedbed.errors import NotFound
    from seedbed.playbooks.genes import genes
    from seedbed.storage.store import short

    values = options.assignments(changes, "--set")
    with options.opened_for(workspace, playbook) as space:
        chosen = options.chosen(space, playbook, values)
        about: Json = {"names": [], "tags": []}
        if space:
            called = views.names(space.store).get(chosen.digest, [])
            about = {"names": called, "tags": space.library.tags(chosen.digest)}
            with suppress(NotFound):  # of a file that was never kept there is nothing more to say
                about |= views.entry_document(space.library.entry(chosen.digest), called, space.store)
    evolvable = {gene.path: gene.value for gene in genes(chosen).values()}
    document = {"playbook": chosen.digest, "document": chosen.document(), "genes": evolvable, **about}
    pairs: list[tuple[str, RenderableType]] = [
        ("playbook", line((short(chosen.digest), "yellow"))),
        ("names", ", ".join(about["names"])),
        ("tags", ", ".join(about["tags"])),
        ("grew from", ", ".join(map(short, about.get("parents", ())))),
        (
            about.get("how", ""),
            f"{about['because']}, by {about['by']} at {output.when(about['at'])}" if "at" in about else "",
        ),
        ("scores", views.scores_text(about.get("scores", {}))),
        ("may evolve", ", ".join(evolvable)),
    ]
    text = Syntax(chosen.to_yaml(), "yaml", theme="ansi_dark", background_color="default", word_wrap=True)
    output.show(document, as_json, output.facts(pairs), line(""), text)


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A file, a digest, a ref or a channel.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two playbooks: numbers from and to, texts word by word. Files need no workspace.

    JSON: before, after, changes (path, before, after).
    """
    from seedbed.cli.views import run as views
    from seedbed.playbooks.changes import diff as differences

    with options.opened_for(workspace, before, after) as space:
        one, other = options.chosen(space, before), options.chosen(space, after)
    found = differences(one, other)
    document = {
        "before": one.digest,
        "after": other.digest,
        "changes": [views.change_document(change) for change in found],
    }
    output.show(document, as_json, *(map(views.change_view, found) if found else [line("no difference")]))


@app.command()
def log(
    playbook: PlaybookName,
    moves: Annotated[bool, typer.Option("--moves", help="Show how the ref itself moved.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a playbook grew from, newest first; or with --moves where a ref pointed.

    JSON: playbooks (playbook, names, parents, how, because, by, at, scores).
    JSON with --moves: ref, moves (to, from, because, by, at).
    """
    from seedbed.cli.views import lineage
    from seedbed.cli.views import run as views

    with options.opened(workspace) as space:
        library = space.library
        if moves:
            name = lineage.ref_name(space.store, playbook)
            lineage.show_moves(name, library.history(name), as_json)
            return
        called = views.names(space.store)
        digest = library.entry(space.playbook(playbook).digest).digest
        found = [
            views.entry_document(entry, called.get(entry.digest, ()), space.store) for entry in library.ancestry(digest)
        ]
    output.show({"playbooks": found}, as_json, views.entries_view(found))


@app.command()
def tree(
    playbook: Annotated[
        str | None, typer.Argument(metavar="PLAYBOOK", help="Whose family; all that have a name unless given.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many children of each at most.")] = 12,
    depth: Annotated[int, typer.Option("--depth", min=1, max=100, help="How many generations at most.")] = 20,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the lineage: who grew from whom, with names and scores.

    JSON: roots (playbook, names, scores, held_out, how, because, also_from, children, hidden).
    """
    from seedbed.cli.views import lineage

    with options.opened(workspace) as space:
        roots = lineage.roots(space, playbook)
        documents = [lineage.document(space, root, limit, depth) for root in roots]
    output.show({"roots": documents}, as_json, *map(lineage.view, documents))


app.add_typer(playbook_files.app)
app.add_typer(playbook_changes.app)
app.add_typer(specialised.app)
