"""seedbed channel watch: how what is new on a channel does, live, and what was done about it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, DryRun, WorkspaceFile
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, line, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.release.monitor.guard_evidence import GuardStatus
    from seedbed.release.monitor.loop import WatchResult
    from seedbed.release.monitor.monitor import Health
    from seedbed.storage.store import Json, Ref
    from seedbed.workspace import Workspace

app = typer.Typer()

WIDE = 10
"""Characters of a bar."""

STYLES = {"roll back": "bold red", "hold": "bold yellow", "tell": "bold yellow", None: "bold green"}
CODES = {"roll back": BLOCKED, "hold": INCONCLUSIVE, "tell": INCONCLUSIVE, None: PASS}


@app.command()
def watch(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name, such as production.")],
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often to look.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, for a timer or a pipeline.")] = False,
    promote: Annotated[
        bool, typer.Option("--promote", help="Take every step of the ramp as soon as nothing speaks against it.")
    ] = False,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Watch what is new on a channel beside what was there before, and take it back if it does worse.

    Its guards stand under `canary` in the workspace file, and whom to tell under `alerts`. Ctrl-C ends it; any number
    of people may watch. With --json each look is a line.

    JSON: channel, at, phase, newer, older, share, since, units, guards (metric, action, limit, pairs, older, newer,
    change, low, high, evidence, breached), alarms (kind, reaction, told, metric), reaction, moved (because, version),
    alerts, dry_run. Exit code 1 if it was to be taken back and 2 if people are to look at it, with --once.
    """
    from seedbed.errors import StoreError

    seen = None
    with (
        options.opened(workspace, dry_run=dry_run) as space,
        suppress(KeyboardInterrupt),
        _screen(as_json or once) as screen,
    ):
        while True:
            try:
                seen = options.complete(space.watch(channel, tell=not dry_run))
                stepped = _promoted(space, seen) if promote else None
            except StoreError as wrong:
                if seen is None:
                    raise
                # A store that is gone for a while is no reason to leave people alone with a canary.
                output.errors().print(line(("looking again: ", "yellow"), str(wrong)))
            else:
                if as_json:
                    told = {**_document(seen, stepped), "dry_run": dry_run}
                    typer.echo(json.dumps(output.plain(told), ensure_ascii=False))
                else:
                    screen.show(_view(seen, stepped))
            if once:
                break
            time.sleep(every)
    if once and seen:
        raise typer.Exit(CODES[seen.health.reaction])


def _promoted(space: Workspace, seen: WatchResult) -> Ref | None:
    """The next step of the ramp, if it may be taken. One that wants an approval is for a person."""
    from seedbed.errors import RefMoved, ReleaseRefused
    from seedbed.release.ramp import build_ramp

    health = seen.health
    if health.phase != "canary" or health.alarms:
        return None
    steps = build_ramp(space.settings.channel(health.channel))
    if not steps.shares or (steps.approval and steps.after(health.share, None) == 1):
        return None
    with suppress(ReleaseRefused, RefMoved):
        return options.complete(space.promote(health.channel, because="the monitor saw no alarm"))
    return None


def _document(seen: WatchResult, stepped: Ref | None) -> Json:
    moved = seen.moved or stepped
    return {
        **seen.health.document(),
        "moved": {"because": moved.because, "version": moved.version} if moved else None,
        "alerts": [{"kind": each.kind, "told": each.message, "resolved": each.resolved} for each in seen.alerts],
    }


# What people see


class _Screen(Protocol):
    def show(self, view: RenderableType) -> None: ...


class _Printed:
    def show(self, view: RenderableType) -> None:
        output.console().print(view)


@contextmanager
def _screen(plain: bool) -> Iterator[_Screen]:
    """Live where somebody looks; elsewhere each look is printed."""
    from rich.live import Live

    console = output.console()
    if plain or not console.is_terminal:
        yield _Printed()
        return
    with Live(line("looking"), console=console, auto_refresh=False) as live:

        class Drawn:
            def show(self, view: RenderableType) -> None:
                live.update(view, refresh=True)

        yield Drawn()


def _view(seen: WatchResult, stepped: Ref | None) -> RenderableType:
    from rich.console import Group

    from seedbed.cli.views import lineage

    health = seen.health
    parts: list[RenderableType] = [_title(health), _guards(health)]
    for alarm in health.alarms:
        parts.append(line((f"{alarm.reaction}: ", STYLES[alarm.reaction]), alarm.told))
    if moved := seen.moved or stepped:
        told = "rolled back; " if seen.moved else "promoted; "
        parts.append(line((told, "bold"), f"{health.channel} serves {lineage.target(moved.target)}"))
    if not health.alarms:
        parts.append(line(("no alarm", STYLES[None])))
    return Group(*parts)


def _title(health: Health) -> RenderableType:
    from seedbed.release.states import percent
    from seedbed.storage.store import short

    compared = "{:,} and {:,} units compared".format(*health.units)
    beside = f" beside {short(health.older)}" if health.older else ""
    told = {
        "canary": f"canary {short(health.newer)} at {percent(health.share)}{beside}, {compared}",
        "kept back": f"{short(health.newer)}{beside} for those kept back, {compared}",
        "settled": f"{short(health.newer)}{beside} as it was known",
    }[health.phase]
    return line((health.channel, "bold"), f"  {told}, since {when(health.since.at)}")


def _guards(health: Health) -> RenderableType:
    if not health.rows:
        return line(("no guards: say roll_back_if under canary in the workspace file", "dim"))
    columns = ("guard", "before", "now", "change", "95%", "limit", "pairs", "evidence")
    return output.table(*columns, rows=[_row(row) for row in health.rows])


def _row(row: GuardStatus) -> tuple[RenderableType, ...]:
    full = min(round(WIDE * row.evidence), WIDE)
    bar = line(("█" * full, STYLES[row.guard.action] if row.breached else "green"), ("░" * (WIDE - full), "dim"))
    interval = "" if row.low is None else f"{row.low:+.3g} to {row.high:+.3g}"
    return (
        line((row.guard.metric, "bold"), f" {row.guard.action}"),
        _figure(row.older),
        _figure(row.newer),
        "" if row.change is None else f"{row.change:+.3g}",
        interval,
        f"{row.guard.by:+g}",
        f"{row.pairs:,}",
        bar,
    )


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
