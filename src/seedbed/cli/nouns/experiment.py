"""seedbed experiment: what was compared, and how each comparison stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Because, DryRun, Limit, WorkspaceFile
from seedbed.cli.output import line

if TYPE_CHECKING:
    from seedbed.experiments.verdict import Standing
    from seedbed.storage.store import Json

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Its digest, or how it begins.")]


@app.command("list")
def list_(limit: Limit = 20, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Comparisons that were begun, the newest first.

    JSON: a list of experiment, status, begun, by, hypothesis, finding, tasks, at_most, alpha, channel.
    """
    from itertools import islice

    from seedbed.cli.views import verdict as verdicts
    from seedbed.experiments.verdict import standings
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        found = list(islice(standings(space.store), limit))
    rows = []
    for each in found:
        verdict = each.verdict
        finding = line((verdict.finding, verdicts.FINDINGS[verdict.finding])) if verdict else line((each.status, "dim"))
        of = f"/{verdict.at_most}" if verdict and not verdict.live else ""
        read = f"{verdict.tasks}{of}" if verdict else ""
        rows.append((short(each.begun.key), output.when(each.begun.at), finding, read, each.experiment.hypothesis))
    table = output.table("experiment", "begun", "finding", "tasks#", "hypothesis", rows=rows)
    output.show([document(each) for each in found], as_json, table if rows else "No comparison was begun here yet.")


@app.command()
def show(name: Name, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """What was registered, and what came of it.

    JSON: experiment, status, begun, by, hypothesis, finding, tasks, at_most, alpha, channel, registered, verdict.
    """
    from rich.console import Group

    from seedbed.cli.views import verdict as verdicts
    from seedbed.experiments.live import Source, is_live
    from seedbed.experiments.verdict import found, standing
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        each = standing(space.store, found(space.store, name))
        plan = each.experiment
        about_units = (
            Source.of(space.store, plan).told
            if is_live(plan)
            else f"{short(plan.dataset)}, {output.counted(len(plan.order), 'task')} in an order from seed {plan.seed}"
        )
    about = output.facts(
        [
            ("hypothesis", plan.hypothesis),
            ("status", each.status),
            ("begun", f"{output.when(each.begun.at)} by {each.begun.by}"),
            ("live" if is_live(plan) else "dataset", about_units),
            ("rule", ", ".join(f"{key} {value}" for key, value in plan.rule.items() if value is not None)),
            ("failures", "" if is_live(plan) else f"count as {plan.failure_counts_as:g}"),
            ("channel", plan.channel),
        ]
    )
    body = {**document(each), "registered": plan.content(), "verdict": each.verdict.body() if each.verdict else None}
    output.show(
        body, as_json, Group(about, "", verdicts.verdict_view(each.verdict, plan.rule)) if each.verdict else about
    )


@app.command()
def abort(
    name: Name, because: Because, workspace: WorkspaceFile = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Stop a comparison by hand. Its verdict is invalid for ever, and says why.

    JSON: experiment, finding, because.
    """
    from seedbed.experiments.compare import abort as stopped
    from seedbed.experiments.verdict import found
    from seedbed.storage.store import now, short

    with options.opened(workspace, dry_run=dry_run) as space:
        verdict = stopped(space.store, found(space.store, name), because=because, by=space.by, clock=now)
    body = {"experiment": verdict.experiment, "finding": verdict.finding, "because": verdict.because}
    output.show(
        body, as_json, line(f"{short(verdict.experiment)} is {verdict.finding}: {verdict.because or 'it had ended'}")
    )


@app.command()
def report(
    name: Name,
    file: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A new file, .md or .html.")],
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of a comparison that has ended.

    JSON: file.
    """
    from seedbed.cli.views import verdict as verdicts
    from seedbed.experiments.verdict import Verdict, found

    options.new_report(file)
    with options.opened(workspace) as space:
        verdicts.write_report(space, Verdict.recall(space.store, found(space.store, name)), file)
    output.show({"file": str(file)}, as_json, line(("✓ ", "bold green"), f"wrote {file}"))


def document(each: Standing) -> Json:
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
