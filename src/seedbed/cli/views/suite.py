"""Suites at the terminal: measure one, show its results, say what has become worse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from seedbed.cli import options, output
from seedbed.cli.output import clipped, counted, line, money, when
from seedbed.cli.views import scoring
from seedbed.cli.views.run import interval_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.evaluation.scorecard import Scorecard
    from seedbed.evaluation.suite import Change, Part, Result, Suite
    from seedbed.playbooks.playbook import Playbook
    from seedbed.reports.scorecard import Report
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace


@dataclass(frozen=True)
class Measurement:
    """The results of a suite, and the scorecards that they come from."""

    suite: str
    results: list[Result]
    report: Report


def measured(space: Workspace, suite: Suite, names: Iterable[str], how: scoring.How, accept: bool) -> Measurement:
    """Measure the baselines of a suite and these playbooks, and keep the results for the next time."""
    from seedbed.evaluation import suite as suites
    from seedbed.reports.scorecard import Report

    given = scoring.chosen(space, names)
    playbooks = {**suite.baselines, **given}
    if not playbooks:
        from seedbed.errors import DatasetError, Problem

        remedy = "Name one on the command line, or some under baselines."
        raise DatasetError([Problem("baselines", "no playbook at all", "at least one", remedy)], suite.name)
    cards: dict[str, Scorecard] = {}
    work = scoring.Scoring(space, how)
    total = sum(len(part.tasks) for part in suite.parts) * suite.replicates * len(playbooks)
    with scoring.watched(total) as watch:

        async def evaluate(name: str, playbook: Playbook, part: Part) -> Scorecard:
            told = f"{part.name} · {name}"
            watcher = partial(watch, told)
            cards[told] = await work.card(playbook, part.tasks, part.metrics, suite.replicates, watcher)
            return cards[told]

        results = options.complete(suites.measured(suite, playbooks, evaluate, space.store, judged=given))
    suites.keep(results, space.store, by=space.by, at=datetime.now(UTC), accept=accept)
    notes = tuple(_notes(results, accept))
    return Measurement(suite.name, results, Report(cards, title=f"Suite {suite.name}", notes=notes))


def _notes(results: Iterable[Result], accept: bool) -> Iterable[str]:
    for result in results:
        what = f"{result.dataset}, {result.name}, {result.metric}"
        if result.change and result.change.regressed and not accept:
            yield f"regression: {what}: {_change(result.change)} since {when(result.change.at)}"
        if result.missed:
            yield f"threshold: {what}: {interval_text(result.card.interval)} is {result.missed}"


def _change(change: Change) -> str:
    interval = change.difference
    if not interval.n:
        return "no task in common"
    reach = f" [{interval.low:+.3f}, {interval.high:+.3f}]" if interval.low > float("-inf") else ""
    return f"{interval.mean:+.3f}{reach} on {counted(interval.n, 'task')}"


def _changed(change: Change | None) -> RenderableType:
    """The change in a table: how much, and on how many tasks."""
    if change is None:
        return line(("first time", "dim"))
    interval = change.difference
    if interval.n and interval.low == interval.high == 0:
        return line(("none", "dim"))
    told = f"{interval.mean:+.3f} on {interval.n}" if interval.n else "no task in common"
    return line((told, "bold red" if change.regressed else ""))


def document(measurement: Measurement) -> Json:
    return {"suite": measurement.suite, "results": [_document(each) for each in measurement.results]}


def _document(result: Result) -> Json:
    from seedbed.evaluation.scorecard import interval_document

    change = result.change
    return {
        "name": result.name,
        "playbook": result.card.playbook,
        "dataset": result.dataset,
        "metric": result.metric,
        **interval_document(result.card.interval),
        "unscored": len(result.card.unscored),
        "cost_usd": result.card.worth_usd,
        "missed": result.missed or None,
        "change": change
        and {
            **interval_document(change.difference),
            "playbook": change.playbook,
            "at": change.at,
            "regressed": change.regressed,
        },
    }


def view(measurement: Measurement) -> RenderableType:
    """One table, and below it what has become worse or misses its threshold."""
    from rich.console import Group

    rows = []
    for result in measurement.results:
        change = _changed(result.change)
        mean = line((interval_text(result.card.interval), "bold red" if result.missed else ""))
        tasks = str(result.card.interval.n)
        rows.append((result.dataset, clipped(result.name, 30), result.metric, mean, tasks, change))
    table = output.table("dataset", "playbook", "metric", "mean#", "tasks#", "change#", rows=rows)
    paid = sum(card.cost_usd for card in measurement.report.cards.values())
    known = sum(card.reused for card in measurement.report.cards.values())
    notes = [line(("✗ ", "bold red"), note) for note in measurement.report.notes]
    spent = line((f"paid now: {money(paid)}; {counted(known, 'cell')} known before", "dim"))
    return Group(table, spent, *notes)
