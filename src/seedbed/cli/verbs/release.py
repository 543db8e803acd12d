"""seedbed release and rollback: put a playbook on a channel, and take it back."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.cli import options
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import Because, CanaryShare, Changes, ChannelName, PlaybookName
from seedbed.cli.views.lineage import show_channel

app = typer.Typer(add_completion=False)
rollback_app = typer.Typer(add_completion=False)


@command(app, dry_run=True)
def release(
    call: Invocation,
    playbook: PlaybookName,
    to: Annotated[str, typer.Option("--to", metavar="CHANNEL", help="The channel to release it to.")],
    because: Annotated[
        str,
        typer.Option(
            "--because", metavar="REASON", help="The reason: free text, or an experiment's digest as evidence."
        ),
    ] = "",
    share: CanaryShare = None,
    changes: Changes = None,
) -> None:
    """Release a playbook to a channel, subject to the channel's gates.

    The evidence is the experiment named by --because, or the newest one that compares this playbook with the one
    currently served. With --share, or on a channel with a ramp, the playbook starts as a canary; `channel promote`
    raises its share.

    Exits with code 1 if any gate refuses, and lists every refusal.
    """
    with call.open() as space:
        chosen = space.playbooks.get(playbook, options.assignments(changes))
        ref = wait_for(space.release(chosen, to=to, because=because, share=share))
    show_channel(call, ref, "now serves")


@command(rollback_app, dry_run=True)
def rollback(call: Invocation, channel: ChannelName, because: Because) -> None:
    """Remove a channel's canary or, if it has none, return to the playbook served before. No gate can block this."""
    with call.open() as space:
        ref = wait_for(space.rollback(channel, because=because))
    show_channel(call, ref, "is back at")
