"""seedbed playbook specialise, rebase, base, specialised: playbooks for one corpus and one kind of task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Because, DryRun, WorkspaceFile
from seedbed.cli.output import BLOCKED, counted, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.playbooks.changes import Change
    from seedbed.playbooks.library import Library
    from seedbed.playbooks.merging import Clash, Resolver
    from seedbed.playbooks.specialised import Rebased, Specialised
    from seedbed.storage.store import Json

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="A corpus and a kind of task: law/qa, or corpora/law/qa.")]


@app.command()
def specialise(
    base: Annotated[str, typer.Argument(metavar="BASE", help="What it inherits: a branch, a channel, another ref.")],
    name: Annotated[str, typer.Argument(metavar="CORPUS/TASK", help="What it is for, such as law/qa.")],
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Begin a playbook for one corpus and one kind of task, where its base stands.

    It is the ref corpora/CORPUS/TASK, and goes its own way from there. What is there already stays as it is.

    JSON: name, playbook, base, inherited, current, behind, dry_run.
    """
    from seedbed.playbooks import specialised as specialising
    from seedbed.storage.store import short

    if options.is_file(base):
        remedy = f"Run: seedbed playbook name main {base} --because REASON"
        raise typer.BadParameter(f"found a file; expected a name that can move on. {remedy}", param_hint="BASE")
    _, corpus, task = specialising.ref_name(name).split("/")
    with options.opened(workspace, dry_run=dry_run) as space:
        found = specialising.specialise(space.library, corpus, task, base, because=because)
    told = f"{found.name} stands at {short(found.playbook)} and inherits {found.base}"
    output.show({**_document(found), "dry_run": dry_run}, as_json, _done(told, dry_run))


@app.command()
def rebase(
    name: Name,
    because: Annotated[str, typer.Option("--because", metavar="REASON", help="Why; it is recorded.")] = "",
    take: Annotated[
        list[str] | None,
        typer.Option(
            "--take",
            metavar="WHAT",
            help="Settle clashes: ours (the specialised side), theirs (the base) or mean for all, PATH=ours,"
            " PATH=theirs, PATH=mean or PATH=VALUE for one. May be repeated; one with a path decides first.",
        ),
    ] = None,
    onto: Annotated[
        str | None, typer.Option("--onto", metavar="BASE", help="Another base, to inherit from now on.")
    ] = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Bring what its base has become into a specialised playbook: a three-way merge.

    What one side changed is taken; what both changed differently is a clash, and must be settled with --take. Of rules,
    thresholds and locks the stricter of both sides stays.

    JSON: name, playbook, before, base, inherited, current, behind, changes (path, before, after), clashes, settled
    (path, base, ours, theirs), stricter (path, wanted, stays), dry_run.
    Exit code 1 if something clashes: clashes then has its path, base, ours and theirs, and nothing has moved.
    """
    from seedbed.errors import MergeClash
    from seedbed.playbooks import specialised as specialising
    from seedbed.playbooks.merging import Unresolved

    resolvers, by_path = _taken(take or ())
    clashes: list[Clash] = []

    def left(clash: Clash) -> None:
        clashes.append(clash)
        raise Unresolved

    with options.opened(workspace, dry_run=dry_run) as space:
        library = space.library
        try:
            done = specialising.rebase(
                library, name, because=because, resolvers=[*resolvers, left], by_path=by_path, onto=onto
            )
        except MergeClash:
            if not clashes:  # the union of both makes no playbook
                raise
            known = specialising.find(library, name)
            done = specialising.Rebased(known, known)
        document, views = _rebased(library, done, clashes, dry_run)
    output.show({**document, "dry_run": dry_run}, as_json, *views)
    if clashes:
        raise typer.Exit(BLOCKED)


@app.command()
def base(
    name: Name, because: Because, workspace: WorkspaceFile = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Take a specialised playbook back to its base. Where it stood stays in its history: playbook log --moves.

    JSON: name, playbook, before, base, inherited, current, behind, dry_run.
    """
    from seedbed.playbooks import specialised as specialising
    from seedbed.storage.store import short

    with options.opened(workspace, dry_run=dry_run) as space:
        done = specialising.back_to_base(space.library, name, because=because)
    after = done.after
    if done.before == after:
        told: RenderableType = line(f"{after.name} is at its base already")
    else:
        moved = f"{after.name} stands at its base {after.base}, {short(after.playbook)}"
        told = _done(f"{moved}; it stood at {short(done.before.playbook)}", dry_run)
    document = {**_document(after), "before": done.before.playbook, "dry_run": dry_run}
    output.show(document, as_json, told)


@app.command("specialised")
def list_specialised(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="Of one kind of task only, such as qa.")] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the specialised playbooks: how far each is from what it inherits, and whether its base has moved.

    JSON: specialised (name, playbook, base, inherited, current, behind, distance, changes, base_changes).
    """
    from seedbed.playbooks import specialised as specialising

    with options.opened(workspace) as space:
        library = space.library
        found = [_distances(library, each) for each in specialising.all_specialised(library, task)]
    rows = [
        (line((each["name"], "bold")), each["base"], str(len(each["changes"])), f"{each['distance']:.3f}", _news(each))
        for each in found
    ]
    table = output.table("playbook", "base", "own changes#", "distance#", "base since then", rows=rows)
    output.show({"specialised": found}, as_json, table if rows else line("no specialised playbooks yet"))


def _taken(take: Iterable[str]) -> tuple[list[Resolver], dict[str, Resolver]]:
    """What --take says: for all clashes, and for those of single paths."""
    from seedbed.playbooks import merging

    sides: dict[str, Resolver] = {"ours": merging.ours, "theirs": merging.theirs, "mean": merging.mean}
    resolvers = [sides[each] for each in take if each in sides]
    pairs = [each for each in take if each not in sides]
    for each in pairs:
        if each.find("=") < 1:
            expected = f"expected {', '.join(sides)}, or a PATH with = and one of these or a value"
            raise typer.BadParameter(f"found {each!r}; {expected}", param_hint="--take")
    said, values = options.texts(pairs, "--take"), options.assignments(pairs, "--take")
    by_path = {path: sides.get(text) or merging.manual({path: values[path]}) for path, text in said.items()}
    return resolvers, by_path


def _done(told: str, dry_run: bool) -> RenderableType:
    return line(("would have: ", "yellow") if dry_run else ("✓ ", "bold green"), told)


def _document(found: Specialised) -> Json:
    return {
        "name": found.name,
        "playbook": found.playbook,
        "base": found.base,
        "inherited": found.inherited,
        "current": found.current,
        "behind": found.behind,
    }


def _distances(library: Library, found: Specialised) -> Json:
    from seedbed.playbooks.changes import diff
    from seedbed.playbooks.genes import distance

    was, own = library.get(found.inherited), library.get(found.playbook)
    news = diff(was, library.get(found.current)) if found.current else []
    return {
        **_document(found),
        "distance": distance(was, own),
        "changes": [change.path for change in diff(was, own)],
        "base_changes": [change.path for change in news],
    }


def _news(found: Json) -> RenderableType:
    if found["current"] is None:
        return line(("its name is gone", "bold red"))
    if not found["behind"]:
        return line(("has not moved", "dim"))
    return line((f"{counted(len(found['base_changes']), 'change')}: seedbed playbook rebase {found['name']}", "yellow"))


def _rebased(library: Library, done: Rebased, clashes: list[Clash], dry_run: bool) -> tuple[Json, list[RenderableType]]:
    from seedbed.cli.views.run import change_document, change_view
    from seedbed.playbooks.changes import diff
    from seedbed.storage.store import short

    before, after = done.before, done.after
    changes = diff(library.get(before.playbook), library.get(after.playbook))
    document = {
        **_document(after),
        "before": before.playbook,
        "changes": [change_document(change) for change in changes],
        "clashes": [_clash_document(clash) for clash in clashes],
        "settled": [_clash_document(clash) for clash in done.settled],
        "stricter": [{"path": each.path, "wanted": each.before, "stays": each.after} for each in done.stricter],
    }
    if clashes:
        return document, list(_clash_views(after, clashes))
    if before == after:
        return document, [line(f"{after.base} has not moved: nothing to do")]
    settled = f", {_counted(len(done.settled))} settled" if done.settled else ""
    told = f"{after.name} stands at {short(after.playbook)}, on top of {after.base}{settled}"
    return document, [_done(told, dry_run), *map(change_view, changes), *map(_stricter_view, done.stricter)]


def _clash_document(clash: Clash) -> Json:
    return {"path": clash.path, "base": clash.base, "ours": clash.ours, "theirs": clash.theirs}


def _clash_views(known: Specialised, clashes: list[Clash]) -> Iterable[RenderableType]:
    """Both sides of each clash, each by what it changed."""
    from rich.padding import Padding

    from seedbed.cli.views.run import change_view
    from seedbed.playbooks.changes import Change

    yield line(("✗ ", "bold red"), f"{_counted(len(clashes))} between {known.name} and {known.base}; nothing has moved")
    for clash in clashes:
        for side, value in (("ours", clash.ours), ("theirs", clash.theirs)):
            yield line((f"  {side}", "bold"))
            yield Padding(change_view(Change(clash.path, clash.base, value)), (0, 0, 0, 4))
    yield line(("Settle with --take ours, --take theirs, or --take PATH=VALUE for one of them.", "dim"))


def _stricter_view(change: Change) -> RenderableType:
    from seedbed.errors import shown

    wanted, stays = ("nothing" if value is None else shown(value) for value in (change.before, change.after))
    return line(("! ", "bold yellow"), f"{change.path}: {wanted} was wanted; the stricter {stays} stays")


def _counted(number: int) -> str:
    return "1 clash" if number == 1 else f"{number:,} clashes"
