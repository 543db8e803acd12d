"""Verdicts, rankings and outlooks as people see them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seedbed.cli import options, output
from seedbed.cli.output import counted, line, money

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.evaluation.datasets.dataset import Dataset
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.experiments.forecast import Forecast
    from seedbed.experiments.replay.coverage import Coverage
    from seedbed.experiments.replay.estimate import Estimate
    from seedbed.experiments.replay.fidelity import Fidelity
    from seedbed.experiments.replay.history import History
    from seedbed.experiments.replay.replay import ReplayableTasks
    from seedbed.experiments.verdict import Ranking, Verdict
    from seedbed.playbooks.playbook import Playbook
    from seedbed.stats.estimates import Interval
    from seedbed.storage.store import Digest, Json
    from seedbed.workspace import Workspace

FINDINGS = {
    "superior": "bold green",
    "non-inferior": "bold green",
    "equivalent": "bold cyan",
    "inferior": "bold red",
    "futile": "bold red",
    "inconclusive": "bold yellow",
    "invalid": "bold magenta",
}


Names = tuple[str, str]
"""What the control and the candidate are called."""


def verdict_view(verdict: Verdict, rule: Json, names: Names | None = None) -> RenderableType:
    """A verdict by the rule as it was registered. Without names, playbooks are called by their digests."""
    from rich.console import Group

    from seedbed.experiments.verdict import in_words
    from seedbed.storage.store import short

    kept = "kept however often one looks" if verdict.guarantee.startswith("error rates") else verdict.guarantee
    p = "" if verdict.p is None else f"{verdict.p:.2g} (error rate {verdict.alpha:g}, {kept})"
    of = "" if verdict.live else f" of {verdict.at_most}"
    adjusted = _interval(verdict.estimate, verdict.estimate_low, verdict.estimate_high)
    pairs: list[tuple[str, RenderableType]] = [
        (verdict.metric, f"{verdict.control_mean:.3f} → {verdict.candidate_mean:.3f}"),
        ("difference", _interval(verdict.difference, verdict.low, verdict.high)),
        ("stop-adjusted", adjusted if verdict.live or verdict.tasks < verdict.at_most else ""),
        ("pairs" if verdict.live else "tasks", f"{verdict.tasks}{of}: {_outcomes(verdict)}"),
        ("in order", outcomes_view(verdict.outcomes)),
        ("failed", counted(len(verdict.failed), "run") if verdict.failed else ""),
        ("p", p),
        ("rule", verdict.rule),
        ("experiment", line((short(verdict.experiment), "yellow"))),
    ]
    heading = line((verdict.finding, FINDINGS[verdict.finding]), f": {in_words(verdict, rule, names)}")
    return Group(heading, output.facts(pairs))


def _interval(mean: float | None, low: float | None, high: float | None) -> str:
    if mean is None:
        return ""
    known = low is not None and high is not None
    return f"{mean:+.3f} " + (f"[{low:+.3f}, {high:+.3f}]" if known else "(no spread to tell an interval from)")


def _outcomes(verdict: Verdict) -> str:
    return f"better {verdict.wins}, equal {verdict.ties}, worse {verdict.losses}"


def outcomes_view(outcomes: str) -> RenderableType:
    """One sign per task: + better, = equal, - worse."""
    from rich.text import Text

    styles = {"+": "green", "=": "dim", "-": "red"}
    return Text.assemble(*((sign, styles[sign]) for sign in outcomes))


def outlook_view(outlook: Forecast) -> RenderableType:
    from rich.console import Group

    expected = outlook.expected
    rows = []
    for name, effect in (("equal", 0.0), ("better", outlook.effect), ("worse", -outlook.effect)):
        tasks = getattr(expected, f"tasks_if_{name}")
        cost = outlook.usd(tasks)
        runs = f"{tasks * outlook.runs_per_unit:,.0f}"
        rows.append((name, f"{effect:+.2f}", f"{tasks:,.0f}", runs, "unknown" if cost is None else money(cost)))
    lines = output.facts(
        [
            ("rule", f"{outlook.rule}: {outlook.guarantee}"),
            ("error rate", f"{outlook.alpha:g}"),
            ("power", f"{expected.power:.3f} to find a gain of {outlook.effect:g}"),
            ("tasks", f"{outlook.units}; a test without looks would need {outlook.fixed} for nine times in ten"),
            ("least gain", f"{outlook.detectable:.3f} is found nine times in ten with all of them"),
            ("assumed", f"scores differ on {outlook.discordance:.0%} of the tasks (--discordance)"),
        ]
    )
    curve = [(f"{effect:.2f}", f"{power:.3f}", "█" * round(20 * power)) for effect, power in outlook.curve]
    return Group(
        lines,
        "",
        output.table("if the candidate is", "by #", "tasks #", "runs #", "cost #", rows=rows),
        "",
        output.table("true gain #", "power #", "", rows=curve),
    )


def ranking_view(ranking: Ranking, names: Mapping[Digest, str]) -> RenderableType:
    from rich.console import Group

    rows = []
    for place in ranking.candidates:
        verdict = place.verdict
        mark = line(("✓ better", "bold green")) if place.better else line((verdict.finding, FINDINGS[verdict.finding]))
        gain = _interval(verdict.difference, verdict.low, verdict.high)
        rows.append((names[verdict.candidate], mark, gain, f"{place.adjusted:.2g}", f"{verdict.tasks}"))
    promise = {
        "holm": "the chance that any of them is called better and is not",
        "e-bh": "the expected share of those called better that are not",
    }[ranking.control]
    return Group(
        output.table("candidate", "finding", "difference", "adjusted p#", "tasks#", rows=rows),
        line((f"{promise} is at most {ranking.alpha:g} ({ranking.control})", "dim")),
    )


def ranked(
    space: Workspace,
    baseline: Playbook,
    candidates: list[Playbook],
    tasks: Dataset,
    by: Metric,
    effect: float | None,
    given: dict[str, Any],
) -> Ranking:
    """`Workspace.compare_many` with a live status line."""
    from seedbed.cli import progress

    with progress.comparing(len(tasks), given["alpha"]) as watch:
        work = space.compare_many(
            baseline, candidates, on=tasks, metric=by, effect=effect, watch=lambda _, answer: watch(answer), **given
        )
        return options.complete(work)


def past_runs_of(
    space: Workspace, control: Playbook, count: int, since: datetime | None, seed: int, known: Dataset | None
) -> History:
    """Some of the control's past runs, drawn so that they stand for all."""
    import typer

    from seedbed.errors import DatasetError
    from seedbed.experiments.replay.history import draw_history, find_past_runs

    runs = find_past_runs(space.store, playbook=control.digest, since=since)
    try:
        return draw_history(runs, min(count, len(runs)), seed=seed, known=known or ())
    except DatasetError as wrong:
        (problem,) = wrong.problems
        if problem.path != "n":
            raise
        told = f"found {problem.found}; expected {problem.expected}"
        raise typer.BadParameter(told, param_hint="--replay") from None


def replayed(
    space: Workspace,
    control: Playbook,
    candidate: Playbook,
    by: Metric,
    past: History,
    mode: str,
    given: dict[str, Any],
) -> tuple[Verdict, Fidelity, ReplayableTasks]:
    """`Workspace.compare_replayed` with a live status line."""
    from seedbed.cli import progress

    with progress.comparing(len(past.tasks), given["alpha"]) as watch:
        work = space.compare_replayed(control, candidate, metric=by, past=past, mode=mode, watch=watch, **given)
        return options.complete(work)


def replay_document(verdict: Verdict, fidelity: Fidelity, found: ReplayableTasks) -> Json:
    return {"verdict": verdict.body(), **_answered_document(fidelity, found)}


def _answered_document(fidelity: Fidelity, found: ReplayableTasks) -> Json:
    return {"fidelity": asdict(fidelity), "missed": dict(found.missed), "steps": dict(found.steps)}


def replay_view(
    verdict: Verdict, fidelity: Fidelity, found: ReplayableTasks, rule: Json, names: Names
) -> RenderableType:
    from rich.console import Group

    return Group(verdict_view(verdict, rule, names), "", *_answered(fidelity, found))


def _answered(fidelity: Fidelity, found: ReplayableTasks) -> list[RenderableType]:
    """How far replays can be trusted, and what they could not answer."""
    rate, missed = fidelity.agreement.rate, found.missed
    pairs: list[tuple[str, RenderableType]] = [
        ("mode", fidelity.mode),
        ("A's own", f"{rate.mean:.0%} [{rate.low:.0%}, {rate.high:.0%}] of its replays came out as the runs had"),
        ("B's steps", ", ".join(f"{count} {label}" for label, count in found.steps.items()) or "none"),
        ("missed", f"{counted(len(missed), 'run')} that the recordings cannot answer" if missed else ""),
    ]
    notes = [line((next(iter(missed.values())), "dim"))] if missed else []
    if found.steps.get("substituted"):
        notes.append(line(("What is substituted was found by A's tools: for B's own use --mode fork:1", "yellow")))
    return [output.facts(pairs), *notes]


def coverage_view(coverage: Coverage) -> RenderableType:
    """How far the past runs of a verdict could be replayed."""
    from rich.console import Group

    from seedbed.experiments.replay.coverage import STEPS, rows, summary

    steps = output.table(*STEPS[:2], *(f"{name} #" for name in STEPS[2:]), rows=rows(coverage))
    return Group(line(("replay coverage", "bold")), output.facts(summary(coverage)), steps)


def estimated(
    space: Workspace,
    control: Playbook,
    candidate: Playbook,
    by: Metric,
    past: History,
    mode: str,
    given: dict[str, Any],
) -> tuple[Estimate, Fidelity, ReplayableTasks]:
    """`Workspace.estimate_replayed`."""
    return options.complete(space.estimate_replayed(control, candidate, metric=by, past=past, mode=mode, **given))


def estimate_document(estimate: Estimate, fidelity: Fidelity, found: ReplayableTasks) -> Json:
    return {"estimate": estimate.document(), **_answered_document(fidelity, found)}


def estimate_view(estimate: Estimate, fidelity: Fidelity, found: ReplayableTasks, names: Names) -> RenderableType:
    from rich.console import Group

    says, (old, new) = estimate.says, names
    told = {
        "better": f"live runs of {new} would be better than those of {old}",
        "worse": f"live runs of {new} would be worse than those of {old}",
        "open": f"too few live runs to tell which of {old} and {new} is better",
    }[says]
    styles = {"better": "bold green", "worse": "bold red", "open": "bold yellow"}
    worth = "" if math.isnan(estimate.worth) else f", worth {estimate.worth:.1f} times as many live runs"
    counts = f"with weight {estimate.weight:.2f}{worth}"
    if not estimate.weight:
        counts = "do not count: for that it takes at least 20 live runs, and more replays that say something of them"
    rows = [
        (name, f"{tasks:,}", *_ends(interval))
        for name, tasks, interval in (
            ("together", estimate.replayed, estimate.difference),
            ("live runs alone", estimate.live, estimate.live_alone),
            ("replays alone", estimate.replayed, estimate.replays_alone),
        )
    ]
    pairs: list[tuple[str, RenderableType]] = [
        ("metric", f"{estimate.metric}, {estimate.better} is better"),
        ("replays", counts),
        ("failed", counted(estimate.failed, "run") if estimate.failed else ""),
        ("paid", money(estimate.spent_usd)),
    ]
    return Group(
        line(("estimate", styles[says]), f": {told}"),
        line(("This is no verdict: it was not registered, and releases nothing.", "dim")),
        output.table("difference by", "tasks #", "mean #", "95% #", rows=rows),
        output.facts(pairs),
        "",
        *_answered(fidelity, found),
    )


def _ends(interval: Interval) -> tuple[str, str]:
    known = math.isfinite(interval.low)
    return f"{interval.mean:+.3f}", f"[{interval.low:+.3f}, {interval.high:+.3f}]" if known else "not known"


def registered_rule(space: Workspace, verdict: Verdict) -> Json:
    """The rule that a verdict follows from, with its numbers."""
    rule: Json = space.store.get(verdict.experiment)["rule"]
    return rule


def write_report(space: Workspace, verdict: Verdict, file: Path, names: Names | None = None) -> None:
    """The report of a verdict in a new file, written as its ending says."""
    from seedbed.reports.experiment import report

    view = report.view_of(space.store, verdict, names)
    write = report.to_html if file.suffix == ".html" else report.to_markdown
    with file.open("x", encoding="utf-8") as out:
        out.write(write(view))
