"""The report of a search to read: what it found, how far that is to be believed, and what it took."""

from __future__ import annotations

import re
from collections.abc import Mapping

from seedbed.evaluation.metrics.metric import Better
from seedbed.evolution.evolve import Evolution
from seedbed.reports.scorecard import inert, table
from seedbed.reports.search_summary import Member, Row, Summary, level_text
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

_SPENT = {"runs": "{:,.0f}", "tokens": "{:,.0f}", "usd": "${:.4f}", "seconds": "{:,.0f} s"}


def to_markdown(found: Evolution, plan: Json | None = None, better: Mapping[str, Better] | None = None) -> str:
    """A report to read, or to put into a merge request. What was planned is told if it is given; scores are as metrics
    give them if it is known for which of them lower is `better`."""
    summary = Summary(found, plan or {}, better or {})
    parts = [f"# {inert(summary.title)}", f"**{inert(summary.sentence, 2000)}**", inert(summary.subtitle)]
    parts.append("## Figures\n\n" + table(FIGURES, summary.figures))
    parts.append(
        "## What each arm earned\n\n" + (summary.no_arms or table(ARMS, arms(summary)) + f"\n\n{GAINS} {summary.gains}")
    )
    if summary.skipped:
        parts.append("## What was skipped\n\n" + summary.skipped.sentence)
    parts.append("## Spending\n\n" + table(SPENDING, spending(summary)))
    if rows := course(summary):
        parts.append(f"## Course\n\n{table(COURSE, rows)}\n\n{APART}")
    parts.append("## What changed\n\n" + _changes(summary))
    parts.append("## Lineage of the best\n\n" + fenced("\n".join(summary.lineage)))
    if summary.front:
        parts.append(f"## Front\n\n{table(front_heads(summary), front(summary))}\n\n{FRONT}")
    more = len(summary.pool) - SHOWN
    parts.append("## Candidates\n\n" + table(candidate_heads(summary), candidates(summary, SHOWN)))
    parts += [f"and {more:,} more"] if more > 0 else []
    parts.append("## Registered\n\n" + table(("what", "value"), registered(summary)))
    return "\n\n".join(parts) + "\n"


def arms(summary: Summary) -> list[Row]:
    """What each arm earned, whoever gained most first."""
    ordered = sorted(summary.arms.items(), key=lambda item: -item[1].gain)
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


def spending(summary: Summary) -> list[Row]:
    return [
        (
            name,
            _SPENT[name].format(spent),
            "no limit" if limit is None else _SPENT[name].format(limit),
            f"{100 * spent / limit:.0f} %" if limit else "–",
        )
        for name, spent, limit in summary.spending
    ]


def course(summary: Summary) -> list[Row]:
    """The search step by step, or some of very many steps."""
    apart, steps = dict(summary.diversity), summary.found.steps
    every = max(1, -(-len(steps) // SHOWN))
    return [
        (
            f"{place}",
            f"{runs:,}",
            short(steps[place - 1].best),
            level_text(believed),
            f"{apart[place]:.3f}" if place in apart else "–",
        )
        for place, (runs, believed) in enumerate(summary.curve, 1)
        if place % every == 0 or place in (1, len(steps))
    ]


def _changes(summary: Summary) -> str:
    if not summary.changes:
        return "Nothing: the best is the start."
    return fenced("\n\n".join(map(str, summary.changes)))


def front_heads(summary: Summary) -> Row:
    arrows = {"lower": "↓", "higher": "↑"}
    metrics = (f"{name} {arrows[summary.better.get(name, 'higher')]}" for name in summary.pool.metrics)
    return ("playbook", "stands", *metrics, "tasks")


def front(summary: Summary, limit: int = 2 * SHOWN) -> list[Row]:
    """Those on the front, then others; the best by the first metric first."""
    places = sorted(summary.front, key=lambda place: (not summary.front[place], -summary.pool.standing(place).mean))
    rows = []
    for place in places[:limit]:
        member = summary.member(place)
        mark = "● front" if summary.front[place] else "□ beaten"
        scores = [member.scores[name] for name in summary.pool.metrics]
        rows.append((_called(summary, member), mark, *map(level_text, scores), f"{scores[0].n}"))
    return rows


def candidate_heads(summary: Summary) -> Row:
    return ("playbook", summary.metric, "tasks", "arm", "how", "from")


def candidates(summary: Summary, limit: int) -> list[Row]:
    rows: list[Row] = []
    for member in summary.members(limit):
        score = member.scores[summary.metric]
        parents = ", ".join(map(short, member.parents)) or "–"
        rows.append((_called(summary, member), level_text(score), f"{score.n}", member.arm or "–", member.how, parents))
    return rows


def _called(summary: Summary, member: Member) -> str:
    marks = [mark for mark, place in (("start", 0), ("best", summary.best)) if member.place == place]
    return " ".join([short(member.playbook), *([f"({', '.join(marks)})"] if marks else [])])


def registered(summary: Summary) -> list[Row]:
    """What was fixed before anything was run, as far as it is at hand."""
    rows = [("search", summary.found.search), ("start", summary.found.start), ("best", summary.found.best)]
    for name, value in summary.plan.items():
        if name not in ("start", "budget") and value is not None:
            rows.append((name, value if isinstance(value, str) else canonical(value)))
    rows.append(("budget", str(summary.found.budget)))
    return [*rows, ("to see it again", f"seedbed search show {short(summary.found.search)}")]


def fenced(text: str) -> str:
    """A text as it is, in a fence that it cannot leave."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


__all__ = ["to_markdown"]
