"""The command line: five verbs do the work, the nouns look things up."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated

import typer
from typer.main import get_command

from seedbed.cli.calling import call
from seedbed.cli.nouns import (
    alerts,
    confirm,
    dataset,
    evidence,
    experiment,
    judge,
    model,
    review,
    search,
    sessions,
    store,
)
from seedbed.cli.nouns.channel import channel
from seedbed.cli.nouns.playbook import playbook
from seedbed.cli.nouns.runs import runs
from seedbed.cli.start import demo, init
from seedbed.cli.verbs import run as verbs

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.add_typer(init.app)
app.add_typer(demo.app)
app.add_typer(verbs.app)
for noun, commands, told in (
    ("playbook", playbook.app, "Keep, name, find, compare and merge playbooks."),
    ("runs", runs.app, "What happened."),
    ("sessions", sessions.app, "What an agent did elsewhere, by its own history."),
    ("dataset", dataset.app, "Tasks and their expected answers."),
    ("judge", judge.app, "Models that judge, and how far they agree with people."),
    ("model", model.app, "Who speaks."),
    ("channel", channel.app, "What is served, and how it came there."),
    ("review", review.app, "Who asked for one, what there is to look at, and yes or no."),
    ("alerts", alerts.app, "What people were told about channels, and whether it reached them."),
    ("confirm", confirm.app, "What runs wait to be allowed, and yes or no."),
    ("search", search.app, "What was searched for, and what was found."),
    ("experiment", experiment.app, "What was compared, and how it stands."),
    ("evidence", evidence.app, "Check verdicts, and how far they can be trusted."),
    ("store", store.app, "Verify, copy, measure and clean the store."),
):
    app.add_typer(commands, name=noun, help=told, rich_help_panel="Nouns look things up")


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Run LLM agents, evolve better ones, prove that they are better, release them safely.

    Begin with `seedbed demo`, which shows the whole loop, or `seedbed init`.

    Exit codes: 0 passed, 1 refused or something wrong, 2 not decided, 64 called wrongly, 130 interrupted.
    """
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"seedbed {installed('seedbed')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


command = cache(lambda: get_command(app))
"""All commands, read from their functions once: that takes a tenth of a second."""


def main(arguments: Sequence[str]) -> int:
    return call(command(), arguments)


def run() -> None:
    # A stream that cannot write ✓ writes \u2713, as the error stream does, instead of failing.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main(sys.argv[1:]))
