"""seedbed search: what was searched for, and what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Limit, WorkspaceFile
from seedbed.cli.output import line, money

if TYPE_CHECKING:
    from seedbed.evaluation.metrics.metric import Metric
    from seedbed.evolution.searches import PastSearch
    from seedbed.storage.store import Json
    from seedbed.workspace import Workspace

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(limit: Limit = 20, workspace: WorkspaceFile = None, as_json: AsJson = False) -> None:
    """Searches that were begun, the newest first.

    JSON: a list of search, begun, by, optimizer, metric, start, best, improved, score, gain, spent, budget, ended.
    """
    from itertools import islice

    from seedbed.evolution.searches import list_searches
    from seedbed.reports.numbers import gain_text, number
    from seedbed.spending.account import Budget
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        found = list(islice(list_searches(space.store), limit))
        documents = [document(space, each) for each in found]
    rows = []
    for each, told in zip(found, documents, strict=True):
        sure = each.confirmed
        rows.append(
            (
                short(each.search),
                output.when(each.begun.at),
                str(told["optimizer"]),
                short(each.plan["start"]),
                short(each.best) if told["improved"] else line(("the start", "dim")),
                "–" if told["score"] is None else f"{told['metric']} {number(told['score'])}",
                gain_text(sure.gain) if sure else "–",
                f"{each.spent['runs']:,} runs, {money(each.spent['usd'])} of {Budget(**each.plan['budget'])}",
                each.ended or line(("not ended", "yellow")),
            )
        )
    heads = ("search", "begun", "by", "start", "best", "in the search", "gain, confirmed", "spent", "ended")
    table = output.table(*heads, rows=rows)
    output.show(documents, as_json, table if rows else "Nothing was searched for here yet.")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="SEARCH", help="Its digest, or how it begins.")],
    report: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write its report: .md or .html.")
    ] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """What a search found, or has found so far, as it was told when it ended.

    JSON: search, optimizer, metric, better, tasks (reflect, select), start, best, improved, score, start_score,
    optimism, confirmed, answer, changes (path, before, after), arms, skipped (candidates, hopeless, evaluated, wrong,
    low, high), front, diversity (step, distance), tried (playbook, how, arm, parents, score, deviation, tasks, scores),
    steps (runs, offered, best, score, deviation), spent (runs, tokens, usd, seconds), budget, ended, begun, by.
    """
    from seedbed.cli.views import search as evolving
    from seedbed.evaluation.metrics.metric import better
    from seedbed.evolution.searches import find_search, recall_search
    from seedbed.reports.search.report import view_of

    options.new_report(report)
    with options.opened(workspace) as space:
        found = find_search(space.store, name)
        metrics = _metrics(space, found)
        evolution = recall_search(space.store, found, {metric.name: better(metric) for metric in metrics})
        summary = view_of(space.store, evolution)
    if report:
        evolving.write_report(summary, report)
    body = {**evolving.document(summary), "begun": found.begun.at, "by": found.begun.by}
    output.show(body, as_json, evolving.view(summary))
    if report and not as_json:
        output.show(None, False, line(("✓ ", "bold green"), f"wrote {report}"))


def document(space: Workspace, found: PastSearch) -> Json:
    from seedbed.evaluation.metrics.metric import better

    first = next(iter(_metrics(space, found)), None)
    sign = -1.0 if first and better(first) == "lower" else 1.0
    sure = found.confirmed
    return {
        "search": found.search,
        "begun": found.begun.at,
        "by": found.begun.by,
        "optimizer": found.plan["optimizer"].get("optimizer"),
        "metric": first.name if first else found.plan["metrics"][0].get("metric"),
        "start": found.plan["start"],
        "best": found.best,
        "improved": found.best != found.plan["start"],
        "score": None if found.score is None else sign * found.score,
        "gain": sure.body()["gain"] if sure else None,
        "spent": found.spent,
        "budget": found.plan["budget"],
        "ended": found.ended or None,
    }


def _metrics(space: Workspace, found: PastSearch) -> list[Metric]:
    """The metrics of a search, as far as this workspace knows them: a function of somebody's own it may not."""
    names = found.begun.body["options"].get("metric") or [each.get("metric") for each in found.plan["metrics"]]
    known = []
    for name in names:
        try:
            known.append(options.metric(space, str(name)))
        except typer.BadParameter:
            continue
    return known
