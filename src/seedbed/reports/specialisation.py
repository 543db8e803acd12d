"""Specialised playbooks over all corpora, as JSON, CSV, Markdown and a web page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from seedbed.evaluation.specialisation import Specialisation
from seedbed.reports import formats, markdown, scorecard
from seedbed.reports.numbers import TableRow, interval_text, interval_texts, plus
from seedbed.reports.page import PagePart, PageTable, Prose, ReportPage, section
from seedbed.reports.scorecard import Report
from seedbed.stats.estimates import Interval

TITLE = "Across corpora"
DIFFICULTY = ("base", "corpus", "mean", "95 % interval", "tasks")
MEANING = (
    "Gains are relative to the base on the same tasks; higher is better. On its own corpus (*), the gain is the effect "
    "of specialising; on the others, it is what transfers. Of many gains, some look good by luck. To prove one, run: "
    "seedbed compare"
)


def export(across: Specialisation, to: str | Path) -> str | bytes | Path:
    """All of it as json, csv, md or html, or in a file that ends so."""
    return formats.export(across, {"json": to_json, "csv": to_csv, "md": to_markdown, "html": to_html}, to)


def report_of(across: Specialisation) -> Report:
    """Each scorecard on its own."""
    cards = {f"{name} on {corpus}": card for (name, corpus), card in across.cards.items()}
    return Report(cards, title=TITLE)


def to_csv(across: Specialisation) -> str:
    """Every cell as a row, with its playbook and corpus as its name."""
    return scorecard.to_csv(report_of(across))


def page_of(across: Specialisation) -> ReportPage:
    """Scores and gains by corpus first, then each scorecard."""
    parts: list[PagePart] = [
        *section(f"Scores by {across.metric}", PageTable(("playbook", *across.corpora), score_rows(across))),
        *section(
            "Gains over the base", PageTable(("playbook", "base", *across.corpora), gain_rows(across)), Prose(MEANING)
        ),
        *section("Hardest first", PageTable(DIFFICULTY, difficulty_rows(across))),
    ]
    whole = scorecard.page_of(replace(report_of(across), notes=tuple(across.notes)), *parts)
    return replace(whole, subtitle=f"{across.metric} on {', '.join(across.corpora)}", answer=_answer(across))


def _answer(across: Specialisation) -> str:
    """How many specialists are better than their base on their own corpus."""
    gains = [across.gain(each, each.corpus) for each in across.specialists]
    surely = sum(gain.n > 0 and gain.low > 0 for gain in gains)
    if not gains:
        return "There is no specialised playbook."
    return (
        f"{surely} of {len(gains)} specialised playbooks have a gain on their own corpus with a 95 % interval above 0."
    )


def score_rows(across: Specialisation) -> list[TableRow]:
    """A row for each playbook, a score for each corpus; * marks the one it is for."""
    own = {each.name: each.corpus for each in across.specialists}
    return [
        (
            name,
            *(
                interval_text(across.cards[name, corpus].interval) + " *" * (corpus == own.get(name))
                for corpus in across.corpora
            ),
        )
        for name in across.names
    ]


def gain_rows(across: Specialisation) -> list[TableRow]:
    """A row for each specialist, its gain on each corpus; * marks its own."""
    return [
        (
            each.name,
            each.base,
            *(gain_text(across.gain(each, corpus), corpus == each.corpus) for corpus in across.corpora),
        )
        for each in across.specialists
    ]


def difficulty_rows(across: Specialisation) -> list[TableRow]:
    return [
        (base, corpus, *(text or "–" for text in interval_texts(interval)), str(interval.n))
        for base in across.bases
        for corpus, interval in across.difficulty(base)
    ]


def gain_text(interval: Interval, own: bool) -> str:
    """A difference with its sign and its interval."""
    reach = f" [{plus(interval.low)}, {plus(interval.high)}]" if interval.low > float("-inf") else ""
    text = "the same" if interval.low == interval.high == 0 else f"{plus(interval.mean)}{reach}"
    return f"{text if interval.n else 'no task left'}{' *' if own else ''}"


to_json, to_markdown, to_html = markdown.writers(page_of, Specialisation.document)
