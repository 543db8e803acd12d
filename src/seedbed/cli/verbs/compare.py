"""seedbed compare: decide which playbook is better, or forecast what that would take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from seedbed.cli import options, output, progress
from seedbed.cli.command import Invocation, command, going_on, wait_for
from seedbed.cli.options import PLAYBOOK, Changes, MaxCost, Parallel, ProgramPath, RealTools, ReportFile, Seed
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS
from seedbed.cli.views import run as run_views
from seedbed.cli.views import verdict as views
from seedbed.errors import BudgetSpent
from seedbed.experiments.evidence_sources import LiveTraffic, PastRuns, expect_used
from seedbed.experiments.options import USUAL_ALPHA, Comparing
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.experiment.view import NamePair
from seedbed.workspace import Workspace
from seedbed.workspace.execution import expect_readable
from seedbed.workspace.resources import Evaluating

app = typer.Typer(add_completion=False)

EXITS = {"superior": PASS, "inferior": BLOCKED, "futile": BLOCKED}
"""Exit codes of findings. A goal that is reached passes; everything else is undecided."""


class Rule(StrEnum):
    """The stopping rules by name."""

    exact = "exact"
    betting = "betting"
    gsprt = "gsprt"
    sprt = "sprt"


class GoalName(StrEnum):
    """What the comparison is to show."""

    superior = "superior"
    non_inferior = "non-inferior"
    equivalent = "equivalent"


@dataclass(frozen=True)
class DecisionOptions:
    """How the comparison is decided."""

    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="The metric used to score answers; with --live, the kind of feedback. Default: exact_match or rating.",
        ),
    ] = None
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="RATE",
            help="The maximum probability of a false winner, above 0 and below 0.5. Default: 0.05.",
        ),
    ] = None
    rule: Annotated[
        Rule | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="The stopping rule: exact (for pass/fail scores), betting (for any score), gsprt or sprt.",
        ),
    ] = None
    effect: Annotated[
        float | None,
        typer.Option(
            "--effect",
            metavar="SIZE",
            help="The smallest gain worth having; a candidate that falls short is dropped sooner.",
        ),
    ] = None
    goal: Annotated[
        GoalName,
        typer.Option("--goal", metavar="GOAL", help="The claim to prove: superior, non-inferior or equivalent."),
    ] = GoalName.superior
    margin: Annotated[
        float | None,
        typer.Option("--margin", metavar="SIZE", help="How much worse B may be and still count as no worse."),
    ] = None
    replicates: Annotated[int, typer.Option("--replicates", min=1, help="How many times to run each task.")] = 1
    first_replicate: Annotated[
        int,
        typer.Option(
            "--first-replicate",
            min=0,
            metavar="N",
            help="Start at this replicate of each task, to make new runs rather than reuse recorded ones.",
        ),
    ] = 0
    channel: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="CHANNEL", help="Draw on this channel's error budget, which then sets the error rate."
        ),
    ] = None
    exploratory: Annotated[
        bool,
        typer.Option(
            "--exploratory", help="Explore only: the verdict cannot support a release and does not use up an attempt."
        ),
    ] = False
    seed: Seed = 0
    discordance: Annotated[
        float | None,
        typer.Option(
            "--discordance",
            metavar="SHARE",
            help="With --plan or --rule sprt: the expected share of unequal scores. Default with --plan: 0.3.",
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
            exploratory=self.exploratory,
        )


@dataclass(frozen=True)
class EvidenceOptions:
    """Where the evidence comes from: a dataset, past runs of A, or live traffic."""

    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="DATASET", help="Tasks that B was not evolved on; with --replay, the expected answers."
        ),
    ] = None
    replay: Annotated[
        int | None,
        typer.Option("--replay", min=1, metavar="N", help="Replay N past runs of A instead."),
    ] = None
    mode: Annotated[
        str,
        typer.Option("--mode", metavar="MODE", help="With --replay: strict, lenient, or fork:K (live from step K)."),
    ] = "strict"
    live_runs: Annotated[
        int | None,
        typer.Option(
            "--live-runs",
            min=2,
            metavar="M",
            help="With --replay: also run M of them live, to estimate how live runs would compare.",
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="With --replay: use only runs since this time.")
    ] = None
    live: Annotated[
        list[str] | None,
        typer.Option(
            "--live",
            metavar="CHANNEL",
            help="Instead of A and B: judge this channel's canary based on user feedback. Repeat to compare channels.",
        ),
    ] = None
    conclude: Annotated[
        bool, typer.Option("--conclude", help="With --live: end the comparison now, decided or not.")
    ] = False

    def source(self) -> str | PastRuns | LiveTraffic:
        """Where the evidence comes from. Raises DatasetError if the expected answers cannot be read."""
        if self.live:
            return LiveTraffic(channels=tuple(self.live), conclude=self.conclude)
        if self.replay is not None:
            return PastRuns(sample=self.replay, mode=self.mode, since=options.moment(self.since, "--since"))
        if self.on is None:
            raise typer.BadParameter("found neither; expected --on DATASET or --replay N", param_hint="--on")
        return self.on


@dataclass(frozen=True)
class WorkOptions:
    """How the runs are done, and what is written."""

    plan: Annotated[bool, typer.Option("--plan", help="Forecast the outcome without spending anything.")] = False
    max_cost: MaxCost = None
    parallel: Parallel = None
    real_tools: RealTools = False
    changes: Changes = None
    program: ProgramPath = None
    file: ReportFile = None


@command(app, dry_run=True, aliases={"sample": "--replay", "channel": "--for", "changes": "--set", "file": "--output"})
def compare(
    call: Invocation,
    control: Annotated[
        str | None, typer.Argument(metavar="A", help=f"The current playbook: {PLAYBOOK.lower()}")
    ] = None,
    candidates: Annotated[
        list[str] | None, typer.Argument(metavar="B", help="The candidate, or several to rank.")
    ] = None,
    *,
    evidence: EvidenceOptions,
    decision: DecisionOptions,
    work: WorkOptions,
) -> None:
    """Decide whether B is better than A, with a guaranteed error rate.

    The comparison stops as soon as the answer is clear. If it is interrupted, run the same command again to continue;
    once there is a verdict, the command only prints it. Several candidates are ranked under one shared error rate. With
    --live, nothing is run: the decision is based on user feedback as it arrives.

    Exits with code 0 if B is better or meets the goal, 1 if it is worse or falls short, and 2 if the result is
    inconclusive or the budget ran out. With several candidates, the code is 0 if any is better and 1 if none can be.
    With --live, it is also 2 until there is a decision; you can check as often as you like. With --live-runs, it is 0
    if the whole interval favours B, 1 if the whole interval favours A, and 2 otherwise.
    """
    options.expect_report(work.file)
    if not evidence.live and (control is None or not candidates):
        raise typer.BadParameter("found none; expected two playbooks, or --live CHANNEL", param_hint="A B")
    source = evidence.source()
    expect_used(source, evidence, decision, work, control=control, candidates=candidates)
    how = decision.options()
    if isinstance(source, LiveTraffic):
        _compare_live(call, source, decision, work.file)
    metric = decision.metric or "exact_match"
    expect_readable(call.workspace, [metric], evidence.on)
    with call.open(real_tools=work.real_tools) as space, _budget(call):
        values = options.assignments(work.changes)
        new = {name: space.playbooks.get(name, values, program=work.program) for name in candidates or ()}
        sides = Sides(str(control), space.playbooks.get(str(control), program=work.program), new, metric)
        if isinstance(source, PastRuns) and evidence.on:
            source = replace(source, expected=space.datasets.get(evidence.on))
        if work.plan:
            _show_forecast(call, space, sides, str(source), how)
            return
        if not (isinstance(source, PastRuns) or call.as_json):
            others = [*sides.candidates.values()]
            prospect = space.experiments.prospect(sides.old, others, on=source, metric=metric, options=how)
            output.say(views.prospect_text(prospect))
        if call.dry_run:
            _show_estimate(call, space, sides, evidence, how)
            return
        if isinstance(source, PastRuns) and evidence.live_runs is not None:
            _estimate(call, space, sides, source, evidence.live_runs, decision.seed, work)
        call.say_held_out(space, evidence.on or "")
        with going_on(output.same_command):
            verdict = _verdict(space, sides, source, how, work)
        if work.file:
            verdict.export(work.file, store=space.store, names=sides.names)
        _show(call, verdict, space.experiments.rule(verdict), sides)
    call.say_written(work.file)
    raise typer.Exit(_exit_code(verdict, decision.goal))


def _show_forecast(call: Invocation, space: Workspace, sides: Sides, on: str, how: Comparing) -> None:
    plan = space.experiments.forecast(sides.old, sides.only("--plan"), on=on, metric=sides.metric, options=how)
    call.show(plan.document(), views.forecast_view(plan))


def _show_estimate(call: Invocation, space: Workspace, sides: Sides, evidence: EvidenceOptions, how: Comparing) -> None:
    """Print what all tasks would take; most comparisons stop sooner, as --plan says."""
    runs = (evidence.replay or space.datasets.size(str(evidence.on))) * how.replicates
    others = (space.runs.estimate(candidate, runs) for candidate in sides.candidates.values())
    expected = sum(others, space.runs.estimate(sides.old, runs))
    call.show(expected.document(), run_views.estimate_line(expected, "at most "))


@dataclass(frozen=True)
class Sides:
    """What is compared: the control and its name, the candidates by their names, and the metric."""

    control: str
    old: Playbook
    candidates: dict[str, Playbook]
    metric: str

    @property
    def first(self) -> Playbook:
        return next(iter(self.candidates.values()))

    def only(self, option: str) -> Playbook:
        """The candidate, for an option that takes one."""
        if len(self.candidates) > 1:
            raise typer.BadParameter("expected none with several candidates", param_hint=option)
        return self.first

    @property
    def names(self) -> NamePair:
        return self.control, next(iter(self.candidates))


def _verdict(space: Workspace, sides: Sides, source: str | PastRuns, how: Comparing, work: WorkOptions) -> Verdict:
    alpha = space.experiments.next_level(how.channel) if how.channel else how.alpha or USUAL_ALPHA
    total = (source.sample or 0) if isinstance(source, PastRuns) else space.datasets.size(source)
    with progress.comparing(total, alpha) as watch:
        return wait_for(
            space.compare(
                sides.old,
                list(sides.candidates.values()) if len(sides.candidates) > 1 else sides.first,
                on=source,
                metric=sides.metric,
                options=how,
                max_cost_usd=work.max_cost,
                parallel=work.parallel,
                on_event=watch,
            )
        )


def _show(call: Invocation, verdict: Verdict, rule: Any, sides: Sides) -> None:
    if verdict.ranking:
        names = {playbook.digest: name for name, playbook in sides.candidates.items()}
        call.show(verdict.ranking.document(), views.ranking_view(verdict.ranking, names))
    elif verdict.replays:
        view = views.replay_view(verdict, verdict.replays, rule, sides.names)
        call.show(views.replay_document(verdict, verdict.replays), view)
    else:
        call.show(verdict.document(), views.verdict_view(verdict, rule, sides.names))


def _exit_code(verdict: Verdict, goal: str) -> int:
    if verdict.ranking:
        losers = {_exit_code(each.verdict, goal) for each in verdict.ranking.candidates if not each.better}
        best = verdict.ranking.candidates[0].better
        return PASS if best else BLOCKED if losers == {BLOCKED} else INCONCLUSIVE
    return PASS if verdict.finding == goal else EXITS.get(verdict.finding, INCONCLUSIVE)


def _estimate(
    call: Invocation, space: Workspace, sides: Sides, source: PastRuns, live_runs: int, seed: int, work: WorkOptions
) -> None:
    """Print by how much live runs would differ; it decides nothing."""
    estimate, replays = wait_for(
        space.experiments.estimate(
            sides.old,
            sides.only("--live-runs"),
            on=source,
            live_runs=live_runs,
            metric=sides.metric,
            seed=seed,
            work=Evaluating(max_cost_usd=work.max_cost, parallel=work.parallel),
        )
    )
    call.show(views.estimate_document(estimate, replays), views.estimate_view(estimate, replays, sides.names))
    raise typer.Exit({"better": PASS, "worse": BLOCKED}.get(estimate.says, INCONCLUSIVE))


def _compare_live(call: Invocation, source: LiveTraffic, decision: DecisionOptions, file: Path | None) -> NoReturn:
    """Print how a canary does beside its control, or each other channel beside the first."""
    first, *others = source.channels
    with call.open() as space:
        standings = space.experiments.compare_live(
            source, metric=decision.metric or "rating", alpha=decision.alpha, exploratory=decision.exploratory
        )
        names = [(first, each.channel) if others else ("the control", "the canary") for each in standings]
        parts = [
            part
            for each, called in zip(standings, names, strict=True)
            for part in views.live_view(each, space.experiments.rule(each.verdict) if each.verdict else None, called)
        ]
        if file and (so_far := standings[0].so_far):
            so_far.export(file, store=space.store if standings[0].verdict else None, names=names[0])
    arms = [each.document() for each in standings]
    call.show({"control": first, "arms": arms} if others else arms[0], *parts)
    call.say_written(file)
    findings = {each.finding for each in standings}
    raise typer.Exit(PASS if "superior" in findings else BLOCKED if findings == {"inferior"} else INCONCLUSIVE)


@contextmanager
def _budget(call: Invocation) -> Iterator[None]:
    """A budget that ran out leaves the question open: that is not a candidate that is worse."""
    try:
        yield
    except BudgetSpent as spent:
        output.show_error(spent, call.as_json)
        raise typer.Exit(INCONCLUSIVE) from None
