"""seedbed compare: decide which playbook is better, or say beforehand what that would take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, WorkspaceFile
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, line

if TYPE_CHECKING:
    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.evaluation.metrics.metric import Metric
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
    control: Annotated[
        str | None, typer.Argument(metavar="A", help="What there is: a file, a digest, a ref or a channel.")
    ] = None,
    candidates: Annotated[
        list[str] | None, typer.Argument(metavar="B", help="What may be better; several are ranked.")
    ] = None,
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
        str | None,
        typer.Option(
            "--mode", metavar="MODE", help="With --replay: strict, lenient, or fork:K, live from step K. [strict]"
        ),
    ] = None,
    live_runs: Annotated[
        int | None,
        typer.Option(
            "--live-runs",
            min=2,
            metavar="M",
            help="With --replay: run so many of them live too, and estimate what live runs would show.",
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="With --replay: no runs from before that.")
    ] = None,
    live: Annotated[
        list[str] | None,
        typer.Option(
            "--live",
            metavar="CHANNEL",
            help="Instead of A and B: its canary, by the feedback of people. Given again: what other channels serve.",
        ),
    ] = None,
    conclude: Annotated[
        bool, typer.Option("--conclude", help="With --live: have the verdict now, decided or not.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric", help="How answers are scored: exact_match. With --live, which feedback counts: rating."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="RATE",
            help="The highest chance to call a candidate better that is not, above 0, below 0.5. [0.05]",
        ),
    ] = None,
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
    first_replicate: Annotated[
        int,
        typer.Option(
            "--first-replicate",
            min=0,
            metavar="N",
            help="Begin with this replicate of each task: runs of its own, not those that are known.",
        ),
    ] = 0,
    channel: Annotated[
        str | None,
        typer.Option("--for", metavar="CHANNEL", help="Pay from its error budget, which then says the error rate."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Draws the order of the tasks.")] = 0,
    plan: Annotated[bool, typer.Option("--plan", help="Say what to expect, and spend nothing.")] = False,
    discordance: Annotated[
        float | None,
        typer.Option(
            "--discordance",
            metavar="SHARE",
            help="With --plan or --rule sprt: on how many tasks scores will differ. [0.3 with --plan]",
        ),
    ] = None,
    max_cost: Annotated[float | None, options.max_cost("Never spend more; the same command goes on.")] = None,
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
    the recorded verdict. Several candidates are ranked, with one error rate for all of them together. With --live it is
    decided by people who were served, as their feedback arrives; nothing is run.

    JSON: experiment, control, candidate, dataset, metric, finding, because, aborted, tasks, at_most, wins, ties,
    losses, control_mean, candidate_mean, difference, low, high, estimate, estimate_low, estimate_high, p, e, alpha,
    rule, guarantee, better, outcomes, scores, failed, unscored, evidence, judges, replay, live, cost_usd. JSON with
    several: control, alpha, candidates. JSON with --live: channel, metric, control (playbook, units, known, mean),
    canary (playbook, units, known, mean), finding, pairs, wins, ties, losses, difference, low, high, p, alpha,
    experiment, because, verdict. JSON with --live twice: control, arms. JSON with --replay: verdict, fidelity, missed,
    steps. JSON with --live-runs: estimate, fidelity, missed, steps. JSON with --plan: rule, guarantee, alpha, units,
    runs_per_unit, effect, discordance, expected, curve, fixed, detectable, usd_per_unit, expected_cost_usd.
    Exit code 0 if B is better, or as good as the goal says; 1 if it is worse or not as good as hoped for, or it cannot
    be done; 2 if these tasks do not tell, or the money did not last. Of several, 0 if any is better, 1 if none may be.
    With --live, 2 also if it is not decided yet: look again as often as you like.
    With --live-runs, 0 if all of the interval is in favour of B, 1 if all of it is against, else 2.
    """
    from seedbed.cli.views import live_comparison as online
    from seedbed.cli.views import verdict as verdicts

    if live:
        others: dict[str, object] = {"A": control, "--on": on, "--replay": replay, "--plan": plan, "--output": file}
        others |= {"--rule": rule, "--effect": effect, "--goal": goal != Goal.superior, "--margin": margin}
        others |= {"--replicates": replicates > 1, "--first-replicate": first_replicate > 0, "--for": channel}
        others |= {
            "--max-cost": max_cost,
            "--parallel": parallel,
            "--mode": mode,
            "--live-runs": live_runs,
            "--seed": seed != 0,
        }
        _expect_none(
            True, {**others, "--since": since, "--discordance": discordance}, "with --live, which runs nothing"
        )
        _expect(0.05 if alpha is None else alpha, None, None, None, goal, None)
        online.compare_live(live, metric or "rating", alpha, conclude, workspace, as_json)
    if control is None or not candidates:
        raise typer.BadParameter("found none; expected two playbooks, or --live CHANNEL", param_hint="A B")
    _expect_none(True, {"--conclude": conclude}, "without --live")
    metric = metric or "exact_match"
    if on is None and replay is None:
        raise typer.BadParameter("found neither; expected --on DATASET or --replay N", param_hint="--on")
    anew = first_replicate > 0
    goes_on = {"--for": channel, "--replicates": replicates > 1, "--first-replicate": anew}
    shown = {"--rule": rule, "--goal": goal != Goal.superior, "--margin": margin}
    several, report = len(candidates) > 1, {"--output": file}
    _expect_none(replay is None, {"--mode": mode, "--since": since, "--live-runs": live_runs}, "without --replay")
    _expect_none(not plan and rule != Rule.sprt, {"--discordance": discordance}, "without --plan or --rule sprt")
    _expect_none(plan, {"--replay": replay, **report}, "with --plan, which runs nothing")
    _expect_none(replay is not None, goes_on, "with --replay")
    decides = {**shown, "--effect": effect, "--alpha": alpha, **report}
    _expect_none(live_runs is not None, decides, "with --live-runs, which estimates and does not decide")
    alone = {**shown, "--for": channel, "--plan": plan, "--replay": replay, "--first-replicate": anew}
    _expect_none(several, alone, "with several candidates")
    _expect_none(several, report, "with several candidates: `seedbed experiment report` writes one for each")
    set_at = f"with --for: the rate is set at channels.{channel}.error_budget in the workspace file"
    _expect_none(channel is not None, {"--alpha": alpha}, set_at)
    rate = 0.05 if alpha is None else alpha
    _expect(rate, effect, margin, discordance, goal, rule)
    options.new_report(file)
    how, began = options.mode(mode or "strict"), options.moment(since, "--since")
    read = None if on is None else options.dataset_file(on)
    given: dict[str, Any] = {
        "alpha": None if channel else rate,
        "seed": seed,
        "rule": _rule(rule, effect, goal, margin, replicates, discordance),
    }
    options.expect_metric(workspace, metric)
    with options.opened(workspace) as space:
        by, tasks = options.metric(space, metric), None if on is None else read or options.dataset(space, on)
        old, new = space.playbook(control), [space.playbook(each) for each in candidates]
        if tasks is None or replay is not None:
            money: dict[str, Any] = {"max_cost_usd": max_cost, "parallel": parallel}
            past = verdicts.past_runs_of(space, old, replay or 1, began, seed, tasks)
            with _told_if_unpaid(as_json):
                if live_runs is not None:
                    run: dict[str, Any] = {"live_runs": live_runs, "seed": seed, **money}
                    estimated = verdicts.estimated(space, old, new[0], by, past, str(how), run)
                    view = verdicts.estimate_view(*estimated, (control, candidates[0]))
                    output.show(verdicts.estimate_document(*estimated), as_json, view)
                    raise typer.Exit({"better": PASS, "worse": BLOCKED}.get(estimated[0].says, INCONCLUSIVE))
                answered = verdicts.replayed(space, old, new[0], by, past, str(how), {**given, **money})
            names, ruled = (control, candidates[0]), verdicts.registered_rule(space, answered[0])
            if file:
                verdicts.write_report(space, answered[0], file, names)
            output.show(verdicts.replay_document(*answered), as_json, verdicts.replay_view(*answered, ruled, names))
            _tell_written(file, as_json)
            raise typer.Exit(_code(answered[0], goal))
        if plan:
            about: dict[str, Any] = {"effect": effect or 0.1, "discordance": discordance, "replicates": replicates}
            told = space.forecast(old, new[0], on=tasks, metric=by, channel=channel, **about, **given)
            output.show(told.document(), as_json, verdicts.outlook_view(told))
            return
        paid: dict[str, Any] = {"replicates": replicates, "max_cost_usd": max_cost, "parallel": parallel}
        with _told_if_unpaid(as_json):
            if several:
                ranking = verdicts.ranked(space, old, new, tasks, by, effect, {"alpha": rate, "seed": seed, **paid})
                called = {each.digest: name for each, name in zip(new, candidates, strict=True)}
                output.show(ranking.document(), as_json, verdicts.ranking_view(ranking, called))
                codes = {_code(place.verdict, goal) for place in ranking.candidates if not place.better}
                better = ranking.candidates[0].better
                raise typer.Exit(PASS if better else BLOCKED if codes == {BLOCKED} else INCONCLUSIVE)
            paid["first_replicate"] = first_replicate
            verdict = compared(space, old, new[0], tasks, by, channel=channel, **given, **paid)
        names, ruled = (control, candidates[0]), verdicts.registered_rule(space, verdict)
        if file:
            verdicts.write_report(space, verdict, file, names)
    output.show(verdict.body(), as_json, verdicts.verdict_view(verdict, ruled, names))
    _tell_written(file, as_json)
    raise typer.Exit(_code(verdict, goal))


def _tell_written(file: Path | None, as_json: bool) -> None:
    if file and not as_json:
        output.show(None, False, line(("✓ ", "bold green"), f"wrote {file}"))


def _code(verdict: Verdict, goal: Goal) -> int:
    return PASS if verdict.finding == goal else EXITS.get(verdict.finding, INCONCLUSIVE)


@contextmanager
def _told_if_unpaid(as_json: bool) -> Iterator[None]:
    """What the money did not last for is not decided, which is not to be taken for a candidate that is worse."""
    from seedbed.errors import BudgetSpent

    try:
        yield
    except BudgetSpent as spent:
        output.tell_error(spent, as_json)
        raise typer.Exit(INCONCLUSIVE) from None


def compared(
    space: Workspace, control: Playbook, candidate: Playbook, tasks: Dataset, by: Metric, **given: Any
) -> Verdict:
    """`Workspace.compare` with a live status line."""
    from seedbed.cli import progress

    channel = given.get("channel")
    with progress.comparing(len(tasks), space.next_level(channel) if channel else given["alpha"]) as watch:
        return options.complete(space.compare(control, candidate, on=tasks, metric=by, watch=watch, **given))


def _expect_none(in_vain: bool, given: Mapping[str, object], when: str) -> None:
    """Refuse options that would do nothing: who gives them expects something."""
    for option, value in given.items():
        if in_vain and value is not None and value is not False:
            raise typer.BadParameter(f"expected none {when}", param_hint=option)


def _expect(
    alpha: float,
    effect: float | None,
    margin: float | None,
    discordance: float | None,
    goal: Goal,
    rule: Rule | None,
) -> None:
    if not 0 < alpha < 0.5:
        raise typer.BadParameter(f"found {alpha}; expected above 0 and below 0.5", param_hint="--alpha")
    for option, size in (("--effect", effect), ("--margin", margin)):
        if size is not None and not 0 < size < 1:
            raise typer.BadParameter(f"found {size}; expected above 0 and below 1", param_hint=option)
    if discordance is not None and not (effect or 0.1) <= discordance <= 1:
        told = f"found {discordance}; expected from the effect, {effect or 0.1}, to 1"
        raise typer.BadParameter(told, param_hint="--discordance")
    if goal != Goal.superior and margin is None:
        raise typer.BadParameter(f"found none for --goal {goal}; expected one such as 0.05", param_hint="--margin")
    if margin is not None and rule not in (None, Rule.betting):
        raise typer.BadParameter(f"found {rule} with a margin; expected betting, which keeps one", param_hint="--rule")
    if rule in (Rule.gsprt, Rule.sprt) and effect is None:
        raise typer.BadParameter(f"found none for --rule {rule}; expected one such as 0.1", param_hint="--effect")
    if rule == Rule.sprt and (discordance is None or discordance == effect):
        told = f"found {discordance or 'none'} for --rule sprt; expected above the effect, such as 0.3"
        raise typer.BadParameter(told, param_hint="--discordance")


def _rule(
    rule: Rule | None,
    effect: float | None,
    goal: Goal,
    margin: float | None,
    replicates: int,
    discordance: float | None,
) -> dict[str, Any]:
    """The rule as an experiment registers it: only what was said."""
    asked: dict[str, Any] = {"rule": rule.value} if rule else {}
    if goal != Goal.superior or margin is not None:
        asked |= {"rule": Rule.betting.value, "goal": goal.value, "margin": margin}
    if effect is not None:
        asked["effect"] = effect
    if rule == Rule.gsprt and replicates == 2:
        asked["repeats"] = 2
    if rule == Rule.sprt:
        asked["discordance"] = discordance
    return asked
