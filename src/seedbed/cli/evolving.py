"""What people see of a search: its plan, its progress, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from seedbed.cli import output
from seedbed.cli.output import line, money

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.evolution.evolve import Evolution, Told
    from seedbed.evolution.plan import Plan
    from seedbed.storage.store import Json

BEST = 8
"""So many candidates are shown."""


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
def watched(plan: Plan) -> Iterator[Callable[[Told], None]]:
    """A watcher of a search, live where somebody looks."""
    from rich.live import Live
    from rich.text import Text

    console = output.errors()
    with Live(Text(""), console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:

        def heard(told: Told) -> None:
            if console.is_terminal:
                live.update(Text(status(told), no_wrap=True), refresh=True)

        yield heard


def status(told: Told) -> str:
    """A search so far in one line."""
    best = told.pool.standing(told.pool.best())
    limit = f" of {told.account.budget.runs}" if told.account.budget.runs is not None else ""
    return (
        f"step {len(told.steps)} | {len(told.pool) - 1} candidates | best {best.mean:.3f} ±{2 * best.deviation:.3f} "
        f"on {best.tasks} tasks | {told.account.runs}{limit} runs | {money(told.account.ledger.spent_usd)}"
    )


def document(found: Evolution, branch: str | None) -> Json:
    pool = found.pool
    means, deviations, tasks = pool.standings()
    return {
        "search": found.search,
        "metric": pool.metrics[0],
        "start": found.start,
        "best": found.best,
        "improved": found.improved,
        "score": float(means[pool.place(found.best)]),
        "optimism": found.optimism,
        "confirmed": found.confirmed.body() if found.confirmed else None,
        "tried": [
            {
                "playbook": pool.playbooks[place].digest,
                "how": pool.how[place],
                "arm": pool.arms[place],
                "parents": list(pool.parents[place]),
                "score": float(means[place]),
                "deviation": float(deviations[place]),
                "tasks": int(tasks[place]),
            }
            for place in range(len(pool))
        ],
        "steps": len(found.steps),
        "spent": found.spent,
        "budget": found.budget.body(),
        "ended": found.ended,
        "branch": branch,
    }


def view(found: Evolution) -> RenderableType:
    from rich.console import Group

    from seedbed.cli.views import difference
    from seedbed.evolution.allocation import best_of
    from seedbed.storage.store import short

    pool = found.pool
    best = pool.place(found.best)
    order = [best, *(place for place in best_of(range(len(pool)), pool) if place != best)]
    rows: list[tuple[Any, ...]] = []
    shown = list(dict.fromkeys((*order[:BEST], 0)))
    for place in shown:
        mark = "best" if place == best else "start" if place == 0 else ""
        style = "bold green" if place == best else "dim" if place == 0 else ""
        standing = pool.standing(place)
        told = difference(pool.playbooks[0], pool.playbooks[place]) if place else "as it is"
        score = f"{standing.mean:.3f} ±{2 * standing.deviation:.3f}"
        cells = (mark, short(pool.playbooks[place].digest), score, str(standing.tasks), told)
        rows.append(tuple(line((cell, style)) for cell in cells))
    more = [line((f"… and {len(pool) - len(shown)} more", "dim"))] if len(pool) > len(shown) else []
    table = output.table("", "playbook", pool.metrics[0], "tasks", "what is different", rows=rows)
    return Group(table, *more, *map(line, ending(found)))


def ending(found: Evolution) -> list[str]:
    """How a search ended and what is to be believed of it, in words."""
    told = [
        f"{len(found.pool) - 1} candidates in {len(found.steps)} steps and {found.spent['runs']} runs "
        f"({money(found.spent['usd'])}); {found.ended}"
    ]
    if sure := found.confirmed:
        gain = sure.gain
        told.append(
            f"on {sure.tasks} other tasks: {sure.start.mean:.3f} before, {sure.best.mean:.3f} now, "
            f"a gain of {gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        )
        if sure.over_best_of_n:
            over = sure.over_best_of_n
            told.append(f"over the best of N without learning: {over.mean:+.3f} [{over.low:+.3f}, {over.high:+.3f}]")
    elif found.improved:
        told.append(f"the score of the best of many is too high, by about {found.optimism:.3f}: compare on other tasks")
    return told
