"""seedbed evaluate: score playbooks over tasks, over the datasets of a suite, or over all corpora."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, WorkspaceFile
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, counted

if TYPE_CHECKING:
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.workspace import Workspace


class Format(StrEnum):
    """How a report is written."""

    markdown = "markdown"
    csv = "csv"
    html = "html"
    json = "json"


ENDINGS = {".md": Format.markdown, ".csv": Format.csv, ".html": Format.html, ".json": Format.json}


def evaluate(
    playbooks: Annotated[
        list[str] | None, typer.Argument(metavar="PLAYBOOK", help="Files, digests, refs or channels.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET", help="A file or folder of tasks, or a kept dataset; NAME:SPLIT is one split of it."
        ),
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATASET", help="The dataset, if all arguments are playbooks.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", metavar="METRIC", help="How answers are scored, such as f1; several if repeated. [exact_match]"
        ),
    ] = None,
    replicates: Annotated[int, typer.Option("--replicates", min=1, help="How often each task is run.")] = 1,
    max_cost: Annotated[float | None, options.max_cost("Never spend more, on all of it together.")] = None,
    parallel: Annotated[
        str | None,
        typer.Option("--parallel", metavar="HOW", help="Where runs happen: loop, processes, a number of them, ray."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Give up on a run after so long.")
    ] = None,
    suite: Annotated[
        Path | None, typer.Option("--suite", metavar="FOLDER", help="Score on all datasets of a suite instead.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Hold later results of the suite against these, even if they are worse.")
    ] = False,
    front: Annotated[
        bool, typer.Option("--front", help="Also which of several are worth having by all metrics, cost and speed.")
    ] = False,
    across: Annotated[
        str | None,
        typer.Option(
            "--across",
            metavar="TASK",
            help="Score the playbooks specialised for this kind of task, and their bases, on all corpora. Arguments are"
            " then some of them (all unless given), and CORPUS=DATASET where datasets/CORPUS/TASK is not meant.",
        ),
    ] = None,
    written: Annotated[
        Format | None, typer.Option("--format", metavar="FORMAT", help="Write a report: markdown, csv, html, json.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; its ending says how, too.")
    ] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Score playbooks over tasks. What was scored before is not paid again.

    Several playbooks stand side by side; which is better is for `compare` to say. After an interruption the same
    command goes on where it stopped. A suite is a folder with datasets, metrics and baselines; its results are held
    against the last ones.

    JSON: playbook, name, dataset, metric, mean, low, high, confidence, tasks, unscored, reused, cost_usd, worth_usd,
    latency_seconds (p50, p95, p99), metrics, strata, worst, cells. JSON with several playbooks: dataset, cards.
    JSON with --front: dataset, cards, front (measures, front, playbooks). JSON with --suite: suite, results (name,
    playbook, dataset, metric, mean, low, high, confidence, tasks, unscored, cost_usd, missed, change).
    JSON with --across: metric, better, corpora, scores, difficulty, effects, transfer.
    JSON with -o: format, file.
    Exit code 1 if it cannot be done, a suite has become worse or a threshold is missed. Exit code 2 if a playbook could
    not be scored at all, or the money did not last.
    """
    from rich.console import Group

    from seedbed.cli.views import scorecard as cards
    from seedbed.cli.views import scoring
    from seedbed.cli.views import specialisation as acrosses
    from seedbed.cli.views import suite as suites
    from seedbed.evaluation.suite import Suite
    from seedbed.reports.scorecard import to_document
    from seedbed.reports.specialisation import report_of

    if accept and not suite:
        raise typer.BadParameter("there is no suite to accept results of; expected --suite", param_hint="--accept")
    form = _form(written, file)
    if front and (suite or form == Format.csv):
        raise typer.BadParameter(f"expected none with {'--suite' if suite else 'CSV'}", param_hint="--front")
    if across is not None and (suite or front or on):
        other = "--suite" if suite else "--front" if front else "--on"
        raise typer.BadParameter(f"expected none with {other}", param_hint="--across")
    how = scoring.How(max_cost, parallel, timeout)
    _look_beside(options.workspace_file(workspace))
    if suite:
        names = _only_playbooks(playbooks, dataset, {"--on": on, "--metric": metric, "--replicates": replicates > 1})
        loaded = Suite.load(suite)
        with options.opened(workspace) as space:
            measurement = suites.measured(space, loaded, names, how, accept)
        report, view, document = measurement.report, suites.view(measurement), suites.document(measurement)
    elif across is not None:
        names, datasets = acrosses.named([*(playbooks or ()), *([dataset] if dataset else [])])
        for each in metric or ():
            options.expect_metric(workspace, each)
        with options.opened(workspace) as space:
            by = _metrics(space, metric or ["exact_match"])
            everywhere = acrosses.evaluated(space, across, names, datasets, by, replicates, how)
        report, view, document = report_of(everywhere), acrosses.view(everywhere), everywhere.document()
    else:
        names, on = _named(playbooks, dataset, on)
        if front and len({*names}) < 2:
            raise typer.BadParameter("found one playbook; expected at least two", param_hint="--front")
        read = options.dataset_file(on)
        for each in metric or ():
            options.expect_metric(workspace, each)
        with options.opened(workspace) as space:
            by = _metrics(space, metric or ["exact_match"])
            tasks = read or options.dataset(space, on)
            report = scoring.evaluated(space, scoring.chosen(space, names), tasks, by, replicates, how)
        view, document = cards.report_view(report), to_document(report)
    told: Any = report if across is None else everywhere
    if front:
        from seedbed.cli.views.front import front_view
        from seedbed.experiments.front import front as best

        found = best(report.cards)
        view, document = Group(view, front_view(found)), {**document, "front": found.document()}
        told = replace(report, front=found)
    if form:
        output.hand_over({"format": form.value}, _forms(across is not None)[form](told), file, as_json)
    else:
        output.show(document, as_json, view)
    if unpaid := sum(len(card.unpaid) for card in report.cards.values()):
        scoring.tell(f"the money did not last for {counted(unpaid, 'cell')}; the same command with more goes on")
    decided = all(card.scored for card in report.cards.values()) and not unpaid
    raise typer.Exit(BLOCKED if report.notes else PASS if decided else INCONCLUSIVE)


def _named(playbooks: Iterable[str] | None, last: str | None, on: str | None) -> tuple[list[str], str]:
    """The playbooks and the dataset among the arguments."""
    names = [*(playbooks or ()), *([last] if last else [])]
    if on is None and len(names) > 1:
        *names, on = names
    if on is None or not names:
        found = f"found only {names[0]}" if names else "found nothing"
        raise typer.BadParameter(f"{found}; expected playbooks and a dataset", param_hint="DATASET")
    return names, on


def _only_playbooks(playbooks: Iterable[str] | None, last: str | None, others: Mapping[str, Any]) -> list[str]:
    """All arguments, with a suite, which has its own datasets and metrics."""
    for option, value in others.items():
        if value:
            raise typer.BadParameter("the suite says that itself; expected none", param_hint=option)
    return [*(playbooks or ()), *([last] if last else [])]


def _form(written: Format | None, file: Path | None) -> Format | None:
    if file:
        output.expect_new(file)
    if file and not written and file.suffix not in ENDINGS:
        raise typer.BadParameter(f"found {file.name}; expected one of: {', '.join(ENDINGS)}", param_hint="--output")
    return written or (ENDINGS[file.suffix] if file else None)


def _forms(across: bool = False) -> Mapping[Format, Any]:
    """How each format is written, of a report or of all corpora."""
    from seedbed.reports import scorecard as report
    from seedbed.reports import specialisation as acrosses

    writers: tuple[Any, ...] = (report.to_markdown, report.to_csv, report.to_html, report.to_json)
    if across:
        writers = (acrosses.to_markdown, acrosses.to_csv, acrosses.to_html, acrosses.to_json)
    return dict(zip((Format.markdown, Format.csv, Format.html, Format.json), writers, strict=True))


def _look_beside(workspace: Path) -> None:
    """Have modules found that lie beside the workspace file, as one's own metrics do."""
    folder = str(workspace.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)


def _metrics(space: Workspace, written: Iterable[str]) -> list[Metric]:
    """The metrics as they are written, each once."""
    found = [options.metric(space, each) for each in written]
    return list({metric.name: metric for metric in found}.values())
