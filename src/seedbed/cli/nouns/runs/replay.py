"""seedbed runs replay: a recorded run performed again on its recorded answers, step beside step."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from seedbed.cli import output
from seedbed.cli.command import Invocation, command, wait_for
from seedbed.cli.options import ProgramPath
from seedbed.cli.output import BLOCKED, PASS, Column, line
from seedbed.cli.views import run as views
from seedbed.reports.numbers import clipped
from seedbed.storage.store import Json, short

if TYPE_CHECKING:
    from seedbed.workspace.nouns.runs import ReplayStep

app = typer.Typer()

STYLES = {"exact": "green", "substituted": "yellow", "live": "cyan", "missed": "bold red"}


@command(app, dry_run=True)
def replay(
    call: Invocation,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or a prefix of it.")],
    playbook: Annotated[
        str | None,
        typer.Option("--playbook", metavar="PLAYBOOK", help="The playbook to use. Default: the run's own."),
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="strict, lenient, or fork:K (live from step K).")
    ] = "strict",
    program: ProgramPath = None,
) -> None:
    """Replay a run from its recorded answers, and show the two side by side. A replay has no external side effects.

    Each step is exact (as recorded), substituted (from the nearest recording), live (sent to the model now) or missed
    (cannot be answered). Repeating a replay shows the stored result.

    Exits with code 1 if any step is missed.
    """
    with call.open() as space:
        then = space.runs.get(run)
        if call.dry_run:
            expected = space.runs.estimate(playbook or then.playbook, 0 if mode == "strict" else 1)
            call.show(expected.document(), views.estimate_line(expected))
            return
        now, missed = wait_for(space.runs.replay(then, playbook, mode=mode, program=program))
        steps, drift = space.runs.align(then, now), space.runs.drift(now)
    outcome, before = ({name: getattr(each, name) for name in ("status", "output", "error")} for each in (now, then))
    at = next((number for number, step in enumerate(steps, 1) if step.differs), None)
    body = {
        "run": now.id,
        "of": then.id,
        "playbook": now.playbook,
        "mode": mode,
        **outcome,
        "recorded": before,
        "same": outcome == before,
        "missed": missed,
        "diverges_at": at,
        "steps": [asdict(step) for step in steps],
        "drift": [asdict(each) for each in drift],
    }
    call.show(body, *_view(body, steps), *views.drift_lines(drift))
    raise typer.Exit(BLOCKED if missed else PASS)


STEPS = (
    Column("#", lambda each: each[0], number=True),
    Column("step", lambda each: f"{each[1].kind} {each[1].name}"),
    Column("recorded", lambda each: _side(each[1].recorded), flexible=True),
    Column("replayed", lambda each: _side(each[1].replayed), flexible=True),
    Column("label", lambda each: line((each[1].label, STYLES[each[1].label])) if each[1].label else ""),
)


def _side(answer: Any) -> str:
    return "" if answer is None else clipped(views.answer_text(answer), 60)


def _view(body: Json, steps: list[ReplayStep]) -> list[RenderableType]:
    parts: list[RenderableType] = [
        line((f"run {short(body['run'])}, the {body['mode']} replay of run {short(body['of'])}", "dim")),
        output.listing(STEPS, list(enumerate(steps, 1))) if steps else line("no steps"),
    ]
    if body["diverges_at"]:
        parts.append(line(("! ", "bold yellow"), f"diverges at step {body['diverges_at']}"))
    if body["missed"]:
        return [*parts, line(("✗ ", "bold red"), body["error"])]
    came = body["error"] or views.answer_text(body["output"])
    if body["same"]:
        return [*parts, line(("✓ ", "bold green"), f"same result: {clipped(came, 200)}")]
    before = body["recorded"]["error"] or views.answer_text(body["recorded"]["output"])
    return [*parts, line(("! ", "bold yellow"), f"result {clipped(came, 120)}, recorded {clipped(before, 120)}")]
