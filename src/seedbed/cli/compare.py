"""seedbed compare: decide which playbook is better, or say beforehand what that would take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, MetricName, WorkspaceFile
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS

if TYPE_CHECKING:
    from seedbed.evaluation.dataset import Dataset
    from seedbed.evaluation.metrics import Metric
    from seedbed.experiments.verdict import Verdict
    from seedbed.playbooks.playbook import Playbook
    from seedbed.workspace import Workspace


class Rule(StrEnum):
    """The stopping rules by the names that people write."""

    exact = "exact"
    betting = "betting"
    gsprt = "gsprt"
    sprt = "sprt"


class Goal(StrEnum):
    """What is to be shown."""

    superior = "superior"
    non_inferior = "non-inferior"
    equivalent = "equivalent"


EXITS = {"superior": PASS, "inferior": BLOCKED, "futile": BLOCKED}
"""Exit codes of findings; what was the goal passes, everything else is not decided."""


def compare(
    control: Annotated[str, typer.Argument(metavar="A", help="What there is: a file, a digest, a ref or a channel.")],
    candidates: Annotated[list[str], typer.Argument(metavar="B", help="What may be better; several are ranked.")],
    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="DATASET", help="Tasks that B was not evolved on; with --replay, expected answers."
        ),
    ] = None,
    replay: Annotated[
        int | None, typer.Option("--replay", min=1, metavar="N", help="Replay so many past runs of A instead.")
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="With --replay: strict, lenient, or fork:K, live from step K.")
    ] = "strict",
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="With --replay: no runs from before that.")
    ] = None,
    metric: MetricName = "exact_match",
    alpha: Annotated[
        float,
        typer.Option("--alpha", help="The highest chance to call a candidate better that is not, above 0, below 0.5."),
    ] = 0.05,
    rule: Annotated[
        Rule | None,
        typer.Option(
            "--rule", metavar="RULE", help="exact for passes and failures, betting for any score, gsprt, sprt."
        ),
    ] = None,
    effect: Annotated[
        float | None,
        typer.Option("--effect", metavar="SIZE", help="The gain worth having: what falls short of it ends sooner."),
    ] = None,
    goal: Annotated[
        Goal, typer.Option("--goal", metavar="GOAL", help="What is to be shown: superior, non-inferior, equivalent.")
    ] = Goal.superior,
    margin: Annotated[
        float | None, typer.Option("--margin", metavar="SIZE", help="How much worse still counts as not worse.")
    ] = None,
    replicates: Annotated[int, typer.Option("--replicates", min=1, help="How often each task is run.")] = 1,
    channel: Annotated[
        str | None,
        typer.Option("--for", metavar="CHANNEL", help="Pay from its error budget, which then says the error rate."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Draws the order of the tasks.")] = 0,
    plan: Annotated[bool, typer.Option("--plan", help="Say what to expect, and spend nothing.")] = False,
    discordance: Annotated[
        float | None,
        typer.Option("--discordance", metavar="SHARE", help="With --plan: on how many tasks scores will differ. [0.3]"),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", min=0, metavar="USD", help="Never spend more; the same command goes on."),
    ] = None,
    parallel: Annotated[
        str | None,
        typer.Option("--parallel", metavar="HOW", help="Where runs happen: loop, processes, a number of them, ray."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write a report, .md or .html.")
    ] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Decide whether B is better than A, with a guaranteed error rate.

    Stops as soon as the answer is known, and goes on where it was after an interruption. Repeating a comparison gives
    the recorded verdict. Several candidates are ranked, with one error rate for all of them together.

    JSON: experiment, control, candidate, dataset, metric, finding, because, tasks, at_most, wins, ties, losses,
    control_mean, candidate_mean, difference, low, high, estimate, estimate_low, estimate_high, p, e, alpha, rule,
    guarantee, outcomes, scores, failed, unscored, evidence, judges, cost_usd. JSON with several: control, alpha,
    candidates. JSON with --replay: verdict, fidelity, missed, steps. JSON with --plan: rule, units, effect,
    discordance, expected, curve, fixed, detectable, expected_cost_usd.
    Exit code 0 if B is better, or as good as the goal says; 1 if it is worse or not as good as hoped for; 2 if these
    tasks do not tell.
    """
    from seedbed.cli import verdicts

    if on is None and replay is None:
        raise typer.BadParameter("found neither; expected --on DATASET or --replay N", param_hint="--on")
    read = options.dataset_file(on) if on else None
    began = options.moment(since, "--since")
    _expect(alpha, effect, margin, goal, rule, candidates, channel)
    asked = _rule(rule, effect, goal, margin, replicates)
    with options.opened(workspace) as space:
        by, tasks = options.metric(space, metric), read or (options.dataset(space, on) if on else None)
        old, new = space.playbook(control), [space.playbook(each) for each in candidates]
        given: dict[str, Any] = {"alpha": alpha, "seed": seed, "rule": asked, "replicates": replicates}
        if replay:
            asked_for = {"alpha": alpha, "seed": seed, "rule": asked}
            found = verdicts.replayed(space, old, new[0], tasks, by, replay, mode, began, asked_for)
            output.show(verdicts.replay_document(*found), as_json, verdicts.replay_view(*found))
            raise typer.Exit(EXITS.get(found[0].finding, INCONCLUSIVE))
        assert tasks is not None
        if plan:
            told = space.outlook(
                old, new[0], on=tasks, metric=by, effect=effect or 0.1, discordance=discordance, **given
            )
            output.show(told.document(), as_json, verdicts.outlook_view(told))
            return
        how = {"max_cost_usd": max_cost, "parallel": parallel}
        if len(new) > 1:
            ranking = verdicts.ranked(space, old, new, tasks, by, effect, {"alpha": alpha, "seed": seed, **how})
            output.show(ranking.document(), as_json, verdicts.ranking_view(ranking))
            raise typer.Exit(PASS if ranking.places[0].better else INCONCLUSIVE)
        verdict = compared(space, old, new[0], tasks, by, channel=channel, **given, **how)
        if file:
            verdicts.write_report(space, verdict, file)
    output.show(verdict.body(), as_json, verdicts.verdict_view(verdict))
    raise typer.Exit(PASS if verdict.finding == goal else EXITS.get(verdict.finding, INCONCLUSIVE))


def compared(
    space: Workspace, control: Playbook, candidate: Playbook, tasks: Dataset, by: Metric, **given: Any
) -> Verdict:
    """`Workspace.compare` with a live status line."""
    from seedbed.cli import progress

    with progress.comparing(len(tasks), given.get("alpha", 0.05)) as watch:
        return options.complete(space.compare(control, candidate, on=tasks, metric=by, watch=watch, **given))


def _expect(
    alpha: float,
    effect: float | None,
    margin: float | None,
    goal: Goal,
    rule: Rule | None,
    candidates: list[str],
    channel: str | None,
) -> None:
    if not 0 < alpha < 0.5:
        raise typer.BadParameter(f"found {alpha}; expected above 0 and below 0.5", param_hint="--alpha")
    for option, size in (("--effect", effect), ("--margin", margin)):
        if size is not None and not 0 < size < 1:
            raise typer.BadParameter(f"found {size}; expected above 0 and below 1", param_hint=option)
    if goal != Goal.superior and margin is None:
        raise typer.BadParameter(f"found none for --goal {goal}; expected one such as 0.05", param_hint="--margin")
    if rule in (Rule.gsprt, Rule.sprt) and effect is None:
        raise typer.BadParameter(f"found none for --rule {rule}; expected one such as 0.1", param_hint="--effect")
    if len(candidates) > 1 and (channel or goal != Goal.superior or rule):
        remedy = "expected --goal superior, no --rule and no --for with several candidates"
        raise typer.BadParameter(remedy, param_hint="B")


def _rule(rule: Rule | None, effect: float | None, goal: Goal, margin: float | None, replicates: int) -> dict[str, Any]:
    """The rule as an experiment registers it: only what was said."""
    asked: dict[str, Any] = {"rule": rule.value} if rule else {}
    if goal != Goal.superior or margin is not None:
        asked |= {"rule": Rule.betting.value, "goal": goal.value, "margin": margin}
    if effect is not None:
        asked["effect"] = effect
    if rule == Rule.gsprt and replicates == 2:
        asked["repeats"] = 2
    return asked
