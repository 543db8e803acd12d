"""seedbed playbook keep, derive, merge, name, version, branch, archive, tag: what is stored and what moves."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.cli import options
from seedbed.cli.command import Invocation, command
from seedbed.cli.options import Because, Changes, PlaybookName
from seedbed.cli.output import Column, line, when
from seedbed.reports.numbers import counted
from seedbed.storage.store import Ref, short
from seedbed.workspace.nouns.playbooks import RESOLVERS

app = typer.Typer()

BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help="The branch's name, such as careful.")]
STYLES = {"active": "green", "merged": "blue", "archived": "dim", "failed": "red"}
BRANCHES = (
    Column("branch", lambda each: line((each["branch"], "bold"))),
    Column("state", lambda each: line((each["state"], STYLES[each["state"]]))),
    Column("playbook", lambda each: line((short(each["playbook"]), "yellow"))),
    Column("because", lambda each: each["because"], flexible=True),
    Column("by", lambda each: each["by"], drop=2),
    Column("at", lambda each: when(each["at"]), drop=1),
)


def _show_ref(call: Invocation, ref: Ref) -> None:
    document = {
        "ref": ref.name,
        "playbook": ref.target,
        "version": ref.version,
        "because": ref.because,
        "by": ref.by,
        "at": ref.at,
    }
    call.done(document, f"{ref.name} points at {short(str(ref.target))}")


@command(app, dry_run=True)
def keep(
    call: Invocation,
    playbook: PlaybookName,
    because: Because,
    parents: Annotated[
        list[str] | None,
        typer.Option("--parent", metavar="PLAYBOOK", help="A playbook it was derived from; repeat for several."),
    ] = None,
) -> None:
    """Store a playbook and record where it came from."""
    with call.open() as space:
        digest = space.playbooks.keep(playbook, because=because, parents=parents or ())
    call.done({"playbook": digest}, f"stored {short(digest)}")


@command(app, dry_run=True)
def derive(
    call: Invocation,
    playbook: PlaybookName,
    because: Because,
    changes: Changes = None,
    branch: Annotated[str | None, typer.Option("--branch", help="A branch to move to the child.")] = None,
) -> None:
    """Store a child of a playbook with some genes changed."""
    values = options.assignments(changes)
    if not values:
        raise typer.BadParameter("expected at least one PATH=VALUE", param_hint="--set")
    with call.open() as space:
        digest, parent = space.playbooks.derive(playbook, values, because=because)
        if branch:
            space.playbooks.name(branch, digest, because=because)
    call.done({"playbook": digest, "parent": parent}, f"stored {short(digest)}")


@command(app, dry_run=True)
def merge(
    call: Invocation,
    ours: Annotated[str, typer.Argument(metavar="OURS", help="A playbook, or a branch to move to the result.")],
    theirs: Annotated[str, typer.Argument(metavar="THEIRS", help="A playbook, or a branch to close as merged.")],
    because: Because,
    resolve: Annotated[
        list[str] | None,
        typer.Option(
            "--resolve",
            metavar="HOW",
            help="How to resolve clashes: ours, theirs or mean; if repeated, the first that applies wins.",
        ),
    ] = None,
    changes: Changes = None,
    archive_others: Annotated[
        bool, typer.Option("--archive-others", help="Archive the other active branches of their common ancestor.")
    ] = False,
) -> None:
    """Merge two playbooks, based on their common ancestor. Clashing changes must be resolved.

    Values given with --set take precedence over --resolve.

    Exits with code 1 if any clash is unresolved, and lists them all.
    """
    for name in resolve or ():
        if name not in RESOLVERS:
            known = ", ".join(RESOLVERS)
            raise typer.BadParameter(f"found {name!r}; expected one of: {known}", param_hint="--resolve")
    resolvers = [options.assignments(changes), *(resolve or ())]
    with call.open() as space:
        archived = space.playbooks.siblings(ours, theirs) if archive_others else []
        digest, result = space.playbooks.merge(ours, theirs, because=because, resolvers=resolvers)
        for branch in archived:
            space.playbooks.archive(branch, because=f"{theirs} was merged: {because}")
    settled = [
        {"path": each.path, "base": each.base, "ours": each.ours, "theirs": each.theirs} for each in result.settled
    ]
    count = f", {counted(len(settled), 'clash', 'clashes')} settled" if settled else ""
    count += f", archived {', '.join(archived)}" if archived else ""
    document = {"playbook": digest, "settled": settled, "archived": archived}
    call.done(document, f"merged {ours} and {theirs} into {short(digest)}{count}")


@command(app, dry_run=True)
def name(
    call: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A branch, or any other ref, such as candidates/best.")],
    playbook: PlaybookName,
    because: Because,
) -> None:
    """Point a name at a playbook."""
    with call.open() as space:
        ref = space.playbooks.name(name, playbook, because=because)
    _show_ref(call, ref)


@command(app, dry_run=True)
def version(
    call: Invocation,
    series: Annotated[str, typer.Argument(metavar="SERIES", help="The name of the series, such as sorter.")],
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="A semantic version, such as 2.0.0.")],
    playbook: PlaybookName,
    because: Because,
) -> None:
    """Label a playbook with a version. Versions never move."""
    with call.open() as space:
        ref = space.playbooks.version(series, number, playbook, because=because)
    _show_ref(call, ref)


@command(app, dry_run=True)
def branch(
    call: Invocation,
    name: Annotated[str, typer.Argument(metavar="BRANCH", help="The new branch. Default: list all branches.")] = "list",
    start: Annotated[str | None, typer.Argument(metavar="PLAYBOOK", help="The playbook it starts at.")] = None,
    because: Annotated[str | None, typer.Option("--because", metavar="REASON", help="The reason to record.")] = None,
) -> None:
    """Start a branch at a playbook, or list all branches with their states."""
    if start is None:
        if name != "list":
            raise typer.BadParameter(f"expected the playbook where {name} starts", param_hint="PLAYBOOK")
        with call.open() as space:
            branches = [
                {
                    "branch": each.name,
                    "state": each.state,
                    "playbook": each.digest,
                    "because": each.because,
                    "by": each.by,
                    "at": each.at,
                }
                for each in space.playbooks.branches()
            ]
        call.list("branches", branches, BRANCHES, "No branches yet.")
        return
    if because is None:
        raise typer.BadParameter("expected a reason", param_hint="--because")
    with call.open() as space:
        ref = space.playbooks.branch(name, start, because=because)
    _show_ref(call, ref)


@command(app, dry_run=True)
def archive(
    call: Invocation,
    branch: BranchName,
    because: Because,
    failed: Annotated[bool, typer.Option("--failed", help="Record that the branch failed.")] = False,
) -> None:
    """Archive a branch. Its name becomes available again and its history is kept."""
    with call.open() as space:
        state = space.playbooks.archive(branch, because=because, failed=failed)
    call.done({"branch": branch, "state": state}, f"branch {branch} is now marked {state}")


@command(app, dry_run=True)
def tag(
    call: Invocation,
    playbook: PlaybookName,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="A tag to add.")] = None,
) -> None:
    """Tag a playbook, or show its tags."""
    with call.open() as space:
        digest, tags = space.playbooks.tag(playbook, *(words or ()))
    text = f"{short(digest)}: {', '.join(tags) or 'no tags'}"
    call.show({"playbook": digest, "tags": tags, "dry_run": call.dry_run}, line(text))
