"""seedbed compare: decide which playbook is better, or forecast what that would take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Annotated, Any

import typer

from seedbed.cli import options, output, progress
from seedbed.cli.command import Call, command, wait_for
from seedbed.cli.options import PLAYBOOK, Changes, MaxCost, Parallel, Report, Seed
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, line
from seedbed.cli.views import verdict as views
from seedbed.errors import BudgetSpent
from seedbed.experiments.options import USUAL_ALPHA, Comparing
from seedbed.experiments.sources import LiveTraffic, PastRuns
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.experiment.view import NamePair
from seedbed.workspace import Workspace
from seedbed.workspace.execution import dataset_file

app = typer.Typer(add_completion=False)

EXITS = {"superior": PASS, "inferior": BLOCKED, "futile": BLOCKED}
"""Exit codes of findings; the goal that was reached passes, everything else is not decided."""


class Rule(StrEnum):
    """The stopping rules by name."""

    exact = "exact"
    betting = "betting"
    gsprt = "gsprt"
    sprt = "sprt"


class GoalName(StrEnum):
    """What is to be shown."""

    superior = "superior"
    non_inferior = "non-inferior"
    equivalent = "equivalent"


@dataclass(frozen=True)
class Decision:
    """How the comparison is decided."""

    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="RATE",
            help="The highest probability of a false winner, above 0, below 0.5. [0.05]",
        ),
    ] = None
    rule: Annotated[
        Rule | None,
        typer.Option(
            "--rule", metavar="RULE", help="exact for passes and failures, betting for any score, gsprt, sprt."
        ),
    ] = None
    effect: Annotated[
        float | None,
        typer.Option("--effect", metavar="SIZE", help="The gain worth having: less than that ends sooner."),
    ] = None
    goal: Annotated[
        GoalName,
        typer.Option("--goal", metavar="GOAL", help="What to show: superior, non-inferior, equivalent."),
    ] = GoalName.superior
    margin: Annotated[
        float | None, typer.Option("--margin", metavar="SIZE", help="How much worse still counts as not worse.")
    ] = None
    replicates: Annotated[int, typer.Option("--replicates", min=1, help="How often each task is run.")] = 1
    first_replicate: Annotated[
        int,
        typer.Option(
            "--first-replicate",
            min=0,
            metavar="N",
            help="Start with this replicate of each task: new runs, not those that are known.",
        ),
    ] = 0
    channel: Annotated[
        str | None,
        typer.Option("--for", metavar="CHANNEL", help="Pay from its error budget, which then sets the error rate."),
    ] = None
    seed: Seed = 0
    discordance: Annotated[
        float | None,
        typer.Option(
            "--discordance",
            metavar="SHARE",
            help="With --plan or --rule sprt: on how many tasks scores will differ. [0.3 with --plan]",
        ),
    ] = None

    def options(self) -> Comparing:
        return Comparing(
            rule=self.rule.value if self.rule else None,
            alpha=self.alpha,
            effect=self.effect,
            goal=self.goal.value,
            margin=self.margin,
            replicates=self.replicates,
            first_replicate=self.first_replicate,
            discordance=self.discordance,
            seed=self.seed,
            channel=self.channel or "",
        )


@dataclass(frozen=True)
class Replay:
    """Past runs of A as the evidence."""

    replay: Annotated[
        int | None, typer.Option("--replay", min=1, metavar="N", help="Replay this many past runs of A instead.")
    ] = None
    mode: Annotated[
        str,
        typer.Option("--mode", metavar="MODE", help="With --replay: strict, lenient, or fork:K, live from step K."),
    ] = "strict"
    live_runs: Annotated[
        int | None,
        typer.Option(
            "--live-runs",
            min=2,
            metavar="M",
            help="With --replay: run this many of them live too, and estimate what live runs would show.",
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="With --replay: only runs since then.")
    ] = None


@dataclass(frozen=True)
class Live:
    """Live traffic as the evidence."""

    live: Annotated[
        list[str] | None,
        typer.Option(
            "--live",
            metavar="CHANNEL",
            help="Instead of A and B: its canary, by users' feedback. Given again: what other channels serve.",
        ),
    ] = None
    conclude: Annotated[bool, typer.Option("--conclude", help="With --live: end it now, decided or not.")] = False


@command(app, aliases={"sample": "--replay", "channel": "--for"})
def compare(
    call: Call,
    control: Annotated[str | None, typer.Argument(metavar="A", help=f"Today's playbook: {PLAYBOOK.lower()}")] = None,
    candidates: Annotated[
        list[str] | None, typer.Argument(metavar="B", help="The candidate; several are ranked.")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="DATASET", help="Tasks that B was not evolved on; with --replay, expected answers."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="How answers are scored: exact_match. With --live, which feedback counts: rating.",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what to expect, and spend nothing.")] = False,
    max_cost: MaxCost = None,
    parallel: Parallel = None,
    changes: Changes = None,
    file: Report = None,
    *,
    decision: Decision,
    replay: Replay,
    live: Live,
) -> None:
    """Decide whether B is better than A, with a guaranteed error rate.

    It stops as soon as the answer is known, and continues after an interruption. Repeating a comparison prints the
    recorded verdict. Several candidates are ranked, with one error rate for all of them. With --live users decide, as
    their feedback arrives; nothing is run.

    Exit code 0 if B is better, or as good as the goal says; 1 if it is worse or falls short; 2 if the tasks do not
    tell, or the budget ran out. Of several candidates, 0 if any is better, 1 if none can be. With --live, 2 also while
    it is not decided: look again as often as you like. With --live-runs, 0 if all of the interval is in favour of B, 1
    if all of it is against, else 2.
    """
    options.expect_report(file)
    if live.live:
        _expect_unused(replay, "with --live, which runs nothing")
        _compare_live(call, live, metric or "rating", decision.alpha)
    if control is None or not candidates:
        raise typer.BadParameter("found none; expected two playbooks, or --live CHANNEL", param_hint="A B")
    if live.conclude:
        raise typer.BadParameter("expected none without --live", param_hint="--conclude")
    if replay.replay is None:
        _expect_unused(replay, "without --replay")
        if on is None:
            raise typer.BadParameter("found neither; expected --on DATASET or --replay N", param_hint="--on")
    if plan and len(candidates) > 1:
        raise typer.BadParameter("expected none with several candidates", param_hint="--plan")
    names, metric, how = (control, candidates[0]), metric or "exact_match", decision.options()
    call.expect_metrics([metric])
    tasks = dataset_file(on) if on else None
    with call.open() as space, _budget(call):
        values = options.assignments(changes)
        new = [space.playbooks.get(each, values) for each in candidates]
        if replay.replay is None and plan:
            forecast = space.experiments.forecast(control, new[0], on=str(on), metric=metric, options=how)
            call.show(forecast.document(), views.forecast_view(forecast))
            return
        source: Any = (tasks or on) if replay.replay is None else _past_runs(space, replay, on)
        if replay.live_runs is not None:
            _estimate(call, space, (control, new[0]), names, source, replay.live_runs, metric, decision, max_cost)
        alpha = space.experiments.next_level(how.channel) if how.channel else how.alpha or USUAL_ALPHA
        total = replay.replay or len(space.datasets.get(str(on)))
        with progress.comparing(total, alpha) as watch:
            verdict = wait_for(
                space.compare(
                    control,
                    new if len(new) > 1 else new[0],
                    on=source,
                    metric=metric,
                    options=how,
                    max_cost_usd=max_cost,
                    parallel=parallel,
                    on_event=watch,
                )
            )
        rule = space.experiments.rule(verdict)
        if file:
            verdict.export(file, store=space.store, names=names)
    _show(call, verdict, rule, names, new, candidates)
    if file and not call.as_json:
        call.show(None, line(("✓ ", "bold green"), f"wrote {file}"))
    raise typer.Exit(_exit_code(verdict, decision.goal))


def _past_runs(space: Workspace, replay: Replay, on: str | None) -> PastRuns:
    return PastRuns(
        sample=replay.replay,
        mode=replay.mode,
        since=options.moment(replay.since, "--since"),
        expected=space.datasets.get(on) if on else None,
    )


def _show(call: Call, verdict: Verdict, rule: Any, names: NamePair, new: list[Playbook], candidates: list[str]) -> None:
    if verdict.ranking:
        called = {each.digest: name for each, name in zip(new, candidates, strict=True)}
        call.show(verdict.ranking.document(), views.ranking_view(verdict.ranking, called))
    elif verdict.replays:
        view = views.replay_view(verdict, verdict.replays, rule, names)
        call.show(views.replay_document(verdict, verdict.replays), view)
    else:
        call.show(verdict.body(), views.verdict_view(verdict, rule, names))


def _exit_code(verdict: Verdict, goal: str) -> int:
    if verdict.ranking:
        losers = {_exit_code(each.verdict, goal) for each in verdict.ranking.candidates if not each.better}
        best = verdict.ranking.candidates[0].better
        return PASS if best else BLOCKED if losers == {BLOCKED} else INCONCLUSIVE
    return PASS if verdict.finding == goal else EXITS.get(verdict.finding, INCONCLUSIVE)


def _estimate(
    call: Call,
    space: Workspace,
    pair: tuple[str, Playbook],
    names: NamePair,
    source: PastRuns,
    live_runs: int,
    metric: str,
    decision: Decision,
    max_cost: float | None,
) -> None:
    """Print by how much live runs would differ; it decides nothing."""
    estimate, replays = wait_for(
        space.experiments.estimate(
            *pair, on=source, live_runs=live_runs, metric=metric, seed=decision.seed, max_cost_usd=max_cost
        )
    )
    call.show(views.estimate_document(estimate, replays), views.estimate_view(estimate, replays, names))
    raise typer.Exit({"better": PASS, "worse": BLOCKED}.get(estimate.says, INCONCLUSIVE))


def _compare_live(call: Call, live: Live, metric: str, alpha: float | None) -> None:
    """Print how a canary does beside its control, or each other channel beside the first."""
    first, *others = live.live or [""]
    with call.open() as space:
        source = LiveTraffic(channels=(first, *others), conclude=live.conclude)
        standings = space.experiments.compare_live(source, metric=metric, alpha=alpha)
        names = [(first, each.channel) if others else ("the control", "the canary") for each in standings]
        parts = [
            part
            for each, called in zip(standings, names, strict=True)
            for part in views.live_view(each, space.experiments.rule(each.verdict) if each.verdict else None, called)
        ]
    arms = [each.document() for each in standings]
    call.show({"control": first, "arms": arms} if others else arms[0], *parts)
    findings = {each.finding for each in standings}
    raise typer.Exit(PASS if "superior" in findings else BLOCKED if findings == {"inferior"} else INCONCLUSIVE)


def _expect_unused(group: Any, when: str) -> None:
    """Refuse options that would do nothing."""
    for field in fields(group):
        value = getattr(group, field.name)
        if field.default is not MISSING and value != field.default:
            raise typer.BadParameter(f"expected none {when}", param_hint=f"--{field.name.replace('_', '-')}")


@contextmanager
def _budget(call: Call) -> Iterator[None]:
    """A budget that ran out leaves the question open: that is not a candidate that is worse."""
    try:
        yield
    except BudgetSpent as spent:
        output.show_error(spent, call.as_json)
        raise typer.Exit(INCONCLUSIVE) from None
