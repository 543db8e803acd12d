"""How scorecards look at the terminal: one in full, several side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from operator import itemgetter

from rich.console import Group, RenderableType

from seedbed.cli import output
from seedbed.cli.output import Column, line, money
from seedbed.evaluation.pareto_front import Front
from seedbed.evaluation.scorecard import Percentiles, Scorecard
from seedbed.evaluation.specialisation import Specialisation
from seedbed.reports import pareto_front as fronts
from seedbed.reports import specialisation
from seedbed.reports.numbers import clipped, counted, interval_text, interval_texts
from seedbed.reports.scorecard import NO_CLAIM, Report
from seedbed.storage.store import short

MANY = 15
"""How many tags have a line of their own."""


def report_view(report: Report) -> RenderableType:
    cards = list(report.cards.values())
    return card_view(cards[0]) if len(cards) == 1 else side_by_side(report)


def card_view(card: Scorecard) -> RenderableType:
    """The score by each metric, what it took, where it was good and bad, and the worst answers with their runs."""
    confidence = f"  {card.interval.confidence:.0%} interval"
    pairs: list[tuple[str, RenderableType]] = []
    for metric in card.metrics:
        by = card.of(metric)
        style = "bold" if metric == card.metric else ""
        lower = ", lower is better" if metric in card.lower else ""
        pairs.append((metric, line((interval_text(by.interval), style), f"{confidence}{lower}")))
        if by.reasons:
            why = "; ".join(f"{clipped(reason, 160)} ({count})" for reason, count in [*by.reasons.items()][:3])
            pairs.append(("not scored", f"{len(by.unscored)}: {why}"))
    pairs.append(("warning", line((card.warning, "yellow")) if card.warning else ""))
    known = f", {card.reused} reused" if card.reused else ""
    pairs.append(("tasks", f"{card.interval.n} scored{known}, {money(card.cost_usd, card.unpriced)}"))
    pairs.append(("latency", _latency(card.latency_seconds)))
    return Group(output.facts(pairs), *_strata(card), *_wrong(card), *_worst(card))


def _latency(took: Percentiles) -> str:
    if took.p50 is None:
        return ""
    return f"p50 {took.p50:.2f} s, p95 {took.p95:.2f} s, p99 {took.p99:.2f} s"


def _strata(card: Scorecard) -> list[RenderableType]:
    tables: list[RenderableType] = []
    for kind, parts in card.strata.items():
        shown = sorted(parts.items(), key=lambda part: -len(part[1].tasks))[:MANY]
        others = [metric for metric in card.metrics if metric != card.metric]
        rows = [
            (
                name,
                interval_text(part.interval),
                *(interval_texts(part.of(each).interval)[0] for each in others),
                str(len(part.tasks)),
            )
            for name, part in sorted(shown)
        ]
        heads = (f"{metric}#" for metric in (card.metric, *others))
        tables.append(output.table(kind, *heads, "tasks#", rows=rows))
        if len(parts) > len(shown):
            tables.append(line((f"… and {len(parts) - len(shown)} more", "dim")))
    return tables


def _means(card: Scorecard, metrics: Iterable[str]) -> Iterable[str]:
    return (interval_texts(card.of(metric).interval)[0] for metric in metrics)


def _wrong(card: Scorecard) -> list[RenderableType]:
    """The commonest wrong answers, where there are common ones."""
    every = Counter((cell.reason, clipped(cell.answer, 40)) for cell in card.scored if not cell.value)
    common = [(each, count) for each, count in every.most_common(5) if count > 1]
    if not common or card.metric in card.lower:
        return []
    rows = [(why, f"“{answer}”" if answer else "nothing", str(count)) for (why, answer), count in common]
    hidden = sum(every.values()) - sum(count for _, count in common)
    more = [line((f"… and {hidden} more", "dim"))] if hidden else []
    return [output.table("wrong", "answered", "times#", rows=rows), *more]


WORST = (
    Column("worst", itemgetter(0)),
    Column("score", itemgetter(1), number=True),
    Column("answered", itemgetter(2), flexible=True),
    Column("inspect with", itemgetter(3)),
)


def _worst(card: Scorecard) -> list[RenderableType]:
    items = card.worst()
    if not items:
        return []
    rows = [
        (clipped(item.task, 30), f"{item.value:.3f}", f"“{clipped(item.cell.answer, 50)}”", _run(item.cell.run))
        for item in items
    ]
    return [output.listing(WORST, rows)]


def _run(run: str) -> RenderableType:
    return line((f"seedbed runs show {short(run)}", "cyan")) if run else line("")


def side_by_side(report: Report) -> RenderableType:
    """Several playbooks, one line each. Which is better is not for this table to say."""
    rows = []
    missed = any(card.of(metric).unscored for card in report.cards.values() for metric in card.metrics)
    for name, card in report.cards.items():
        took = card.latency_seconds
        spent = (money(card.worth_usd, card.worth_unpriced), "–" if took.p50 is None else f"{took.p50:.2f} s")
        for metric in card.metrics:
            by = card.of(metric)
            tasks = f"{by.interval.n}, {len(by.unscored)} not" if missed else f"{by.interval.n}"
            rows.append((name, metric, interval_text(by.interval), tasks, *spent))
            name, spent = "", ("", "")  # they are said once
    heads = ("playbook", "metric", "mean#", "scored#", "cost#", "p50#")
    warnings = [line((warning, "yellow")) for warning in report.warnings]
    return Group(output.table(*heads, rows=rows), *warnings, spent_line(report.cards.values()), line((NO_CLAIM, "dim")))


def spent_line(cards: Collection[Scorecard]) -> RenderableType:
    """What several scorecards cost this time, and how many cells were paid before."""
    paid, known = sum(card.cost_usd for card in cards), sum(card.reused for card in cards)
    unpriced = sum(card.unpriced for card in cards)
    return line((f"paid now: {money(paid, unpriced)}; {counted(known, 'cell')} reused", "dim"))


def front_view(front: Front) -> RenderableType:
    """A line for each playbook; arrows point to where a measure is better."""
    count = f"{len(front.names)} of {counted(len(front.standings), 'playbook')} on the front"
    first, stands, *measures, beaten, unscored = fronts.heads(front)
    heads = (first, stands, *(f"{measure}#" for measure in measures), beaten, f"{unscored}#")
    table = output.table(*heads, rows=fronts.rows(front))
    return Group("", line((count, "bold")), table, line((fronts.MEANING, "dim")))


def specialisation_view(across: Specialisation) -> RenderableType:
    """Scores and gains as tables with a column for each corpus, and which corpus is hard."""
    columns = [f"{corpus}#" for corpus in across.corpora]
    scores = output.table("playbook", *columns, rows=specialisation.score_rows(across), title=across.metric)
    rows = specialisation.gain_rows(across)
    if len(across.bases) == 1:  # then the heading names it
        gains = output.table(f"gain over {across.bases[0]}", *columns, rows=[(name, *rest) for name, _, *rest in rows])
    else:
        gains = output.table("gain over the base", "base", *columns, rows=rows)
    hard = [
        line((f"{base}, hardest first: ", "dim"), ", ".join(corpus for corpus, _ in across.difficulty(base)))
        for base in across.bases
    ]
    spent = spent_line(across.cards.values())
    notes = [line(("! ", "bold yellow"), note) for note in across.notes]
    return Group(scores, "", gains, *hard, *notes, spent, line((specialisation.MEANING, "dim")))
