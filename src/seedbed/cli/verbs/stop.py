"""seedbed stop: halt every run, search and job of a workspace, or let them go on."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.cli.command import Invocation, command

app = typer.Typer(add_completion=False)


@command(app, dry_run=True)
def stop(
    call: Invocation,
    because: Annotated[str, typer.Option("--because", metavar="TEXT", help="The reason for stopping.")] = "",
    lift: Annotated[bool, typer.Option("--lift", help="Allow runs again.")] = False,
) -> None:
    """Halt every run, search and job in the workspace at its next call to a model or a tool, on all machines.

    Runs fail with the reason given and can be resumed after `seedbed stop --lift`.
    """
    with call.open() as space:
        done = space.stop(because=because, lift=lift)
    document = {"stopped": not lift, "because": because, "by": done.by, "at": done.at}
    text = "runs can start again" if lift else f"every run stops at its next call: {because}"
    call.done(document, text)
