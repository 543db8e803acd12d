"""seedbed runs: what happened."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.nouns.runs import patterns, replay, screening
from seedbed.cli.options import AsJson, Limit, WorkspaceFile
from seedbed.cli.output import clipped, counted, line, money, when
from seedbed.errors import Problem, SettingsError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.storage.store import Json

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_runs(
    limit: Limit = 20,
    playbook: Annotated[
        str | None, typer.Option("--playbook", metavar="PLAYBOOK", help="Only runs of this one.")
    ] = None,
    children: Annotated[bool, typer.Option("--children", help="Also runs that others opened.")] = False,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest runs; what those cost that they opened is part of their cost.

    JSON: runs (run, playbook, parent, status, inputs, output, error, started, tokens, cost_usd, latency_seconds).
    """
    from seedbed.runs.recorder import recent
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        subject = space.playbook(playbook).digest if playbook else None
        runs = list(recent(space.store, limit, subject, children=children))
    found = [
        {
            "run": run.id,
            "playbook": run.playbook,
            "parent": run.parent,
            "status": run.status,
            "inputs": run.inputs,
            "output": run.output,
            "error": run.error,
            "started": run.started,
            "tokens": run.tokens,
            "cost_usd": run.cost_usd,
            "latency_seconds": run.latency_seconds,
        }
        for run in runs
    ]
    rows = [
        (
            line("↳ " * bool(each["parent"]), (each["run"][:10], "yellow")),
            short(each["playbook"]),
            clipped(_task(each), 40),
            line(
                (
                    clipped(_outcome(each), 40),
                    _style(each),
                )
            ),
            str(each["tokens"]),
            money(each["cost_usd"]),
            when(each["started"]),
        )
        for each in found
    ]
    table = output.table("run", "playbook", "task", "answer", "tokens#", "cost#", "at", rows=rows)
    output.show({"runs": found}, as_json, table if rows else line("no runs yet"))


def _task(run: Json) -> str:
    """What a run was asked; what it inherited is not that."""
    from seedbed.stage.dialogue.children import INHERITED

    asked = (value for name, value in run["inputs"].items() if name != INHERITED or not run["parent"])
    return ", ".join(map(str, asked))


def _outcome(run: Json) -> str:
    from seedbed.cli.views import run as views

    if run["output"] is not None or run["status"] == "completed":
        return views.answer_text(run["output"])
    return run["error"] or "has not ended"


def _style(run: Json) -> str:
    return {"completed": "", "failed": "red"}.get(run["status"], "yellow")


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the beginning of it.")],
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a run as it happened: what each role was told and answered, decisions, tools, and the runs it opened.

    JSON: run, playbook, status, inputs, output, error, seed, started, tokens, cost_usd, latency_seconds, turns,
    failures, decisions, calls, children, parent, max_cost_usd.
    """
    from rich.rule import Rule

    from seedbed.cli.views import run as views
    from seedbed.runs.recorder import recall
    from seedbed.storage.store import Query

    with options.opened(workspace) as space:
        found = recall(space.store, options.whole_run(space.store, run))
        facts = [fact for kind in views.ENTRIES for fact in space.store.facts(Query(kind=kind, subject=found.id))]
    opened = [line((f"opened by {found.parent[:10]}", "dim"))] if found.parent else []
    parts: list[RenderableType] = [views.run_line(found), *opened]
    for fact in sorted(facts, key=lambda fact: fact.number):
        parts += views.entry_view(fact)
    if found.error:
        parts.append(line(("✗ ", "bold red"), found.error))
    else:
        parts += [
            Rule(style="dim"),
            line(f"{counted(len(found.turns), 'turn')}, output: ", (views.answer_text(found.output), "bold")),
        ]
    output.show(views.run_document(found), as_json, *parts)


@app.command()
def tail(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="Its id, or the beginning of it. Unless given: all that happens."),
    ] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Follow runs as they happen, also those of other processes: a line for each start, turn, decision, tool and end.

    A run that is named is told from its beginning until it ends; otherwise all new things are, until Ctrl-C. With
    --json each line is a document.

    JSON: kind, run, number, at, by, body.
    """
    from seedbed.cli.nouns.runs.tail import document, follow, told

    with options.opened(workspace) as space, suppress(KeyboardInterrupt):
        facts = follow(space.store, options.whole_run(space.store, run) if run else None)
        if run is None:
            output.errors().print(line(("waiting for runs; Ctrl-C ends", "dim")))
        for fact in facts:
            if as_json:
                typer.echo(json.dumps(document(fact), ensure_ascii=False))
            else:
                output.show(None, False, told(fact))


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the beginning of it.")],
    to: Annotated[str, typer.Option("--format", help="markdown, html, json or pdf.")] = "markdown",
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; else printed.")] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a run down to be read or passed on: every turn, the outcome, what it cost by model, how models were chosen.

    A PDF needs a file. Characters that no font here can print stand in it as their numbers, and are told.

    JSON: run, format, text, unprintable, file.
    """
    from seedbed.reports.run import to_html, to_json, to_markdown, to_pdf, view_of
    from seedbed.runs.recorder import recall

    writers = {"json": to_json, "markdown": to_markdown, "html": to_html}
    if to not in (*writers, "pdf"):
        expected = ", ".join((*writers, "pdf"))
        raise typer.BadParameter(f"found {to!r}; expected one of: {expected}", param_hint="--format")
    if to == "pdf" and file is None:
        raise typer.BadParameter("found none; expected a file, as a PDF is no text", param_hint="--output")
    with options.opened(workspace) as space:
        found = recall(space.store, options.whole_run(space.store, run))
        view = view_of(space.store, found)
    document: Json = {"run": found.id, "format": to, "text": None, "unprintable": []}
    if file and to == "pdf":
        paper = to_pdf(view)
        _write_new(file, paper.pdf)
        told = [line(("! ", "bold yellow"), paper.notice)] if paper.notice else []
        document |= {"unprintable": list(paper.unprintable), "file": str(file)}
        output.show(document, as_json, line(("✓ ", "bold green"), f"wrote {file}"), *told)
    else:
        text = writers[to](view)
        output.hand_over({**document, "text": text}, text, file, as_json)


app.command("patterns")(patterns.patterns)
app.command("replay")(replay.replay)
app.command("screen")(screening.screen)


def _write_new(file: Path, content: bytes) -> None:
    try:
        with file.open("xb") as out:
            out.write(content)
    except FileExistsError:
        remedy = "Remove it or choose another."
        raise SettingsError([Problem(str(file), "a file that exists", "a new one", remedy)]) from None
