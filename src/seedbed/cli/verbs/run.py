"""seedbed run: perform a playbook once and record it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from seedbed.cli import options, output
from seedbed.cli.command import Invocation, command, going_on, wait_for
from seedbed.cli.options import PLAYBOOK, Changes, MaxCost, ProgramPath, Strict
from seedbed.cli.output import INCONCLUSIVE, PASS, line
from seedbed.cli.views import live
from seedbed.cli.views import run as views
from seedbed.workspace import Workspace
from seedbed.workspace.resources import AnyPlaybook

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class RunOptions:
    """How the run is done."""

    seed: Annotated[
        int | None, typer.Option("--seed", help="The random seed; the same seed gives the same answer.")
    ] = None
    max_cost: MaxCost = None
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="The user's key on a channel; the same key always gets the same playbook.",
        ),
    ] = None
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Continue a run that was interrupted or failed.")
    ] = None
    stream: Annotated[
        bool, typer.Option("--stream", help="Show the answer as it arrives; without a terminal, turn by turn.")
    ] = False
    strict: Strict = False
    changes: Changes = None
    program: ProgramPath = None
    quality: Annotated[
        str | None,
        typer.Option(
            "--quality",
            metavar="LEVEL",
            help="The quality level; maximum uses the best models available. Default: balanced.",
        ),
    ] = None
    turns: Annotated[
        int | None,
        typer.Option(
            "--turns", min=1, help="The maximum number of turns: fewer cuts a dialogue short, more adds rounds."
        ),
    ] = None


TAKEN = {
    "--seed": "seed",
    "--max-cost": "max_cost_usd",
    "--stream": "on_event",
    "--key": "key",
    "--program": "program",
    "--quality": "quality",
    "--turns": "turns",
}


@command(app, dry_run=True)
def run(
    call: Invocation,
    playbook: Annotated[str | None, typer.Argument(metavar="PLAYBOOK", help=PLAYBOOK)] = None,
    inputs: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="The task's inputs.")] = None,
    *,
    how: RunOptions,
) -> None:
    """Run a playbook once and record the run, or resume a run, reusing the answers it already has.

    Exits with code 2 if the budget ran out before the run finished.
    """
    if (playbook is None) == (how.resume is None):
        raise typer.BadParameter("expected either a playbook or --resume RUN", param_hint="PLAYBOOK")
    if how.stream and call.as_json:
        expected = "expected either --stream or --json"
        raise typer.BadParameter(f"found both; {expected}", param_hint="--stream")
    for option, value in {"--program": how.program, "--turns": how.turns, "--quality": how.quality}.items():
        if value and playbook is None:
            raise typer.BadParameter("found --resume; expected a playbook", param_hint=option)
    task, values = _inputs(inputs), options.assignments(how.changes)
    if how.key is not None and (values or how.program or how.turns or playbook is None):
        raise typer.BadParameter("found a key; expected one only with an unchanged channel", param_hint="--key")
    with call.open() as space, live.turns(output.console()) if how.stream else nullcontext() as watch:
        space.resources.ask_here()
        if playbook is None and call.dry_run:
            _show_estimate(call, space, space.runs.get(str(how.resume)).playbook)
            return
        if playbook is None:
            work = space.runs.resume(str(how.resume), max_cost_usd=how.max_cost, on_event=watch)
        else:
            chosen: Any = playbook
            if values or how.program or how.turns:
                chosen = space.playbooks.get(playbook, values, program=how.program, turns=how.turns)
            changes = {} if how.program else values  # or else they are in what was chosen
            unclear = space.resources.warnings(chosen if how.program else playbook, changes, task)
            call.say_warnings(unclear, how.strict)
            if call.dry_run:
                _show_estimate(call, space, chosen)
                return
            best: Any = how.quality  # a wrong one is refused there
            work = space.run(
                chosen, key=how.key, seed=how.seed, max_cost_usd=how.max_cost, quality=best, on_event=watch, **task
            )
        with going_on(lambda: f"seedbed run --resume {how.resume or space.runs.latest_here()}"):
            done = wait_for(work)
    printed = how.stream and done.turns and done.turns[-1].text == done.output
    answer = [] if printed else [line(views.answer_text(done.output))]
    called = [] if how.stream else [views.call_line(each.body()) for each in done.calls if each.turn]
    call.show(views.run_document(done), *called, *answer, views.run_line(done))
    raise typer.Exit(INCONCLUSIVE if done.status == "cost_limited" else PASS)


def _show_estimate(call: Invocation, space: Workspace, playbook: AnyPlaybook) -> None:
    estimate = space.runs.estimate(playbook)
    call.show(estimate.document(), views.estimate_line(estimate))


def _inputs(pairs: list[str] | None) -> dict[str, Any]:
    inputs: dict[str, Any] = {**options.texts(pairs, "NAME=VALUE")}
    for option, name in TAKEN.items():
        if name in inputs:
            raise typer.BadParameter(f"{name} is not a task input; expected {option}", param_hint="NAME=VALUE")
    return inputs
