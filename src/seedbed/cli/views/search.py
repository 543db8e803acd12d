"""What people see of a search: its plan, its progress, and what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seedbed.cli import output
from seedbed.cli.output import counted, line, money

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.evolution.evolve import SearchProgress
    from seedbed.evolution.plan import Plan
    from seedbed.reports.search.view import SearchView
    from seedbed.storage.store import Json

BEST = 8
"""So many candidates are shown."""

EVERY_SECONDS = 0.2
"""Nobody reads faster than that."""

WIDE = 24
"""Characters of a bar."""

FRONT = 4
"""So many of a front are shown while it grows."""

STYLES = {"yes": "bold green", "no": "bold red", "open": "bold yellow", "nothing": "bold yellow"}


# Before


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


# Meanwhile


@contextmanager
def watched(plan: Plan, metrics: Sequence[Metric] = ()) -> Iterator[Callable[[SearchProgress], None]]:
    """A watcher of a search, live where somebody looks; nothing is printed elsewhere, and nothing stays."""
    from rich.live import Live

    console, told_at = output.errors(), 0.0
    if not console.is_terminal:
        yield lambda told: None
        return
    with Live(plan_view(plan), console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:
        live.refresh()

        def heard(told: SearchProgress) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= EVERY_SECONDS:
                live.update(progress_view(so_far(told, metrics)), refresh=True)
                told_at = time.monotonic()

        yield heard


def so_far(told: SearchProgress, metrics: Sequence[Metric] = ()) -> SearchView:
    """A search that has not ended, as it stands."""
    from seedbed.evolution.evolve import Evolution

    pool, paid = told.pool, told.account
    start, best = (pool.playbooks[place].digest for place in (0, told.best))
    skips = tuple(told.skips)
    found = Evolution("", start, best, pool, tuple(told.steps), paid.budget, paid.spent, "", skips=skips)
    return SearchView(found)


def progress_view(summary: SearchView) -> RenderableType:
    """A search so far in a few lines: its best, its budget, its arms, its front."""
    from rich.console import Group
    from rich.text import Text

    from seedbed.reports.numbers import score_text

    best, start, found = summary.standing(summary.best), summary.standing(0), summary.evolution
    skipped = summary.skipped.candidates if summary.skipped else 0
    lines = [
        f"best {score_text(best)} on {best.n} of {len(summary.pool.select)} tasks | start {score_text(start)} | "
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
        told = (f"{name} {counted(each.turns, 'turn')} {each.gain:+.3f}" for name, each in summary.arms.items())
        lines.append(f"arms    {', '.join(told)}")
    if summary.front:
        lines.append(f"front   {_front_line(summary)}")
    return Group(*(Text(output.safe(each), no_wrap=True, overflow="ellipsis") for each in lines))


def bar(spent: float, limit: float) -> str:
    """How much of a limit is spent."""
    full = WIDE if spent >= limit else int(WIDE * spent / limit)
    return "━" * full + "╌" * (WIDE - full)


def _amount(name: str, amount: float) -> str:
    return money(amount) if name == "usd" else f"{amount:,.0f} {name}"


def _front_line(summary: SearchView) -> str:
    from seedbed.reports.numbers import number

    members = [summary.candidate(place) for place, lit in summary.front.items() if lit]
    members.sort(key=lambda each: -summary.pool.standing(each.place).mean)
    told = dict.fromkeys(" / ".join(number(score.mean) for score in each.scores.values()) for each in members)
    more = f", and {len(told) - FRONT} more" if len(told) > FRONT else ""
    return f"{' / '.join(summary.pool.metrics)}: {', '.join(list(told)[:FRONT])}{more}"


# After


def write_report(summary: SearchView, file: Path) -> None:
    """The report of a search in a new file, written as its ending says."""
    from seedbed.reports.search import report

    write = report.to_html if file.suffix == ".html" else report.to_markdown
    with file.open("x", encoding="utf-8") as out:
        out.write(write(summary))


def document(summary: SearchView) -> Json:
    """All about a search as JSON can hold it. Scores are as metrics give them; gains are positive where better."""
    from seedbed.reports.search.report import to_document

    return to_document(summary)


def view(summary: SearchView) -> RenderableType:
    """The best candidates, what the best says differently, what each arm earned, and what is to be believed of it."""
    from rich.console import Group

    from seedbed.cli.views.run import change_view
    from seedbed.reports.search import report

    parts: list[RenderableType] = [_candidates(summary)]
    if summary.front:
        parts += ["", output.table(*report.front_heads(summary), rows=report.front_rows(summary, BEST), title="front")]
    if len(summary.arms) > 1:
        heads = ("arm", *(f"{head}#" for head in report.ARMS[1:]))
        parts += ["", output.table(*heads, rows=report.arm_rows(summary), title="what each arm earned")]
    if summary.changes:
        parts += ["", line(("what changed", "italic")), *map(change_view, summary.changes)]
    answer, *more = ending(summary)
    return Group(*parts, "", line((answer, STYLES[summary.answer])), *map(line, more))


def _candidates(summary: SearchView) -> RenderableType:
    from rich.console import Group

    from seedbed.cli.views.run import difference
    from seedbed.reports.numbers import score_text
    from seedbed.storage.store import short

    pool, rows = summary.pool, []
    members = summary.candidates(BEST)
    for member in members:
        is_best, is_start = member.place == summary.best, member.place == 0
        mark = "best" if is_best else "start" if is_start else ""
        style = "bold green" if is_best and not is_start else "dim" if is_start else ""
        told = "as it is" if is_start else difference(pool.playbooks[0], pool.playbooks[member.place])
        score = member.scores[summary.metric]
        cells = (mark, short(member.playbook), score_text(score), str(score.n), told)
        rows.append(tuple(line((cell, style)) for cell in cells))
    left = len(pool) - len(members)
    more = [line((f"… and {left:,} more", "dim"))] if left else []
    return Group(output.table("", "playbook", summary.metric, "tasks#", "what is different", rows=rows), *more)


def ending(summary: SearchView) -> list[str]:
    """What is to be believed of a search, what it took and how it ended, in words."""
    from seedbed.reports.numbers import gain_text, number
    from seedbed.storage.store import short

    found, told = summary.evolution, [summary.sentence]
    if found.improved:
        doubt = "" if summary.optimism is None else f", of which about {number(summary.optimism)} is optimism"
        told.append(f"in the search: {number(summary.standing(summary.best).mean)}{doubt}")
    if found.confirmed and found.confirmed.over_best_of_n:
        told.append(f"over the best of N without learning: {gain_text(found.confirmed.over_best_of_n)}")
    if summary.skipped:
        told.append(summary.skipped.sentence)
    runs = f"{found.spent['runs']:,} runs ({money(found.spent['usd'])}) of {found.budget}"
    tried = f"{counted(len(summary.pool) - 1, 'candidate')} in {counted(len(found.steps), 'step')}"
    told.append(f"{tried} and {runs}; {found.ended or 'not ended yet'}")
    return [*told, f"search {short(found.search)}"]
