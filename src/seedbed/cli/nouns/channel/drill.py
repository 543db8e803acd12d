"""seedbed channel drill: send tasks to a channel as if users asked."""

from __future__ import annotations

from typing import Annotated

import typer

from seedbed.cli import output, progress
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import ChannelName, DatasetName, MetricName
from seedbed.storage.store import short

app = typer.Typer()


@command(app)
def drill(
    call: Invocation,
    channel: ChannelName,
    dataset: DatasetName,
    units: Annotated[int, typer.Option("--units", min=1, help="How many users to simulate, each with its key.")] = 100,
    first: Annotated[int, typer.Option("--first", min=1, help="The number of the first user.")] = 1,
    metric: MetricName = "exact_match",
) -> None:
    """Send tasks to a channel as if users asked, and rate the answers, to try its ramp and its guards.

    Each user gets what the channel serves their key, and everything is recorded as with real users: do not use it on a
    channel that has some. When all tasks were sent they start again.
    """
    with call.open() as space, progress.counting("users") as watch:
        result = wait_for(
            space.channels.drill(
                channel,
                space.datasets.get(dataset),
                range(first, first + units),
                space.scorecards.metric(metric),
                lambda done: watch(done, units),
            )
        )
    served = [(name, times, result.good[name]) for name, times in result.met.most_common()]
    rows = [(short(name), f"{times:,}", f"{good / times:.1%}") for name, times, good in served]
    listed = [{"playbook": name, "units": times, "good": good} for name, times, good in served]
    document = {"channel": channel, "units": units, "failed": result.failed, "met": listed}
    call.show(document, output.table("served", "users#", "good#", rows=rows))
