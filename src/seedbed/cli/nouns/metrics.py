"""seedbed metrics: figures of a workspace for Prometheus."""

from __future__ import annotations

from contextlib import suppress
from threading import Event
from typing import Annotated

import typer

from seedbed.cli.command import Invocation, command
from seedbed.cli.output import Column

app = typer.Typer(no_args_is_help=True)

COLUMNS = (
    Column("metric", lambda each: each["name"]),
    Column("of", lambda each: ", ".join(each["labels"].values()), flexible=True),
    Column("value", lambda each: f"{each['value']:g}"),
)


@command(app, "list")
def list_gauges(call: Invocation) -> None:
    """List the current metrics: channels and their ratings, work waiting for people, and the quota."""
    with call.open() as space:
        rows = [
            {"name": each.name, "labels": dict(each.labels), "value": each.value} for each in space.metrics.gauges()
        ]
    call.list("gauges", rows, COLUMNS, "Nothing to measure yet.")


@command(app, "serve")
def serve(
    call: Invocation,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 chooses a free one.")] = 9464,
) -> None:
    """Serve the workspace's metrics to Prometheus at /metrics until you press Ctrl-C."""
    with call.open() as space, space.metrics.serve(host, port) as address, suppress(KeyboardInterrupt):
        call.show({"address": address}, f"Prometheus can read {address}. Press Ctrl-C to stop.")
        Event().wait()
