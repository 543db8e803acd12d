"""seedbed runs screen: what another policy would have scored at a decision."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.nouns.runs.patterns import OUTCOME
from seedbed.cli.options import AsJson, WorkspaceFile
from seedbed.cli.output import INCONCLUSIVE, PASS, counted, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.experiments.screening import Screening
    from seedbed.stats.estimates import Interval

LOOKS = {"promising": "bold green", "unpromising": "bold red", "unclear": "bold yellow", "refused": "bold yellow"}


def screen(
    point: Annotated[str, typer.Argument(metavar="POINT", help="Of which decision, by the name it is recorded under.")],
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="What the candidate would do: a file.json with the chance of each action, a file.jsonl with those of "
            "each run or inputs, or module:function.",
        ),
    ],
    playbook: Annotated[
        str | None, typer.Option("--playbook", metavar="PLAYBOOK", help="Only runs of this one.")
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", help=f"By which scores; {OUTCOME} is what users said of runs.")
    ] = "exact_match",
    on: Annotated[
        str | None, typer.Option("--on", metavar="DATASET", help="Only runs at these tasks. Unless given: at all.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="DATE", help="Only runs since then.")] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what another policy would have scored at a decision that past runs made by chance, and recorded so.

    Reads what was recorded and runs nothing. It says what to try next and promotes nothing; where the log cannot carry
    an estimate there is none, and the reasons are told. A changed prompt or model is no such policy: replay it.

    JSON: point, metric, better, runs, decisions, unscored, without_chance, taken, logged (mean, low, high), effective,
    largest_weight, mean_weight (mean, low, high), coverage, estimates (estimator, mean, low, high), finding, refusals,
    notices, next.
    Exit code 0 if there is an estimate, 2 if the log cannot carry one.
    """
    from seedbed.experiments import screening
    from seedbed.experiments.policies import policy as read_policy

    read = options.dataset_file(on) if on else None
    after = options.moment(since, "--since")
    with options.opened(workspace) as space:
        candidate = read_policy(policy)
        by = None if metric == OUTCOME else options.metric(space, metric)
        tasks = read or (options.dataset(space, on) if on else None)
        subject = space.playbook(playbook).digest if playbook else None
        log = options.complete(screening.decided(space.store, point, by, playbook=subject, tasks=tasks, since=after))
    found = screening.screened(log, candidate)
    output.show(found.document(), as_json, *_view(found))
    raise typer.Exit(INCONCLUSIVE if found.finding == "refused" else PASS)


def _view(found: Screening) -> list[RenderableType]:
    told, weights = found.document(), found.weights
    taken = ", ".join(f"{action} {times:,}" for action, times in told["taken"].items())
    pairs: list[tuple[str, RenderableType]] = [
        ("decided", f"{counted(told['decisions'], 'time')} in {counted(told['runs'], 'run')}: {taken}"),
        ("as decided", f"{_reach(found.logged)} by {told['metric']}, {told['better']} is better"),
        ("worth", f"{weights.effective:,.1f} of {counted(weights.n, 'run')} (effective sample size)"),
        ("coverage", f"all that the candidate might do was possible in {weights.coverage:.1%} of runs"),
        ("weights", f"largest {weights.largest:.3g}, mean {_reach(weights.mean_weight)}; the true mean is 1"),
    ]
    parts: list[RenderableType] = [line((found.finding, LOOKS[found.finding]), f": {found.next}"), output.facts(pairs)]
    if found.estimates:
        rows = [(name, f"{each.value:.3f}", _between(each.interval)) for name, each in found.estimates.items()]
        parts += ["", output.table("estimator", "score#", "95 % interval", rows=rows)]
        parts.append(line(("The first is the one to go by. dm is as wrong as its guesses.", "dim")))
    parts += [line(("! ", "bold yellow"), each) for each in found.notices]
    if found.refusals:
        parts += ["", line(("Why there is no estimate:", "bold"))]
        parts += [output.problem_view(each) for each in found.refusals]
    return parts


def _reach(interval: Interval) -> str:
    return f"{interval.mean:.3f} {_between(interval)}".rstrip()


def _between(interval: Interval) -> str:
    return f"[{interval.low:.3f}, {interval.high:.3f}]" if isfinite(interval.high) else ""
