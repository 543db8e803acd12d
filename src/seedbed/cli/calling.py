"""Call a command: whatever goes wrong becomes text and an exit code, never a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from seedbed.cli import output
from seedbed.cli.output import BLOCKED, INTERRUPTED, PASS, USAGE
from seedbed.errors import SeedbedError


def call(command: Any, arguments: Sequence[str]) -> int:
    """Do what the arguments say and return the exit code."""
    as_json = "--json" in arguments
    try:
        code = command.main(args=list(arguments), prog_name="seedbed", standalone_mode=False)
    except typer.TyperException as wrong:
        if not wrong.format_message():  # a noun alone: its help has been printed, as that of `seedbed` alone
            return PASS
        _tell_usage(wrong, as_json)
        return USAGE
    except (SeedbedError, OSError) as wrong:
        output.tell_error(wrong, as_json)
        return BLOCKED
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as wrong:  # noqa: BLE001 - nobody shall have to read a traceback
        output.tell_error(wrong, as_json)
        return BLOCKED
    if code == INTERRUPTED:
        typer.echo("interrupted; what was recorded so far is kept", err=True)
    return code if isinstance(code, int) else PASS


def _tell_usage(wrong: typer.TyperException, as_json: bool) -> None:
    context = getattr(wrong, "ctx", None)
    if context is not None and not as_json:
        typer.echo(f"{context.get_usage()}\nTry '{context.command_path} --help'.", err=True)
    output.tell_error(wrong, as_json)
