"""seedbed experiment: list, show, report and abort comparisons."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from seedbed.cli import options, output
from seedbed.cli.command import Invocation, command
from seedbed.cli.options import Because, ExperimentName, RowLimit
from seedbed.cli.output import Column, line, when
from seedbed.cli.views import verdict as views
from seedbed.experiments.verdict import ExperimentStatus
from seedbed.storage.store import Json, short

app = typer.Typer(no_args_is_help=True)

COLUMNS = (
    Column("experiment", lambda each: short(each["experiment"])),
    Column("started", lambda each: when(each["begun"]), drop=2),
    Column(
        "finding", lambda each: views.finding(each["finding"]) if each["finding"] else line((each["status"], "dim"))
    ),
    Column("tasks", lambda each: _tasks(each), 1, True),
    Column("hypothesis", lambda each: each["hypothesis"], flexible=True),
)


def _tasks(experiment: Json) -> str:
    if experiment["tasks"] is None:
        return ""
    return f"{experiment['tasks']}/{experiment['at_most']}" if experiment["at_most"] else f"{experiment['tasks']}"


@command(app, "list")
def list_experiments(call: Invocation, limit: RowLimit = 20) -> None:
    """List comparisons, newest first."""
    with call.open() as space:
        experiments = [_document(each) for each in islice(space.experiments.begun(), limit)]
    call.list("", experiments, COLUMNS, "No comparisons yet.")


@command(app)
def show(call: Invocation, name: ExperimentName) -> None:
    """Show a comparison's registration and verdict."""
    with call.open() as space:
        each = space.experiments.get(name)
        plan = each.experiment
        source, units = space.experiments.source(plan)
    about = output.facts(
        [
            ("hypothesis", plan.hypothesis),
            ("status", each.status),
            ("started", f"{when(each.begun.at)} by {each.begun.by}"),
            (source, units),
            ("rule", ", ".join(f"{key} {value}" for key, value in plan.rule.items() if value is not None)),
            ("failures", "" if source == "live" else f"count as {plan.failure_counts_as:g}"),
            ("channel", plan.channel),
        ]
    )
    verdict = each.verdict
    document = {**_document(each), "registered": plan.content(), "verdict": verdict.document() if verdict else None}
    call.show(document, Group(about, "", views.verdict_view(verdict, plan.rule)) if verdict else about)


@command(app, dry_run=True)
def abort(call: Invocation, name: ExperimentName, because: Because) -> None:
    """Abort a comparison. Its verdict becomes permanently invalid and states the reason."""
    with call.open() as space:
        verdict = space.experiments.abort(name, because=because)
    document = {"experiment": verdict.experiment, "finding": verdict.finding, "because": verdict.because}
    call.show(
        document, line(f"{short(verdict.experiment)} is {verdict.finding}: {verdict.because or 'it had already ended'}")
    )


@command(app)
def report(
    call: Invocation,
    name: ExperimentName,
    file: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The new .md or .html file to write.")],
) -> None:
    """Write a report on a finished comparison."""
    options.expect_report(file)
    with call.open() as space:
        space.experiments.report(name, file)
    call.show({"file": str(file)}, line(("✓ ", "bold green"), f"wrote {file}"))


def _document(each: ExperimentStatus) -> Json:
    verdict, plan = each.verdict, each.experiment
    return {
        "experiment": each.begun.key,
        "status": each.status,
        "begun": each.begun.at,
        "by": each.begun.by,
        "hypothesis": plan.hypothesis,
        "finding": verdict.finding if verdict else None,
        "tasks": verdict.tasks if verdict else None,
        "at_most": plan.rule["at_most"],
        "alpha": plan.rule["alpha"],
        "channel": plan.channel,
    }
