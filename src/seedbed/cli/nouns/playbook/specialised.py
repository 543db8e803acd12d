"""seedbed playbook specialise, rebase, base, specialised: playbooks for one corpus and one kind of task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.padding import Padding

from seedbed.cli import options
from seedbed.cli.command import Invocation, command
from seedbed.cli.options import Because
from seedbed.cli.output import BLOCKED, Column, line
from seedbed.cli.views.playbook import change_document, change_view
from seedbed.errors import MergeClash, shown
from seedbed.playbooks.changes import Change
from seedbed.playbooks.merging import Clash, Unresolved
from seedbed.playbooks.specialised import RebaseResult, SpecialisedPlaybook
from seedbed.reports.numbers import counted
from seedbed.storage.store import Json, short
from seedbed.workspace import Workspace
from seedbed.workspace.nouns.playbooks import RESOLVERS, AnyResolver
from seedbed.workspace.resources import is_playbook_file

app = typer.Typer()

SpecialisedName = Annotated[
    str, typer.Argument(metavar="NAME", help="A corpus and a kind of task: law/qa or corpora/law/qa.")
]


COLUMNS = (
    Column("playbook", lambda each: line((each["name"], "bold"))),
    Column("base", lambda each: each["base"]),
    Column("own changes", lambda each: len(each["changes"]), 2, True),
    Column("distance", lambda each: f"{each['distance']:.3f}", 3, True),
    Column("base since then", lambda each: _base_state(each), flexible=True),
)


@command(app, dry_run=True)
def specialise(
    call: Invocation,
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="The base to inherit from: a branch, a channel or another ref.")
    ],
    name: Annotated[str, typer.Argument(metavar="CORPUS/TASK", help="Its corpus and kind of task, such as law/qa.")],
    because: Because,
) -> None:
    """Create a playbook for one corpus and one kind of task from a base.

    It gets the ref corpora/CORPUS/TASK and changes independently from then on. An existing playbook is left unchanged.
    """
    if is_playbook_file(base):
        remedy = f"Run: seedbed playbook name main {base} --because REASON"
        raise typer.BadParameter(f"found a file; expected a name that can move. {remedy}", param_hint="BASE")
    with call.open() as space:
        result = space.playbooks.specialise(base, name, because=because)
    call.done(_document(result), f"{result.name} is at {short(result.playbook)} and inherits from {result.base}")


@command(app, dry_run=True)
def rebase(
    call: Invocation,
    name: SpecialisedName,
    because: Annotated[str, typer.Option("--because", metavar="REASON", help="The reason to record.")] = "",
    take: Annotated[
        list[str] | None,
        typer.Option(
            "--take",
            metavar="WHAT",
            help="Resolve clashes: ours (the specialised side), theirs (the base) or mean for all; PATH=ours, "
            "PATH=theirs, PATH=mean or PATH=VALUE for one. Can be repeated; values with a path take precedence.",
        ),
    ] = None,
    onto: Annotated[str | None, typer.Option("--onto", metavar="BASE", help="A new base to inherit from.")] = None,
) -> None:
    """Merge the current base into a specialised playbook with a three-way merge.

    Changes made on only one side are kept; values that both sides changed differently clash, and you resolve them with
    --take. For rules, thresholds and locks, the stricter side wins.

    Exits with code 1 if anything clashes, in which case nothing is changed.
    """
    resolvers, by_path = _resolvers(take or ())
    clashes: list[Clash] = []

    def collect(clash: Clash) -> None:
        clashes.append(clash)
        raise Unresolved

    with call.open() as space:
        try:
            result = space.playbooks.rebase(
                name, because=because, resolvers=[*resolvers, collect], by_path=by_path, onto=onto
            )
        except MergeClash:
            if not clashes:  # the union of both is not a valid playbook
                raise
            known = space.playbooks.find_specialised(name)
            result = RebaseResult(known, known)
        document, views = _rebased(call, space, result, clashes)
    call.show({**document, "dry_run": call.dry_run}, *views)
    if clashes:
        raise typer.Exit(BLOCKED)


@command(app, dry_run=True)
def base(call: Invocation, name: SpecialisedName, because: Because) -> None:
    """Return a specialised playbook to its base. `playbook log --moves` still shows its history."""
    with call.open() as space:
        result = space.playbooks.back_to_base(name, because=because)
    after, before = result.after, result.before
    document = {**_document(after), "before": before.playbook}
    if before == after:
        call.show({**document, "dry_run": call.dry_run}, line(f"{after.name} is already at its base"))
    else:
        text = f"{after.name} is at its base {after.base}, {short(after.playbook)}; it was at {short(before.playbook)}"
        call.done(document, text)


@command(app, "specialised")
def list_specialised(
    call: Invocation,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="List only this kind of task, such as qa.")] = None,
) -> None:
    """List specialised playbooks, how far each is from its base, and whether that base has moved."""
    with call.open() as space:
        playbooks = [{**_document(each), **distances} for each, distances in space.playbooks.specialised(task)]
    call.list("specialised", playbooks, COLUMNS, "No specialised playbooks yet.")


def _resolvers(take: Iterable[str]) -> tuple[list[AnyResolver], dict[str, AnyResolver]]:
    """What --take says: for all clashes, and for those of single paths."""
    resolvers: list[AnyResolver] = [each for each in take if each in RESOLVERS]
    pairs = [each for each in take if each not in RESOLVERS]
    for each in pairs:
        if each.find("=") < 1:
            expected = f"expected {', '.join(RESOLVERS)}, or a PATH with = and one of these or a value"
            raise typer.BadParameter(f"found {each!r}; {expected}", param_hint="--take")
    texts, values = options.texts(pairs, "--take"), options.assignments(pairs, "--take")
    by_path: dict[str, AnyResolver] = {
        path: text if text in RESOLVERS else {path: values[path]} for path, text in texts.items()
    }
    return resolvers, by_path


def _document(of: SpecialisedPlaybook) -> Json:
    return {
        "name": of.name,
        "playbook": of.playbook,
        "base": of.base,
        "inherited": of.inherited,
        "current": of.current,
        "behind": of.behind,
    }


def _base_state(document: Json) -> RenderableType:
    if document["current"] is None:
        return line(("its name is gone", "bold red"))
    if not document["behind"]:
        return line(("has not moved", "dim"))
    changes = counted(len(document["base_changes"]), "change")
    return line((f"{changes}: seedbed playbook rebase {document['name']}", "yellow"))


def _rebased(
    call: Invocation, space: Workspace, result: RebaseResult, clashes: list[Clash]
) -> tuple[Json, list[RenderableType]]:
    before, after = result.before, result.after
    changes = space.playbooks.diff(before.playbook, after.playbook)
    document = {
        **_document(after),
        "before": before.playbook,
        "changes": [change_document(change) for change in changes],
        "clashes": [_clash_document(clash) for clash in clashes],
        "settled": [_clash_document(clash) for clash in result.settled],
        "stricter": [{"path": each.path, "wanted": each.before, "stays": each.after} for each in result.stricter],
    }
    if clashes:
        return document, list(_clash_views(after, clashes))
    if before == after:
        return document, [line(f"{after.base} has not moved: nothing to do")]
    settled = f", {counted(len(result.settled), 'clash', 'clashes')} settled" if result.settled else ""
    mark = ("dry run: ", "yellow") if call.dry_run else ("✓ ", "bold green")
    text = line(mark, f"{after.name} is at {short(after.playbook)}, on top of {after.base}{settled}")
    return document, [text, *map(change_view, changes), *map(_stricter_view, result.stricter)]


def _clash_document(clash: Clash) -> Json:
    return {"path": clash.path, "base": clash.base, "ours": clash.ours, "theirs": clash.theirs}


def _clash_views(known: SpecialisedPlaybook, clashes: list[Clash]) -> Iterable[RenderableType]:
    """Both sides of each clash, each by what it changed."""
    count = counted(len(clashes), "clash", "clashes")
    yield line(("✗ ", "bold red"), f"{count} between {known.name} and {known.base}; nothing was changed")
    for clash in clashes:
        for side, value in (("ours", clash.ours), ("theirs", clash.theirs)):
            yield line((f"  {side}", "bold"))
            yield Padding(change_view(Change(clash.path, clash.base, value)), (0, 0, 0, 4))
    yield line(("Resolve them with --take ours, --take theirs, or --take PATH=VALUE for a single one.", "dim"))


def _stricter_view(change: Change) -> RenderableType:
    wanted, stays = ("nothing" if value is None else shown(value) for value in (change.before, change.after))
    return line(("! ", "bold yellow"), f"{change.path}: {wanted} was proposed, but the stricter {stays} is kept")
