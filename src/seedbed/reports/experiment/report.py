"""The report of a comparison: JSON, Markdown and a web page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.experiments.proof.certificate import certificate
from seedbed.experiments.replay.coverage import STEPS, rows, summary
from seedbed.experiments.verdict import Verdict
from seedbed.playbooks.library import names_of
from seedbed.reports import formats, markdown, page
from seedbed.reports.experiment.view import NO_TASKS, ExperimentView, NamePair
from seedbed.reports.figure import Figure
from seedbed.reports.numbers import cost, difference_texts, number, plus
from seedbed.reports.page import Badge, PagePart, PageTable, Prose, ReportPage, Tile, Verbatim, picture, section
from seedbed.reports.plots import Axes, Point, Series, chart, forest, strip
from seedbed.stats.estimates import Interval
from seedbed.stats.sequential.betting import Betting
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage.store import Store, short

FIGURES = ("figure", "value", "what it means")
REGISTERED = ("what", "value")
HACKING = ("found", "sign", "gain without it", "what was seen")
ATTEMPTS = ("attempt", "candidate", "share", "level", "finding")

SHOWN = 50
"""How many tasks that got worse are listed, and how many that got better."""

LOOKS = 60
"""The difference is drawn at about this many places, at most at twice as many."""

TAGS = 40
"""How many tags have a line in the figure; the table has all."""

BADGES = {
    "superior": Badge("good", "▲ superior"),
    "non-inferior": Badge("good", "△ non-inferior"),
    "equivalent": Badge("good", "≈ equivalent"),
    "inferior": Badge("bad", "▼ inferior"),
    "futile": Badge("bad", "▽ futile"),
    "inconclusive": Badge("open", "? inconclusive"),
    "invalid": Badge("open", "✕ invalid"),
}

STATISTIC_MEANING = {
    ExactMcNemar.name: "tasks on which it did better, minus those on which it did worse",
    Betting.name: "how many times its stake a bet on the candidate made",
}

BY_TAG = (
    "Each interval is for its tag alone: of 20, about one misses. Do not base decisions on parts without a finding: of "
    "many parts, some differ by chance. Their intervals assume a number of tasks fixed in advance. A task with several "
    "tags counts towards each, and so does a source whose tasks have several."
)

AFTER_VERDICT = (
    "After the verdict, more tasks of each tag were run. The interval of a tag with a finding holds wherever the tag "
    "ended, and all tags share one rate of false alarms, so their findings can decide a release."
)

WITHOUT = (
    "The recorded outputs were compared across tasks, without new runs. The gain without a sign is what remains if "
    "whatever the sign may have earned does not count."
)


def export(
    verdict: Verdict, to: str | Path, *, store: Store | None = None, names: NamePair | None = None
) -> str | bytes | Path:
    """A verdict as json, md or html, or in a file that ends so. With its store the report has everything that the
    verdict rests on, computed again; without, what the verdict says itself."""
    view = ExperimentView(verdict, called=names) if store is None else view_of(store, verdict, names)
    return formats.export(view, {"json": to_json, "md": to_markdown, "html": to_html}, to)


def figures(verdict: Verdict, *, store: Store | None = None) -> dict[str, Figure]:
    """The figures of a verdict by their titles; most of them need its store."""
    return page.figures(page_of(ExperimentView(verdict) if store is None else view_of(store, verdict)))


def view_of(store: Store, verdict: Verdict, names: NamePair | None = None) -> ExperimentView:
    """A verdict with its certificate and its tasks. Playbooks have the names given, or those of their refs."""
    tasks = NO_TASKS if verdict.live else Dataset.from_content(store.get(verdict.dataset))
    known = names_of(store)
    called = names or (known.get(verdict.control, ""), known.get(verdict.candidate, ""))
    return ExperimentView.of(certificate(store, verdict.experiment), tasks, called)


# The page


def page_of(view: ExperimentView) -> ReportPage:
    control, candidate = view.names
    return ReportPage(
        title=f"{candidate} against {control}",
        subtitle=view.subtitle,
        answer=view.sentence,
        badge=BADGES[view.verdict.finding],
        status=view.status,
        alarm=view.alarm,
        problems=view.problems,
        tiles=_tiles(view),
        parts=_parts(view),
    )


def _tiles(view: ExperimentView) -> list[Tile]:
    verdict = view.verdict
    if not verdict.tasks:
        return []
    means = f"{number(verdict.control_mean)} → {number(verdict.candidate_mean)}"
    tiles = [Tile(verdict.metric, means, f"{verdict.better} is better")]
    if view.adjusted is None:
        tiles.append(_difference_tile("difference as seen", view.plain))
    else:
        tiles.append(Tile("difference as seen", difference_texts(view.plain)[0], "the plain mean"))
        tiles.append(_difference_tile("stop-adjusted", view.adjusted))
    if verdict.at_least is not None:
        tiles.append(Tile("at least", plus(verdict.at_least), f"better, error rate {verdict.alpha:g}"))
    read = f"of at most {verdict.at_most:,}, for {cost(verdict.cost_usd, verdict.unpriced)}"
    paid = "from live traffic" if verdict.live else read
    return [*tiles, Tile(f"{view.things} read", f"{verdict.tasks:,}", paid)]


def _difference_tile(name: str, interval: Interval) -> Tile:
    mean, reach = difference_texts(interval)
    return Tile(name, mean, f"95 %: {reach}")


def _parts(view: ExperimentView) -> list[PagePart]:
    known = view.certificate
    parts: list[PagePart] = [*section("How it came about", *_charts(view)), *_order(view)]
    for heading, flips in view.flips.items():
        sign = "▼" if heading == "Got worse" else "▲"
        table = PageTable(view.flip_heads, flips[:SHOWN], more=len(flips) - SHOWN)
        parts += section(f"{sign} {heading} ({len(flips):,})", table if flips else Prose("None."))
    parts += [*section("By tag", *_tags(view)), *section("Figures", PageTable(FIGURES, view.figures))]
    claims = [PageTable(("holds", "claim"), view.flags)] if view.flags else []
    parts += section("Integrity", *claims, Prose(view.failures))
    if view.hacking:
        parts += section("Reward hacking", PageTable(HACKING, view.hacking), Prose(WITHOUT))
    if known and known.coverage:
        replays = PageTable(REGISTERED, summary(known.coverage)), PageTable(STEPS, rows(known.coverage), numbers=True)
        parts += section("Replays", *replays)
    if view.attempts:
        heading = f"All attempts to replace {short(view.verdict.control)}"
        parts += section(heading, PageTable(ATTEMPTS, view.attempts, numbers=True))
    return [*parts, *section("Registered before anything was run", PageTable(REGISTERED, view.registered))]


def _charts(view: ExperimentView) -> Iterator[PagePart]:
    """The evidence against what ends the test, the error rate that was used, and the difference, over the tasks."""
    path, rule = view.path, view.rule
    if not path:
        return
    axes = Axes(logs=rule["rule"] == Betting.name)
    lines = [
        Series("now", _points(path, lambda answer: answer.evidence), "path"),
        Series("ends in favour", _points(path, lambda answer: answer.high), "bound"),
        Series("ends against", _points(path, lambda answer: answer.low), "limit"),
    ]
    meaning = STATISTIC_MEANING.get(rule["rule"], "log-likelihood ratio")
    yield from picture("Evidence", chart(lines, "evidence over tasks", axes), meaning)
    if any(answer.futility is not None for answer in path):
        enough = math.log(1 / rule["beta"])
        lines = [
            Series("now", _points(path, lambda answer: answer.futility), "path"),
            Series("ends futile", _points(path, lambda _: enough), "limit"),
        ]
        meaning = "how many times its stake a bet against the hoped-for gain made"
        yield from picture("Evidence against it", chart(lines, "futility over tasks", Axes(logs=True)), meaning)
    if len({answer.spent for answer in path}) > 1:
        lines = [
            Series("used", _points(path, lambda answer: answer.spent), "path"),
            Series("error rate", _points(path, lambda _: view.verdict.alpha), "bound"),
        ]
        meaning = "the chance that an equal candidate would have been called better by then"
        yield from picture("Error rate used", chart(lines, "spent alpha over tasks"), meaning)
    seen = narrowing(view)
    line = Series("mean so far", [(n, each.mean) for n, each in seen], "path")
    drawn = chart([line], "difference over tasks", band=[(n, each.low, each.high) for n, each in seen])
    side = "above" if view.verdict.better == "higher" else "below"
    meaning = f"candidate minus control, better {side} 0; with 95 % confidence the true one stays within the band"
    yield from picture("Difference", drawn, meaning)


def _points(path: Sequence[Answer], value: Callable[[Answer], float | None]) -> list[Point]:
    return [(answer.n, value(answer)) for answer in path]


def narrowing(view: ExperimentView) -> list[tuple[int, Interval]]:
    """The difference by the number of tasks: with 95 % confidence the true one is inside at every look."""
    if not view.certificate:
        return []
    rule, sign = view.certificate.experiment.start(), 1.0 if view.verdict.better == "higher" else -1.0
    # Another rule's scores are bet on only to draw the band: so small an error rate is never reached.
    bet = rule if isinstance(rule, Betting) else Betting(alpha=1e-300)
    seen, total, every = [], 0.0, max(1, len(view.gains) // LOOKS)
    for n, gain in enumerate(view.gains, 1):
        if bet.answer.verdict != "continue" or not -1 <= gain <= 1:
            break
        bet.update(gain)
        total += gain
        if n % every == 0 or n == len(view.gains):
            low, high = sorted(sign * bound for bound in bet.interval())
            seen.append((n, Interval(sign * total / n, low, high, 0.95, n)))
    return seen


def _order(view: ExperimentView) -> list[PagePart]:
    outcomes, verdict = view.verdict.outcomes, view.verdict
    legend = f"▲ better {verdict.wins:,}, • same {verdict.ties:,}, ▼ worse {verdict.losses:,}"
    lines = "\n".join(outcomes[start : start + 100] for start in range(0, len(outcomes), 100))
    text = Verbatim(f"+ better, = the same, - worse\n\n{lines}", "text")
    drawn = strip(outcomes, "better, same and worse in registered order")
    heading = f"{view.things.capitalize()} in registered order"
    return [*section(heading, *picture("Outcomes", drawn, legend, text))]


def _tags(view: ExperimentView) -> list[PagePart]:
    if not view.strata:
        return []
    drawn = [("all", view.plain, 0), *((tag, interval, 1) for tag, interval in view.strata[:TAGS])]
    slices = view.verdict.slices
    known = {each.tag: each.finding for each in slices.tags} if slices else {}
    lines = [(name, *difference_texts(each), f"{each.n}", known.get(name, "–")) for name, each in view.strata]
    table = PageTable(("tag", "difference", "95 % interval, each", "tasks", "finding"), lines, numbers=True)
    figure = forest(drawn, "difference by tag", line=0.0, texts=difference_texts)
    about = f"{AFTER_VERDICT} {BY_TAG}" if slices else BY_TAG
    return [*picture("Difference", figure, "candidate minus control", table), Prose(about)]


to_json, to_markdown, to_html = markdown.writers(page_of, lambda view: view.verdict.document())
