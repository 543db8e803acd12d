"""Specialised playbooks over all corpora, as tables, Markdown, CSV and a web page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from seedbed.reports import scorecard as written
from seedbed.reports.scorecard import Report, inert, interval_texts, number, table

if TYPE_CHECKING:
    from seedbed.stats.estimates import Interval

from seedbed.evaluation.specialisation import Across

TITLE = "Across corpora"


MEANING = (
    "Gains are over the base on the same tasks; more is better. On its own corpus (*) a gain is the effect of"
    " specialising, elsewhere what transfers. With many of them some look good by luck: `seedbed compare` proves one."
)


def report_of(found: Across) -> Report:
    """Each scorecard on its own."""
    cards = {f"{name} on {corpus}": card for (name, corpus), card in found.cards.items()}
    return Report(cards, title=TITLE)


def score_rows(found: Across) -> list[tuple[str, ...]]:
    """A row for each playbook, a score for each corpus; * marks the one it is for."""
    own = {each.name: each.corpus for each in found.specialists}
    return [
        (name, *(_score(found.cards[name, corpus].interval, corpus == own.get(name)) for corpus in found.corpora))
        for name in found.names
    ]


def gain_rows(found: Across) -> list[tuple[str, ...]]:
    """A row for each specialist, its gain on each corpus; * marks its own."""
    return [
        (
            each.name,
            each.base,
            *(gain_text(found.gain(each, corpus), corpus == each.corpus) for corpus in found.corpora),
        )
        for each in found.specialists
    ]


def difficulty_rows(found: Across) -> list[tuple[str, ...]]:
    return [
        (base, corpus, *(text or "–" for text in interval_texts(interval)), str(interval.n))
        for base in found.bases
        for corpus, interval in found.difficulty(base)
    ]


DIFFICULTY = ("base", "corpus", "mean", "95 % interval", "tasks")


def _score(interval: Interval, own: bool) -> str:
    mean, reach = interval_texts(interval)
    return f"{mean}{' [' + reach.replace(' to ', ', ') + ']' if reach else ''}{' *' if own else ''}"


def gain_text(interval: Interval, own: bool) -> str:
    """A difference with its sign and its interval."""
    if not interval.n:
        return f"no task left{' *' if own else ''}"
    if interval.low == interval.high == 0:
        return f"the same{' *' if own else ''}"
    reach = f" [{_signed(interval.low)}, {_signed(interval.high)}]" if interval.low > float("-inf") else ""
    return f"{_signed(interval.mean)}{reach}{' *' if own else ''}"


def _signed(value: float) -> str:
    return number(value) if value <= 0 else f"+{number(value)}"


def to_markdown(found: Across) -> str:
    parts = [
        f"# {TITLE}",
        f"## Scores by {inert(found.metric)}\n\n" + table(("playbook", *found.corpora), score_rows(found)),
        "## Gains over the base\n\n" + table(("playbook", "base", *found.corpora), gain_rows(found)) + f"\n\n{MEANING}",
        "## Hardest first\n\n" + table(DIFFICULTY, difficulty_rows(found)),
    ]
    if notes := [f"- {inert(note)}" for note in found.notes]:
        parts.append("\n".join(notes))
    return "\n\n".join(parts) + "\n"


def to_csv(found: Across) -> str:
    """Every cell as a row, with its playbook and corpus as its name."""
    return written.to_csv(report_of(found))


def to_json(found: Across) -> str:
    return json.dumps(found.document(), ensure_ascii=False, indent=2) + "\n"


def to_html(found: Across) -> str:
    """The same as one web page, with each scorecard below."""
    from seedbed.reports import page

    scores = page.grid(("playbook", *found.corpora), score_rows(found))
    gains = page.grid(("playbook", "base", *found.corpora), gain_rows(found))
    hard = page.grid(DIFFICULTY, difficulty_rows(found))
    more = (
        f"<section><h2>By corpus</h2>{scores}</section><section><h2>Gains over the base</h2>{gains}"
        f"<p class=note>{page.safe(MEANING.replace('`', ''))}</p></section>"
        f"<section><h2>Hardest first</h2>{hard}</section>"
    )
    report = replace(report_of(found), notes=tuple(found.notes))
    return page.to_html(report, more)
