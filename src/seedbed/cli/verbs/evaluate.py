"""seedbed evaluate: score playbooks over tasks, over the datasets of a suite, or over all corpora."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group

from seedbed.cli import options, output, progress
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import DATASET, Changes, MaxCost, Parallel, ProgramPath, RealTools
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, INTERRUPTED, PASS
from seedbed.cli.views import run as run_views
from seedbed.cli.views import scorecard as views
from seedbed.cli.views import suite as suite_views
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.suite import Suite
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.specialised import SpecialisedPlaybook
from seedbed.reports import scorecard as reports
from seedbed.reports import specialisation as specialisation_reports
from seedbed.reports.numbers import counted
from seedbed.reports.scorecard import Report
from seedbed.storage.store import Json
from seedbed.workspace import Workspace
from seedbed.workspace.execution import expect_order, expect_readable
from seedbed.workspace.resources import Evaluating

app = typer.Typer(add_completion=False)


class Format(StrEnum):
    """How a report is written."""

    markdown = "markdown"
    csv = "csv"
    html = "html"
    json = "json"


ENDINGS = {".md": Format.markdown, ".csv": Format.csv, ".html": Format.html, ".json": Format.json}


@dataclass(frozen=True)
class ScoringOptions:
    """How the runs are done."""

    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="The metric used to score answers, for example f1; repeat for several metrics. Default: exact_match.",
        ),
    ] = None
    replicates: Annotated[int, typer.Option("--replicates", min=1, help="How many times to run each task.")] = 1
    max_cost: MaxCost = None
    parallel: Parallel = None
    real_tools: RealTools = False
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, metavar="SECONDS", help="Stop any run that takes longer than this."),
    ] = None
    changes: Changes = None
    program: ProgramPath = None

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(self.metric or ["exact_match"]))

    @property
    def options(self) -> Evaluating:
        return Evaluating(self.replicates, self.max_cost, self.parallel, self.timeout)


@dataclass(frozen=True)
class KindOptions:
    """What else can be evaluated, and how the report is written."""

    suite: Annotated[
        Path | None,
        typer.Option("--suite", metavar="FOLDER", help="Score playbooks on every dataset in a suite instead."),
    ] = None
    accept: Annotated[
        bool, typer.Option("--accept", help="Make these results the suite's new reference, even if they are worse.")
    ] = False
    front: Annotated[
        bool,
        typer.Option("--front", help="Also show the Pareto front over all metrics, cost and speed."),
    ] = False
    across: Annotated[
        str | None,
        typer.Option(
            "--across",
            metavar="TASK",
            help="Score the playbooks specialised for this kind of task, and their bases, on all corpora. Arguments "
            "then name the playbooks to include (default: all), and CORPUS=DATASET overrides "
            "datasets/CORPUS/TASK.",
        ),
    ] = None
    format: Annotated[
        Format | None, typer.Option("--format", metavar="FORMAT", help="Write a report as markdown, csv, html or json.")
    ] = None
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write; its extension sets the format."),
    ] = None

    @property
    def form(self) -> Format | None:
        """The format of the report, if one is written. Raises BadParameter for a file that cannot be."""
        if self.file:
            output.expect_new(self.file)
        if self.file and not self.format and self.file.suffix not in ENDINGS:
            expected = ", ".join(ENDINGS)
            raise typer.BadParameter(f"found {self.file.name}; expected one of: {expected}", param_hint="--output")
        return self.format or (ENDINGS[self.file.suffix] if self.file else None)


@dataclass(frozen=True)
class Evaluated:
    """The scorecards of an evaluation, what people see of them, their document, and how they are written."""

    report: Report
    view: Any
    document: Json
    export: Callable[[str], str | bytes | Path]


@command(app, dry_run=True)
def evaluate(
    call: Invocation,
    playbooks: Annotated[
        list[str] | None, typer.Argument(metavar="PLAYBOOK", help="Files, digests, refs or channels.")
    ] = None,
    dataset: Annotated[str | None, typer.Argument(metavar="DATASET", help=DATASET)] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATASET", help="The dataset, if all arguments are playbooks.")
    ] = None,
    *,
    work: ScoringOptions,
    kind: KindOptions,
) -> None:
    """Score playbooks on tasks. Earlier scores are reused at no cost.

    Several playbooks are shown side by side; `compare` decides which is better. If the command is interrupted, run it
    again to continue. A suite is a folder of datasets, metrics and baselines; its results are compared with the
    previous ones.

    Exits with code 1 if a suite's results got worse or missed a threshold, and 2 if a playbook could not be scored at
    all or the budget ran out.
    """
    form = kind.form
    _expect_fitting(work, kind, on, form)
    names = [*(playbooks or ()), *([dataset] if dataset else [])]
    suite = Suite.load(kind.suite) if kind.suite else None
    tasks = None
    if suite is None and kind.across is None:
        names, tasks = _playbooks_and_dataset(names, on, kind)
    expect_readable(call.workspace, work.metric or (), tasks)
    with call.open(real_tools=work.real_tools) as space:
        if call.dry_run:
            _show_estimate(call, space, suite, kind, names, tasks, work)
            return
        if suite:
            result = _suite(space, suite, names, work, accept=kind.accept)
        elif tasks is None:
            result = _across(space, str(kind.across), names, work)
        else:
            call.say_held_out(space, tasks)
            result = _evaluate(space, names, tasks, work, kind.front)
    if form:
        text = str(result.export(form.value))
        output.hand_over({"format": form.value}, text, kind.file, call.as_json)
    else:
        call.show(result.document, result.view)
    cards = result.report.cards.values()
    if unpaid := sum(len(card.unpaid) for card in cards):
        missing = f"{counted(unpaid, 'result')} {'is' if unpaid == 1 else 'are'} missing"
        output.warn(f"Budget exhausted: {missing}. Run again with a higher --max-cost.")
    decided = all(card.scored for card in cards) and not unpaid
    raise typer.Exit(BLOCKED if result.report.notes else PASS if decided else INCONCLUSIVE)


def _expect_fitting(work: ScoringOptions, kind: KindOptions, on: str | None, form: Format | None) -> None:
    """Refuse options that would do nothing together."""
    if kind.accept and not kind.suite:
        raise typer.BadParameter("results can be accepted only for a suite; expected --suite", param_hint="--accept")
    if kind.front and (kind.suite or form == Format.csv):
        raise typer.BadParameter(f"expected none with {'--suite' if kind.suite else 'CSV'}", param_hint="--front")
    if kind.across is not None and (kind.suite or kind.front or on):
        other = "--suite" if kind.suite else "--front" if kind.front else "--on"
        raise typer.BadParameter(f"expected none with {other}", param_hint="--across")
    if kind.across is not None and work.program:
        raise typer.BadParameter("expected none with --across", param_hint="--program")
    if kind.suite:
        for option, value in {"--on": on, "--metric": work.metric, "--replicates": work.replicates > 1}.items():
            if value:
                raise typer.BadParameter("the suite already defines this; expected none", param_hint=option)


def _show_estimate(
    call: Invocation,
    space: Workspace,
    suite: Suite | None,
    kind: KindOptions,
    names: list[str],
    tasks: str | None,
    work: ScoringOptions,
) -> None:
    if suite:
        playbooks = list({**suite.baselines, **_chosen(space, names, work)}.values())
        runs = space.scorecards.suite_size(suite, 1)
    elif tasks is None:
        specialists, corpora = _specialists(space, str(kind.across), names)
        playbooks = [space.playbooks.get(each) for own in specialists for each in (own.playbook, own.base)]
        runs = sum(map(len, corpora.values())) * work.replicates
    else:
        playbooks, runs = [*_chosen(space, names, work).values()], space.datasets.size(tasks) * work.replicates
    every = [space.runs.estimate(each, runs) for each in {each.digest: each for each in playbooks}.values()]
    expected = sum(every[1:], every[0])
    call.show(expected.document(), run_views.estimate_line(expected))


def _chosen(space: Workspace, names: list[str], work: ScoringOptions) -> dict[str, Playbook]:
    """The playbooks by what people call them, each with the changes of --set and the program of --program."""
    changes = options.assignments(work.changes)
    called = space.scorecards.called(names)
    if not changes and not work.program:
        return called
    pairs = zip(called, dict.fromkeys(names), strict=True)
    return {name: space.playbooks.get(typed, changes, program=work.program) for name, typed in pairs}


def _playbooks_and_dataset(names: list[str], on: str | None, kind: KindOptions) -> tuple[list[str], str]:
    """The dataset is the last of the arguments, unless --on names it. Raises BadParameter."""
    if on is None and len(names) > 1:
        *names, on = names
        expect_order(names[0], on)
    if on is None or not names:
        actual = f"found only {names[0]}" if names else "found nothing"
        raise typer.BadParameter(f"{actual}; expected playbooks and a dataset", param_hint="DATASET")
    if kind.front and len({*names}) < 2:
        raise typer.BadParameter("found one playbook; expected at least two", param_hint="--front")
    return names, on


def _evaluate(space: Workspace, names: list[str], on: str, work: ScoringOptions, with_front: bool) -> Evaluated:
    metrics = [space.scorecards.metric(each) for each in work.metrics]
    tasks, playbooks = space.datasets.get(on), _chosen(space, names, work)
    with watched(len(tasks) * work.replicates * len(playbooks)) as watch:
        cards = wait_for(
            space.scorecards.evaluate_each(playbooks, tasks, metric=metrics, options=work.options, on_event=watch)
        )
    report = Report(cards, tasks.digest)
    view, document = views.report_view(report), reports.to_document(report)
    if with_front:
        best = space.scorecards.front(cards)
        report = replace(report, front=best)
        view, document = Group(view, views.front_view(best)), {**document, "front": best.document()}
    return Evaluated(report, view, document, lambda form: reports.export_report(report, form))


def _suite(space: Workspace, suite: Suite, names: list[str], work: ScoringOptions, *, accept: bool) -> Evaluated:
    playbooks = _chosen(space, names, work)
    total = space.scorecards.suite_size(suite, len({**suite.baselines, **playbooks}))
    with watched(total) as watch:
        measured = wait_for(
            space.scorecards.suite(suite, playbooks, options=work.options, accept=accept, on_event=watch)
        )
    report = suite_views.report_of(measured, accept)
    return Evaluated(
        report,
        suite_views.view(measured, report),
        measured.document(),
        lambda form: reports.export_report(report, form),
    )


def _specialists(
    space: Workspace, task: str, arguments: list[str]
) -> tuple[list[SpecialisedPlaybook], dict[str, Dataset]]:
    """The specialised playbooks, and the corpora on which they are scored."""
    datasets = options.texts([each for each in arguments if "=" in each], "CORPUS=DATASET")
    names = [each for each in arguments if "=" not in each]
    chosen = space.scorecards.specialists(task, names)
    return chosen, space.scorecards.corpora(task, chosen, datasets, every=not names)


def _across(space: Workspace, task: str, arguments: list[str], work: ScoringOptions) -> Evaluated:
    metrics = [space.scorecards.metric(each) for each in work.metrics]
    chosen, corpora = _specialists(space, task, arguments)
    playbooks = {*(each.name for each in chosen), *(each.base for each in chosen)}
    with watched(sum(map(len, corpora.values())) * work.replicates * len(playbooks)) as watch:
        across = wait_for(
            space.scorecards.across(chosen, corpora, metric=metrics, options=work.options, on_event=watch)
        )
    report, view = specialisation_reports.report_of(across), views.specialisation_view(across)
    return Evaluated(report, view, across.document(), lambda form: specialisation_reports.export(across, form))


@contextmanager
def watched(total: int) -> Iterator[Callable[[str, Cell], None]]:
    """A watcher of cells; an interruption says how to continue."""
    done = 0
    try:
        with progress.candidates(total) as draw:

            def watch(name: str, cell: Cell) -> None:
                nonlocal done
                done += 1
                draw(name, cell)

            yield watch
    except KeyboardInterrupt:
        output.warn(f"Stopped after {done:,} of {total:,} results. To continue: {output.same_command()}")
        raise typer.Exit(INTERRUPTED) from None
