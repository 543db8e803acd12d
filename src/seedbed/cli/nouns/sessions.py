"""seedbed sessions: what an agent did elsewhere, by its own history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from seedbed.cli import output
from seedbed.cli.command import Invocation, command
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, Column, line
from seedbed.cli.views.verdict import FINDINGS, difference_text
from seedbed.experiments.session_comparison import NOT_REGISTERED, Hindsight, TaskPair
from seedbed.reports.numbers import clipped, counted
from seedbed.runs.imports.sessions import Session
from seedbed.storage.store import Json
from seedbed.workspace.nouns.sessions import compare_sessions, read_sessions

app = typer.Typer(no_args_is_help=True)

COLUMNS = (
    Column("session", lambda each: each["session"]),
    Column("started", lambda each: each["started"].strftime("%Y-%m-%d %H:%M") if each["started"] else "", drop=3),
    Column("settings", lambda each: each["settings"], flexible=True, drop=1),
    Column("tasks", lambda each: each["tasks"], number=True),
    Column("scored", lambda each: each["scored"], number=True),
    Column("mean", lambda each: _number(each["mean"]), number=True),
    Column("tokens", lambda each: _number(each["tokens"], ","), 2, True),
    Column("seconds", lambda each: _number(each["seconds"], ".1f"), 4, True),
)

CODES = {"superior": PASS, "inferior": BLOCKED}

File = Annotated[Path, typer.Argument(metavar="FILE", help="A sessions_history.json or a session.log.")]
SIDE = "A session's id or a prefix of it, or config.KEY=VALUE for all sessions with that setting."


@command(app, workspace=False)
def show(call: Invocation, file: File) -> None:
    """List the sessions in a file, with their settings, number of tasks and scores.

    A missing score does not count as 0: the mean covers only the tasks that have a score.
    """
    sessions = read_sessions(file)
    settings = {each.id: _settings(each, sessions) for each in sessions}
    documents = [_document(each) for each in sessions]
    rows = [{**each, "settings": settings[each["session"]]} for each in documents]
    doubts = [line(("! ", "bold magenta"), doubt) for each in sessions for doubt in each.doubts]
    table = output.listing(COLUMNS, rows) if rows else "The file has no sessions."
    call.show(documents, Group(table, *doubts))


@command(app, workspace=False)
def compare(
    call: Invocation,
    file: File,
    a: Annotated[str, typer.Argument(metavar="A", help=SIDE)],
    b: Annotated[str, typer.Argument(metavar="B", help=SIDE)],
    alpha: Annotated[float, typer.Option(help="The maximum probability of a false finding.")] = 0.05,
) -> None:
    """Compare session B with session A, or one group of sessions with another, task by task.

    Tasks are matched by name. The comparison was not registered in advance, so it is a hint, not proof: nothing is
    stored, and no gate accepts it. For proof, use `seedbed compare`.

    Exits with code 0 if B was better, 1 if it was worse or cannot be compared with A, and 2 if the result is
    inconclusive.
    """
    if not 0 < alpha < 1:
        raise typer.BadParameter(f"found {alpha:g}; expected above 0 and below 1, such as 0.05", param_hint="--alpha")
    hindsight = compare_sessions(file, a, b, alpha=alpha)
    call.show(hindsight.document(), hindsight_view(hindsight))
    raise typer.Exit(CODES.get(hindsight.finding, INCONCLUSIVE))


def hindsight_view(hindsight: Hindsight) -> RenderableType:
    """The finding, what it rests on, and every task at which the sides are not alike."""
    tests = f"{_number(hindsight.p_better, '.2g')} for better, {_number(hindsight.p_worse, '.2g')} for worse"
    p = f"{tests} (McNemar, exact, each one-sided; error rate {hindsight.alpha:g})"
    pairs: list[tuple[str, RenderableType]] = [
        ("A", f"{', '.join(hindsight.a)}: {_number(hindsight.a_mean)}, {_number(hindsight.a_tokens, ',')} tokens"),
        ("B", f"{', '.join(hindsight.b)}: {_number(hindsight.b_mean)}, {_number(hindsight.b_tokens, ',')} tokens"),
        ("difference", difference_text(hindsight.difference, hindsight.low, hindsight.high)),
        ("tasks", f"better {hindsight.wins}, equal {hindsight.ties}, worse {hindsight.losses}"),
        ("missing", counted(hindsight.missing, "score") if hindsight.missing else ""),
        ("p", "" if hindsight.p is None else p),
        ("only in A", ", ".join(hindsight.only_a)),
        ("only in B", ", ".join(hindsight.only_b)),
        ("text differs", ", ".join(hindsight.changed)),
        ("settings differ", _apart(hindsight.differs) or "none recorded"),
    ]
    unlike = [(each.name, _number(each.a), _number(each.b), _sign(each)) for each in hindsight.pairs if each.gain != 0]
    table = [output.table("task", "A#", "B#", "B is", rows=unlike)] if unlike else []
    heading = line((hindsight.finding, FINDINGS[hindsight.finding]), f": {hindsight.because}")
    return Group(heading, line((NOT_REGISTERED, "yellow")), output.facts(pairs), *table)


def _document(session: Session) -> Json:
    return {
        "session": session.id,
        "started": session.started,
        "config": session.config,
        "tasks": len(session.tasks),
        "scored": len(session.scores),
        "mean": session.mean,
        "tokens": session.tokens,
        "seconds": session.seconds,
        "doubts": list(session.doubts),
    }


def _settings(session: Session, others: Sequence[Session]) -> str:
    """Its model, and what it was set to that some other was not."""
    unlike = [key for key in session.config if any(each.config.get(key) != session.config[key] for each in others)]
    shown = dict.fromkeys([*(key for key in ("model_id",) if key in session.config), *unlike])
    return ", ".join(f"{key} {clipped(session.config[key], 24)}" for key in shown)


def _apart(differs: Json) -> str:
    def side(values: Sequence[Any]) -> str:
        return " | ".join("not set" if value is None else clipped(value, 40) for value in values)

    return "\n".join(f"{key}: {side(each['a'])} → {side(each['b'])}" for key, each in differs.items())


def _number(value: float | None, form: str = ".3f") -> str:
    return "–" if value is None else format(value, form)


def _sign(pair: TaskPair) -> str:
    return "unknown" if pair.gain is None else "better" if pair.gain > 0 else "worse"
