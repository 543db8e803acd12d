"""The report of a search: what it brought, how far that can be trusted, and what it took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Literal

from seedbed.errors import amount
from seedbed.evolution.learning.surrogate_filter import SkippedCandidates
from seedbed.evolution.searches import Evolution
from seedbed.playbooks.library import names_of
from seedbed.reports import formats, markdown, page, pareto_front
from seedbed.reports.figure import Figure
from seedbed.reports.numbers import TableRow, counted, difference_texts, number, playbook_name, score_text
from seedbed.reports.page import (
    Badge,
    PagePart,
    PageTable,
    Prose,
    ReportPage,
    Tile,
    Verbatim,
    WordChanges,
    picture,
    section,
)
from seedbed.reports.plots import Axes, ForestRow, ScatterPoint, Series, bars, chart, forest, scatter
from seedbed.reports.search.view import ArmTotals, CandidateView, SearchView
from seedbed.stats.estimates import Interval
from seedbed.storage.store import Digest, Json, Store, canonical, short

FIGURES = ("figure", "value", "what it means")
ARMS = ("arm", "turns", "new bests", "gain", "runs", "candidates", "per 100 runs")
SPENDING = ("what", "spent", "budget", "share")
COURSE = ("step", "runs", "best", "score", "distance")
REGISTERED = ("what", "value")

STEPS = 10
"""About how many steps the table of the course has."""

SHOWN = 40
"""How many candidates are listed and drawn."""

GAINS = "A new best is a candidate that became the best. Its gain is how far it scored above the previous best."
DISTANCE = "How different the newest candidates are: 0 if all are the same, 1 if they have nothing in common."
FRONT = (
    "Only candidates that were tried on as many tasks as the best. One is beaten if another is at least as good by "
    "every metric and better by one, by their estimated scores."
)

BADGES = {
    "yes": Badge("good", "▲ better"),
    "no": Badge("bad", "▼ worse"),
    "open": Badge("open", "? not confirmed"),
    "nothing": Badge("open", "= nothing better"),
}

_UNITS = {"runs": "{:,.0f}", "tokens": "{:,.0f}", "usd": "${:.4f}", "seconds": "{:,.0f} s"}


def export(
    evolution: Evolution, to: str | Path, *, store: Store | None = None, names: Mapping[Digest, str] | None = None
) -> str | bytes | Path:
    """A search as json, md or html, or in a file that ends so. Its store knows its plan and the names of playbooks."""
    view = SearchView(evolution, names=names or {}) if store is None else view_of(store, evolution, names)
    return formats.export(view, {"json": to_json, "md": to_markdown, "html": to_html}, to)


def figures(evolution: Evolution) -> dict[str, Figure]:
    """The figures of a search by their titles."""
    return page.figures(page_of(SearchView(evolution)))


def view_of(store: Store, evolution: Evolution, names: Mapping[Digest, str] | None = None) -> SearchView:
    """A search with its plan. Playbooks have the names given, or those of their refs."""
    called = {digest: playbook_name(name) for digest, name in (names or {}).items()}
    return SearchView(evolution, store.get(evolution.search), {**called, **names_of(store)})


# The page


def page_of(view: SearchView) -> ReportPage:
    return ReportPage(
        title=view.title,
        subtitle=view.subtitle,
        answer=view.sentence,
        badge=BADGES[view.answer],
        tiles=_tiles(view),
        parts=_parts(view),
    )


def _tiles(view: SearchView) -> list[Tile]:
    sure, runs = view.confirmed, view.evolution.spent["runs"]
    start, best = view.standing(0), view.standing(view.best)
    doubt = "selection bias not known" if view.optimism is None else f"about {number(view.optimism)} selection bias"
    tiles = [Tile(f"{view.metric} in the search", f"{number(start.mean)} → {number(best.mean)}", doubt)]
    if sure:
        tiles.append(_gain_tile("gain, confirmed" if view.answer == "yes" else "gain, not confirmed", sure.gain))
        tiles += [_gain_tile("gain over best of N", sure.over_best_of_n)] if sure.over_best_of_n else []
    cost = amount(view.evolution.spent["usd"], view.evolution.spent.get("unpriced", 0), "${:.4f}".format)
    tried = f"{counted(len(view.pool) - 1, 'candidate')}, {cost}"
    return [*tiles, Tile("runs", f"{runs:,}", tried)]


def _gain_tile(name: str, interval: Interval) -> Tile:
    mean, reach = difference_texts(interval)
    return Tile(name, mean, f"95 %: {reach}" if math.isfinite(interval.low) else "too few tasks for an interval")


def _parts(view: SearchView) -> list[PagePart]:
    heads = ("playbook", view.metric, "tasks", "arm", "how", "from")
    arms = PageTable(ARMS, arm_rows(view), numbers=True), Prose(f"{GAINS} {view.gains}")
    return [
        *section("What changed", *_changes(view)),
        *section("How it came about", *_course(view)),
        *section("Scores in the search and on new tasks", *_levels(view)),
        *section("Lineage of the best", Verbatim("\n".join(view.lineage), "text")),
        *section("What each arm earned", *([Prose(view.no_arms)] if view.no_arms else arms)),
        *(section("What was skipped", Prose(view.skipped.sentence)) if view.skipped else []),
        *section("Spending", *_spending(view)),
        *section("Front", *_front(view)),
        *section("Candidates", PageTable(heads, candidate_rows(view, SHOWN), more=len(view.pool) - SHOWN)),
        *section("Figures", PageTable(FIGURES, view.figures)),
        *section("Registered before anything was run", PageTable(REGISTERED, registered_rows(view))),
    ]


def _changes(view: SearchView) -> list[PagePart]:
    if not view.changes():
        return [Prose("Nothing: the best is the start.")]
    name = view.names.get(view.evolution.best, "")
    heading = f"The whole new playbook: {name}" if name else "The whole new playbook"
    whole = Verbatim(view.pool.playbooks[view.best].to_yaml(), "yaml")
    return [WordChanges(view.changes()), *section(heading, whole)]


def _course(view: SearchView) -> list[PagePart]:
    """The best score over the runs that were spent, and how different candidates were from each other."""
    if not view.curve:
        return [Prose("No step was taken.")]
    spent, stairs = view.evolution.spent["runs"], _stairs(view.curve)
    lines = [
        Series("best so far", [(runs, each.mean) for runs, each in stairs], "path"),
        _level("start", view.standing(0), spent, "bound"),
    ]
    if view.confirmed:
        lines.append(_level("best, confirmed", view.confirmed.best, spent, "limit"))
    band = [(runs, each.low, each.high) for runs, each in stairs if math.isfinite(each.low)]
    sure = "with two standard errors of its difference from the start" if band else "its uncertainty is not recorded"
    drawn = chart(lines, "best score over runs", Axes("runs", zero=False), band)
    table = PageTable(COURSE, course_rows(view), numbers=True)
    pictures = picture(f"Best {view.metric}", drawn, f"over runs spent, {sure}", table)
    if not view.diversity:
        return [*pictures, Prose("There is no diversity to show: there were fewer than two candidates.")]
    apart = Series("distance", view.diversity, "path")
    drawn = chart([apart], "distance between candidates over steps", Axes("steps"))
    return [*pictures, *picture("Diversity", drawn, DISTANCE)]


def _stairs(curve: Sequence[tuple[int, Interval]]) -> list[tuple[int, Interval]]:
    """An estimate holds until the next step is done."""
    held = [point for (_, before), (runs, now) in pairwise(curve) for point in ((runs, before), (runs, now))]
    return [*curve[:1], *held]


def _level(name: str, at: Interval, end: int, kind: Literal["bound", "limit"]) -> Series:
    return Series(name, [(0, at.mean), (end, at.mean)], kind)


def _levels(view: SearchView) -> list[PagePart]:
    sure = view.confirmed
    searched: list[ForestRow] = [
        ("start, in the search", view.standing(0), 1),
        ("best, in the search", view.standing(view.best), 1),
    ]
    if sure is None:
        return [*picture(view.metric, forest(searched, "scores in the search")), Prose(view.evolution.unconfirmed)]
    confirmed = [("start, confirmed", sure.start), ("best of N, confirmed", sure.best_of_n)]
    confirmed.append(("best, confirmed", sure.best))
    levels: list[ForestRow] = [(name, each, 0) for name, each in confirmed if each]
    gains: list[ForestRow] = [("over the start", sure.gain, 0)]
    gains += [("over best of N", sure.over_best_of_n, 0)] if sure.over_best_of_n else []
    return [
        *picture(view.metric, forest([*searched, *levels], "scores in the search and confirmed")),
        *picture(
            "Gain of the best",
            forest(gains, "confirmed gains", line=0.0, texts=difference_texts),
            "on tasks that were used once, at the end",
        ),
    ]


def _spending(view: SearchView) -> list[PagePart]:
    lines = spending_rows(view)
    limited = [
        (name, spent / limit, f"{row[1]} of {row[2]}")
        for row, (name, spent, limit) in zip(lines, view.spending, strict=True)
        if limit
    ]
    return [*picture("Budget", bars(limited, "spent of the budget")), PageTable(SPENDING, lines, numbers=True)]


def _front(view: SearchView) -> list[PagePart]:
    if not view.front:
        return []
    first, *others = view.pool.metrics
    pictures: list[PagePart] = []
    for other in others:
        x, y = (f"{name}, {view.better[name]} is better" for name in (other, first))
        drawn = scatter(_points(view, other, first), x, y, f"{first} and {other}")
        pictures += picture(f"{first} and {other}", drawn, pareto_front.LEGEND)
    return [*pictures, PageTable(front_heads(view), front_rows(view), numbers=True), Prose(FRONT)]


def _points(view: SearchView, across: str, up: str) -> Iterable[ScatterPoint]:
    for place in view.front_places[:SHOWN]:
        each = view.candidate(place)
        name = "best" if place == view.best else "start" if place == 0 else view.name(each.playbook)
        yield ScatterPoint(name, each.scores[across], each.scores[up], view.front[place])


# Rows of tables


def arm_rows(view: SearchView) -> list[TableRow]:
    """What each arm earned, the largest gain first."""
    ordered = sorted(view.arms.items(), key=lambda item: -item[1].gain)
    return [
        (
            name,
            f"{each.turns:,}",
            f"{each.new_bests:,}",
            f"{each.gain:+.3f}",
            f"{each.runs:,}",
            f"{each.candidates:,}",
            f"{100 * each.gain / each.runs:+.3f}" if each.runs else "–",
        )
        for name, each in ordered
    ]


def spending_rows(view: SearchView) -> list[TableRow]:
    return [
        (
            name,
            _UNITS[name].format(spent),
            "no limit" if limit is None else _UNITS[name].format(limit),
            f"{100 * spent / limit:.0f} %" if limit else "–",
        )
        for name, spent, limit in view.spending
    ]


def course_rows(view: SearchView) -> list[TableRow]:
    """The search step by step, or some of very many steps."""
    apart, steps = dict(view.diversity), view.evolution.steps
    every = max(1, -(-len(steps) // STEPS))
    return [
        (
            f"{place}",
            f"{runs:,}",
            view.name(steps[place - 1].best),
            score_text(score),
            f"{apart[place]:.3f}" if place in apart else "–",
        )
        for place, (runs, score) in enumerate(view.curve, 1)
        if place % every == 0 or place in (1, len(steps))
    ]


def front_heads(view: SearchView) -> TableRow:
    arrows = {"lower": "↓", "higher": "↑"}
    metrics = (f"{name} {arrows[view.better[name]]}" for name in view.pool.metrics)
    return ("playbook", "stands", *metrics, "tasks")


def front_rows(view: SearchView, limit: int = SHOWN) -> list[TableRow]:
    lines = []
    for place in view.front_places[:limit]:
        each = view.candidate(place)
        mark = "● front" if view.front[place] else "□ beaten"
        scores = [each.scores[name] for name in view.pool.metrics]
        lines.append((_called(view, each), mark, *map(score_text, scores), f"{scores[0].n}"))
    return lines


def candidate_rows(view: SearchView, limit: int) -> list[TableRow]:
    lines: list[TableRow] = []
    for each in view.candidates(limit):
        score = each.scores[view.metric]
        parents = ", ".join(map(view.name, each.parents)) or "–"
        lines.append((_called(view, each), score_text(score), f"{score.n}", each.arm or "–", each.how, parents))
    return lines


def _called(view: SearchView, each: CandidateView) -> str:
    marks = [mark for mark, place in (("start", 0), ("best", view.best)) if each.place == place]
    name = view.names.get(each.playbook)
    return " ".join(filter(None, (name, short(each.playbook), f"({', '.join(marks)})" if marks else "")))


def registered_rows(view: SearchView) -> list[TableRow]:
    """What was fixed before anything was run, as far as it is at hand."""
    lines: list[TableRow] = [
        ("search", view.evolution.search),
        ("start", view.evolution.start),
        ("best", view.evolution.best),
    ]
    for name, value in view.plan.items():
        if name not in ("start", "budget") and value is not None:
            lines.append((name, value if isinstance(value, str) else canonical(value)))
    again = f"seedbed search show {short(view.evolution.search)}"
    return [*lines, ("budget", str(view.evolution.budget)), ("to see it again", again)]


# JSON


def to_document(view: SearchView) -> Json:
    """A whole search as JSON can hold it. Scores are as the metrics give them; gains are positive where better."""
    evolution, pool = view.evolution, view.pool
    return {
        "search": evolution.search,
        "optimizer": view.plan.get("optimizer"),
        "metric": view.metric,
        "better": view.better,
        "tasks": {"reflect": len(pool.reflect), "select": len(pool.select)},
        "start": evolution.start,
        "best": evolution.best,
        "improved": evolution.improved,
        "score": view.standing(view.best).mean,
        "start_score": view.standing(0).mean,
        "optimism": view.optimism,
        "units": evolution.units,
        "confirmed": view.confirmed.body() if view.confirmed else None,
        "unconfirmed": evolution.unconfirmed or None,
        "answer": view.answer,
        "changes": [asdict(change) for change in view.changes()],
        "arms": {name: _arm_document(each) for name, each in view.arms.items()},
        "skipped": _skipped_document(view.skipped) if view.skipped else None,
        "front": [pool.playbooks[place].digest for place, on_front in view.front.items() if on_front],
        "diversity": [{"step": step, "distance": apart} for step, apart in view.diversity],
        "tried": [_candidate_document(view, place) for place in range(len(pool))],
        "steps": [
            {
                "runs": runs,
                "offered": list(step.offered),
                "best": step.best,
                "score": score.mean,
                "deviation": step.deviation,
            }
            for step, (runs, score) in zip(evolution.steps, view.curve, strict=True)
        ],
        "spent": evolution.spent,
        "budget": evolution.budget.body(),
        "ended": evolution.ended or None,
    }


def _arm_document(arm: ArmTotals) -> Json:
    totals = asdict(arm)
    return {"turns": totals.pop("turns"), "found": totals.pop("new_bests"), **totals}


def _skipped_document(skipped: SkippedCandidates) -> Json:
    wrong = skipped.wrong
    counts = {"candidates": skipped.candidates, "hopeless": skipped.hopeless, "evaluated": wrong.n}
    return {**counts, "wrong": wrong.mean if wrong.n else None, "low": wrong.low, "high": wrong.high}


def _candidate_document(view: SearchView, place: int) -> Json:
    pool, standing = view.pool, view.pool.standing(place)
    scores = {name: view.standing(place, number).mean for number, name in enumerate(pool.metrics)}
    return {
        "playbook": pool.playbooks[place].digest,
        "how": pool.how[place],
        "arm": pool.arms[place],
        "parents": list(pool.parents[place]),
        "score": scores[view.metric],
        "deviation": standing.deviation,
        "tasks": standing.tasks,
        "scores": scores,
    }


to_json, to_markdown, to_html = markdown.writers(page_of, to_document)
