"""seedbed channel: what is served, and how it came there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Because, DryRun, PlaybookName, WorkspaceFile
from seedbed.cli.output import line, when

if TYPE_CHECKING:
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name, such as production.")]


def _channels(space: Workspace) -> list[str]:
    """Those with protection in the workspace file, and those something was released to."""
    moved = [ref.name.removeprefix("channels/") for ref in space.store.refs("channels/")]
    return list(dict.fromkeys([*space.settings.channels, *moved]))


def _document(space: Workspace, channel: str) -> Json:
    from seedbed.cli import views
    from seedbed.errors import NotFound, shown
    from seedbed.release.channels import settled
    from seedbed.release.protection import DEFAULT, required

    if channel not in _channels(space):
        known = ", ".join(_channels(space)) or "none yet"
        raise NotFound(f"no channel {shown(channel)}. Channels: {known}")
    protection = space.settings.channels.get(channel, {})
    required(channel, protection)
    ref = space.store.ref(f"channels/{channel}")
    return {
        "channel": channel,
        "playbook": views.served(ref) if ref else None,
        "version": ref.version if ref else 0,
        "because": ref.because if ref else "",
        "by": ref.by if ref else "",
        "at": ref.at if ref else None,
        "require": protection.get("require", list(DEFAULT)),
        "standing": settled(space.store, channel),
    }


@app.command("list")
def list_channels(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show all channels and what they serve.

    JSON: channels (channel, playbook, version, because, by, at, require, standing).
    """
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        found = [_document(space, name) for name in _channels(space)]
    rows = [
        (
            line((each["channel"], "bold")),
            line((short(each["playbook"]), "yellow")) if each["playbook"] else "nothing yet",
            each["because"],
            each["by"],
            when(each["at"]) if each["at"] else "",
        )
        for each in found
    ]
    table = output.table("channel", "serves", "because", "by", "since", rows=rows)
    output.show({"channels": found}, as_json, table if rows else line("no channels yet"))


@app.command()
def show(channel: ChannelName, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show what a channel serves, its gates, and what a rollback would return to.

    JSON: channel, playbook, version, because, by, at, require, standing (releases that a rollback can return to,
    oldest first).
    """
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        found = _document(space, channel)
    past = found["standing"]
    pairs = [
        ("channel", channel),
        ("serves", short(found["playbook"]) if found["playbook"] else "nothing yet"),
        ("because", found["because"]),
        ("since", f"{when(found['at'])}, by {found['by']}" if found["at"] else ""),
        ("gates", ", ".join(map(str, found["require"])) or "none: everything passes"),
        ("rollback", f"returns to {short(past[-2])}" if len(past) > 1 else "nothing to return to"),
    ]
    output.show(found, as_json, output.facts(pairs))


@app.command()
def log(
    channel: ChannelName,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table to paste into a merge request.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show every release and rollback of a channel, newest first.

    JSON: ref, moves (to, from, because, by, at).
    """
    from seedbed.cli import lineage

    with options.opened(workspace) as space:
        name = lineage.ref_name(space.store, f"channels/{channel}")
        moves = [*space.library.history(name)]
    if as_json or not markdown:
        lineage.show_moves(name, moves, as_json)
        return
    typer.echo(f"| at | how | from | to | because | by |\n|{'---|' * 6}")
    for each in map(lineage.move_document, moves):
        because = " ".join(each["because"].replace("|", "\\|").split())
        cells = [when(each["at"]), each["to"]["how"], lineage.target(each["from"]), lineage.target(each["to"])]
        typer.echo(f"| {' | '.join([*cells, because, each['by']])} |")


@app.command()
def approve(
    channel: ChannelName,
    playbook: PlaybookName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Say yes to a playbook of somebody else, for channels whose gates require a review.

    JSON: channel, playbook, because, by, at, dry_run.
    """
    from seedbed.release import review
    from seedbed.storage.store import short

    with options.opened(workspace, dry_run=dry_run) as space:
        digest = space.playbook(playbook).digest
        fact = review.approve(space.library, channel, digest, because=because)
    document = {"channel": channel, "playbook": digest, "because": because, "by": fact.by, "at": fact.at}
    mark = ("would have: ", "yellow") if dry_run else ("✓ ", "bold green")
    told = f"{fact.by} approved {short(digest)} for {channel}"
    output.show({**document, "dry_run": dry_run}, as_json, line(mark, told))
