"""seedbed runs patterns: what sets good runs apart from bad ones."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, WorkspaceFile
from seedbed.cli.output import INCONCLUSIVE, PASS, clipped, counted, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.experiments.patterns.patterns import Figures, Finding, Patterns
    from seedbed.experiments.patterns.traits import Gathered

OUTCOME = "outcome"
"""Stands for a metric where users said how good runs were."""


def patterns(
    playbook: Annotated[
        str | None,
        typer.Argument(metavar="PLAYBOOK", help="A file, a digest, a ref or a channel. Unless given: runs of all."),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", help=f"By which scores; {OUTCOME} is what users said of runs.")
    ] = "exact_match",
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATASET", help="Only runs at these tasks. Unless given: at all.")
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", help="The highest chance of any finding by luck alone, above 0, below 0.5.")
    ] = 0.05,
    suggest: Annotated[
        Path | None,
        typer.Option("--suggest", metavar="FILE", help="Write the next hypothesis there, as an experiment to edit."),
    ] = None,
    finding: Annotated[int, typer.Option("--finding", min=1, help="With --suggest: from which finding.")] = 1,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Find what sets good runs apart from bad ones: words of inputs, tags, models, tool errors, lengths, steps, costs.

    Reads what was recorded and runs nothing. One half of the tasks suggests patterns; told are those that hold in the
    other half, too. Tasks of one source are never on both sides. A run that failed has the worst score.

    JSON: metric, runs, failed, left_out, tasks, units, conditions, alpha, correction, because, promise, findings (text,
    condition, slice, found, tested, low, high, p, worse, level, runs, contrast, beyond, weak_found, weak_tested),
    not_confirmed (the same), suggestion.
    Exit code 0 if something was found, 2 if nothing was.
    """
    from collections import Counter

    from seedbed.evaluation.metrics.metric import better
    from seedbed.experiments.patterns.patterns import find
    from seedbed.experiments.patterns.suggestion import suggest as written
    from seedbed.experiments.patterns.traits import gathered

    if not 0 < alpha < 0.5:
        raise typer.BadParameter(f"found {alpha}; expected above 0 and below 0.5", param_hint="--alpha")
    read = options.dataset_file(on) if on else None
    with options.opened(workspace) as space:
        by = None if metric == OUTCOME else options.metric(space, metric)
        tasks = read or (options.dataset(space, on) if on else None)
        subject = space.playbook(playbook).digest if playbook else None
        direction = better(by) if by else "higher"
        runs = gathered(space.store, by, playbook=subject, tasks=tasks, failure_counts_as=float(direction == "lower"))
    found = find(runs.scored, by.name if by else OUTCOME, alpha=alpha, better=direction)
    suggestion = None
    if suggest and found.findings:
        if finding > len(found.findings):
            told = f"found {finding}; expected at most {len(found.findings)}, the number of findings"
            raise typer.BadParameter(told, param_hint="--finding")
        suggestion = written(
            found.findings[finding - 1],
            suggest,
            control=subject or Counter(each.run.playbook for each in runs.scored).most_common(1)[0][0],
            metric=metric if by else "METRIC",
            binary=bool(getattr(by, "binary", False)),
            alpha=alpha,
        )
    wrote = {"file": str(suggest), "command": suggestion.command} if suggestion else None
    view = _view(found, runs)
    if suggestion:
        view += [line(("✓ ", "bold green"), f"wrote {suggest}; when the candidate is written, run:")]
        view += [line(f"  {suggestion.command}")]
    output.show({**found.document(), "left_out": runs.left_out, "suggestion": wrote}, as_json, *view)
    raise typer.Exit(PASS if found.findings else INCONCLUSIVE)


def _view(found: Patterns, runs: Gathered) -> list[RenderableType]:
    failed = f", {found.failed:,} of which failed" if found.failed else ""
    looked = f"{counted(found.runs, 'run')} at {counted(found.tasks, 'task')} by {found.metric}{failed}"
    parts: list[RenderableType] = [line((looked, "dim"))]
    if runs.left_out:
        parts.append(line(("! ", "bold yellow"), f"{counted(runs.left_out, 'run')} that failed have no score to count"))
    if found.because:
        return [*parts, line(("! ", "bold yellow"), f"nothing can be said: {found.because}")]
    if found.findings:
        parts += [line(_mark(each), f"{place}. {each}") for place, each in enumerate(found.findings, 1)]
        rows = [_row(str(place), each) for place, each in enumerate(found.findings, 1)]
        parts += ["", _table("finding", rows), ""]
        parts += [_runs(place, each) for place, each in enumerate(found.findings, 1)]
    else:
        told = f"no pattern: none of {counted(found.conditions, 'condition')} held in both halves"
        parts.append(line(("! ", "bold yellow"), told))
    if luck := [each for each in found.tested if not each.holds]:
        parts += ["", line(("Looked promising in the first half, and did not hold in the other:", "dim"))]
        parts.append(_table("runs", [_row(each.condition, each) for each in luck]))
    return [*parts, "", line((found.promise, "dim"))]


def _mark(finding: Finding) -> tuple[str, str]:
    return ("▼ ", "bold red") if finding.worse else ("▲ ", "bold green")


def _table(first: str, rows: list[tuple[str, ...]]) -> RenderableType:
    return output.table(first, "tested half", "effect", "first half", "tasks#", "adjusted p#", rows=rows)


def _row(name: str, finding: Finding) -> tuple[str, ...]:
    tested = finding.tested
    sure = f" [{finding.low:+.3f}, {finding.high:+.3f}]" if isfinite(finding.high) else ""
    return (
        clipped(name, 70),
        _scores(tested),
        f"{tested.effect:+.3f}{sure}" if tested.tasks else "",
        _scores(finding.found),
        f"{tested.tasks}/{tested.of}",
        f"{finding.p:.2g}",
    )


def _scores(figures: Figures) -> str:
    return f"{figures.inside:.3f} against {figures.outside:.3f}" if figures.tasks else "no such run"


def _runs(place: int, finding: Finding) -> RenderableType:
    shown = " ".join(run[:10] for run in finding.runs)
    against = " ".join(run[:10] for run in finding.contrast)
    return line(f"{place}. see ", (shown, "yellow"), " against ", (against, "yellow"))
