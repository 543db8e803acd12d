"""Scorecards as one web page that asks nothing of anybody: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from seedbed.evaluation.scorecard import Scorecard
from seedbed.reports import scorecard as written
from seedbed.reports.plots import Row, forest, histogram
from seedbed.reports.scorecard import NO_CLAIM, Report, interval_texts
from seedbed.storage.store import short


def to_html(report: Report, more: str = "", style: str = "") -> str:
    """All of a report with pictures, for light and dark screens; `more` is what follows the scores, in its `style`."""
    several = len(report.cards) > 1
    names = list(report.cards)
    on = f", dataset {short(report.dataset)}" if report.dataset else ""
    told = f"{len(names)} playbooks side by side{on}" if several else f"{names[0]}{on}" if names else "nothing"
    parts = [f"<h1>{safe(report.title)}</h1><p class=told>{safe(told)}</p>"]
    if names and not several:
        parts.append(_first(report.cards[names[0]]))
    notes = "".join(f"<li>{safe(note)}</li>" for note in report.notes)
    parts.append(f"<section><h2>To look at</h2><ul>{notes}</ul></section>" if notes else "")
    parts.append(f"<section><h2>Scores</h2>{_scores(report)}</section>")
    if several:
        parts.append(f"<p class=note>{safe(NO_CLAIM.replace('`', ''))}</p>")
    parts.append(more)
    for series, (name, card) in enumerate(report.cards.items()):
        inner = _details(card, series)
        parts.append(f"<details><summary>{safe(name)}</summary>{inner}</details>" if several else inner)
    return document(report.title, parts, style)


def document(title: str, parts: Iterable[str], style: str = "") -> str:
    """A whole page from its parts, which are HTML already; `style` is what they need besides."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{safe(title)}</title><style>{_STYLE}{style}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _first(card: Scorecard) -> str:
    """The numbers that one looks for first."""
    mean, reach = interval_texts(card.interval)
    took = card.latency_seconds
    seconds = "–" if took.p50 is None else f"{took.p50:.2f} s"
    slow = "no runs" if took.p95 is None or took.p99 is None else f"p95 {took.p95:.2f} s, p99 {took.p99:.2f} s"
    scored = "all scored" if not card.unscored else f"{len(card.unscored)} cells not scored"
    shown = (
        (card.metric, mean, f"95 % interval {reach}" if reach else "too few for an interval"),
        ("tasks", f"{card.interval.n:,}", scored),
        ("cost", f"${card.worth_usd:.4f}", f"${card.cost_usd:.4f} paid now, {card.reused:,} cells known"),
        ("p50 latency", seconds, slow),
    )
    return tiles(shown)


def tiles(shown: Iterable[tuple[str, str, str]]) -> str:
    """Numbers in large type: what each is, itself, and what to know about it."""
    return "<div class=tiles>" + "".join(_tile(*each) for each in shown) + "</div>"


def _tile(name: str, value: str, told: str) -> str:
    return f"<div><span>{safe(name)}</span><b>{safe(value)}</b><small>{safe(told)}</small></div>"


def _scores(report: Report) -> str:
    plots = []
    for metric in report.metrics:
        rows: list[Row] = [
            (name, card.of(metric).interval, series)
            for series, (name, card) in enumerate(report.cards.items())
            if metric in card.metrics
        ]
        plots.append(figure(metric, forest(rows, f"{metric} with 95 % intervals"), _direction(report, metric)))
    return "".join(plots) + grid(written.SCORES, written.scores(report), numbers=True)


def _direction(report: Report, metric: str) -> str:
    return "lower is better" if any(metric in card.lower for card in report.cards.values()) else ""


def _details(card: Scorecard, series: int) -> str:
    parts = []
    for kind, rows in written.strata(card):
        cards = card.strata[kind]
        shown: list[Row] = [(name, part.interval, series) for name, part in list(cards.items())[:40]]
        plot = figure(card.metric, forest(shown, f"{card.metric} by {kind}"))
        table = grid((kind, *card.metrics, "tasks"), rows, numbers=True) if len(card.metrics) > 1 else ""
        parts.append(f"<section><h2>By {safe(_KINDS[kind])}</h2>{plot}{table}</section>")
    spreads = [figure(metric, _spread(card.of(metric), series), "tasks at each score") for metric in card.metrics]
    took = card.latency_seconds
    if took.p50 is not None and took.p95 is not None:
        marks = (("p50", took.p50), ("p95", took.p95))
        spreads.append(figure("latency", histogram(card.latencies, "latency", marks, series), "runs, in seconds"))
    costs = sorted(cell.cost_usd for cell in card.runs.values())
    if any(costs):
        spreads.append(figure("cost", histogram(costs, "cost", (), series), "runs, in US$"))
    parts.append(f"<section><h2>Spread</h2><div class=side>{''.join(spreads)}</div></section>")
    if rows := written.worst(card, 20):
        heading = f"Worst by {safe(card.metric)}"
        parts.append(f"<section><h2>{heading}</h2>{grid(written.WORST, _worst(rows))}</section>")
    if rows := written.unscored(card):
        told = "<p>What has no score is no zero: it takes no part in the means.</p>"
        parts.append(f"<section><h2>Not scored</h2>{told}{grid(('metric', 'why', 'cells'), rows)}</section>")
    return "".join(parts)


_KINDS = {"tag": "tag", "source": "source", "expected": "expected answer"}


def _spread(card: Scorecard, series: int) -> str:
    return histogram(list(card.means.values()), f"{card.metric} of tasks", (), series)


def _worst(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    return [[f"{cell[:600]}…" if len(cell) > 600 else cell for cell in row] for row in rows]


def figure(name: str, picture: str, told: str = "") -> str:
    """A picture under its name; nothing if there is none."""
    if not picture:
        return ""
    also = f" <small>{safe(told)}</small>" if told else ""
    return f"<figure><figcaption>{safe(name)}{also}</figcaption>{picture}</figure>"


def grid(heads: Iterable[str], rows: Iterable[Iterable[str]], *, numbers: bool = False) -> str:
    """A table, of `numbers` if no line of it may break."""
    top = "".join(f"<th>{safe(name)}</th>" for name in heads)
    lines = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    kind = " class=numbers" if numbers else ""
    return f"<div class=wide><table{kind}><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>"


def _cell(text: str) -> str:
    code = text.startswith("seedbed runs show ")
    return f"<td><code>{safe(text)}</code></td>" if code else f"<td>{safe(text)}</td>"


def safe(text: str) -> str:
    """A text that stays text."""
    return html.escape(text)


_STYLE = """
:root{color-scheme:light dark;--ink:#1d2320;--soft:#5d6862;--paper:#fbfbf9;--card:#fff;--line:#e3e6e1;
--s0:#2e7d32;--s1:#1565c0;--s2:#b25a00;--s3:#7b1fa2;--s4:#00838f;--s5:#c62828}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebe7;--soft:#9aa69f;--paper:#141715;--card:#1c201d;--line:#303733;
--s0:#66bb6a;--s1:#64b5f6;--s2:#ffb74d;--s3:#ce93d8;--s4:#4dd0e1;--s5:#ef9a9a}}
body{font:15px/1.5 system-ui,sans-serif;background:var(--paper);color:var(--ink);margin:0}
main{max-width:58rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.7rem;margin:0}h2{font-size:1.1rem;margin:0 0 .75rem}
.told,.note,small{color:var(--soft)}.told{margin:.1rem 0 1.5rem}
section,details,.tiles div{background:var(--card);border:1px solid var(--line);border-radius:10px}
section,details{padding:1rem 1.25rem;margin:0 0 1rem}
details section{border:0;padding:.75rem 0 0;margin:0}summary{cursor:pointer;font-weight:600}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(12rem,1fr));gap:1rem;margin:0 0 1rem}
.tiles div{padding:.8rem 1rem;display:grid}.tiles span{color:var(--soft)}.tiles b{font-size:1.7rem;line-height:1.3}
figure{margin:0 0 1rem}figcaption{font-weight:600;margin:0 0 .35rem}
.side{display:grid;gap:1.5rem;grid-template-columns:repeat(auto-fit,minmax(18rem,1fr))}
svg{display:block;max-width:100%;height:auto;font-size:13px}
svg text{fill:var(--ink);dominant-baseline:middle}.label{text-anchor:end}.tick,.count{text-anchor:middle;font-size:11px}
svg .tick,svg .count{fill:var(--soft)}.tick.first{text-anchor:start}.tick.last{text-anchor:end}
.value{font-variant-numeric:tabular-nums;white-space:pre}line{stroke-width:3;stroke-linecap:round}
.grid line{stroke:var(--line)}.grid line,line.mark{stroke-width:1}
line.mark{stroke:var(--soft);stroke-dasharray:3 3}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.87rem}
th{text-align:left;color:var(--soft);font-weight:500;white-space:nowrap}
td,th{padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
.numbers td{white-space:nowrap;font-variant-numeric:tabular-nums}
code{font:.85em ui-monospace,monospace;white-space:nowrap}
""" + "".join(f".s{n}{{fill:var(--s{n});stroke:var(--s{n})}}rect.s{n}{{stroke:none;opacity:.85}}" for n in range(6))
