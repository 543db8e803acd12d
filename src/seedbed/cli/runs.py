"""seedbed runs: what happened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, Limit, WorkspaceFile
from seedbed.cli.output import clipped, counted, line, money, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.storage.store import Json, Store

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_runs(
    limit: Limit = 20,
    playbook: Annotated[
        str | None, typer.Option("--playbook", metavar="PLAYBOOK", help="Only runs of this one.")
    ] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest runs.

    JSON: runs (run, playbook, status, inputs, output, error, started, tokens, cost_usd, latency_seconds).
    """
    from seedbed.runs.recorder import recent
    from seedbed.storage.store import short

    with options.opened(workspace) as space:
        subject = space.playbook(playbook).digest if playbook else None
        runs = list(recent(space.store, limit, subject))
    found = [
        {
            "run": run.id,
            "playbook": run.playbook,
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
            line((each["run"][:10], "yellow")),
            short(each["playbook"]),
            clipped(", ".join(map(str, each["inputs"].values())), 40),
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


def _outcome(run: Json) -> str:
    from seedbed.cli import views

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
    """Show a run turn by turn: what each role was told and what it answered.

    JSON: run, playbook, status, inputs, output, error, seed, started, tokens, cost_usd, latency_seconds, turns.
    """
    from rich.padding import Padding
    from rich.rule import Rule

    from seedbed.cli import views
    from seedbed.runs.recorder import recall

    with options.opened(workspace) as space:
        found = recall(space.store, whole(space.store, run))
    parts: list[RenderableType] = [views.run_line(found)]
    for turn in found.turns:
        title = f"{turn.step or turn.role} · {turn.model} · {turn.latency_seconds:.2f} s"
        parts.append(Rule(line((title, "bold")), align="left", style="dim"))  # type: ignore[arg-type]
        parts += [Padding(line((f"{speaker}: ", "cyan"), text), (0, 0, 0, 2)) for speaker, text in turn.messages]
        parts.append(Padding(line(("→ ", "bold green"), turn.text), (0, 0, 0, 2)))
    if found.error:
        parts.append(line(("✗ ", "bold red"), found.error))
    else:
        parts += [
            Rule(style="dim"),
            line(f"{counted(len(found.turns), 'turn')}, output: ", (views.answer_text(found.output), "bold")),
        ]
    output.show(views.run_document(found), as_json, *parts)


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the beginning of it.")],
    to: Annotated[str, typer.Option("--format", help="markdown, html or json.")] = "markdown",
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; else printed.")] = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a run down to be read or passed on: every turn, the outcome, and what it cost by model.

    JSON: run, format, text, file.
    """
    from seedbed.runs.exchange import FORMATS
    from seedbed.runs.recorder import recall

    if to not in FORMATS:
        raise typer.BadParameter(f"found {to!r}; expected one of: {', '.join(FORMATS)}", param_hint="--format")
    with options.opened(workspace) as space:
        found = recall(space.store, whole(space.store, run))
    text = FORMATS[to](found)
    output.hand_over({"run": found.id, "format": to, "text": text}, text, file, as_json)


def whole(store: Store, start: str) -> str:
    """The id that begins so."""
    from seedbed.errors import NotFound
    from seedbed.storage.store import Query

    if not re.fullmatch(r"[0-9a-f]{4,31}", start):
        return start
    found = [fact.key for fact in store.facts(Query(kind="start", key_from=start, limit=2))]
    if len(found) > 1:
        raise NotFound(f"{start} begins several runs. Give more characters")
    return found[0] if found else start
