"""seedbed search: list and show searches."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from seedbed.cli import options
from seedbed.cli.command import Invocation, command
from seedbed.cli.options import ReportFile, RowLimit
from seedbed.cli.output import Column, line, money, when
from seedbed.cli.views import search as views
from seedbed.reports.numbers import gain_text, number
from seedbed.reports.search.report import to_document
from seedbed.storage.store import short

app = typer.Typer(no_args_is_help=True)

COLUMNS = (
    Column("search", lambda each: short(each["search"])),
    Column("started", lambda each: when(each["begun"]), drop=3),
    Column("by", lambda each: str(each["optimizer"]), drop=4),
    Column("best", lambda each: short(each["best"]) if each["improved"] else line(("the start", "dim"))),
    Column("score", lambda each: "–" if each["score"] is None else number(each["score"]), number=True),
    Column("gain on new tasks", lambda each: each["gain_text"]),
    Column(
        "spent",
        lambda each: f"{each['spent']['runs']:,} runs, {money(each['spent']['usd'], each['spent'].get('unpriced', 0))}",
        drop=2,
    ),
    Column("ended", lambda each: each["ended"] or line(("unfinished", "yellow")), drop=1, flexible=True),
)


@command(app, "list")
def list_searches(call: Invocation, limit: RowLimit = 20) -> None:
    """List searches, newest first."""
    with call.open() as space:
        searches = list(islice(space.searches.begun(), limit))
        documents = [space.searches.describe(each) for each in searches]
    gains = (gain_text(each.confirmed.gain) if each.confirmed else "–" for each in searches)
    rows = [{**each, "gain_text": gain} for each, gain in zip(documents, gains, strict=True)]
    call.list("", documents, COLUMNS, "No searches yet.", rows=rows)


@command(app)
def show(
    call: Invocation,
    name: Annotated[str, typer.Argument(metavar="SEARCH", help="The search's digest, or a prefix of it.")],
    report: ReportFile = None,
) -> None:
    """Show the results of a search, finished or not."""
    options.expect_report(report)
    with call.open() as space:
        past, view = space.searches.get(name), space.searches.view(name)
        if report:
            view.evolution.export(report, store=space.store)
    call.show({**to_document(view), "begun": past.begun.at, "by": past.begun.by}, views.view(view))
    call.say_written(report)
