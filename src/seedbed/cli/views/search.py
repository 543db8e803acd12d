"""What people see of a search: its plan, its progress, and what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from seedbed.cli import output
from seedbed.cli.output import Column, line, money
from seedbed.cli.views.playbook import change_view, changes_text
from seedbed.evolution.evolve import SearchProgress
from seedbed.evolution.plan import Plan
from seedbed.evolution.searches import Evolution
from seedbed.reports.numbers import counted, gain_text, number, score_text
from seedbed.reports.search import report
from seedbed.reports.search.view import SearchView
from seedbed.storage.store import Json, short

BEST = 8
"""How many candidates are shown."""

EVERY_SECONDS = 0.2
"""How often the screen is drawn; people read no faster."""

WIDE = 24
"""Characters of a bar."""

FRONT = 4
"""How many members of the front are shown while the search runs."""

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
    parts = f"{len(plan.reflect)} tasks to reflect on, {len(plan.select)} to select, {len(plan.confirm)} to confirm"
    return line(f"{plan.optimizer.identity['optimizer']} within {plan.budget}: {parts}")


@contextmanager
def watched(plan: Plan) -> Iterator[Callable[[SearchProgress], None]]:
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
                live.update(progress_view(so_far(progress)), refresh=True)
                drawn_at = time.monotonic()

        yield watch


def so_far(progress: SearchProgress) -> SearchView:
    """A search that has not ended."""
    pool, account = progress.pool, progress.account
    start, best = (pool.playbooks[place].digest for place in (0, progress.best))
    steps, skips = tuple(progress.steps), tuple(progress.skips)
    return SearchView(Evolution("", start, best, pool, steps, account.budget, account.spent, "", skips=skips))


def progress_view(summary: SearchView) -> RenderableType:
    """A search so far in a few lines: its best, its budget, its arms, its front."""

    best, start = summary.standing(summary.best), summary.standing(0)
    skipped = summary.skipped.candidates if summary.skipped else 0
    lines = [
        f"best {score_text(best)} on {best.n} of {len(summary.pool.select)} tasks | start {score_text(start)} | "
        f"step {len(summary.evolution.steps)} | {len(summary.pool) - 1 - skipped:,} tried"
        + (f", {skipped:,} skipped" * bool(skipped))
    ]
    free = []
    for name, spent, limit in summary.spending:
        if limit is None:
            free.append(_amount(name, spent))
        else:
            lines.append(f"{name:<7} {bar(spent, limit)} {_amount(name, spent)} of {_amount(name, limit)}")
    lines += [f"also spent {', '.join(free)}"] if free else []
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


def _front_line(summary: SearchView) -> str:
    members = [summary.candidate(place) for place, lit in summary.front.items() if lit]
    members.sort(key=lambda each: -summary.pool.standing(each.place).mean)
    scores = dict.fromkeys(" / ".join(number(score.mean) for score in each.scores.values()) for each in members)
    more = f", and {len(scores) - FRONT} more" if len(scores) > FRONT else ""
    return f"{' / '.join(summary.pool.metrics)}: {', '.join(list(scores)[:FRONT])}{more}"


def view(summary: SearchView) -> RenderableType:
    """The best candidates, what the best says differently, what each arm earned, and how far to trust it."""

    parts: list[RenderableType] = [_candidates(summary)]
    if summary.front:
        first, stands, *measures = report.front_heads(summary)
        heads = (first, stands, *(f"{measure}#" for measure in measures))
        parts += ["", output.table(*heads, rows=report.front_rows(summary, BEST), title="front")]
    if len(summary.arms) > 1:
        heads = ("arm", *(f"{head}#" for head in report.ARMS[1:]))
        parts += ["", output.table(*heads, rows=report.arm_rows(summary), title="what each arm earned")]
    if changes := summary.changes():
        parts += ["", line(("what changed", "italic")), *map(change_view, changes)]
    answer, *more = ending(summary)
    return Group(*parts, "", line((answer, STYLES[summary.answer])), *map(line, more))


def _candidates(summary: SearchView) -> RenderableType:
    pool, rows = summary.pool, []
    members = summary.candidates(BEST)
    for member in members:
        is_best, is_start = member.place == summary.best, member.place == 0
        mark = "best" if is_best else "start" if is_start else ""
        style = "bold green" if is_best and not is_start else "dim" if is_start else ""
        text = "unchanged" if is_start else changes_text(summary.changes(member.place))
        score = member.scores[summary.metric]
        cells = (mark, short(member.playbook), score_text(score), str(score.n), text)
        rows.append(tuple(line((cell, style)) for cell in cells))
    left = len(pool) - len(members)
    more = [line((f"… and {left:,} more", "dim"))] if left else []
    columns = (
        Column("", itemgetter(0)),
        Column("playbook", itemgetter(1)),
        Column(summary.metric, itemgetter(2)),
        Column("tasks", itemgetter(3), 1, number=True),
        Column("changes", itemgetter(4), flexible=True),
    )
    return Group(output.listing(columns, rows), *more)


def ending(summary: SearchView) -> list[str]:
    """What a search found, what it cost and how it ended, in words."""
    evolution, lines = summary.evolution, [summary.sentence]
    if evolution.improved:
        bias = "" if summary.optimism is None else f" (about {number(summary.optimism)} of it is selection bias)"
        lines.append(f"Score in the search: {number(summary.standing(summary.best).mean)}{bias}")
    if evolution.confirmed and evolution.confirmed.over_best_of_n:
        lines.append(
            f"Gain over the best of N candidates made without learning: {gain_text(evolution.confirmed.over_best_of_n)}"
        )
    if summary.skipped:
        lines.append(summary.skipped.sentence)
    cost = money(evolution.spent["usd"], evolution.spent.get("unpriced", 0))
    runs = f"{evolution.spent['runs']:,} runs ({cost}) of {evolution.budget}"
    tried = f"{counted(len(summary.pool) - 1, 'candidate')} in {counted(len(evolution.steps), 'step')}"
    lines.append(f"{tried} and {runs}; {evolution.ended or 'not finished yet'}")
    return [*lines, f"search {short(evolution.search)}"]
