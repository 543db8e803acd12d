"""seedbed runs patterns: what sets good runs apart from bad ones."""

from __future__ import annotations

from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from seedbed.cli import output
from seedbed.cli.command import Invocation, command
from seedbed.cli.options import AlphaRate, RunScores
from seedbed.cli.output import INCONCLUSIVE, PASS, Column, line
from seedbed.reports.numbers import clipped, counted
from seedbed.storage.store import short

if TYPE_CHECKING:
    from seedbed.experiments.patterns.patterns import PatternFinding, Patterns
    from seedbed.experiments.patterns.slices import Figures
    from seedbed.experiments.patterns.traits import ScoredRuns

app = typer.Typer()


@command(app)
def patterns(
    call: Invocation,
    playbook: Annotated[
        str | None,
        typer.Argument(metavar="PLAYBOOK", help="A file, a digest, a ref or a channel. Default: all playbooks."),
    ] = None,
    metric: RunScores = "exact_match",
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATASET", help="Use only runs on these tasks. Default: all.")
    ] = None,
    alpha: AlphaRate = 0.05,
    suggest: Annotated[
        Path | None,
        typer.Option(
            "--suggest", metavar="FILE", help="Write the next hypothesis to this file, as an experiment to edit."
        ),
    ] = None,
    finding: Annotated[int, typer.Option("--finding", min=1, help="With --suggest: the finding to use.")] = 1,
) -> None:
    """Find what distinguishes good runs from bad: input words, tags, models, tool errors, lengths, steps or costs.

    Only recorded runs are read; nothing is run. Patterns found in one half of the tasks are shown if they also hold in
    the other half. Tasks from the same source never appear in both halves. A failed run gets the worst score.

    Exits with code 0 if a pattern holds and 2 if none does.
    """
    suggestion = None
    with call.open() as space:
        result, runs = space.analysis.patterns(playbook, metric=metric, on=on, alpha=alpha)
        if suggest and result.findings:
            if finding > len(result.findings):
                text = f"found {finding}; expected at most {len(result.findings)}, the number of findings"
                raise typer.BadParameter(text, param_hint="--finding")
            suggestion = space.analysis.suggest(result, runs, suggest, playbook=playbook, metric=metric, number=finding)
    wrote = {"file": str(suggest), "command": suggestion.command} if suggestion else None
    view = _view(result, runs)
    if suggestion:
        view += [line(("✓ ", "bold green"), f"wrote {suggest}; once you have written the candidate, run:")]
        view += [line(f"  {suggestion.command}")]
    call.show({**result.document(), "left_out": runs.left_out, "suggestion": wrote}, *view)
    raise typer.Exit(PASS if result.findings else INCONCLUSIVE)


def _view(result: Patterns, runs: ScoredRuns) -> list[RenderableType]:
    failed = f", {result.failed:,} of which failed" if result.failed else ""
    summary = f"{counted(result.runs, 'run')} on {counted(result.tasks, 'task')} by {result.metric}{failed}"
    parts: list[RenderableType] = [line((summary, "dim"))]
    if runs.left_out:
        parts.append(
            line(("! ", "bold yellow"), f"{counted(runs.left_out, 'run')} that failed have no score and are left out")
        )
    if result.because:
        return [*parts, line(("! ", "bold yellow"), f"no answer: {result.because}")]
    if result.findings:
        parts += [line(_mark(each), f"{place}. {each}") for place, each in enumerate(result.findings, 1)]
        rows = [_row(str(place), each) for place, each in enumerate(result.findings, 1)]
        parts += ["", _table("finding", rows), ""]
        parts += [_runs(place, each) for place, each in enumerate(result.findings, 1)]
    else:
        text = f"no pattern: none of {counted(result.conditions, 'condition')} held in both halves"
        parts.append(line(("! ", "bold yellow"), text))
    if luck := [each for each in result.tested if not each.holds]:
        parts += ["", line(("Looked promising in the first half but did not hold in the other:", "dim"))]
        parts.append(_table("runs", [_row(each.condition, each) for each in luck]))
    return [*parts, "", line((result.promise, "dim"))]


COLUMNS = (
    Column("tested half", itemgetter(1), drop=1),
    Column("effect", itemgetter(2)),
    Column("first half", itemgetter(3), drop=3),
    Column("tasks", itemgetter(4), drop=2, number=True),
    Column("adjusted p", itemgetter(5), number=True),
)


def _mark(finding: PatternFinding) -> tuple[str, str]:
    return ("▼ ", "bold red") if finding.worse else ("▲ ", "bold green")


def _table(first: str, rows: list[tuple[str, ...]]) -> RenderableType:
    return output.listing((Column(first, itemgetter(0), flexible=True), *COLUMNS), rows)


def _row(name: str, finding: PatternFinding) -> tuple[str, ...]:
    tested = finding.tested
    sure = f" [{finding.low:+.3f}, {finding.high:+.3f}]" if isfinite(finding.high) else ""
    return (
        clipped(name, 70),
        _scores(tested),
        f"{tested.effect:+.3f}{sure}" if tested.tasks else "",
        _scores(finding.suggested),
        f"{tested.tasks}/{tested.of}",
        f"{finding.p:.2g}",
    )


def _scores(figures: Figures) -> str:
    return f"{figures.inside:.3f} against {figures.outside:.3f}" if figures.tasks else "no such runs"


def _runs(place: int, finding: PatternFinding) -> RenderableType:
    shown = " ".join(short(run) for run in finding.runs)
    against = " ".join(short(run) for run in finding.contrast)
    return line(f"{place}. see ", (shown, "yellow"), " against ", (against, "yellow"))
