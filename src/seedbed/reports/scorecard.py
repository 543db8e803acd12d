"""Scorecards as reports: JSON, CSV, Markdown and a web page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seedbed.evaluation.pareto_front import Front
from seedbed.evaluation.scorecard import ROW, Scorecard, TaskScore, interval_document
from seedbed.reports import formats, markdown, page, pareto_front
from seedbed.reports.figure import Figure
from seedbed.reports.numbers import TableRow, counted, interval_texts, number, playbook_name
from seedbed.reports.page import (
    Bullets,
    Fold,
    PagePart,
    PageTable,
    Picture,
    Prose,
    ReportPage,
    SideBySide,
    Tile,
    picture,
    section,
)
from seedbed.reports.plots import ForestRow, forest, histogram
from seedbed.storage.store import Digest, Json, canonical, short

NO_CLAIM = (
    "Intervals side by side do not say which playbook is better. To find out, run: seedbed compare A B --on DATASET"
)
SCORES = ("playbook", "metric", "mean", "95 % interval", "tasks", "not scored", "US$", "p50 s", "p95 s", "p99 s")
WORST = ("task", "score", "answer", "expected", "why", "run")
NOT_SCORED = ("metric", "why", "cells")
KINDS = {"tag": "tag", "source": "source", "expected": "expected answer"}

SHOWN = 20
"""How many of the worst tasks are listed."""

IN_FIGURE = 40
"""How many rows of a part have a line in its figure; its table has all."""

LONGEST = 600
"""The most characters of an answer in a table."""


@dataclass(frozen=True)
class Report:
    """The scorecards of some playbooks over the same tasks, each under the name of its playbook; with their front, if
    it is wanted."""

    cards: Mapping[str, Scorecard]
    dataset: Digest = ""
    title: str = ""
    notes: tuple[str, ...] = ()
    front: Front | None = None

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(metric for card in self.cards.values() for metric in card.metrics))

    @property
    def heading(self) -> str:
        short_names = {playbook_name(name) for name in self.cards}
        names = ", ".join(map(playbook_name, self.cards) if len(short_names) == len(self.cards) else self.cards)
        return self.title or (f"Scorecard of {names}" if len(self.cards) == 1 else f"Scorecards of {names}")

    @property
    def warnings(self) -> list[str]:
        """Why to expect little of the intervals, if there is a reason."""
        return list(dict.fromkeys(card.warning for card in self.cards.values() if card.warning))

    @property
    def about(self) -> str:
        """What the names stand for."""
        named = [f"{name}: {short(card.playbook)}" for name, card in self.cards.items()]
        return ", ".join([*named, *([f"dataset: {short(self.dataset)}"] if self.dataset else [])])


def export(card: Scorecard, to: str | Path, name: str = "") -> str | bytes | Path:
    """One scorecard as json, csv, md or html, or in a file that ends so."""
    return export_report(Report({name or short(card.playbook): card}), to)


def export_report(report: Report, to: str | Path) -> str | bytes | Path:
    """Several scorecards, in the same formats."""
    return formats.export(report, {"json": to_json, "csv": to_csv, "md": to_markdown, "html": to_html}, to)


def figures(card: Scorecard, name: str = "") -> dict[str, Figure]:
    """The figures of a scorecard by their titles."""
    return page.figures(page_of(Report({name or short(card.playbook): card})))


# JSON and CSV


def card_document(card: Scorecard, dataset: Digest = "", name: str = "") -> Json:
    """A whole scorecard as JSON can hold it. The numbers at the top are those of its own metric."""
    return {
        "playbook": card.playbook,
        "name": name or short(card.playbook),
        "dataset": dataset,
        "metric": card.metric,
        **interval_document(card.interval),
        "warning": card.warning,
        "unscored": len(card.unscored),
        "reused": card.reused,
        "cost_usd": card.cost_usd,
        "worth_usd": card.worth_usd,
        "unpriced": card.worth_unpriced,
        "latency_seconds": asdict(card.latency_seconds),
        "metrics": {metric: _metric_document(card.of(metric)) for metric in card.metrics},
        "strata": {
            kind: {
                name: {metric: interval_document(part.of(metric).interval) for metric in card.metrics}
                for name, part in parts.items()
            }
            for kind, parts in card.strata.items()
        },
        "worst": [_item_document(item) for item in card.worst(10)],
        "cells": [asdict(cell) for cell in card.cells],
    }


def _metric_document(card: Scorecard) -> Json:
    better = "lower" if card.metric in card.lower else "higher"
    about = {"unscored": len(card.unscored), "reasons": card.reasons, "reused": card.reused, "better": better}
    return {**interval_document(card.interval), **about}


def _item_document(item: TaskScore) -> Json:
    cell = item.cell
    return {"task": item.task, "value": item.value, "answer": cell.answer, "reason": cell.reason, "run": cell.run}


def to_document(report: Report) -> Json:
    """The document of the one scorecard, or those of several, with their front if there is one."""
    cards = [card_document(card, report.dataset, name) for name, card in report.cards.items()]
    document = cards[0] if len(cards) == 1 else {"dataset": report.dataset, "cards": cards}
    return {**document, "front": report.front.document()} if report.front else document


def to_csv(report: Report) -> str:
    """Every cell as a row. A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    file = io.StringIO()
    writer = csv.DictWriter(file, ["name", *ROW], lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    for name, card in report.cards.items():
        for row in card.rows():
            writer.writerow({key: _inert(value) for key, value in {"name": name, **row}.items()})
    return file.getvalue()


def _inert(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


# Markdown and the web page


def page_of(report: Report, *first: PagePart) -> ReportPage:
    """The scores of all playbooks side by side, then each by its parts and with its worst answers; `first` comes before
    all of that."""
    said = (*report.notes, *report.warnings)
    notes = section("Notes", Bullets(said)) if said else []
    parts: list[PagePart] = [*first, *notes, *section("Scores", *_scores(report))]
    if report.front:
        parts += pareto_front.sections(report.front)
    for series, (name, card) in enumerate(report.cards.items()):
        details = list(_details(card, series))
        parts += [Fold(name, details)] if len(report.cards) > 1 else details
    one = next(iter(report.cards.values())) if len(report.cards) == 1 else None
    return ReportPage(
        title=report.heading,
        subtitle=report.about,
        answer=_answer(one) if one else NO_CLAIM if report.cards else "There is no scorecard.",
        tiles=_tiles(one) if one else (),
        parts=parts,
    )


def _answer(card: Scorecard) -> str:
    mean, reach = interval_texts(card.interval)
    if not card.interval.n:
        return f"No task has a score by {card.metric}."
    sure = f"95 % interval {reach}" if reach else "too few tasks for an interval"
    count = len(card.unscored)
    missing = f" {counted(count, 'cell')} {'has' if count == 1 else 'have'} no score." if count else ""
    return f"{card.metric} is {mean} ({sure}) on {counted(card.interval.n, 'task')}.{missing}"


def _tiles(card: Scorecard) -> list[Tile]:
    mean, reach = interval_texts(card.interval)
    took = card.latency_seconds
    seconds = "–" if took.p50 is None else f"{took.p50:.2f} s"
    slow = "no runs" if took.p95 is None or took.p99 is None else f"p95 {took.p95:.2f} s, p99 {took.p99:.2f} s"
    scored = "all scored" if not card.unscored else f"{counted(len(card.unscored), 'cell')} not scored"
    unpriced = card.worth_unpriced
    unknown = f"at least: {counted(unpriced, 'call')} of unknown price; " if unpriced else ""
    return [
        Tile(card.metric, mean, f"95 % interval {reach}" if reach else "too few for an interval"),
        Tile("tasks", f"{card.interval.n:,}", scored),
        Tile("cost", f"${card.worth_usd:.4f}", f"{unknown}${card.cost_usd:.4f} paid now, {card.reused:,} cells reused"),
        Tile("p50 latency", seconds, slow),
    ]


def _scores(report: Report) -> list[PagePart]:
    parts: list[PagePart] = []
    for metric in report.metrics:
        rows: list[ForestRow] = [
            (name, card.of(metric).interval, series)
            for series, (name, card) in enumerate(report.cards.items())
            if metric in card.metrics
        ]
        better = "lower is better" if any(metric in card.lower for card in report.cards.values()) else ""
        parts += picture(metric, forest(rows, f"{metric} with 95 % intervals"), better)
    return [*parts, PageTable(SCORES, scores(report), numbers=True)]


def _details(card: Scorecard, series: int) -> Iterable[PagePart]:
    for kind, rows in strata(card):
        cards = card.strata[kind]
        drawn: list[ForestRow] = [(name, part.interval, series) for name, part in list(cards.items())[:IN_FIGURE]]
        table = PageTable((kind, *card.metrics, "tasks"), rows, numbers=True)
        several = len(card.metrics) > 1
        plot = picture(card.metric, forest(drawn, f"{card.metric} by {kind}"), "", None if several else table)
        yield from section(f"By {KINDS[kind]}", *plot, *([table] if several else []))
    if spreads := _spreads(card, series):
        yield from section("Spread", SideBySide(spreads))
    if rows := worst(card, SHOWN):
        yield from section(f"Worst by {card.metric}", PageTable(WORST, rows))
    if rows := unscored(card):
        note = Prose("A cell without a score does not count as zero. The means leave it out.")
        yield from section("Not scored", note, PageTable(NOT_SCORED, rows))


def _spreads(card: Scorecard, series: int) -> list[Picture]:
    pictures: list[Picture] = []
    for metric in card.metrics:
        values = list(card.of(metric).means.values())
        pictures += picture(metric, histogram(values, f"{metric} of tasks", (), series), "tasks at each score")
    took = card.latency_seconds
    if took.p50 is not None and took.p95 is not None:
        marks = (("p50", took.p50), ("p95", took.p95))
        pictures += picture("latency", histogram(card.latencies, "latency", marks, series), "runs, in seconds")
    costs = sorted(cell.cost_usd for cell in card.runs.values())
    if any(costs):
        pictures += picture("cost", histogram(costs, "cost", (), series), "runs, in US$")
    return pictures


def scores(report: Report) -> list[TableRow]:
    """A row for each playbook and metric."""
    return [_score(name, card, metric) for name, card in report.cards.items() for metric in card.metrics]


def _score(name: str, card: Scorecard, metric: str) -> TableRow:
    by, interval = card.of(metric), card.of(metric).interval
    took = card.latency_seconds
    seconds = ("–" if each is None else f"{each:.2f}" for each in (took.p50, took.p95, took.p99))
    spent = (f"{interval.n}", f"{len(by.unscored)}", f"{card.worth_usd:.4f}", *seconds)
    mean, reach = interval_texts(interval)
    return (name, metric, mean, reach or "–", *spent)


def strata(card: Scorecard) -> Iterable[tuple[str, list[TableRow]]]:
    """For each kind of part a row for each part: its name, its mean by each metric, its tasks."""
    for kind, parts in card.strata.items():
        yield kind, [(name, *_means(part, card.metrics), str(len(part.tasks))) for name, part in parts.items()]


def _means(part: Scorecard, metrics: Iterable[str]) -> Iterable[str]:
    for metric in metrics:
        mean, reach = interval_texts(part.of(metric).interval)
        yield f"{mean} ({reach})" if reach else mean


def unscored(card: Scorecard) -> list[TableRow]:
    """Why cells have no score, by metric."""
    return [
        (metric, reason, str(count)) for metric in card.metrics for reason, count in card.of(metric).reasons.items()
    ]


def worst(card: Scorecard, limit: int = 10) -> list[TableRow]:
    """The worst tasks with their answer, the expected one, and the run to look at."""
    rows: list[TableRow] = []
    for item in card.worst(limit):
        task = card.tasks.get(item.task)
        expected = "" if task is None or task.expected is None else task.expected
        text = expected if isinstance(expected, str) else canonical(expected)
        run = f"seedbed runs show {short(item.cell.run)}" if item.cell.run else ""
        row = (item.task, number(item.value), item.cell.answer, text, item.cell.reason, run)
        rows.append(tuple(f"{cell[:LONGEST]}…" if len(cell) > LONGEST else cell for cell in row))
    return rows


to_json, to_markdown, to_html = markdown.writers(page_of, to_document)
