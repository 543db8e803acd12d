"""The report of a search as one web page that asks nothing of anybody."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from seedbed.evaluation.metrics import Better
from seedbed.evaluation.page import document, figure, grid, safe, tiles
from seedbed.evaluation.plots import STYLE, Line, Spot, bars, chart, forest, scatter
from seedbed.evaluation.report import number
from seedbed.evolution import report as written
from seedbed.evolution.account import Account
from seedbed.evolution.evolve import Evolution
from seedbed.playbooks.changes import Change
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
    account = Account(found, plan or {}, better or {})
    parts = [f"<h1>{safe(account.title)}</h1><p class=told>{safe(account.subtitle)}</p>"]
    kind, badge = BADGES[account.answer]
    answer = f'<span class="badge {kind}">{badge}</span><p class=answer>{safe(account.sentence)}</p>'
    parts += [f"<section>{answer}</section>", _tiles(account), _section("How it came about", _course(account))]
    parts.append(_section("On the tasks that decide, and on others", _levels(account)))
    parts.append(_section("What changed", "".join(map(_change, account.changes)) or _note("The best is the start.")))
    parts.append(_section("Lineage of the best", f"<pre class=tree>{safe(chr(10).join(account.lineage))}</pre>"))
    told = grid(written.ARMS, written.arms(account), numbers=True) + _note(written.GAINS)
    parts.append(_section("What each arm earned", _note(account.no_arms) if account.no_arms else told))
    parts.append(_section("Spending", _spending(account)))
    parts.append(_section("Front", _front(account)))
    parts.append(_section("Candidates", _candidates(account)))
    parts.append(_section("Figures", f"<div class=figures>{grid(written.FIGURES, account.figures)}</div>"))
    parts.append(_section("Registered before anything was run", grid(("what", "value"), written.registered(account))))
    return document(account.title, parts, STYLE + _MORE)


def _section(heading: str, inner: str) -> str:
    return f"<section><h2>{safe(heading)}</h2>{inner}</section>" if inner else ""


def _note(text: str) -> str:
    return f"<p class=note>{safe(text)}</p>"


def _tiles(account: Account) -> str:
    sure, optimism = account.found.confirmed, account.optimism
    start, best = account.standing(0), account.standing(account.best)
    doubt = "optimism not known" if optimism is None else f"of which optimism {optimism:+.3f}"
    shown = [(f"{account.metric} in the search", f"{number(start.mean)} → {number(best.mean)}", doubt)]
    if sure:
        shown.append(_gain("gain, confirmed", sure.gain))
        if sure.over_best_of_n:
            shown.append(_gain("gain over best of N", sure.over_best_of_n))
    runs = account.found.spent["runs"]
    tried = f"{len(account.pool) - 1:,} candidates, ${account.found.spent['usd']:.4f}"
    return tiles([*shown, ("runs", f"{runs:,}", tried)])


def _signed(interval: Interval) -> tuple[str, str]:
    """A difference and its range."""
    known = math.isfinite(interval.low)
    return f"{interval.mean:+.3f}", f"{interval.low:+.3f} to {interval.high:+.3f}" if known else ""


def _gain(name: str, interval: Interval) -> tuple[str, str, str]:
    mean, reach = _signed(interval)
    return name, mean, f"95 %: {reach}" if reach else "too few tasks for an interval"


def _course(account: Account) -> str:
    """The best score over the runs that were spent, and how different candidates were from each other."""
    if not account.curve:
        return _note("No step was taken.")
    spent = account.found.spent["runs"]
    stairs = _stairs(account.curve)
    lines = [Line("best so far", [(runs, each.mean) for runs, each in stairs], "path")]
    lines.append(_level("start", account.standing(0), spent, "bound"))
    if account.found.confirmed:
        lines.append(_level("best, confirmed", account.found.confirmed.best, spent, "limit"))
    band = [(runs, each.low, each.high) for runs, each in stairs if math.isfinite(each.low)]
    sure = "with two standard errors of its difference from the start"
    told = sure if band else "how sure each was is not recorded"
    picture = chart(lines, "best score over runs", band=band, zero=False, over="runs")
    pictures = [figure(f"Best {account.metric}", picture, f"over runs spent, {told}")]
    if account.diversity:
        apart = chart(
            [Line("apart", account.diversity, "path")], "distance between candidates over steps", over="steps"
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


def _levels(account: Account) -> str:
    sure = account.found.confirmed
    rows = [
        ("start, in the search", account.standing(0), 1),
        ("best, in the search", account.standing(account.best), 1),
    ]
    if sure is None:
        told = account.figures[-3]
        return figure(account.metric, forest(rows, "scores in the search")) + _note(f"{told[0]}: {told[2]}.")
    rows += [("start, confirmed", sure.start, 0)]
    rows += [("best of N, confirmed", sure.best_of_n, 0)] if sure.best_of_n else []
    rows += [("best, confirmed", sure.best, 0)]
    gains = [("over the start", sure.gain, 0)]
    gains += [("over best of N", sure.over_best_of_n, 0)] if sure.over_best_of_n else []
    levels = figure(account.metric, forest(rows, "scores in the search and confirmed"))
    drawn = forest(gains, "confirmed gains", line=0.0, told=_signed)
    return levels + figure("Gain of the best", drawn, "on tasks that were opened once, at the end")


def _change(change: Change) -> str:
    if not change.is_text:
        path, _, rest = str(change).partition(": ")
        return f"<b>{safe(path)}</b><p class=change>{safe(rest)}</p>"
    marks = {"kept": "{}", "removed": "<del>{}</del>", "added": "<ins>{}</ins>"}
    pieces = "".join(marks[what].format(safe(text)) for what, text in change.pieces())
    return f"<b>{safe(change.path)}</b><p class=change>{pieces}</p>"


def _spending(account: Account) -> str:
    rows = written.spending(account)
    limited = [
        (name, spent / limit, f"{row[1]} of {row[2]}")
        for row, (name, spent, limit) in zip(rows, account.spending, strict=True)
        if limit
    ]
    return bars(limited, "spent of the budget") + grid(written.SPENDING, rows, numbers=True)


def _front(account: Account) -> str:
    if not account.front:
        return ""
    first, *others = account.pool.metrics
    places = sorted(account.front, key=lambda place: (not account.front[place], -account.pool.standing(place).mean))
    drawn = []
    for other in others:
        x, y = (f"{name}, {account.better.get(name, 'higher')} is better" for name in (other, first))
        picture = scatter(_spots(account, places[:SPOTS], other, first), x, y, f"{first} and {other}")
        drawn.append(figure(f"{first} and {other}", picture))
    key = "<div class=key><span><b class=up>●</b> on the front</span><span>□ beaten by another</span></div>"
    rows = grid(written.front_heads(account), written.front(account, SPOTS), numbers=True)
    return key + "".join(drawn) + rows + _note(written.FRONT)


def _spots(account: Account, places: Iterable[int], across: str, up: str) -> Iterable[Spot]:
    for place in places:
        member = account.member(place)
        name = "best" if place == account.best else "start" if place == 0 else short(member.playbook)
        yield Spot(name, member.scores[across], member.scores[up], account.front[place])


def _candidates(account: Account) -> str:
    more = len(account.pool) - SHOWN
    rows = grid(written.candidate_heads(account), written.candidates(account, SHOWN))
    return rows + (_note(f"and {more:,} more") if more > 0 else "")


__all__ = ["to_html"]
