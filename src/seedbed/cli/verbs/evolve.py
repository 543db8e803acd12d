"""seedbed evolve: search for a better playbook."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from seedbed.cli import options
from seedbed.cli.command import Invocation, command, going_on, wait_for
from seedbed.cli.options import PLAYBOOK, Changes, Parallel, ProgramPath, RealTools, ReportFile, Seed
from seedbed.cli.output import INCONCLUSIVE, PASS, line
from seedbed.cli.views import run as run_views
from seedbed.cli.views import search as views
from seedbed.evolution.plan import Plan, SearchOptions
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.search.report import to_document
from seedbed.workspace import Workspace
from seedbed.workspace.execution import expect_order, expect_readable

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class HowToSearch:
    """What the optimizer may try, on how much."""

    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="The metric used to score answers. Multiple metrics form a Pareto front; the first one picks "
            "the winner. Default: exact_match.",
        ),
    ] = None
    changes: Changes = None
    optimizer: Annotated[
        str,
        typer.Option(
            "--optimizer",
            metavar="NAME",
            help="The search algorithm: portfolio, best_of, reflection, nsga2(size=30), …",
        ),
    ] = "portfolio"
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="LIMIT",
            help="Never spend more than this, for example 400 runs, $2 or 10 minutes; separate limits with commas.",
        ),
    ] = "500 runs"
    confirm: Annotated[
        str | None,
        typer.Option(
            "--confirm",
            metavar="DATASET",
            help="Other tasks to confirm the result on, or none to skip confirmation. Default: a quarter of the tasks.",
        ),
    ] = None
    instructions: Annotated[
        Path | None,
        typer.Option(
            "--instructions", "--bank", metavar="FILE", help="Instructions to try: one per line, or a YAML list."
        ),
    ] = None
    gene: Annotated[str | None, typer.Option("--gene", metavar="PATH", help="The text gene to change.")] = None
    demos: Annotated[
        int, typer.Option("--demos", min=0, help="Also try each instruction with this many worked examples.")
    ] = 0
    reflector: Annotated[
        str | None,
        typer.Option("--reflector", metavar="MODEL", help="A model that reads low-scoring runs and proposes edits."),
    ] = None
    patience: Annotated[
        int | None,
        typer.Option("--patience", min=1, metavar="STEPS", help="Stop after this many steps without an improvement."),
    ] = None
    surrogate: Annotated[
        bool,
        typer.Option(
            "--surrogate",
            help="Skip candidates with hopeless predicted scores; one in twenty is tried anyway.",
        ),
    ] = False
    seed: Seed = 0
    parallel: Parallel = None
    real_tools: RealTools = False
    program: ProgramPath = None

    def options(self, space: Workspace) -> SearchOptions:
        return SearchOptions(
            optimizer=self.optimizer,
            budget=self.budget,
            confirm=self.confirm,
            instructions=space.searches.read_instructions(self.instructions) if self.instructions else (),
            gene=self.gene,
            demos=self.demos,
            reflector=self.reflector,
            patience=self.patience,
            surrogate=self.surrogate,
            seed=self.seed,
            metrics=tuple(self.metric or ["exact_match"]),
        )


@dataclass(frozen=True)
class Result:
    """What happens to the best candidate."""

    branch: Annotated[
        str | None,
        typer.Option("--branch", help="The branch to move to the best playbook if its gain is confirmed."),
    ] = None
    report: ReportFile = None
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="SEARCH", help="Continue an interrupted search.")
    ] = None


@command(app, dry_run=True)
def evolve(
    call: Invocation,
    playbook: Annotated[str | None, typer.Argument(metavar="PLAYBOOK", help=PLAYBOOK)] = None,
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="A file or folder of tasks, or a stored dataset; splits named reflect, select and confirm are used.",
        ),
    ] = None,
    *,
    search: HowToSearch,
    result: Result,
) -> None:
    """Search for a better playbook within a budget, and report how much of the gain holds up on other tasks.

    Every candidate is stored as a child of the playbook it came from. A quarter of the tasks are set aside and used
    only once, at the end. The optimizer can read a third of the rest, and candidates are selected on the others. If
    the search is interrupted, run the same command again or use --resume: it picks up where it left off and never pays
    for the same work twice.

    A gain is confirmed if the best candidate was chosen on at least 20 tasks and does better on at least 10 others, by
    more than chance would explain. Otherwise, the command exits with code 2 and does not move --branch.
    """
    if result.resume is None and (playbook is None or dataset is None):
        raise typer.BadParameter("expected a playbook and a dataset, or --resume SEARCH", param_hint="PLAYBOOK")
    expect_order(playbook, dataset)
    options.expect_report(result.report)
    expect_readable(call.workspace, search.metric or ())
    with call.open(real_tools=search.real_tools) as space:
        chosen = search.options(space) if result.resume is None else space.searches.get(result.resume).options
        start: Playbook | str = chosen.playbook
        if result.resume is None:
            changes = options.assignments(search.changes)
            start = space.playbooks.get(str(playbook), changes, program=search.program)
        tasks = chosen.dataset or str(dataset)
        plan = space.searches.plan(start, tasks, chosen)
        call.say_held_out(space, tasks)
        if call.dry_run:
            _show_plan(call, space, plan)
            return
        with views.watched(plan) as watch:
            work = space.searches.evolve(
                start, tasks, metric=chosen.metrics, options=chosen, parallel=search.parallel, on_event=watch
            )
            with going_on(lambda: f"seedbed evolve --resume {result.resume or _newest(space, plan.start)}"):
                evolution = wait_for(work)
        branch = result.branch if evolution.is_confirmed else None
        if branch:
            because = f"best of {len(evolution.pool) - 1} candidates"
            space.playbooks.name(branch, evolution.best, because=because)
        view = space.searches.view(evolution)
        if result.report:
            names = {evolution.start: playbook} if playbook else None
            evolution.export(result.report, store=space.store, names=names)
    stays = [line(f"{result.branch} was not moved")] if result.branch and not branch else []
    call.show({**to_document(view), "branch": branch}, views.view(view), *stays)
    call.say_written(result.report)
    raise typer.Exit(PASS if evolution.is_confirmed else INCONCLUSIVE)


def _show_plan(call: Invocation, space: Workspace, plan: Plan) -> None:
    expected = space.searches.estimate(plan)
    document = {**views.plan_document(plan), "estimate": expected.document()}
    call.show(document, views.plan_view(plan), run_views.estimate_line(expected, "at most "))


def _newest(space: Workspace, start: Playbook) -> str:
    """The newest search that began with a playbook, by how its digest starts."""
    return next((each.search[:13] for each in space.searches.begun() if each.plan["start"] == start.digest), "SEARCH")
