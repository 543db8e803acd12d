"""seedbed channel drill: tasks come to a channel as if people asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import options, output, progress
from seedbed.cli.options import AsJson, WorkspaceFile

if TYPE_CHECKING:
    from seedbed.runs.run import Run
    from seedbed.storage.store import Fact

app = typer.Typer()


@app.command()
def drill(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name, such as production.")],
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A file of tasks, or a kept dataset.")],
    units: Annotated[int, typer.Option("--units", min=1, help="How many come, each with a key of its own.")] = 100,
    first: Annotated[int, typer.Option("--first", min=1, help="The number of the first: others are others.")] = 1,
    metric: Annotated[str, typer.Option("--metric", metavar="METRIC", help="What rates them.")] = "exact_match",
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Have tasks come to a channel as if people asked, and rate what they get, to try its ramp and its guards.

    Each unit is served what its key meets, and everything is recorded, as with people: so not on a channel that they
    use. Tasks come again when they have all been.

    JSON: channel, units, failed, met (a list of playbook, units, good).
    """
    from seedbed.release.monitor.drill import drill as drilled
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        tasks, by = options.dataset(space, dataset), options.metric(space, metric)

        async def serve(key: str, inputs: Mapping[str, Any]) -> Run:
            return await space.run(channel, key=key, **inputs)

        def rate(run: Run, value: float) -> Fact:
            return space.feedback(run, value)

        with progress.counting(units, "units") as watch:
            found = options.complete(drilled(tasks, range(first, first + units), by, serve, rate, watch))
    met = [(name, times, found.good[name]) for name, times in found.met.most_common()]
    rows = [(short(name), f"{times:,}", f"{good / times:.1%}") for name, times, good in met]
    listed = [{"playbook": name, "units": times, "good": good} for name, times, good in met]
    document = {"channel": channel, "units": units, "failed": found.failed, "met": listed}
    output.show(document, as_json, output.table("met", "units#", "good#", rows=rows))
