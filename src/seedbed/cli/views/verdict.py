"""Verdicts, rankings and forecasts as people see them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.text import Text

from seedbed.cli import output
from seedbed.cli.output import Column, line, money
from seedbed.cli.views.run import drift_lines
from seedbed.experiments.forecast import Forecast, Prospect
from seedbed.experiments.replay.coverage import STEPS, Coverage, ReplayedRuns, rows, summary
from seedbed.experiments.replay.estimate import Estimate
from seedbed.experiments.slices import Slices
from seedbed.experiments.verdict import Ranking, Verdict, in_words, missing_in_words
from seedbed.release.live_comparison import LiveComparison
from seedbed.reports.experiment.view import NamePair
from seedbed.reports.numbers import counted, split_text
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Json, short

FINDINGS = {
    "superior": "bold green",
    "non-inferior": "bold green",
    "equivalent": "bold cyan",
    "inferior": "bold red",
    "futile": "bold red",
    "inconclusive": "bold yellow",
    "invalid": "bold magenta",
}


TAG_FINDINGS = {"worse": "bold red", "not worse": "green", "inconclusive": "yellow", "open": "yellow"}


def verdict_view(verdict: Verdict, rule: Json, names: NamePair | None = None) -> RenderableType:
    """A verdict by the rule as it was registered. Without names, playbooks are called by their digests."""

    guarantee = "holds however often you look" if verdict.guarantee.startswith("error rates") else verdict.guarantee
    p = "" if verdict.p is None else f"{verdict.p:.2g} (error rate {verdict.alpha:g}, {guarantee})"
    of = "" if verdict.live else f" of {verdict.at_most}"
    adjusted = _adjusted(verdict)
    plain = difference_text(verdict.difference, verdict.low, verdict.high)
    pairs: list[tuple[str, RenderableType]] = [
        (verdict.metric, f"{verdict.control_mean:.3f} → {verdict.candidate_mean:.3f}"),
        ("difference", f"{verdict.difference:+.3f}" if adjusted else plain),
        ("stop-adjusted", adjusted),
        ("at least", _at_least(verdict)),
        ("warning", line((verdict.warning, "yellow")) if verdict.warning else ""),
        ("pairs" if verdict.live else "tasks", f"{verdict.tasks}{of}: {_outcomes(verdict)}"),
        ("in order", outcomes_view(verdict.outcomes)),
        ("failed", counted(len(verdict.failed), "run") if verdict.failed else ""),
        ("missing", missing_in_words(verdict)),
        ("gain", verdict.remaining),
        ("p", p),
        ("rule", verdict.rule),
        ("evidence", _mode(verdict)),
        ("experiment", line((short(verdict.experiment), "yellow"))),
    ]
    heading = line((verdict.finding, FINDINGS[verdict.finding]), f": {in_words(verdict, rule, names)}")
    tags = ["", slices_view(verdict.slices)] if verdict.slices else []
    return Group(heading, output.facts(pairs), *tags)


def slices_view(slices: Slices) -> RenderableType:
    """Every tag with its interval, the worst first."""
    columns = (
        Column("tag", lambda each: each.tag, flexible=True),
        Column("finding", lambda each: line((each.finding, TAG_FINDINGS[each.finding]))),
        Column("difference", lambda each: f"{each.difference:+.3f}", number=True),
        Column("95% each", lambda each: f"[{each.low:+.3f}, {each.high:+.3f}]", number=True),
        Column("tasks", lambda each: f"{each.tasks}/{each.at_most}", 1, True),
    )
    worse, many = slices.worse, counted(len(slices.tags), "tag")
    answer = f"worse on {len(worse)} of {many}" if worse else f"worse on none of {many}"
    if slices.open:
        answer = f"{len(slices.open)} of {many} undecided: compare again with a larger budget"
    style = "bold red" if worse else "bold yellow" if slices.open else "bold green"
    run = f", after {slices.tasks:,} tasks in all and {money(slices.cost_usd)} more"
    return Group(line((answer, style), run), output.listing(columns, slices.tags))


def _adjusted(verdict: Verdict) -> str:
    """The difference, candidate minus control, after an early stop."""
    if not verdict.live and verdict.tasks == verdict.at_most:
        return ""
    mean, low, high = verdict.estimate, verdict.estimate_low, verdict.estimate_high
    if verdict.better == "lower" and mean is not None:
        mean, low, high = -mean, high and -high, low and -low
    return difference_text(mean, low, high)


def _at_least(verdict: Verdict) -> str:
    """By how much a superior candidate is better at least."""
    if verdict.at_least is None:
        return ""
    both = verdict.low is not None and verdict.high is not None and verdict.low <= 0 <= verdict.high
    note = "; the interval includes 0 because it covers both sides" if both else ""
    return f"{verdict.at_least:+.3f} better (error rate {verdict.alpha:g}{note})"


def _mode(verdict: Verdict) -> str:
    """Whether a verdict can release the candidate."""
    if verdict.mode == "exploratory":
        return "exploratory, cannot support a release" + (f": {verdict.why}" if verdict.why else "")
    return f"confirmatory, attempt {verdict.attempt} to replace {short(verdict.control)}" if verdict.attempt else ""


def difference_text(mean: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval, if there is one; empty if there is no difference."""
    if mean is None:
        return ""
    known = low is not None and high is not None
    return f"{mean:+.3f} " + (f"[{low:+.3f}, {high:+.3f}]" if known else "(no interval: all are equal)")


def _outcomes(verdict: Verdict) -> str:
    return f"better {verdict.wins}, equal {verdict.ties}, worse {verdict.losses}"


def outcomes_view(outcomes: str) -> RenderableType:
    """One sign per task: + better, = equal, - worse."""
    styles = {"+": "green", "=": "dim", "-": "red"}
    return Text.assemble(*((sign, styles[sign]) for sign in outcomes))


def prospect_text(prospect: Prospect) -> str:
    """Which attempt a comparison will be, and of how many tasks nothing is known."""
    fresh = f"{prospect.fresh:,} of {counted(prospect.tasks, 'task')} fresh"
    if prospect.mode == "exploratory":
        return f"exploratory, so it cannot support a release: {prospect.why}; {fresh}. {prospect.remedy}".rstrip()
    attempt = f"attempt {prospect.attempt}" if prospect.attempt else "paid from the error budget"
    return f"{attempt}, at error rate {prospect.level:.2g}; {fresh}"


def forecast_view(forecast: Forecast) -> RenderableType:
    expected = forecast.expected
    rows = []
    for name, effect in (("equal", 0.0), ("better", forecast.effect), ("worse", -forecast.effect)):
        tasks = getattr(expected, f"tasks_if_{name}")
        cost = forecast.usd(tasks)
        runs = f"{tasks * forecast.runs_per_unit:,.0f}"
        rows.append((name, f"{effect:+.2f}", f"{tasks:,.0f}", runs, "unknown" if cost is None else money(cost)))
    lines = output.facts(
        [
            ("if run now", prospect_text(forecast.prospect) if forecast.prospect else ""),
            ("rule", f"{forecast.rule}: {forecast.guarantee}"),
            ("error rate", f"{forecast.alpha:g}"),
            ("power", f"{expected.power:.3f} to find a gain of {forecast.effect:g}"),
            (
                "tasks",
                f"{forecast.units}; with a single look at the end, 90% power needs {forecast.fixed}",
            ),
            ("least gain", f"{forecast.detectable:.3f} is the smallest gain that all tasks detect nine times in ten"),
            ("assumed", f"scores differ on {forecast.discordance:.0%} of the tasks (--discordance)"),
            ("then", _then(forecast)),
        ]
    )
    curve = [(f"{effect:.2f}", f"{power:.3f}", "█" * round(20 * power)) for effect, power in forecast.curve]
    return Group(
        lines,
        "",
        output.table("if the candidate is", "by #", "tasks #", "runs #", "cost #", rows=rows),
        "",
        output.table("true gain #", "power #", "", rows=curve),
    )


def _then(forecast: Forecast) -> str:
    """What may be run after a superior verdict."""
    if not forecast.tags:
        return ""
    cost = forecast.usd(forecast.tag_units)
    most = f"up to {forecast.tag_units:,} tasks in all" + ("" if cost is None else f" ({money(cost)})")
    return f"if superior, {most} to see whether any of {counted(forecast.tags, 'tag')} is worse"


def ranking_view(ranking: Ranking, names: Mapping[Digest, str]) -> RenderableType:
    rows = []
    for ranked in ranking.candidates:
        verdict = ranked.verdict
        mark = line(("✓ better", "bold green")) if ranked.better else line((verdict.finding, FINDINGS[verdict.finding]))
        gain = difference_text(verdict.difference, verdict.low, verdict.high)
        rows.append((names[verdict.candidate], mark, gain, f"{ranked.adjusted:.2g}", f"{verdict.tasks}"))
    promise = {
        "holm": "the chance that any of them is wrongly called better",
        "e-bh": "the expected share of false findings among those called better",
    }[ranking.control]
    mode = _mode(ranking.candidates[0].verdict)
    return Group(
        output.table("candidate", "finding", "difference#", "adjusted p#", "tasks#", rows=rows),
        *([line((mode, "dim"))] if mode else []),
        line((f"{promise} is at most {ranking.alpha:g} ({ranking.control})", "dim")),
    )


def replay_document(verdict: Verdict, replays: ReplayedRuns) -> Json:
    return {"verdict": verdict.document(), **_replays_document(replays)}


def _replays_document(replays: ReplayedRuns) -> Json:
    tasks = replays.replayable
    return {"fidelity": asdict(replays.fidelity), "missed": dict(tasks.missed), "steps": dict(tasks.steps)}


def replay_view(verdict: Verdict, replays: ReplayedRuns, rule: Json, names: NamePair) -> RenderableType:
    return Group(verdict_view(verdict, rule, names), "", *_replays(replays))


def _replays(replays: ReplayedRuns) -> list[RenderableType]:
    """How far replays can be trusted, and what they could not answer."""
    fidelity, tasks = replays.fidelity, replays.replayable
    rate, missed = fidelity.agreement.rate, tasks.missed
    pairs: list[tuple[str, RenderableType]] = [
        ("mode", fidelity.mode),
        ("A's own", f"{rate.mean:.0%} [{rate.low:.0%}, {rate.high:.0%}] of its replays matched the runs"),
        ("B's steps", ", ".join(f"{count} {label}" for label, count in tasks.steps.items()) or "none"),
        ("missed", f"{counted(len(missed), 'run')} that the recordings cannot answer" if missed else ""),
    ]
    notes = [line((next(iter(missed.values())), "dim"))] if missed else []
    if tasks.steps.get("substituted"):
        notes.append(line(("Substituted results come from A's tools; for B's own, use --mode fork:1", "yellow")))
    return [output.facts(pairs), *drift_lines(fidelity.drift), *notes]


def coverage_view(coverage: Coverage) -> RenderableType:
    """How far the past runs of a verdict could be replayed."""

    steps = output.table(*STEPS[:2], *(f"{name} #" for name in STEPS[2:]), rows=rows(coverage))
    return Group(line(("replay coverage", "bold")), output.facts(summary(coverage)), steps)


def estimate_document(estimate: Estimate, replays: ReplayedRuns) -> Json:
    return {"estimate": estimate.document(), **_replays_document(replays)}


def estimate_view(estimate: Estimate, replays: ReplayedRuns, names: NamePair) -> RenderableType:
    says, (old, new) = estimate.says, names
    answer = {
        "better": f"live runs of {new} would be better than those of {old}",
        "worse": f"live runs of {new} would be worse than those of {old}",
        "open": f"too few live runs to tell which of {old} and {new} is better",
    }[says]
    styles = {"better": "bold green", "worse": "bold red", "open": "bold yellow"}
    worth = "" if math.isnan(estimate.worth) else f", worth {estimate.worth:.1f} times as many live runs"
    counts = f"with weight {estimate.weight:.2f}{worth}"
    if not estimate.weight:
        counts = "ignored: they count only if there are at least 20 live runs and they predict them"
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
        line(("estimate", styles[says]), f": {answer}"),
        line(("This is not a verdict: it was not registered, and cannot support a release.", "dim")),
        output.table("difference by", "tasks #", "mean #", "95% #", rows=rows),
        output.facts(pairs),
        "",
        *_replays(replays),
    )


def _ends(interval: Interval) -> tuple[str, str]:
    known = math.isfinite(interval.low)
    return f"{interval.mean:+.3f}", f"[{interval.low:+.3f}, {interval.high:+.3f}]" if known else "not known"


def finding(name: str) -> RenderableType:
    """A finding in its colour."""
    return line((name, FINDINGS[name]))


def live_view(live: LiveComparison, rule: Json | None, names: NamePair) -> list[RenderableType]:
    """How a live comparison stands: its verdict, or what the feedback says so far."""
    rows = [
        (
            name.removeprefix("the "),
            short(side.playbook),
            f"{side.units:,}",
            f"{side.known:,}",
            "" if side.mean is None else f"{side.mean:.3f}",
        )
        for name, side in zip(names, (live.control, live.canary), strict=True)
    ]
    table = output.table("arm", "playbook", "units #", "outcomes #", f"{live.metric} #", rows=rows)
    split = [line(("split of the units ", "dim"), split_text(**live.ratio))] if live.ratio else []
    if live.verdict:
        return [verdict_view(live.verdict, rule or {}, names), table, *split, ""]
    read = f"W {live.wins} T {live.ties} L {live.losses}"
    gain = "" if live.difference is None else f"{live.difference:+.3f} [{live.low:+.3f}, {live.high:+.3f}] "
    text = f": {gain}after {counted(live.pairs, 'pair')} of outcomes, {read}"
    return [line(("not decided yet", FINDINGS["inconclusive"]), text), table, *split, ""]
