"""seedbed runs screen: what another policy would have scored at a decision."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from seedbed.cli import options, output
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.output import INCONCLUSIVE, PASS, line
from seedbed.reports.numbers import counted

if TYPE_CHECKING:
    from seedbed.experiments.screening.screening import Screening
    from seedbed.stats.estimates import Interval

app = typer.Typer()

LOOKS = {"promising": "bold green", "unpromising": "bold red", "unclear": "bold yellow", "refused": "bold yellow"}


@command(app)
def screen(
    call: Invocation,
    point: Annotated[str, typer.Argument(metavar="POINT", help="The name under which the decision is recorded.")],
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="The candidate policy: a .json file with the probability of each action, a .jsonl file with "
            "probabilities for each run or set of inputs, or module:function.",
        ),
    ],
    playbook: Annotated[
        str | None, typer.Option("--playbook", metavar="PLAYBOOK", help="Use only runs of this playbook.")
    ] = None,
    metric: options.RunScores = "exact_match",
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATASET", help="Use only runs on these tasks. Default: all.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="DATE", help="Use only runs since this date.")] = None,
) -> None:
    """Estimate how another policy would have scored at a decision that past runs made at random.

    Only recorded runs are read; nothing is run or promoted. Use the estimate to decide what to try next. If the log
    cannot support an estimate, the reasons are shown instead. A changed prompt or model is not a policy in this sense;
    for that, use `seedbed runs replay`.

    Exits with code 0 if there is an estimate and 2 if the log cannot support one.
    """
    after = options.moment(since, "--since")
    with call.open() as space:
        screening = wait_for(space.analysis.screen(point, policy, playbook=playbook, metric=metric, on=on, since=after))
    call.show(screening.document(), *_view(screening))
    raise typer.Exit(INCONCLUSIVE if screening.finding == "refused" else PASS)


def _view(screening: Screening) -> list[RenderableType]:
    document, weights = screening.document(), screening.weights
    taken = ", ".join(f"{action} {times:,}" for action, times in document["taken"].items())
    pairs: list[tuple[str, RenderableType]] = [
        ("decided", f"{counted(document['decisions'], 'time')} in {counted(document['runs'], 'run')}: {taken}"),
        ("as decided", f"{_reach(screening.logged)} by {document['metric']}, {document['better']} is better"),
        ("worth", f"{weights.effective:,.1f} of {counted(weights.n, 'run')} (effective sample size)"),
        ("coverage", f"every action the candidate might take was possible in {weights.coverage:.1%} of runs"),
        ("weights", f"largest {weights.largest:.3g}, mean {_reach(weights.mean_weight)}; the true mean is 1"),
    ]
    parts: list[RenderableType] = [
        line((screening.finding, LOOKS[screening.finding]), f": {screening.next}"),
        output.facts(pairs),
    ]
    if screening.estimates:
        rows = [(name, f"{each.mean:.3f}", _between(each)) for name, each in screening.estimates.items()]
        parts += ["", output.table("estimator", "score#", "95 % interval", rows=rows)]
        parts.append(line(("Use the first. dm is only as good as its model of the scores.", "dim")))
    parts += [line(("! ", "bold yellow"), each) for each in screening.notices]
    if screening.refusals:
        parts += ["", line(("Why there is no estimate:", "bold"))]
        parts += [output.problem_view(each) for each in screening.refusals]
    return parts


def _reach(interval: Interval) -> str:
    return f"{interval.mean:.3f} {_between(interval)}".rstrip()


def _between(interval: Interval) -> str:
    return f"[{interval.low:.3f}, {interval.high:.3f}]" if isfinite(interval.high) else ""
