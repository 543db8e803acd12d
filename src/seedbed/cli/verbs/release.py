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
    to: Annotated[str, typer.Option("--to", metavar="CHANNEL", help="The channel to serve it from.")],
    because: Annotated[
        str,
        typer.Option("--because", metavar="REASON", help="Why: a text, or the digest of an experiment as evidence."),
    ] = "",
    share: CanaryShare = None,
    changes: Changes = None,
) -> None:
    """Put a playbook on a channel, if the channel's gates let it pass.

    The evidence is the experiment that --because names, or the newest about this playbook and the one served now.
    With a share, or on a channel with a ramp, it is a canary at first: `channel promote` gives it more.

    Exit code 1 with every refusal if the gates refuse.
    """
    with call.open() as space:
        chosen = space.playbooks.get(playbook, options.assignments(changes))
        ref = wait_for(space.release(chosen, to=to, because=because, share=share))
    show_channel(call, ref, "now serves")


@command(rollback_app, dry_run=True)
def rollback(call: Invocation, channel: ChannelName, because: Because) -> None:
    """Take the canary of a channel away; without one, return to what it served before. No gate can forbid it."""
    with call.open() as space:
        ref = wait_for(space.rollback(channel, because=because))
    show_channel(call, ref, "is back at")
