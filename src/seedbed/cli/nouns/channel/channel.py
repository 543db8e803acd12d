"""seedbed channel: what is served, and how it came there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from seedbed.cli import output, progress
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.nouns.channel import watch
from seedbed.cli.nouns.channel.watch import NO_GUARDS
from seedbed.cli.options import Because, CanaryShare, ChannelName, DatasetName, MetricName, RealTools, read_share
from seedbed.cli.output import Column, line, when
from seedbed.cli.views import lineage
from seedbed.cli.views import run as run_views
from seedbed.cli.views.lineage import show_channel
from seedbed.release.states import percent
from seedbed.reports.numbers import counted
from seedbed.storage.store import Json, short
from seedbed.workspace.nouns.channels import Channels

app = typer.Typer(no_args_is_help=True)


def _serves(channel: Json) -> str:
    return lineage.target_text({**channel, "stable": channel["playbook"]}) if channel["playbook"] else "nothing yet"


COLUMNS = (
    Column("channel", lambda each: line((each["channel"], "bold"))),
    Column("serves", lambda each: line((_serves(each), "yellow" if each["playbook"] else ""))),
    Column("because", lambda each: each["because"], flexible=True, drop=1),
    Column("by", lambda each: each["by"], drop=3),
    Column("since", lambda each: when(each["at"]) if each["at"] else "", drop=2),
)


@command(app, "list")
def list_channels(call: Invocation) -> None:
    """List all channels and what they serve."""
    with call.open() as space:
        channels = [space.channels.show(name) for name in space.channels.names()]
    call.list("channels", channels, COLUMNS, "No channels yet.")


@command(app)
def show(call: Invocation, channel: ChannelName) -> None:
    """Show what a channel serves, its gates, and what a rollback would restore."""
    with call.open() as space:
        state = space.channels.show(channel)
    pairs = [
        ("channel", channel),
        ("serves", _serves(state)),
        ("because", state["because"]),
        ("since", f"{when(state['at'])}, by {state['by']}" if state["at"] else ""),
        ("gates", ", ".join(map(str, state["require"])) or "none: everything passes"),
        ("ramp", _ramp(state)),
        ("rollback", _rollback(state)),
    ]
    call.show(state, output.facts(pairs))


def _ramp(channel: Json) -> str:
    shares, canary = channel["ramp"]["shares"], channel["canary"]
    hold = f", {counted(channel['ramp']['hold'], 'run')} each" if channel["ramp"]["hold"] else ""
    last = ", the last one by another person" if channel["ramp"]["approval"] else ""
    seen = f"; {canary['runs']} runs of the canary so far" if canary else ""
    return f"{', '.join(map(percent, shares)) or 'all at once'}{hold}{last}{seen}"


def _rollback(channel: Json) -> str:
    if channel["canary"]:
        return f"removes the canary {short(channel['canary']['playbook'])}"
    past = channel["standing"]
    return f"returns to {short(past[-2])}" if len(past) > 1 else "nothing to return to"


@command(app, dry_run=True)
def promote(call: Invocation, channel: ChannelName, because: Because, share: CanaryShare = None) -> None:
    """Raise a channel's canary to the next share of its ramp; after the last one, it serves all users.

    Exits with code 1 if it cannot be promoted yet.
    """
    with call.open() as space:
        ref = wait_for(space.channels.promote(channel, because=because, share=share))
    show_channel(call, ref, "now serves")


def _moving(name: str, move: Callable[..., Any], verb: str, summary: str) -> None:
    """Declare a command that moves a channel for a reason alone."""

    def moved(call: Invocation, channel: ChannelName, because: Because) -> None:
        with call.open() as space:
            ref = wait_for(move(space.channels, channel, because=because))
        show_channel(call, ref, verb)

    moved.__doc__ = summary
    command(app, name, dry_run=True)(moved)


_moving("freeze", Channels.freeze, "stays at", "In an emergency, block every change to a channel except rollbacks.")
_moving("unfreeze", Channels.unfreeze, "is unfrozen at", "Allow changes to a frozen channel again.")


@command(app)
def assign(
    call: Invocation,
    channel: ChannelName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The user's key, such as a user name.")],
) -> None:
    """Show which playbook a user gets on a channel. Nothing is recorded.

    The result includes the user's arm: stable, control or canary.
    """
    with call.open() as space:
        choice = wait_for(space.channels.assignment(channel, key))
    document = {
        "channel": channel,
        "key": key,
        "arm": choice.arm,
        "playbook": choice.playbook.digest,
        "share": choice.share,
        "propensity": choice.propensity,
        "version": choice.version,
    }
    call.show(document, line((key, "bold"), f" gets {short(choice.playbook.digest)}, as {choice.arm}"))


@command(app)
def log(
    call: Invocation,
    channel: ChannelName,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table to paste into a merge request.")] = False,
) -> None:
    """Show every change to a channel, newest first."""
    with call.open() as space:
        name, moves = space.playbooks.moves(f"channels/{channel}")
    if call.as_json or not markdown:
        lineage.show_moves(call, name, moves)
        return
    typer.echo(f"| at | how | from | to | because | gates | by |\n|{'---|' * 7}")
    for each in map(lineage.move_document, moves):
        because = " ".join(each["because"].replace("|", "\\|").split())
        cells = [
            when(each["at"]),
            each["to"]["how"],
            lineage.target_text(each["from"]),
            lineage.target_text(each["to"]),
        ]
        typer.echo(f"| {' | '.join([*cells, because, _gates(each['to']), each['by']])} |")


def _gates(target: Json) -> str:
    """The gates that let a release pass."""
    if "require" not in target:
        return ""
    return ", ".join(each if isinstance(each, str) else next(iter(each)) for each in target["require"]) or "none"


@command(app, dry_run=True)
def drill(
    call: Invocation,
    channel: ChannelName,
    dataset: DatasetName,
    units: Annotated[
        int, typer.Option("--units", min=1, help="How many users to simulate, each with their own key.")
    ] = 100,
    first: Annotated[int, typer.Option("--first", min=1, help="The number to start counting users from.")] = 1,
    metric: MetricName = "exact_match",
    real_tools: RealTools = False,
) -> None:
    """Send tasks to a channel as users would, and rate the answers, to test its ramp and guards.

    Each simulated user gets the playbook that the channel serves for their key, and everything is recorded as for real
    users, so do not drill a channel that has any. After the last task, the drill starts over with the first.
    """
    with call.open(real_tools=real_tools) as space, progress.counting("users") as watch:
        if call.dry_run:
            expected = space.runs.estimate(channel, units)
            call.show(expected.document(), run_views.estimate_line(expected))
            return
        result = wait_for(
            space.channels.drill(
                channel,
                space.datasets.get(dataset),
                range(first, first + units),
                space.scorecards.metric(metric),
                lambda done: watch(done, units),
            )
        )
    served = [(name, times, result.good[name]) for name, times in result.met.most_common()]
    rows = [(short(name), f"{times:,}", f"{good / times:.1%}") for name, times, good in served]
    listed = [{"playbook": name, "units": times, "good": good} for name, times, good in served]
    document = {"channel": channel, "units": units, "failed": result.failed, "met": listed}
    call.show(document, output.table("served", "users#", "good#", rows=rows))


@command(app)
def plan(
    call: Invocation,
    channel: ChannelName,
    share: CanaryShare = None,
    base: Annotated[
        list[float] | None,
        typer.Option(
            "--base",
            metavar="SHARE",
            parser=read_share,
            help="The stable playbook's share of bad outcomes. Repeat for several. Default: 1%, 2%, 5%, 10%.",
        ),
    ] = None,
    worse: Annotated[
        float, typer.Option("--worse", metavar="TIMES", help="How much worse: this many times the guard's limit.")
    ] = 1.5,
) -> None:
    """Show how many canary outcomes each guard needs to catch a worse canary.

    With that many outcomes, the guard catches it in 9 cases out of 10. Every outcome is assumed to be either good or
    bad; graded ones, such as times, need fewer. The share defaults to the canary's, then to the first step of the ramp,
    then to 5%.
    """
    with call.open() as space:
        planned = space.channels.plan(channel, share=share, bases=base or (), worse=worse)
    against = f"each outcome is compared with {counted(planned.controls, 'outcome')} of its control"
    rows = [
        (
            line((need.guard.metric, "bold"), f" {need.guard.action}"),
            f"{need.guard.by:+g}",
            f"{need.base:g}",
            f"{need.change:+g}",
            "never" if need.outcomes is None else f"{need.outcomes:,}",
        )
        for need in planned.needs
    ]
    columns = ("guard", "limit#", "stable at#", "canary#", "outcomes needed#")
    table = output.table(*columns, rows=rows) if rows else line((NO_GUARDS, "dim"))
    call.show(planned.document(), line((channel, "bold"), f"  canary at {percent(planned.share)}: {against}"), table)


app.add_typer(watch.app)
