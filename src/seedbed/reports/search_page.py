"""The report of a search as one web page that asks nothing of anybody."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from seedbed.evaluation.metrics.metric import Better
from seedbed.evolution.evolve import Evolution
from seedbed.playbooks.changes import Change
from seedbed.reports import search as written
from seedbed.reports.page import document, figure, grid, safe, tiles
from seedbed.reports.plots import STYLE, Line, Spot, bars, chart, forest, scatter
from seedbed.reports.scorecard import number
from seedbed.reports.search_summary import Summary
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Json, short

SHOWN = 40
"""So many candidates are on a page."""

SPOTS = 40
"""So many playbooks are in a picture of the front: all of the front that there is room for, then others."""

BADGES = {
    "yes": ("good", "▲ better"),
    "no": ("bad", "▼ worse"),
    "open": ("open", "? not confirmed"),
    "nothing": ("open", "= nothing better"),
}
"""What an answer is to those who hoped for it, and its sign."""

_MORE = """
pre.tree{font:.85em/1.5 ui-monospace,monospace;overflow-x:auto;margin:0}
.change{font:.9em/1.6 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0 1rem}
del{color:var(--s5)}ins{color:var(--s0);text-decoration:none;font-weight:600}ins::before{content:"+"}
"""


def to_html(found: Evolution, plan: Json | None = None, better: Mapping[str, Better] | None = None) -> str:
    """All of a report with pictures, for light and dark screens; what is given besides is as in `to_markdown`."""
    summary = Summary(found, plan or {}, better or {})
    parts = [f"<h1>{safe(summary.title)}</h1><p class=told>{safe(summary.subtitle)}</p>"]
    kind, badge = BADGES[summary.answer]
    answer = f'<span class="badge {kind}">{badge}</span><p class=answer>{safe(summary.sentence)}</p>'
    parts += [f"<section>{answer}</section>", _tiles(summary), _section("How it came about", _course(summary))]
    parts.append(_section("On the tasks that decide, and on others", _levels(summary)))
    parts.append(_section("What changed", "".join(map(_change, summary.changes)) or _note("The best is the start.")))
    parts.append(_section("Lineage of the best", f"<pre class=tree>{safe(chr(10).join(summary.lineage))}</pre>"))
    told = grid(written.ARMS, written.arms(summary), numbers=True) + _note(f"{written.GAINS} {summary.gains}")
    parts.append(_section("What each arm earned", _note(summary.no_arms) if summary.no_arms else told))
    parts.append(_section("What was skipped", _note(summary.skipped.sentence) if summary.skipped else ""))
    parts.append(_section("Spending", _spending(summary)))
    parts.append(_section("Front", _front(summary)))
    parts.append(_section("Candidates", _candidates(summary)))
    parts.append(_section("Figures", f"<div class=figures>{grid(written.FIGURES, summary.figures)}</div>"))
    parts.append(_section("Registered before anything was run", grid(("what", "value"), written.registered(summary))))
    return document(summary.title, parts, STYLE + _MORE)


def _section(heading: str, inner: str) -> str:
    return f"<section><h2>{safe(heading)}</h2>{inner}</section>" if inner else ""


def _note(text: str) -> str:
    return f"<p class=note>{safe(text)}</p>"


def _tiles(summary: Summary) -> str:
    sure, optimism = summary.found.confirmed, summary.optimism
    start, best = summary.standing(0), summary.standing(summary.best)
    doubt = "optimism not known" if optimism is None else f"of which optimism {optimism:+.3f}"
    shown = [(f"{summary.metric} in the search", f"{number(start.mean)} → {number(best.mean)}", doubt)]
    if sure:
        shown.append(_gain("gain, confirmed", sure.gain))
        if sure.over_best_of_n:
            shown.append(_gain("gain over best of N", sure.over_best_of_n))
    runs = summary.found.spent["runs"]
    tried = f"{len(summary.pool) - 1:,} candidates, ${summary.found.spent['usd']:.4f}"
    return tiles([*shown, ("runs", f"{runs:,}", tried)])


def _signed(interval: Interval) -> tuple[str, str]:
    """A difference and its range."""
    known = math.isfinite(interval.low)
    return f"{interval.mean:+.3f}", f"{interval.low:+.3f} to {interval.high:+.3f}" if known else ""


def _gain(name: str, interval: Interval) -> tuple[str, str, str]:
    mean, reach = _signed(interval)
    return name, mean, f"95 %: {reach}" if reach else "too few tasks for an interval"


def _course(summary: Summary) -> str:
    """The best score over the runs that were spent, and how different candidates were from each other."""
    if not summary.curve:
        return _note("No step was taken.")
    spent = summary.found.spent["runs"]
    stairs = _stairs(summary.curve)
    lines = [Line("best so far", [(runs, each.mean) for runs, each in stairs], "path")]
    lines.append(_level("start", summary.standing(0), spent, "bound"))
    if summary.found.confirmed:
        lines.append(_level("best, confirmed", summary.found.confirmed.best, spent, "limit"))
    band = [(runs, each.low, each.high) for runs, each in stairs if math.isfinite(each.low)]
    sure = "with two standard errors of its difference from the start"
    told = sure if band else "how sure each was is not recorded"
    picture = chart(lines, "best score over runs", band=band, zero=False, over="runs")
    pictures = [figure(f"Best {summary.metric}", picture, f"over runs spent, {told}")]
    if summary.diversity:
        apart = chart(
            [Line("apart", summary.diversity, "path")], "distance between candidates over steps", over="steps"
        )
        pictures.append(figure("Diversity", apart, written.APART))
    else:
        pictures.append(_note("Diversity is not known: there were fewer than two candidates."))
    return "".join(pictures)


def _stairs(curve: Sequence[tuple[int, Interval]]) -> list[tuple[int, Interval]]:
    """What was believed after each step was so until the next one was done."""
    held = [point for (_, before), (runs, now) in pairwise(curve) for point in ((runs, before), (runs, now))]
    return [*curve[:1], *held]


def _level(name: str, at: Interval, end: int, kind: Literal["bound", "limit"]) -> Line:
    return Line(name, [(0, at.mean), (end, at.mean)], kind)


def _levels(summary: Summary) -> str:
    sure = summary.found.confirmed
    rows = [
        ("start, in the search", summary.standing(0), 1),
        ("best, in the search", summary.standing(summary.best), 1),
    ]
    if sure is None:
        told = f"gain, confirmed: {summary.unconfirmed}."
        return figure(summary.metric, forest(rows, "scores in the search")) + _note(told)
    rows += [("start, confirmed", sure.start, 0)]
    rows += [("best of N, confirmed", sure.best_of_n, 0)] if sure.best_of_n else []
    rows += [("best, confirmed", sure.best, 0)]
    gains = [("over the start", sure.gain, 0)]
    gains += [("over best of N", sure.over_best_of_n, 0)] if sure.over_best_of_n else []
    levels = figure(summary.metric, forest(rows, "scores in the search and confirmed"))
    drawn = forest(gains, "confirmed gains", line=0.0, told=_signed)
    return levels + figure("Gain of the best", drawn, "on tasks that were opened once, at the end")


def _change(change: Change) -> str:
    if not change.is_text:
        path, _, rest = str(change).partition(": ")
        return f"<b>{safe(path)}</b><p class=change>{safe(rest)}</p>"
    marks = {"kept": "{}", "removed": "<del>{}</del>", "added": "<ins>{}</ins>"}
    pieces = "".join(marks[what].format(safe(text)) for what, text in change.pieces())
    return f"<b>{safe(change.path)}</b><p class=change>{pieces}</p>"


def _spending(summary: Summary) -> str:
    rows = written.spending(summary)
    limited = [
        (name, spent / limit, f"{row[1]} of {row[2]}")
        for row, (name, spent, limit) in zip(rows, summary.spending, strict=True)
        if limit
    ]
    return bars(limited, "spent of the budget") + grid(written.SPENDING, rows, numbers=True)


def _front(summary: Summary) -> str:
    if not summary.front:
        return ""
    first, *others = summary.pool.metrics
    places = sorted(summary.front, key=lambda place: (not summary.front[place], -summary.pool.standing(place).mean))
    drawn = []
    for other in others:
        x, y = (f"{name}, {summary.better.get(name, 'higher')} is better" for name in (other, first))
        picture = scatter(_spots(summary, places[:SPOTS], other, first), x, y, f"{first} and {other}")
        drawn.append(figure(f"{first} and {other}", picture))
    key = "<div class=key><span><b class=up>●</b> on the front</span><span>□ beaten by another</span></div>"
    rows = grid(written.front_heads(summary), written.front(summary, SPOTS), numbers=True)
    return key + "".join(drawn) + rows + _note(written.FRONT)


def _spots(summary: Summary, places: Iterable[int], across: str, up: str) -> Iterable[Spot]:
    for place in places:
        member = summary.member(place)
        name = "best" if place == summary.best else "start" if place == 0 else short(member.playbook)
        yield Spot(name, member.scores[across], member.scores[up], summary.front[place])


def _candidates(summary: Summary) -> str:
    more = len(summary.pool) - SHOWN
    rows = grid(written.candidate_heads(summary), written.candidates(summary, SHOWN))
    return rows + (_note(f"and {more:,} more") if more > 0 else "")


__all__ = ["to_html"]
