"""seedbed sessions: what an agent did elsewhere, by its own history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import output
from seedbed.cli.options import AsJson
from seedbed.cli.output import BLOCKED, INCONCLUSIVE, PASS, clipped, counted, line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from seedbed.experiments.sessions import Hindsight, Pair
    from seedbed.runs.imports.sessions import Session
    from seedbed.storage.store import Json

app = typer.Typer(no_args_is_help=True)

CODES = {"superior": PASS, "inferior": BLOCKED}

File = Annotated[Path, typer.Argument(metavar="FILE", help="A sessions_history.json or a session.log.")]
Side = Annotated[str, typer.Argument(help="The id of a session, how it begins, or config.KEY=VALUE for all set so.")]


@app.command()
def show(file: File, as_json: AsJson = False) -> None:
    """The sessions in a file: how they were set, how many tasks they did, how well.

    A score that is not there is not 0: the mean is that of the tasks that have one.

    JSON: a list of session, started, config, tasks, scored, mean, tokens, seconds, doubts.
    """
    from rich.console import Group

    from seedbed.runs.imports.sessions import load

    sessions = load(file)
    rows = [
        (
            each.id,
            each.started.strftime("%Y-%m-%d %H:%M") if each.started else "",
            _settings(each, sessions),
            str(len(each.tasks)),
            str(len(each.scores)),
            _number(each.mean),
            _number(each.tokens, ","),
            _number(each.seconds, ".1f"),
        )
        for each in sessions
    ]
    heads = ("session", "started", "set to", "tasks#", "scored#", "mean#", "tokens#", "seconds#")
    doubts = [line(("! ", "bold magenta"), doubt) for each in sessions for doubt in each.doubts]
    table = output.table(*heads, rows=rows) if rows else "No session is in it."
    output.show([_document(each) for each in sessions], as_json, Group(table, *doubts))


@app.command()
def compare(
    file: File,
    a: Side,
    b: Side,
    alpha: Annotated[float, typer.Option(help="How often chance alone may pass for a difference.")] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Whether session B did better than session A, or one group of sessions than another, task by task.

    Tasks are matched by name. It was not registered in advance, so it can suggest and not prove: nothing is stored, and
    no gate takes it. `seedbed compare` proves.

    JSON: a, b, finding, because, pairs (name, a, b, missing), wins, ties, losses, missing, a_mean, b_mean, difference,
    low, high, p_better, p_worse, p, alpha, a_tokens, b_tokens, only_a, only_b, changed, differs, registered, note.
    Exit code 0 if B was better; 1 if it was worse, or it cannot be done; 2 if it cannot be told.
    """
    from seedbed.errors import DocumentError, Problem
    from seedbed.experiments import sessions as past
    from seedbed.runs.imports.sessions import load

    if not 0 < alpha < 1:
        raise typer.BadParameter(f"found {alpha:g}; expected above 0 and below 1, such as 0.05", param_hint="--alpha")
    loaded = load(file)
    sides, problems = [], list[Problem]()
    for wanted in (a, b):
        try:
            sides.append(past.select(loaded, wanted))
        except DocumentError as wrong:
            problems += wrong.problems
    if problems:
        raise DocumentError(problems, str(file))
    found = past.compare(*sides, alpha=alpha)
    output.show(found.document(), as_json, hindsight_view(found))
    raise typer.Exit(CODES.get(found.finding, INCONCLUSIVE))


def hindsight_view(found: Hindsight) -> RenderableType:
    """The finding, what it rests on, and every task at which the sides are not alike."""
    from rich.console import Group

    from seedbed.cli.views.verdict import FINDINGS
    from seedbed.experiments.sessions import NOT_REGISTERED

    known = found.low is not None and found.high is not None
    interval = f"[{found.low:+.3f}, {found.high:+.3f}]" if known else "(no spread to tell an interval from)"
    tests = f"{_number(found.p_better, '.2g')} for better, {_number(found.p_worse, '.2g')} for worse"
    p = f"{tests} (McNemar, exact, each one-sided; error rate {found.alpha:g})"
    pairs: list[tuple[str, RenderableType]] = [
        ("A", f"{', '.join(found.a)}: {_number(found.a_mean)}, {_number(found.a_tokens, ',')} tokens"),
        ("B", f"{', '.join(found.b)}: {_number(found.b_mean)}, {_number(found.b_tokens, ',')} tokens"),
        ("difference", "" if found.difference is None else f"{found.difference:+.3f} {interval}"),
        ("tasks", f"better {found.wins}, equal {found.ties}, worse {found.losses}"),
        ("missing", counted(found.missing, "score") if found.missing else ""),
        ("p", "" if found.p is None else p),
        ("only in A", ", ".join(found.only_a)),
        ("only in B", ", ".join(found.only_b)),
        ("text differs", ", ".join(found.changed)),
        ("set apart by", _apart(found.differs) or "nothing that is recorded"),
    ]
    unlike = [(each.name, _number(each.a), _number(each.b), _sign(each)) for each in found.pairs if each.gain != 0]
    table = [output.table("task", "A#", "B#", "B is", rows=unlike)] if unlike else []
    heading = line((found.finding, FINDINGS[found.finding]), f": {found.because}")
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


def _sign(pair: Pair) -> str:
    return "not known" if pair.gain is None else "better" if pair.gain > 0 else "worse"
