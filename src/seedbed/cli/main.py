"""The command line: verbs do the work, nouns look things up. Each command's module is loaded when it is called."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Sequence
from functools import cache, cached_property
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from seedbed import plugins
from seedbed.cli import output
from seedbed.cli.output import BLOCKED, DEFECT, INTERRUPTED, PASS, USAGE, typed_arguments
from seedbed.errors import SeedbedError, in_words, shown

BEGIN, VERBS, NOUNS = "Get started", "Verbs do the work", "Nouns look things up"

COMMANDS = {
    "init": (BEGIN, "start.init", "Create a starter workspace that runs offline."),
    "demo": (BEGIN, "start.demo", "Show the whole loop offline in two or three minutes."),
    "run": (VERBS, "verbs.run", "Run a playbook once and record the run."),
    "evaluate": (VERBS, "verbs.evaluate", "Score playbooks on tasks."),
    "compare": (VERBS, "verbs.compare", "Decide whether B is better than A, with a guaranteed error rate."),
    "evolve": (VERBS, "verbs.evolve", "Search for a better playbook within a budget."),
    "release": (VERBS, "verbs.release", "Release a playbook to a channel, subject to the channel's gates."),
    "rollback": (
        VERBS,
        "verbs.release:rollback_app",
        "Remove a canary, or return to the previously served playbook.",
    ),
    "stop": (VERBS, "verbs.stop", "Halt all runs, searches and jobs in the workspace."),
    "playbook": (NOUNS, "nouns.playbook.playbook", "Store, name, find, diff and merge playbooks."),
    "runs": (NOUNS, "nouns.runs.runs", "List, show, follow, replay and export runs."),
    "sessions": (NOUNS, "nouns.sessions", "Read and compare sessions recorded by another agent."),
    "dataset": (NOUNS, "nouns.dataset", "Store, show, split and sample tasks."),
    "judge": (NOUNS, "nouns.judge", "List judges and check how well they agree with human labels."),
    "model": (NOUNS, "nouns.model", "List, test and price models."),
    "channel": (NOUNS, "nouns.channel.channel", "Show, promote, freeze and watch channels."),
    "review": (NOUNS, "nouns.review", "List, show, request and answer reviews."),
    "alerts": (NOUNS, "nouns.alerts", "List, test and resend alerts."),
    "confirm": (NOUNS, "nouns.confirm", "List and answer questions from runs."),
    "search": (NOUNS, "nouns.search", "List and show searches."),
    "experiment": (NOUNS, "nouns.experiment", "List, show, report on and abort comparisons."),
    "evidence": (NOUNS, "nouns.evidence", "Show and verify the evidence behind verdicts."),
    "metrics": (NOUNS, "nouns.metrics", "List a workspace's metrics, or serve them to Prometheus."),
    "store": (NOUNS, "nouns.store", "Verify, copy, measure and clean up the store."),
}
"""Every command: its panel in the help, its module in this package, and what it does."""


class LazyCommand(TyperCommand):
    """A command known by its help line alone; it is imported when it is called."""

    def __init__(self, name: str) -> None:
        panel, self._module, summary = COMMANDS[name]
        super().__init__(name=name, help=summary, rich_help_panel=panel)

    @cached_property
    def loaded(self) -> Any:
        module, _, attribute = self._module.partition(":")
        app = plugins.load(f"seedbed.cli.{module}:{attribute or 'app'}", str(self.name))
        if COMMANDS[str(self.name)][0] != NOUNS:
            command = get_command(app)
        else:
            command = get_group(app)
            command.help = self.help
        command.name = self.name
        return command

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self.loaded.make_context(*arguments, **options)


class LazyGroup(TyperGroup):
    """All commands of `seedbed`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": {name: LazyCommand(name) for name in COMMANDS}})


app = typer.Typer(cls=LazyGroup, add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version.")] = False,
) -> None:
    """Run LLM agents, evolve better ones, prove they are better, and release them safely.

    Start with `seedbed demo`, which shows the whole loop, or with `seedbed init`.

    Exit codes: 0 yes or done, 1 no or refused, 2 undecided, 64 usage error, 70 a bug in seedbed, 130 interrupted.
    """
    if show_version:
        typer.echo(f"seedbed {version('seedbed')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


@cache
def commands() -> Any:
    """The root of all commands."""
    return get_command(app)


def loaded_commands() -> dict[str, Any]:
    """Every command by name, imported: for the reference in the docs."""
    return {name: LazyCommand(name).loaded for name in COMMANDS}


def main(arguments: Sequence[str], root: Any = None) -> int:
    """Do what the arguments say and return the exit code. No traceback reaches the user."""
    as_json = "--json" in arguments
    typed_arguments[:] = arguments
    try:
        code = (root or commands()).main(args=list(arguments), prog_name="seedbed", standalone_mode=False)
    except typer.TyperException as wrong:
        if not wrong.format_message():  # a noun alone: its help has been printed
            return PASS
        _show_usage(wrong, as_json)
        return USAGE
    except (SeedbedError, OSError) as wrong:
        output.show_error(wrong, as_json)
        return BLOCKED
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as wrong:  # noqa: BLE001 - a user is shown a sentence, not a traceback
        output.show_error(wrong, as_json)
        return DEFECT
    if code == INTERRUPTED:
        typer.echo("Interrupted. Everything recorded so far is stored.", err=True)
    return code if isinstance(code, int) else PASS


def _show_usage(wrong: typer.TyperException, as_json: bool) -> None:
    cause: Any = wrong.__cause__
    if isinstance(wrong, typer.BadParameter) and hasattr(cause, "errors"):  # of pydantic, which is slow to import
        first = cause.errors(include_url=False)[0]
        expected = in_words(first["type"], first["msg"], first.get("ctx", {}))
        known = expected.partition(" is not ")[2].rstrip(".")  # of a word where only a few are allowed
        wrong.message = f"found {shown(first['input'])}; expected {known or expected}"
    context = getattr(wrong, "ctx", None)
    if context is not None and not as_json:
        typer.echo(f"{context.get_usage()}\nTry '{context.command_path} --help'.", err=True)
    output.show_error(wrong, as_json)


def run() -> None:
    gc.set_threshold(100_000)  # a command begins by making many objects that stay; looking through them takes a tenth
    # A stream that cannot write ✓ writes \u2713, as the error stream does, instead of failing.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main(sys.argv[1:]))
