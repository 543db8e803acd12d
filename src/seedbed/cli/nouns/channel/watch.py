"""seedbed channel watch: how what is new on a channel does, live, and what was done about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from seedbed.cli import output
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import ChannelName
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, Column, line, when
from seedbed.cli.views import lineage
from seedbed.errors import StoreError
from seedbed.release.monitor.guard_evidence import GuardStatus
from seedbed.release.monitor.loop import WatchResult
from seedbed.release.monitor.monitor import Health
from seedbed.release.states import percent
from seedbed.reports.numbers import split_text
from seedbed.storage.store import Json, Ref, short

app = typer.Typer()

NO_GUARDS = "no guards: set roll_back_if under canary in the workspace file"
WIDE = 10
"""Characters of a bar."""

STYLES = {"roll back": "bold red", "hold": "bold yellow", "tell": "bold yellow", None: "bold green"}
CODES = {"roll back": BLOCKED, "hold": INCONCLUSIVE, "tell": INCONCLUSIVE, None: PASS}


@command(app, dry_run=True)
def watch(
    call: Invocation,
    channel: ChannelName,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Seconds between checks.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Check once, for use with a timer or in a pipeline.")] = False,
    promote: Annotated[
        bool, typer.Option("--promote", help="Advance to the next step of the ramp as soon as no guard objects.")
    ] = False,
) -> None:
    """Watch a canary alongside its control, and roll it back if it does worse.

    Set guards under `canary` in the workspace file, and alert recipients under `alerts`. Press Ctrl-C to stop. Several
    people can watch at once. With --json, each check prints one line.

    With --once, exits with code 1 if the canary was rolled back and 2 if it needs human attention.
    """
    seen = None
    with (
        call.open() as space,
        suppress(KeyboardInterrupt),
        _screen(call.as_json or once) as draw,
    ):
        while True:
            try:
                seen = wait_for(space.channels.watch(channel, alert=not call.dry_run))
                stepped = wait_for(space.channels.promote_if_quiet(seen)) if promote else None
            except StoreError as wrong:
                if seen is None:
                    raise
                # A canary is watched even while its store cannot be reached for a moment.
                output.errors().print(line(("trying again: ", "yellow"), str(wrong)))
            else:
                if call.as_json:
                    document = {**_document(seen, stepped), "dry_run": call.dry_run}
                    typer.echo(output.as_json_text(document))
                else:
                    draw(_view(seen, stepped))
            if once:
                break
            time.sleep(every)
    if once and seen:
        raise typer.Exit(CODES[seen.health.reaction])


def _document(seen: WatchResult, stepped: Ref | None) -> Json:
    moved = seen.moved or stepped
    return {
        **seen.health.document(),
        "moved": {"because": moved.because, "version": moved.version} if moved else None,
        "alerts": [{"kind": each.kind, "told": each.message, "resolved": each.resolved} for each in seen.alerts],
    }


@contextmanager
def _screen(plain: bool) -> Iterator[Callable[[RenderableType], None]]:
    """What draws each look: a live view on a terminal, else a print."""
    console = output.console()
    if plain or not console.is_terminal:
        yield console.print
        return
    with Live(line("checking"), console=console, auto_refresh=False) as live:
        yield partial(live.update, refresh=True)


def _view(seen: WatchResult, stepped: Ref | None) -> RenderableType:
    health = seen.health
    parts: list[RenderableType] = [_title(health), _guards(health)]
    if health.phase != "settled":
        parts.append(line(("split of the units ", "dim"), split_text(**health.ratio)))
    for alarm in health.alarms:
        parts.append(line((f"{alarm.reaction}: ", STYLES[alarm.reaction]), alarm.message))
    if moved := seen.moved or stepped:
        verb = "rolled back; " if seen.moved else "promoted; "
        parts.append(line((verb, "bold"), f"{health.channel} serves {lineage.target_text(moved.target)}"))
    if not health.alarms:
        parts.append(line(("no alarms", STYLES[None])))
    return Group(*parts)


def _title(health: Health) -> RenderableType:
    compared = "{:,} and {:,} units compared".format(*health.units)
    against = f" against {short(health.older)}" if health.older else ""
    text = {
        "canary": f"canary {short(health.newer)} at {percent(health.share)}{against}, {compared}",
        "kept back": f"{short(health.newer)}{against} for the users kept back, {compared}",
        "settled": f"{short(health.newer)}{against} and its own past results",
    }[health.phase]
    return line((health.channel, "bold"), f"  {text}, since {when(health.since.at)}")


def _guards(health: Health) -> RenderableType:
    if not health.rows:
        return line((NO_GUARDS, "dim"))
    return output.listing(GUARDS, health.rows)


def _evidence(row: GuardStatus) -> Text:
    full = min(round(WIDE * row.evidence), WIDE)
    return line(("█" * full, STYLES[row.guard.action] if row.breached else "green"), ("░" * (WIDE - full), "dim"))


def _interval(row: GuardStatus) -> str:
    return "" if row.low is None else f"{row.low:+.3g} to {row.high:+.3g}"


def _change(row: GuardStatus) -> str:
    return "" if row.change is None else f"{row.change:+.3g}"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


GUARDS = (
    Column("guard", lambda row: line((row.guard.metric, "bold"))),
    Column("action", lambda row: row.guard.action, drop=5),
    Column("before", lambda row: _figure(row.older), drop=3),
    Column("now", lambda row: _figure(row.newer), drop=2),
    Column("change", _change),
    Column("95%", _interval, drop=1),
    Column("limit", lambda row: f"{row.guard.by:+g}"),
    Column("pairs", lambda row: f"{row.pairs:,}", drop=4),
    Column("evidence", _evidence),
)
