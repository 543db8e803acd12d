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

    from seedbed.evaluation.metrics import Metric
    from seedbed.evolution.account import Account, Member
    from seedbed.evolution.evolve import Evolution, Told
    from seedbed.evolution.plan import Plan
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
def watched(plan: Plan, metrics: Sequence[Metric] = ()) -> Iterator[Callable[[Told], None]]:
    """A watcher of a search, live where somebody looks; nothing is printed elsewhere, and nothing stays."""
    from rich.live import Live

    console, told_at = output.errors(), 0.0
    if not console.is_terminal:
        yield lambda told: None
        return
    with Live(plan_view(plan), console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:
        live.refresh()

        def heard(told: Told) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= EVERY_SECONDS:
                live.update(progress_view(so_far(told, metrics)), refresh=True)
                told_at = time.monotonic()

        yield heard


def so_far(told: Told, metrics: Sequence[Metric] = ()) -> Account:
    """A search that has not ended, as it stands."""
    from seedbed.evolution.evolve import Evolution

    pool, account = told.pool, told.account
    start, best = (pool.playbooks[place].digest for place in (0, pool.best()))
    found = Evolution("", start, best, pool, tuple(told.steps), account.budget, account.spent, "")
    return account_of(found, metrics=metrics)


def progress_view(account: Account) -> RenderableType:
    """A search so far in a few lines: its best, its budget, its arms, its front."""
    from rich.console import Group
    from rich.text import Text

    from seedbed.evolution.account import level_text

    best, start, found = account.standing(account.best), account.standing(0), account.found
    lines = [
        f"best {level_text(best)} on {best.n} of {len(account.pool.select)} tasks | start {level_text(start)} | "
        f"step {len(found.steps)} | {counted(len(account.pool) - 1, 'candidate')}"
    ]
    lines += [
        f"{name:<7} {bar(spent, limit)} {_amounts(name, spent, limit)}" for name, spent, limit in account.spending
    ]
    if len(account.arms) > 1:
        told = (f"{name} {counted(each.turns, 'turn')} {each.gain:+.3f}" for name, each in account.arms.items())
        lines.append(f"arms    {', '.join(told)}")
    if account.front:
        lines.append(f"front   {_front_line(account)}")
    return Group(*(Text(output.safe(each), no_wrap=True, overflow="ellipsis") for each in lines))


def bar(spent: float, limit: float | None) -> str:
    """How much of a limit is spent; empty where there is none."""
    full = 0 if limit is None else WIDE if spent >= limit else int(WIDE * spent / limit)
    return " " * WIDE if limit is None else "━" * full + "╌" * (WIDE - full)


def _amounts(name: str, spent: float, limit: float | None) -> str:
    def told(amount: float) -> str:
        return money(amount) if name == "usd" else f"{amount:,.0f}"

    return told(spent) if limit is None else f"{told(spent)} of {told(limit)}"


def _front_line(account: Account) -> str:
    from seedbed.evaluation.report import number

    members = [account.member(place) for place, lit in account.front.items() if lit]
    members.sort(key=lambda each: -account.pool.standing(each.place).mean)
    told = (" / ".join(number(score.mean) for score in each.scores.values()) for each in members[:FRONT])
    more = f", and {len(members) - FRONT} more" if len(members) > FRONT else ""
    return f"{' / '.join(account.pool.metrics)}: {', '.join(told)}{more}"


# After


def account_of(found: Evolution, plan: Json | None = None, metrics: Sequence[Metric] = ()) -> Account:
    """A search as it is told."""
    from seedbed.evaluation.metrics import better
    from seedbed.evolution.account import Account

    return Account(found, plan or {}, {metric.name: better(metric) for metric in metrics})


def write_report(account: Account, file: Path) -> None:
    """The report of a search in a new file, written as its ending says."""
    from seedbed.evolution import page, report

    write = page.to_html if file.suffix == ".html" else report.to_markdown
    with file.open("x", encoding="utf-8") as out:
        out.write(write(account.found, account.plan, account.better))


def document(account: Account) -> Json:
    """All about a search as JSON can hold it. Scores are as metrics give them; gains are positive where better."""
    from dataclasses import asdict

    from seedbed.cli.views import change_document

    found, pool = account.found, account.pool
    return {
        "search": found.search,
        "optimizer": account.plan.get("optimizer"),
        "metric": account.metric,
        "better": {name: account.better.get(name, "higher") for name in pool.metrics},
        "tasks": {"reflect": len(pool.reflect), "select": len(pool.select)},
        "start": found.start,
        "best": found.best,
        "improved": found.improved,
        "score": account.standing(account.best).mean,
        "start_score": account.standing(0).mean,
        "optimism": account.optimism,
        "confirmed": found.confirmed.body() if found.confirmed else None,
        "answer": account.answer,
        "changes": [change_document(change) for change in account.changes],
        "arms": {name: asdict(each) for name, each in account.arms.items()},
        "front": [pool.playbooks[place].digest for place, lit in account.front.items() if lit],
        "diversity": [{"step": step, "distance": apart} for step, apart in account.diversity],
        "tried": [_member_document(account, account.member(place)) for place in range(len(pool))],
        "steps": [
            {
                "runs": runs,
                "offered": list(step.offered),
                "best": step.best,
                "score": believed.mean,
                "deviation": step.deviation,
            }
            for step, (runs, believed) in zip(found.steps, account.curve, strict=True)
        ],
        "spent": found.spent,
        "budget": found.budget.body(),
        "ended": found.ended or None,
    }


def _member_document(account: Account, member: Member) -> Json:
    standing = account.pool.standing(member.place)
    return {
        "playbook": member.playbook,
        "how": member.how,
        "arm": member.arm,
        "parents": list(member.parents),
        "score": member.scores[account.metric].mean,
        "deviation": standing.deviation,
        "tasks": standing.tasks,
        "scores": {name: score.mean for name, score in member.scores.items()},
    }


def view(account: Account) -> RenderableType:
    """The best candidates, what the best says differently, what each arm earned, and what is to be believed of it."""
    from rich.console import Group

    from seedbed.cli.views import change_view
    from seedbed.evolution import report

    parts: list[RenderableType] = [_candidates(account)]
    if account.front:
        parts += ["", output.table(*report.front_heads(account), rows=report.front(account, BEST), title="front")]
    if len(account.arms) > 1:
        heads = ("arm", *(f"{head}#" for head in report.ARMS[1:]))
        parts += ["", output.table(*heads, rows=report.arms(account), title="what each arm earned")]
    if account.changes:
        parts += ["", line(("what changed", "italic")), *map(change_view, account.changes)]
    answer, *more = ending(account)
    return Group(*parts, "", line((answer, STYLES[account.answer])), *map(line, more))


def _candidates(account: Account) -> RenderableType:
    from rich.console import Group

    from seedbed.cli.views import difference
    from seedbed.evolution.account import level_text
    from seedbed.storage.store import short

    pool, rows = account.pool, []
    members = account.members(BEST)
    for member in members:
        is_best, is_start = member.place == account.best, member.place == 0
        mark = "best" if is_best else "start" if is_start else ""
        style = "bold green" if is_best and not is_start else "dim" if is_start else ""
        told = "as it is" if is_start else difference(pool.playbooks[0], pool.playbooks[member.place])
        score = member.scores[account.metric]
        cells = (mark, short(member.playbook), level_text(score), str(score.n), told)
        rows.append(tuple(line((cell, style)) for cell in cells))
    left = len(pool) - len(members)
    more = [line((f"… and {left:,} more", "dim"))] if left else []
    return Group(output.table("", "playbook", account.metric, "tasks#", "what is different", rows=rows), *more)


def ending(account: Account) -> list[str]:
    """What is to be believed of a search, what it took and how it ended, in words."""
    from seedbed.evaluation.report import number
    from seedbed.evolution.account import gain_text
    from seedbed.storage.store import short

    found, told = account.found, [account.sentence]
    if found.improved:
        doubt = "" if account.optimism is None else f", of which about {number(account.optimism)} is optimism"
        told.append(f"in the search: {number(account.standing(account.best).mean)}{doubt}")
    if found.confirmed and found.confirmed.over_best_of_n:
        told.append(f"over the best of N without learning: {gain_text(found.confirmed.over_best_of_n)}")
    runs = f"{found.spent['runs']:,} runs ({money(found.spent['usd'])}) of {found.budget}"
    tried = f"{counted(len(account.pool) - 1, 'candidate')} in {counted(len(found.steps), 'step')}"
    told.append(f"{tried} and {runs}; {found.ended or 'not ended yet'}")
    return [*told, f"search {short(found.search)}"]
