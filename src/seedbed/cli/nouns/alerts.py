"""seedbed alerts: the alerts about channels and their deliveries."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType

from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import RowLimit
from seedbed.cli.output import BLOCKED, Column, line, when
from seedbed.release.alerts.delivery import Delivery

app = typer.Typer(no_args_is_help=True)

COLOURS = {"info": "cyan", "warning": "yellow", "critical": "bold red"}
COLUMNS = (
    Column("at", lambda each: when(each["at"]), drop=2),
    Column(
        "severity",
        lambda each: line(("resolved", "green") if each["resolved"] else (each["severity"], COLOURS[each["severity"]])),
    ),
    Column("channel", lambda each: line((each["channel"], "bold"))),
    Column("alert", lambda each: each["told"], flexible=True),
    Column("delivered to", lambda each: ", ".join(each["delivered"]), drop=3),
    Column(
        "failed", lambda each: ", ".join([*each["failed"], *(f"{name} (waiting)" for name in each["waiting"])]), drop=1
    ),
)


@command(app, "list")
def list_alerts(
    call: Invocation,
    channel: Annotated[str | None, typer.Option("--channel", help="Show only alerts about this channel.")] = None,
    limit: RowLimit = 50,
) -> None:
    """List alerts about channels and who received them, newest first."""
    with call.open() as space:
        alerts = [each.document() for each in space.channels.alerts(channel, limit)]
    call.list("alerts", alerts, COLUMNS, "No alerts yet.")


@command(app, "test")
def send_test(
    call: Invocation,
    channel: Annotated[str, typer.Option("--channel", help="The channel to name in the test alert.")] = "production",
) -> None:
    """Send a test alert to every recipient under `alerts` in the workspace file, regardless of severity settings.

    Exits with code 1 if a delivery failed.
    """
    with call.open() as space:
        alert, deliveries, people = wait_for(space.channels.test_alert(channel))
    call.show({"key": alert.key, "deliveries": [each.document() for each in deliveries]}, *map(_view, deliveries))
    if len(deliveries) < people or any(each.error for each in deliveries):
        raise typer.Exit(BLOCKED)


@command(app, dry_run=True)
def resend(call: Invocation) -> None:
    """Resend alerts that could not be delivered, however old they are.

    Exits with code 1 if a delivery failed again.
    """
    with call.open(dry_run=False) as space:
        deliveries = wait_for(space.channels.resend_alerts(dry_run=call.dry_run))
    document = {"deliveries": [each.document() for each in deliveries], "dry_run": call.dry_run}
    call.show(document, *(map(_view, deliveries) if deliveries else [line("All alerts have been delivered.")]))
    if any(each.status == "failed" for each in deliveries):
        raise typer.Exit(BLOCKED)


def _view(delivery: Delivery) -> RenderableType:
    mark = {"begun": ("would send: ", "yellow"), "delivered": ("✓ ", "bold green"), "failed": ("✗ ", "bold red")}
    error = f": {delivery.error}" if delivery.error else ""
    return line(mark[delivery.status], (delivery.sender, "bold"), error or f" {delivery.alert}")
