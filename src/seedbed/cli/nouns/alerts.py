"""seedbed alerts: what people were told about channels, and whether it reached them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, DryRun, Limit, WorkspaceFile
from seedbed.cli.output import BLOCKED, line, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from seedbed.release.alerts.delivery import Delivery
    from seedbed.release.alerts.senders.sender import Sender
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)

COLOURS = {"info": "cyan", "warning": "yellow", "critical": "bold red"}


@app.command("list")
def list_alerts(
    channel: Annotated[str | None, typer.Option("--channel", help="Only those about this channel.")] = None,
    limit: Limit = 50,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what people were told about channels, newest first, and whom it reached.

    JSON: alerts (key, at, severity, channel, kind, told, details, resolved, delivered, failed, waiting).
    """
    from itertools import islice

    from seedbed.release.alerts.delivery import history

    with options.opened(workspace) as space:
        found = [record.document() for record in islice(history(space.store, channel), limit)]
    rows = [
        (
            when(each["at"]),
            line(("resolved", "green") if each["resolved"] else (each["severity"], COLOURS[each["severity"]])),
            line((each["channel"], "bold")),
            each["told"],
            ", ".join(each["delivered"]),
            ", ".join(each["failed"] + [f"{name} (waits)" for name in each["waiting"]]),
        )
        for each in found
    ]
    table = output.table("at", "severity", "channel", "told", "delivered to", "failed", rows=rows)
    output.show({"alerts": found}, as_json, table if rows else line("no alerts yet"))


@app.command("test")
def send_test(
    channel: Annotated[str, typer.Option("--channel", help="The channel that it is said to be about.")] = "production",
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Send a test to everybody under `alerts` in the workspace file, whatever they want to hear.

    JSON: key, deliveries (alert, sender, status, attempts, error). Exit code 1 if somebody could not be reached.
    """
    import uuid

    from seedbed.release.alerts.alert import Alert
    from seedbed.release.alerts.delivery import send

    with options.opened(workspace) as space:
        everybody = [replace(cast("Any", each), at_least="info") for each in _senders(space)]
        alert = Alert(
            channel=channel,
            kind="test",
            severity="info",
            message=f"This is a test by {space.by}: nothing has happened.",
            at=space.library.clock(),
            key=f"{channel}/test/{uuid.uuid4().hex}",
        )
        ended = options.complete(send(space.library, everybody, alert))
    documents = [each.document() for each in ended]
    output.show({"key": alert.key, "deliveries": documents}, as_json, *map(_told, ended))
    if len(ended) < len(everybody) or any(each.error for each in ended):
        raise typer.Exit(BLOCKED)


def _senders(space: Workspace) -> Sequence[Sender]:
    """Those of the workspace file. Raises SettingsError if there are none."""
    from seedbed.errors import Problem, SettingsError
    from seedbed.release.alerts.senders.registry import build_senders

    found = build_senders(space.settings)
    if not found:
        remedy = "Add somebody to tell, such as: alerts: [{log: alerts.jsonl}]"
        raise SettingsError([Problem("alerts", "nobody", "a list of who is told", remedy)], space.settings.source)
    return found


@app.command()
def resend(workspace: WorkspaceFile = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Try again what could not be delivered, however old it is.

    JSON: deliveries (alert, sender, status, attempts, error), dry_run. Exit code 1 if somebody still could not be
    reached.
    """
    from seedbed.release.alerts import delivery as alerts

    with options.opened(workspace) as space:
        build_senders = _senders(space)
        if dry_run:
            waiting = alerts.undelivered(space.store, build_senders, at=space.library.clock(), everything=True)
            ended = [alerts.Delivery(alert.record_key, sender.name, "begun") for alert, sender in waiting]
        else:
            ended = options.complete(alerts.resend(space.library, build_senders, everything=True))
    document = {"deliveries": [each.document() for each in ended], "dry_run": dry_run}
    output.show(document, as_json, *(map(_told, ended) if ended else [line("nothing waits to be delivered")]))
    if any(each.status == "failed" for each in ended):
        raise typer.Exit(BLOCKED)


def _told(delivery: Delivery) -> RenderableType:
    mark = {"begun": ("would send: ", "yellow"), "delivered": ("✓ ", "bold green"), "failed": ("✗ ", "bold red")}
    error = f": {delivery.error}" if delivery.error else ""
    return line(mark[delivery.status], (delivery.sender, "bold"), error or f" {delivery.alert}")
