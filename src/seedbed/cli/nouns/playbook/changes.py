"""seedbed playbook keep, derive, merge, name, version, branch, archive, tag: what is added and what moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Because, Changes, DryRun, PlaybookName, WorkspaceFile
from seedbed.cli.output import line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.playbooks.library import Branch
    from seedbed.storage.store import Digest, Json, Ref

app = typer.Typer()

BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help="Its name, such as careful.")]


def _done(told: str, dry_run: bool) -> RenderableType:
    mark = ("would have: ", "yellow") if dry_run else ("✓ ", "bold green")
    return line(mark, told)


def _show_kept(digest: Digest, told: str, dry_run: bool, as_json: bool, **more: object) -> None:
    from seedbed.storage.store import short

    output.show({"playbook": digest, **more, "dry_run": dry_run}, as_json, _done(f"{told} {short(digest)}", dry_run))


def _show_ref(ref: Ref, dry_run: bool, as_json: bool) -> None:
    from seedbed.storage.store import short

    document: Json = {
        "ref": ref.name,
        "playbook": ref.target,
        "version": ref.version,
        "because": ref.because,
        "by": ref.by,
        "at": ref.at,
        "dry_run": dry_run,
    }
    output.show(document, as_json, _done(f"{ref.name} points at {short(str(ref.target))}", dry_run))


@app.command()
def keep(
    playbook: PlaybookName,
    because: Because,
    parents: Annotated[
        list[str] | None, typer.Option("--parent", metavar="PLAYBOOK", help="What it grew from; may be repeated.")
    ] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Store a playbook with where it came from.

    JSON: playbook, dry_run.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        library = space.library
        grown = [options.kept(space, parent, because) for parent in parents or ()]
        how = "edited" if grown else "written"
        digest = library.keep(space.playbook(playbook), because=because, parents=grown, how=how)
    _show_kept(digest, "kept", dry_run, as_json)


@app.command()
def derive(
    playbook: PlaybookName,
    because: Because,
    changes: Changes = None,
    branch: Annotated[str | None, typer.Option("--branch", help="A branch to point at the child.")] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Keep a child that differs from a playbook in some genes.

    JSON: playbook, parent, dry_run.
    """
    values = options.assignments(changes, "--set")
    if not values:
        raise typer.BadParameter("expected at least one PATH=VALUE", param_hint="--set")
    with options.opened(workspace, dry_run=dry_run) as space:
        library = space.library
        parent = options.kept(space, playbook, because)
        digest = library.derive(parent, values, because=because)
        if branch:
            library.name(branch, digest, because=because)
    _show_kept(digest, "kept", dry_run, as_json, parent=parent)


@app.command()
def merge(
    ours: Annotated[str, typer.Argument(metavar="OURS", help="A branch, which moves to the result, or a playbook.")],
    theirs: Annotated[str, typer.Argument(metavar="THEIRS", help="A branch, which ends as merged, or a playbook.")],
    because: Because,
    resolve: Annotated[
        list[str] | None,
        typer.Option(
            "--resolve", metavar="HOW", help="ours, theirs or mean; may be repeated, the first that can decides."
        ),
    ] = None,
    changes: Changes = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Join two playbooks over their common ancestor. What both changed differently must be settled.

    Values given with --set settle their clash first.

    JSON: playbook, settled (path, base, ours, theirs), dry_run. Exit code 1 with every clash that nothing settles.
    """
    from seedbed.playbooks import merging
    from seedbed.storage.store import short

    known: dict[str, merging.Resolver] = {"ours": merging.ours, "theirs": merging.theirs, "mean": merging.mean}
    for name in resolve or ():
        if name not in known:
            raise typer.BadParameter(f"found {name!r}; expected one of: {', '.join(known)}", param_hint="--resolve")
    by_hand = options.assignments(changes, "--set")
    resolvers = [merging.manual(by_hand), *(known[name] for name in resolve or ())]
    with options.opened(workspace, dry_run=dry_run) as space:
        digest, result = space.library.merge(ours, theirs, because=because, resolvers=resolvers)
    settled = [
        {"path": each.path, "base": each.base, "ours": each.ours, "theirs": each.theirs} for each in result.settled
    ]
    count = f", {output.counted(len(settled), 'clash')} settled".replace("clashs", "clashes") if settled else ""
    document = {"playbook": digest, "settled": settled, "dry_run": dry_run}
    output.show(document, as_json, _done(f"merged {ours} and {theirs} into {short(digest)}{count}", dry_run))


@app.command()
def name(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A branch, or any other ref such as candidates/best.")],
    playbook: PlaybookName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Point a name at a playbook.

    JSON: ref, playbook, version, because, by, at, dry_run.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        ref = space.library.name(name, options.kept(space, playbook, because), because=because)
    _show_ref(ref, dry_run, as_json)


@app.command()
def version(
    series: Annotated[str, typer.Argument(metavar="LINE", help="What is counted, such as sorter.")],
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="A semantic version, such as 2.0.0.")],
    playbook: PlaybookName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Label a playbook with a version. Versions never move.

    JSON: ref, playbook, version, because, by, at, dry_run.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        ref = space.library.version(series, number, options.kept(space, playbook, because), because=because)
    _show_ref(ref, dry_run, as_json)


@app.command()
def branch(
    name: Annotated[str, typer.Argument(metavar="BRANCH", help="What to begin; nothing, or list, shows all.")] = "list",
    start: Annotated[str | None, typer.Argument(metavar="PLAYBOOK", help="Where it begins.")] = None,
    because: Annotated[str | None, typer.Option("--because", metavar="REASON", help="Why; it is recorded.")] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Begin a line of work at a playbook, or list them all with their states.

    JSON: ref, playbook, version, because, by, at, dry_run.
    JSON of the list: branches (branch, state, playbook, because, by, at).
    """
    if start is None:
        if name != "list":
            raise typer.BadParameter(f"expected where {name} begins", param_hint="PLAYBOOK")
        with options.opened(workspace) as space:
            _show_branches(space.library.branches(), as_json)
        return
    if because is None:
        raise typer.BadParameter("expected a reason", param_hint="--because")
    with options.opened(workspace, dry_run=dry_run) as space:
        ref = space.library.branch(name, options.kept(space, start, because), because=because)
    _show_ref(ref, dry_run, as_json)


def _show_branches(branches: list[Branch], as_json: bool) -> None:
    from seedbed.storage.store import short

    styles = {"active": "green", "merged": "blue", "archived": "dim", "failed": "red"}
    documents = [
        {
            "branch": each.name,
            "state": each.state,
            "playbook": each.digest,
            "because": each.because,
            "by": each.by,
            "at": each.at,
        }
        for each in branches
    ]
    rows = [
        (
            line((each.name, "bold")),
            line((each.state, styles[each.state])),
            line((short(each.digest), "yellow")),
            each.because,
            each.by,
            output.when(each.at),
        )
        for each in branches
    ]
    table = output.table("branch", "state", "playbook", "because", "by", "at", rows=rows)
    output.show({"branches": documents}, as_json, table if rows else line("no branches yet"))


@app.command()
def archive(
    branch: BranchName,
    because: Because,
    failed: Annotated[bool, typer.Option("--failed", help="It led nowhere, and that shall be known.")] = False,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """End a branch. Its name is free again and its history stays.

    JSON: branch, state, dry_run.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        state = "failed" if failed else "archived"
        space.library.close(branch, "failed" if failed else "archived", because=because)
    document = {"branch": branch, "state": state, "dry_run": dry_run}
    output.show(document, as_json, _done(f"{state} branch {branch}", dry_run))


@app.command()
def tag(
    playbook: PlaybookName,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="To find it by.")] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Attach words to a playbook, or show those it has.

    JSON: playbook, tags, dry_run.
    """
    from seedbed.storage.store import short

    with options.opened(workspace, dry_run=dry_run) as space:
        digest = options.kept(space, playbook, "tagged") if words else space.playbook(playbook).digest
        if words:
            space.library.tag(digest, *words)
        tags = space.library.tags(digest)
    told = f"{short(digest)}: {', '.join(tags) or 'no tags'}"
    output.show({"playbook": digest, "tags": tags, "dry_run": dry_run}, as_json, line(told))
