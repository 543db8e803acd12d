"""seedbed runs: what happened."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.rule import Rule

from seedbed.cli import output
from seedbed.cli.command import Invocation, command
from seedbed.cli.nouns.runs import doubt, patterns, replay, screening, tail
from seedbed.cli.options import OutputFile, RowLimit
from seedbed.cli.output import Column, line, when
from seedbed.cli.views import run as views
from seedbed.files import write_private
from seedbed.reports.numbers import counted
from seedbed.reports.run import to_html, to_json, to_markdown, to_pdf, view_of
from seedbed.reports.timeline import timeline
from seedbed.storage.store import Json, short
from seedbed.workspace.nouns.runs import own_inputs

app = typer.Typer(no_args_is_help=True)


RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or a prefix of it.")]
COLUMNS = (
    Column("run", lambda each: line("↳ " * bool(each["parent"]), (short(each["run"]), "yellow"))),
    Column("playbook", lambda each: short(each["playbook"]), drop=3),
    Column("task", lambda each: each["task"], flexible=True),
    Column("answer", lambda each: line((_outcome(each), _style(each))), flexible=True),
    Column("tokens", lambda each: each["tokens"], 4, True),
    Column("cost", lambda each: views.spent_money(each), 1, True),
    Column("at", lambda each: when(each["started"]), drop=2),
)
LISTED = ("status", "inputs", "output", "error", "started", "tokens", "cost_usd", "unpriced", "latency_seconds")


@command(app, "list")
def list_runs(
    call: Invocation,
    limit: RowLimit = 20,
    playbook: Annotated[
        str | None, typer.Option("--playbook", metavar="PLAYBOOK", help="List only runs of this playbook.")
    ] = None,
    children: Annotated[bool, typer.Option("--children", help="Include runs that other runs opened.")] = False,
) -> None:
    """List the newest runs. A run's cost includes the runs it opened."""
    with call.open() as space:
        recent = space.runs.recent(limit, playbook, children=children)
    runs = [
        {
            "run": run.id,
            "playbook": run.playbook,
            "parent": run.parent,
            **{name: getattr(run, name) for name in LISTED},
        }
        for run in recent
    ]
    tasks = (", ".join(map(str, own_inputs(run).values())) for run in recent)
    rows = [{**each, "task": task} for each, task in zip(runs, tasks, strict=True)]
    call.list("runs", runs, COLUMNS, "No runs yet.", rows=rows)


def _outcome(run: Json) -> str:
    if run["output"] is not None or run["status"] == "completed":
        return views.answer_text(run["output"])
    return run["error"] or "(unfinished)"


def _style(run: Json) -> str:
    return {"completed": "", "failed": "red"}.get(run["status"], "yellow")


@command(app)
def show(
    call: Invocation,
    run: RunId,
    times: Annotated[
        bool, typer.Option("--timeline", help="Show when each step began, waited and ended, including child runs.")
    ] = False,
) -> None:
    """Show a run as it happened: prompts and answers, decisions, tool calls, and the runs it opened."""
    with call.open() as space:
        shown = space.runs.get(run)
        entries = space.runs.entries(shown)
        rows = timeline(shown, space.store)
    opened = [line((f"opened by {short(shown.parent)}", "dim"))] if shown.parent else []
    parts: list[RenderableType] = [views.run_line(shown), *opened]
    document = {**views.run_document(shown), "timeline": [row.document() for row in rows]}
    if times:
        call.show(document, *parts, views.timeline_view(rows))
        return
    for fact in entries:
        parts += views.entry_view(fact)
    if shown.error:
        parts.append(line(("✗ ", "bold red"), shown.error))
    else:
        answer = line(f"{counted(len(shown.turns), 'turn')}, output: ", (views.answer_text(shown.output), "bold"))
        parts += [Rule(style="dim"), answer]
    call.show(document, *parts)


@command(app, "tail")
def follow(
    call: Invocation,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The run's id, or a prefix of it. Default: all runs.")
    ] = None,
) -> None:
    """Follow runs as they happen, in any process: one line for each start, turn, tool call and end.

    A single run is followed from start to end; all runs are followed until you press Ctrl-C. With --json, each line
    is a JSON document.
    """
    with call.open() as space, suppress(KeyboardInterrupt):
        facts = space.runs.follow(run)
        if run is None:
            output.errors().print(line(("waiting for runs; press Ctrl-C to stop", "dim")))
        for fact in facts:
            if call.as_json:
                typer.echo(output.as_json_text(tail.document(fact)))
            else:
                call.show(None, tail.view(fact))


@command(app)
def export(
    call: Invocation,
    run: RunId,
    to: Annotated[
        str | None,
        typer.Option(
            "--format", help="markdown, html, json or pdf. Default: determined by the file extension, or markdown."
        ),
    ] = None,
    file: OutputFile = None,
) -> None:
    """Export a run: every turn, the outcome, the cost by model, and how models were chosen.

    A PDF requires --output. Characters missing from its fonts are printed as code points and listed.
    """
    writers = {"json": to_json, "markdown": to_markdown, "html": to_html}
    if to is None:
        ending = file.suffix.lower().removeprefix(".") if file else ""
        to = {"htm": "html", "html": "html", "json": "json", "pdf": "pdf"}.get(ending, "markdown")
    if to not in (*writers, "pdf"):
        expected = ", ".join((*writers, "pdf"))
        raise typer.BadParameter(f"found {to!r}; expected one of: {expected}", param_hint="--format")
    if to == "pdf" and file is None:
        raise typer.BadParameter("found none; expected a file, as a PDF is not text", param_hint="--output")
    with call.open() as space:
        exported = space.runs.get(run)
        view = view_of(space.store, exported)
    document: Json = {"run": exported.id, "format": to, "text": None, "unprintable": []}
    if file and to == "pdf":
        output.expect_new(file)
        report = to_pdf(view)
        write_private(file, report.pdf)
        notice = [line(("! ", "bold yellow"), report.notice)] if report.notice else []
        document |= {"unprintable": list(report.unprintable), "file": str(file)}
        call.show(document, line(("✓ ", "bold green"), f"wrote {file}"), *notice)
    else:
        text = writers[to](view)
        output.hand_over({**document, "text": text}, text, file, call.as_json)


for other in (doubt, patterns, replay, screening):
    app.add_typer(other.app)
