"""The report of a search to read: what it found, how far that is to be believed, and what it took."""

from __future__ import annotations

import re
from collections.abc import Mapping

from seedbed.evaluation.metrics import Better
from seedbed.evaluation.report import inert, table
from seedbed.evolution.account import Account, Member, Row, level_text
from seedbed.evolution.evolve import Evolution
from seedbed.storage.store import Json, canonical, short

FIGURES = ("figure", "value", "what it means")
ARMS = ("arm", "turns", "found", "gain", "runs", "candidates", "per 100 runs")
SPENDING = ("what", "spent", "budget", "share")
COURSE = ("step", "runs", "best", "score", "newest apart")

SHOWN = 10
"""So many candidates, and about so many steps, are in a report to read."""

GAINS = (
    "Found is a turn that brought a new best. Its gain is how much more was believed of that than of the best before."
)
APART = "How far the newest candidates are apart: 0 if all are the same, 1 if they have nothing in common."
FRONT = (
    "Of those that were tried on as many tasks as the best. Beaten is whoever another is at least as good as by every "
    "metric, and better than by one, as far as is believed."
)

_SPENT = {"runs": "{:,.0f}", "usd": "${:.4f}", "seconds": "{:,.0f} s"}


def to_markdown(found: Evolution, plan: Json | None = None, better: Mapping[str, Better] | None = None) -> str:
    """A report to read, or to put into a merge request. What was planned is told if it is given; scores are as metrics
    give them if it is known for which of them lower is `better`."""
    account = Account(found, plan or {}, better or {})
    parts = [f"# {inert(account.title)}", f"**{inert(account.sentence, 2000)}**", inert(account.subtitle)]
    parts.append("## Figures\n\n" + table(FIGURES, account.figures))
    parts.append("## What each arm earned\n\n" + (account.no_arms or table(ARMS, arms(account)) + f"\n\n{GAINS}"))
    parts.append("## Spending\n\n" + table(SPENDING, spending(account)))
    if rows := course(account):
        parts.append(f"## Course\n\n{table(COURSE, rows)}\n\n{APART}")
    parts.append("## What changed\n\n" + _changes(account))
    parts.append("## Lineage of the best\n\n" + fenced("\n".join(account.lineage)))
    if account.front:
        parts.append(f"## Front\n\n{table(front_heads(account), front(account))}\n\n{FRONT}")
    more = len(account.pool) - SHOWN
    parts.append("## Candidates\n\n" + table(candidate_heads(account), candidates(account, SHOWN)))
    parts += [f"and {more:,} more"] if more > 0 else []
    parts.append("## Registered\n\n" + table(("what", "value"), registered(account)))
    return "\n\n".join(parts) + "\n"


def arms(account: Account) -> list[Row]:
    """What each arm earned, whoever gained most first."""
    ordered = sorted(account.arms.items(), key=lambda item: -item[1].gain)
    return [
        (
            name,
            f"{each.turns:,}",
            f"{each.found:,}",
            f"{each.gain:+.3f}",
            f"{each.runs:,}",
            f"{each.candidates:,}",
            f"{100 * each.gain / each.runs:+.3f}" if each.runs else "–",
        )
        for name, each in ordered
    ]


def spending(account: Account) -> list[Row]:
    return [
        (
            name,
            _SPENT[name].format(spent),
            "no limit" if limit is None else _SPENT[name].format(limit),
            f"{100 * spent / limit:.0f} %" if limit else "–",
        )
        for name, spent, limit in account.spending
    ]


def course(account: Account) -> list[Row]:
    """The search step by step, or some of very many steps."""
    apart, steps = dict(account.diversity), account.found.steps
    every = max(1, -(-len(steps) // SHOWN))
    return [
        (
            f"{place}",
            f"{runs:,}",
            short(steps[place - 1].best),
            level_text(believed),
            f"{apart[place]:.3f}" if place in apart else "–",
        )
        for place, (runs, believed) in enumerate(account.curve, 1)
        if place % every == 0 or place in (1, len(steps))
    ]


def _changes(account: Account) -> str:
    if not account.changes:
        return "Nothing: the best is the start."
    return fenced("\n\n".join(map(str, account.changes)))


def front_heads(account: Account) -> Row:
    arrows = {"lower": "↓", "higher": "↑"}
    metrics = (f"{name} {arrows[account.better.get(name, 'higher')]}" for name in account.pool.metrics)
    return ("playbook", "stands", *metrics, "tasks")


def front(account: Account, limit: int = 2 * SHOWN) -> list[Row]:
    """Those on the front, then others; the best by the first metric first."""
    places = sorted(account.front, key=lambda place: (not account.front[place], -account.pool.standing(place).mean))
    rows = []
    for place in places[:limit]:
        member = account.member(place)
        mark = "● front" if account.front[place] else "□ beaten"
        scores = [member.scores[name] for name in account.pool.metrics]
        rows.append((_called(account, member), mark, *map(level_text, scores), f"{scores[0].n}"))
    return rows


def candidate_heads(account: Account) -> Row:
    return ("playbook", account.metric, "tasks", "arm", "how", "from")


def candidates(account: Account, limit: int) -> list[Row]:
    rows: list[Row] = []
    for member in account.members(limit):
        score = member.scores[account.metric]
        parents = ", ".join(map(short, member.parents)) or "–"
        rows.append((_called(account, member), level_text(score), f"{score.n}", member.arm or "–", member.how, parents))
    return rows


def _called(account: Account, member: Member) -> str:
    marks = [mark for mark, place in (("start", 0), ("best", account.best)) if member.place == place]
    return " ".join([short(member.playbook), *([f"({', '.join(marks)})"] if marks else [])])


def registered(account: Account) -> list[Row]:
    """What was fixed before anything was run, as far as it is at hand."""
    rows = [("search", account.found.search), ("start", account.found.start), ("best", account.found.best)]
    for name, value in account.plan.items():
        if name not in ("start", "budget") and value is not None:
            rows.append((name, value if isinstance(value, str) else canonical(value)))
    rows.append(("budget", str(account.found.budget)))
    return [*rows, ("to see it again", f"seedbed search show {short(account.found.search)}")]


def fenced(text: str) -> str:
    """A text as it is, in a fence that it cannot leave."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


__all__ = ["to_markdown"]
