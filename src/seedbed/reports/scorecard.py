"""Scorecards as documents for people and programs: JSON, Markdown and CSV."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from seedbed.evaluation.scorecard import ROW, Item, Scorecard, interval_document
from seedbed.storage.store import Digest, Json, canonical, short

if TYPE_CHECKING:
    from seedbed.stats.estimates import Interval

NO_CLAIM = "Intervals side by side do not say which is better: `seedbed compare A B --on DATASET` does."


@dataclass(frozen=True)
class Report:
    """The scorecards of some playbooks over the same tasks, each under what its playbook is called."""

    cards: Mapping[str, Scorecard]
    dataset: Digest = ""
    title: str = "Scorecard"
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(metric for card in self.cards.values() for metric in card.metrics))


# JSON


def card_document(card: Scorecard, dataset: Digest = "", name: str = "") -> Json:
    """All about a scorecard as JSON can hold it. The numbers at the top are those of its own metric."""
    return {
        "playbook": card.playbook,
        "name": name or short(card.playbook),
        "dataset": dataset,
        "metric": card.metric,
        **interval_document(card.interval),
        "unscored": len(card.unscored),
        "reused": card.reused,
        "cost_usd": card.cost_usd,
        "worth_usd": card.worth_usd,
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


def _item_document(item: Item) -> Json:
    cell = item.cell
    return {"task": item.task, "value": item.value, "answer": cell.answer, "reason": cell.reason, "run": cell.run}


def to_document(report: Report) -> Json:
    """The document of the one scorecard, or those of several."""
    cards = [card_document(card, report.dataset, name) for name, card in report.cards.items()]
    return cards[0] if len(cards) == 1 else {"dataset": report.dataset, "cards": cards}


def to_json(report: Report) -> str:
    return json.dumps(to_document(report), ensure_ascii=False, indent=2) + "\n"


# CSV


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


# Markdown


def to_markdown(report: Report) -> str:
    """A report to read: the scores of all playbooks side by side, then each by its parts and its worst answers."""
    several = len(report.cards) > 1
    parts = [f"# {report.title}", table(SCORES, scores(report))]
    if report.notes:
        parts.append("\n".join(f"- {inert(note)}" for note in report.notes))
    if several:
        parts.append(NO_CLAIM)
    for name, card in report.cards.items():
        if several:
            parts.append(f"## {inert(name)}")
        for kind, rows in strata(card):
            parts.append(f"### By {kind}\n\n" + table((kind, *card.metrics, "tasks"), rows))
        if rows := unscored(card):
            parts.append("### Not scored\n\n" + table(("metric", "why", "cells"), rows))
        if rows := worst(card):
            parts.append(f"### Worst by {inert(card.metric)}\n\n" + table(WORST, rows))
    return "\n\n".join(parts) + "\n"


SCORES = ("playbook", "metric", "mean", "95 % interval", "tasks", "not scored", "US$", "p50 s", "p95 s", "p99 s")
WORST = ("task", "score", "answered", "expected", "why", "run")


def scores(report: Report) -> list[tuple[str, ...]]:
    """A row for each playbook and metric."""
    return [_score(name, card, metric) for name, card in report.cards.items() for metric in card.metrics]


def _score(name: str, card: Scorecard, metric: str) -> tuple[str, ...]:
    by, interval = card.of(metric), card.of(metric).interval
    took = card.latency_seconds
    seconds = ("–" if each is None else f"{each:.2f}" for each in (took.p50, took.p95, took.p99))
    spent = (f"{interval.n}", f"{len(by.unscored)}", f"{card.worth_usd:.4f}", *seconds)
    mean, reach = interval_texts(interval)
    return (name, metric, mean, reach or "–", *spent)


def interval_texts(interval: Interval) -> tuple[str, str]:
    """A mean and its range as people read them; the range is empty where nothing can be said."""
    if not interval.n:
        return "no score", ""
    if math.isinf(interval.low):
        return number(interval.mean), ""
    return number(interval.mean), f"{number(interval.low)} to {number(interval.high)}"


def number(value: float) -> str:
    """Three digits after the point for scores; as many as matter for what is very small or large."""
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def strata(card: Scorecard) -> Iterable[tuple[str, list[tuple[str, ...]]]]:
    """For each kind of part a row for each part: its name, its mean by each metric, its tasks."""
    for kind, parts in card.strata.items():
        yield kind, [(name, *_means(part, card.metrics), str(len(part.tasks))) for name, part in parts.items()]


def _means(part: Scorecard, metrics: Iterable[str]) -> Iterable[str]:
    for metric in metrics:
        mean, reach = interval_texts(part.of(metric).interval)
        yield f"{mean} ({reach})" if reach else mean


def unscored(card: Scorecard) -> list[tuple[str, ...]]:
    """Why cells have no score, by metric."""
    return [
        (metric, reason, str(count)) for metric in card.metrics for reason, count in card.of(metric).reasons.items()
    ]


def worst(card: Scorecard, limit: int = 10) -> list[tuple[str, ...]]:
    """The worst tasks with what was answered, what was expected, and the run to look at."""
    rows: list[tuple[str, ...]] = []
    for item in card.worst(limit):
        task = card.tasks.get(item.task)
        expected = "" if task is None or task.expected is None else task.expected
        told = expected if isinstance(expected, str) else canonical(expected)
        run = f"seedbed runs show {item.cell.run[:10]}" if item.cell.run else ""
        rows.append((item.task, number(item.value), item.cell.answer, told, item.cell.reason, run))
    return rows


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(heads)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(inert(cell) for cell in line)} |" for line in lines)


def inert(text: str, limit: int = 200) -> str:
    """A text that stays within its cell: on one line, not too long, and no markup."""
    flat = " ".join(text.split())
    cut = flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
    return re.sub(r"([\\|`*_\[\]#])", r"\\\1", html.escape(cut, quote=False))
