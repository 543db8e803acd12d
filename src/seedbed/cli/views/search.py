"""What people see of a search: its plan, its progress, and what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from seedbed.cli import output
from seedbed.cli.command import Call
from seedbed.cli.output import counted, line, money
from seedbed.cli.views.playbook import change_document, change_view, difference
from seedbed.evaluation.metrics.metric import Metric, better
from seedbed.evolution.evolve import Evolution, SearchProgress
from seedbed.evolution.plan import Plan
from seedbed.reports import search as report
from seedbed.reports import search_page as page
from seedbed.reports.scorecard import number
from seedbed.reports.search_summary import Member, Summary, gain_text, level_text
from seedbed.storage.store import Json, short

BEST = 8
"""So many candidates are shown."""

EVERY_SECONDS = 0.2
"""Nobody reads faster than that."""

WIDE = 24
"""Characters of a bar."""

FRONT = 4
"""So many of a front are shown while it grows."""

STYLES = {"yes": "bold green", "no": "bold red", "open": "bold yellow", "nothing": "bold yellow"}


def plan_document(plan: Plan) -> Json:
    return {
        "start": plan.start.digest,
        "optimizer": plan.optimizer.identity,
        "budget": plan.budget.body(),
        "reflect": len(plan.reflect),
        "select": len(plan.select),
        "confirm": len(plan.confirm),
    }


def plan_view(plan: Plan) -> RenderableType:
    parts = f"{len(plan.reflect)} tasks to read, {len(plan.select)} to decide, {len(plan.confirm)} to confirm"
    return line(f"{plan.optimizer.identity['optimizer']} within {plan.budget}: {parts}")


@contextmanager
def watched(plan: Plan, metrics: Sequence[Metric] = ()) -> Iterator[Callable[[SearchProgress], None]]:
    """A watcher of a search that draws on a terminal, and prints nothing elsewhere."""
    console, drawn_at = output.errors(), 0.0
    if not console.is_terminal:
        yield lambda progress: None
        return
    with Live(plan_view(plan), console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:
        live.refresh()

        def watch(progress: SearchProgress) -> None:
            nonlocal drawn_at
            if time.monotonic() - drawn_at >= EVERY_SECONDS:
                live.update(progress_view(so_far(progress, metrics)), refresh=True)
                drawn_at = time.monotonic()

        yield watch


def so_far(progress: SearchProgress, metrics: Sequence[Metric] = ()) -> Summary:
    """A search that has not ended."""
    pool, account = progress.pool, progress.account
    start, best = (pool.playbooks[place].digest for place in (0, progress.best))
    steps, skips = tuple(progress.steps), tuple(progress.skips)
    evolution = Evolution("", start, best, pool, steps, account.budget, account.spent, "", skips=skips)
    return Summary(evolution, {}, {metric.name: better(metric) for metric in metrics})


def progress_view(summary: Summary) -> RenderableType:
    """A search so far in a few lines: its best, its budget, its arms, its front."""

    best, start, found = summary.standing(summary.best), summary.standing(0), summary.found
    skipped = summary.skipped.candidates if summary.skipped else 0
    lines = [
        f"best {level_text(best)} on {best.n} of {len(summary.pool.select)} tasks | start {level_text(start)} | "
        f"step {len(found.steps)} | {len(summary.pool) - 1 - skipped:,} tried"
        + (f", {skipped:,} skipped" * bool(skipped))
    ]
    free = []
    for name, spent, limit in summary.spending:
        if limit is None:
            free.append(_amount(name, spent))
        else:
            lines.append(f"{name:<7} {bar(spent, limit)} {_amount(name, spent)} of {_amount(name, limit)}")
    lines += [f"besides {', '.join(free)}"] if free else []
    if len(summary.arms) > 1:
        arms = (f"{name} {counted(each.turns, 'turn')} {each.gain:+.3f}" for name, each in summary.arms.items())
        lines.append(f"arms    {', '.join(arms)}")
    if summary.front:
        lines.append(f"front   {_front_line(summary)}")
    return Group(*(Text(output.safe(each), no_wrap=True, overflow="ellipsis") for each in lines))


def bar(spent: float, limit: float) -> str:
    """How much of a limit is spent."""
    full = WIDE if spent >= limit else int(WIDE * spent / limit)
    return "━" * full + "╌" * (WIDE - full)


def _amount(name: str, amount: float) -> str:
    return money(amount) if name == "usd" else f"{amount:,.0f} {name}"


def _front_line(summary: Summary) -> str:
    members = [summary.member(place) for place, lit in summary.front.items() if lit]
    members.sort(key=lambda each: -summary.pool.standing(each.place).mean)
    scores = dict.fromkeys(" / ".join(number(score.mean) for score in each.scores.values()) for each in members)
    more = f", and {len(scores) - FRONT} more" if len(scores) > FRONT else ""
    return f"{' / '.join(summary.pool.metrics)}: {', '.join(list(scores)[:FRONT])}{more}"


def write_report(summary: Summary, file: Path) -> None:
    """The report of a search in a new file, written as its ending says."""
    write = page.to_html if file.suffix == ".html" else report.to_markdown
    with file.open("x", encoding="utf-8") as out:
        out.write(write(summary.found, summary.plan, summary.better))


def say_written(call: Call, report: Path | None) -> None:
    if report and not call.as_json:
        call.show(None, line(("✓ ", "bold green"), f"wrote {report}"))


def document(summary: Summary) -> Json:
    """All about a search as JSON can hold it. Scores are as metrics give them; gains are positive where better."""

    found, pool = summary.found, summary.pool
    return {
        "search": found.search,
        "optimizer": summary.plan.get("optimizer"),
        "metric": summary.metric,
        "better": {name: summary.better.get(name, "higher") for name in pool.metrics},
        "tasks": {"reflect": len(pool.reflect), "select": len(pool.select)},
        "start": found.start,
        "best": found.best,
        "improved": found.improved,
        "score": summary.standing(summary.best).mean,
        "start_score": summary.standing(0).mean,
        "optimism": summary.optimism,
        "confirmed": found.confirmed.body() if found.confirmed else None,
        "answer": summary.answer,
        "changes": [change_document(change) for change in summary.changes],
        "arms": {name: asdict(each) for name, each in summary.arms.items()},
        "skipped": _skipped_document(summary),
        "front": [pool.playbooks[place].digest for place, lit in summary.front.items() if lit],
        "diversity": [{"step": step, "distance": apart} for step, apart in summary.diversity],
        "tried": [_member_document(summary, summary.member(place)) for place in range(len(pool))],
        "steps": [
            {
                "runs": runs,
                "offered": list(step.offered),
                "best": step.best,
                "score": believed.mean,
                "deviation": step.deviation,
            }
            for step, (runs, believed) in zip(found.steps, summary.curve, strict=True)
        ],
        "spent": found.spent,
        "budget": found.budget.body(),
        "ended": found.ended or None,
    }


def _skipped_document(summary: Summary) -> Json | None:
    if (skipped := summary.skipped) is None:
        return None
    wrong = skipped.wrong
    share = wrong.mean if wrong.n else None
    audit = {"evaluated": wrong.n, "wrong": share, "low": wrong.low, "high": wrong.high}
    return {"candidates": skipped.candidates, "hopeless": skipped.hopeless, **audit}


def _member_document(summary: Summary, member: Member) -> Json:
    standing = summary.pool.standing(member.place)
    return {
        "playbook": member.playbook,
        "how": member.how,
        "arm": member.arm,
        "parents": list(member.parents),
        "score": member.scores[summary.metric].mean,
        "deviation": standing.deviation,
        "tasks": standing.tasks,
        "scores": {name: score.mean for name, score in member.scores.items()},
    }


def view(summary: Summary) -> RenderableType:
    """The best candidates, what the best says differently, what each arm earned, and what is to be believed of it."""

    parts: list[RenderableType] = [_candidates(summary)]
    if summary.front:
        parts += ["", output.table(*report.front_heads(summary), rows=report.front(summary, BEST), title="front")]
    if len(summary.arms) > 1:
        heads = ("arm", *(f"{head}#" for head in report.ARMS[1:]))
        parts += ["", output.table(*heads, rows=report.arms(summary), title="what each arm earned")]
    if summary.changes:
        parts += ["", line(("what changed", "italic")), *map(change_view, summary.changes)]
    answer, *more = ending(summary)
    return Group(*parts, "", line((answer, STYLES[summary.answer])), *map(line, more))


def _candidates(summary: Summary) -> RenderableType:
    pool, rows = summary.pool, []
    members = summary.members(BEST)
    for member in members:
        is_best, is_start = member.place == summary.best, member.place == 0
        mark = "best" if is_best else "start" if is_start else ""
        style = "bold green" if is_best and not is_start else "dim" if is_start else ""
        text = "as it is" if is_start else difference(pool.playbooks[0], pool.playbooks[member.place])
        score = member.scores[summary.metric]
        cells = (mark, short(member.playbook), level_text(score), str(score.n), text)
        rows.append(tuple(line((cell, style)) for cell in cells))
    left = len(pool) - len(members)
    more = [line((f"… and {left:,} more", "dim"))] if left else []
    return Group(output.table("", "playbook", summary.metric, "tasks#", "what is different", rows=rows), *more)


def ending(summary: Summary) -> list[str]:
    """What a search found, what it cost and how it ended, in words."""
    evolution, lines = summary.found, [summary.sentence]
    if evolution.improved:
        bias = "" if summary.optimism is None else f" (about {number(summary.optimism)} of it is selection bias)"
        lines.append(f"Score in the search: {number(summary.standing(summary.best).mean)}{bias}")
    if evolution.confirmed and evolution.confirmed.over_best_of_n:
        lines.append(f"Over the best of N without learning: {gain_text(evolution.confirmed.over_best_of_n)}")
    if summary.skipped:
        lines.append(summary.skipped.sentence)
    runs = f"{evolution.spent['runs']:,} runs ({money(evolution.spent['usd'])}) of {evolution.budget}"
    tried = f"{counted(len(summary.pool) - 1, 'candidate')} in {counted(len(evolution.steps), 'step')}"
    lines.append(f"{tried} and {runs}; {evolution.ended or 'not ended yet'}")
    return [*lines, f"search {short(evolution.search)}"]
