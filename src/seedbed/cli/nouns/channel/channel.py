"""seedbed channel: what is served, and how it came there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.nouns.channel import drill, watch
from seedbed.cli.options import AsJson, Because, DryRun, WorkspaceFile
from seedbed.cli.output import line, when

if TYPE_CHECKING:
    from seedbed.storage.store import Json, Ref
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name, such as production.")]


def _share(written: str) -> float:
    from seedbed.settings.values import A_SHARE, share

    if (value := share(written)) is None:
        raise typer.BadParameter(f'found "{written}"; expected {A_SHARE}')
    return value


Share = Annotated[
    float | None,
    typer.Option("--share", metavar="SHARE", parser=_share, help="For how many of those served, such as 5%."),
]


def show_channel(ref: Ref, told: str, dry_run: bool, as_json: bool) -> None:
    """What a move made of a channel."""
    from seedbed.cli.views import lineage

    target = ref.target if isinstance(ref.target, dict) else {"stable": ref.target}
    channel = ref.name.removeprefix("channels/")
    document: Json = {
        "channel": channel,
        "playbook": target["stable"],
        "canary": target.get("canary"),
        "frozen": target.get("frozen", False),
        "version": ref.version,
        "because": ref.because,
        "by": ref.by,
        "at": ref.at,
        "dry_run": dry_run,
    }
    mark = ("would pass: ", "yellow") if dry_run else ("✓ ", "bold green")
    output.show(document, as_json, line(mark, f"{channel} {told} {lineage.target(target)}"))


def _channels(space: Workspace) -> list[str]:
    """Those with protection in the workspace file, and those something was released to."""
    moved = [ref.name.removeprefix("channels/") for ref in space.store.refs("channels/")]
    return list(dict.fromkeys([*space.settings.channels, *moved]))


def _document(space: Workspace, channel: str) -> Json:
    from seedbed.cli.views import run as views
    from seedbed.errors import NotFound, shown
    from seedbed.release.channels import seen_by_canary, state
    from seedbed.release.gates.registry import build_gates
    from seedbed.release.ramp import build_ramp

    if channel not in _channels(space):
        known = ", ".join(_channels(space)) or "none yet"
        raise NotFound(f"no channel {shown(channel)}. Channels: {known}")
    protection = space.settings.channel(channel)
    build_gates(channel, protection)
    steps, now = build_ramp(protection), state(space.store, channel)
    canary = {"playbook": now.canary.playbook, "share": now.canary.share} if now.canary else None
    ref = space.store.ref(f"channels/{channel}")
    return {
        "channel": channel,
        "playbook": views.served(ref) if ref else None,
        "canary": canary and {**canary, "runs": seen_by_canary(space.store, channel)},
        "frozen": now.frozen,
        "version": ref.version if ref else 0,
        "because": ref.because if ref else "",
        "by": ref.by if ref else "",
        "at": ref.at if ref else None,
        "require": [gate.written for gate in protection.require],
        "ramp": {"shares": steps.shares, "hold": steps.hold, "approval": steps.approval},
        "standing": now.standing,
    }


def _told(channel: Json) -> str:
    from seedbed.cli.views import lineage

    return lineage.target({**channel, "stable": channel["playbook"]})


@app.command("list")
def list_channels(workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Show all channels and what they serve.

    JSON: channels (channel, playbook, canary, frozen, version, because, by, at, require, ramp, standing).
    """
    with options.opened(workspace) as space:
        found = [_document(space, name) for name in _channels(space)]
    rows = [
        (
            line((each["channel"], "bold")),
            line((_told(each), "yellow")) if each["playbook"] else "nothing yet",
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

    JSON: channel, playbook, canary (playbook, share, and runs at that share), frozen, version, because, by, at,
    require, ramp (shares, hold, approval), standing (releases that a rollback can return to, oldest first).
    """
    with options.opened(workspace) as space:
        found = _document(space, channel)
    pairs = [
        ("channel", channel),
        ("serves", _told(found) if found["playbook"] else "nothing yet"),
        ("because", found["because"]),
        ("since", f"{when(found['at'])}, by {found['by']}" if found["at"] else ""),
        ("gates", ", ".join(map(str, found["require"])) or "none: everything passes"),
        ("ramp", _steps(found)),
        ("rollback", _back(found)),
    ]
    output.show(found, as_json, output.facts(pairs))


def _steps(channel: Json) -> str:
    from seedbed.release.states import percent

    shares, canary = channel["ramp"]["shares"], channel["canary"]
    held = f", {channel['ramp']['hold']} runs each" if channel["ramp"]["hold"] else ""
    last = ", the last by another person" if channel["ramp"]["approval"] else ""
    seen = f"; {canary['runs']} runs of the canary so far" if canary else ""
    return f"{', '.join(map(percent, shares)) or 'all at once'}{held}{last}{seen}"


def _back(channel: Json) -> str:
    from seedbed.storage.store import short

    if channel["canary"]:
        return f"takes the canary {short(channel['canary']['playbook'])} away"
    past = channel["standing"]
    return f"returns to {short(past[-2])}" if len(past) > 1 else "nothing to return to"


@app.command()
def promote(
    channel: ChannelName,
    because: Because,
    share: Share = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give the canary of a channel its next share; after the last it is what the channel serves.

    JSON: channel, playbook, canary (playbook, share), frozen, version, because, by, at, dry_run. Exit code 1 if it may
    not be yet.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        moved = options.complete(space.promote(channel, because=because, share=share))
    show_channel(moved, "now serves", dry_run, as_json)


@app.command()
def freeze(
    channel: ChannelName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a channel move no more, but back: the emergency stop.

    JSON: channel, playbook, canary, frozen, version, because, by, at, dry_run.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        moved = options.complete(space.freeze(channel, because=because))
    show_channel(moved, "stays at", dry_run, as_json)


@app.command()
def unfreeze(
    channel: ChannelName,
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a frozen channel move again.

    JSON: channel, playbook, canary, frozen, version, because, by, at, dry_run.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        moved = options.complete(space.unfreeze(channel, because=because))
    show_channel(moved, "may move again from", dry_run, as_json)


@app.command()
def assign(
    channel: ChannelName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Who would be served, such as a user's name.")],
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show which playbook somebody meets on a channel. Nothing is written down.

    JSON: channel, key, arm, playbook, share, propensity, version. The arm is stable, control or canary.
    """
    from seedbed.release.assignment import Reader, assign
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        serving = options.complete(Reader(space.library, channel).read())
    found = assign(serving, key)
    document = {
        "channel": channel,
        "key": key,
        "arm": found.arm,
        "playbook": found.playbook.digest,
        "share": found.share,
        "propensity": found.propensity,
        "version": found.version,
    }
    output.show(document, as_json, line((key, "bold"), f" meets {short(found.playbook.digest)}, as {found.arm}"))


@app.command()
def log(
    channel: ChannelName,
    markdown: Annotated[bool, typer.Option("--markdown", help="A table to paste into a merge request.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show every move of a channel, newest first.

    JSON: ref, moves (to, from, because, by, at).
    """
    from seedbed.cli.views import lineage

    with options.opened(workspace) as space:
        name = lineage.ref_name(space.store, f"channels/{channel}")
        moves = [*space.library.history(name)]
    if as_json or not markdown:
        lineage.show_moves(name, moves, as_json)
        return
    typer.echo(f"| at | how | from | to | because | gates | by |\n|{'---|' * 7}")
    for each in map(lineage.move_document, moves):
        because = " ".join(each["because"].replace("|", "\\|").split())
        cells = [when(each["at"]), each["to"]["how"], lineage.target(each["from"]), lineage.target(each["to"])]
        typer.echo(f"| {' | '.join([*cells, because, _gates(each['to']), each['by']])} |")


def _gates(target: Json) -> str:
    """By which gates a release was let pass."""
    if "require" not in target:
        return ""
    return ", ".join(each if isinstance(each, str) else next(iter(each)) for each in target["require"]) or "none"


app.add_typer(drill.app)
app.add_typer(watch.app)
