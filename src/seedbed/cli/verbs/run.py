"""The verbs: run, evaluate, compare, evolve, release, rollback."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import options, output
from seedbed.cli.nouns.channel.channel import Share, show_channel
from seedbed.cli.options import AsJson, Because, Changes, DryRun, PlaybookName, WorkspaceFile
from seedbed.cli.output import INCONCLUSIVE, PASS, line
from seedbed.cli.verbs.compare import compare
from seedbed.cli.verbs.evaluate import evaluate
from seedbed.cli.verbs.evolve import evolve

if TYPE_CHECKING:
    from seedbed.experiments.verdict import Verdict
    from seedbed.playbooks.playbook import Playbook
    from seedbed.storage.store import Digest
    from seedbed.workspace import Workspace

app = typer.Typer()


@app.command(rich_help_panel="Verbs do the work")
def run(
    playbook: Annotated[
        str | None, typer.Argument(metavar="PLAYBOOK", help="A file, a digest, a ref or a channel.")
    ] = None,
    inputs: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="What the task is.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeat a run: the same seed, the same answer.")] = None,
    max_cost: Annotated[float | None, options.max_cost("Never spend more; conclude in time.")] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Who is served by the channel: the same key, the same playbook."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="RUN", help="Go on with a run that was interrupted or failed.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Show what is said while it is said; without a terminal, turn by turn.")
    ] = False,
    changes: Changes = None,
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Perform a playbook once and record it; or go on with a run, whose answers so far are not asked for again.

    JSON: run, playbook, status, inputs, output, error, seed, started, tokens, cost_usd, latency_seconds, turns,
    failures, decisions, calls, children, parent, max_cost_usd.
    Exit code 2 if the money ran out before the end.
    """
    from seedbed.cli.views import live
    from seedbed.cli.views import run as views
    from seedbed.stage.confirmation import Prompt

    if (playbook is None) == (resume is None):
        raise typer.BadParameter("expected a playbook or --resume RUN, one of the two", param_hint="PLAYBOOK")
    if stream and as_json:
        raise typer.BadParameter(
            "found both; expected --stream for people or --json for programs", param_hint="--stream"
        )
    given, values = _inputs(inputs), options.assignments(changes, "--set")
    if key is not None and (values or playbook is None):
        raise typer.BadParameter("found a key; expected one only for a channel as it is", param_hint="--key")
    with options.opened(workspace) as space, live.turns(output.console()) if stream else nullcontext() as on_event:
        if space.settings.confirm.how is None:
            space.confirm = Prompt(space.by, space.settings.confirm.timeout)
        if playbook is None:
            work = space.resume(options.whole_run(space.store, str(resume)), max_cost_usd=max_cost, on_event=on_event)
        else:
            chosen = playbook if key is not None else _changed(space, playbook, values)
            work = space.run(chosen, key=key, seed=seed, max_cost_usd=max_cost, on_event=on_event, **given)
        done = options.complete(work)
    told = stream and done.turns and done.turns[-1].text == done.output
    answer = [] if told else [line(views.answer_text(done.output))]
    output.show(views.run_document(done), as_json, *answer, views.run_line(done))
    raise typer.Exit(INCONCLUSIVE if done.status == "cost_limited" else PASS)


def _inputs(pairs: list[str] | None) -> dict[str, Any]:
    given: dict[str, Any] = {**options.texts(pairs, "NAME=VALUE")}
    for option, taken in {
        "--seed": "seed",
        "--max-cost": "max_cost_usd",
        "--stream": "on_event",
        "--key": "key",
    }.items():
        if taken in given:
            raise typer.BadParameter(f"{taken} is no input of a task; expected {option}", param_hint="NAME=VALUE")
    return given


def _changed(space: Workspace, name: str, values: dict[str, Any]) -> Playbook:
    """The playbook of that name with some values changed; what is kept stays the parent of what is run."""
    chosen = options.chosen(space, name, values)
    if values and not options.is_file(name):
        parent = space.library.find(name)
        space.library.keep(chosen, because="changed for a run", parents=[parent], how="edited")
    return chosen


app.command(rich_help_panel="Verbs do the work")(evaluate)


app.command(rich_help_panel="Verbs do the work")(compare)


app.command(rich_help_panel="Verbs do the work")(evolve)


@app.command(rich_help_panel="Verbs do the work")
def release(
    playbook: PlaybookName,
    to: Annotated[str, typer.Option("--to", metavar="CHANNEL", help="Where it shall be served.")],
    because: Annotated[
        str | None,
        typer.Option("--because", metavar="REASON", help="Why: a text, or the digest of an experiment as evidence."),
    ] = None,
    share: Share = None,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put a playbook on a channel, if the channel's gates let it pass.

    The evidence is the experiment named, or else the newest one about exactly this playbook and what is served now.
    With a share, or on a channel with a ramp, it is a canary at first: `channel promote` gives it more.

    JSON: channel, playbook, canary (playbook, share), frozen, version, because, by, at, dry_run. Exit code 1 with every
    refusal if the gates refuse.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        chosen = space.playbook(playbook)
        named = because if because and options.looks_like_digest(because) else None
        verdict = _verdict(space, named) if named else _newest_verdict(space, chosen.digest, to)
        reason = "" if named else because or ""
        moved = options.complete(space.release(chosen, to=to, verdict=verdict, because=reason, share=share))
    show_channel(moved, "now serves", dry_run, as_json)


def _verdict(space: Workspace, experiment: str) -> Verdict:
    from seedbed.errors import NotFound
    from seedbed.experiments.verdict import Verdict
    from seedbed.storage.store import Query

    start = f"b2:{experiment.removeprefix('b2:')}"
    found = [fact.key for fact in space.store.facts(Query(kind="verdict", key_from=start, limit=2))]
    if len(found) != 1:
        told = "begins several experiments" if found else "is no experiment with a verdict in this store"
        raise NotFound(f"{experiment} {told}. `seedbed compare` prints the digest, or give a reason in words")
    return Verdict.recall(space.store, found[0])


def _newest_verdict(space: Workspace, candidate: Digest, channel: str) -> Verdict | None:
    """The newest one about live runs; only if there is none, one about replays."""
    from seedbed.errors import NotFound
    from seedbed.experiments.replay.replay import is_replayed
    from seedbed.experiments.verdict import verdicts
    from seedbed.release.channels import stable

    def is_live(verdict: Verdict) -> bool:
        try:
            return not any(map(is_replayed, space.store.get(verdict.experiment)["models"].values()))
        except NotFound:  # for the gates to tell
            return True

    incumbent = stable(space.store, channel)
    found = [each for each in reversed(verdicts(space.store, candidate)) if each.control == incumbent]
    return next(filter(is_live, found), found[0] if found else None)


@app.command(rich_help_panel="Verbs do the work")
def rollback(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name, such as production.")],
    because: Because,
    workspace: WorkspaceFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take the canary of a channel away; without one, return to what it served before. No gate can forbid it.

    JSON: channel, playbook, canary, frozen, version, because, by, at, dry_run.
    """
    with options.opened(workspace, dry_run=dry_run) as space:
        moved = options.complete(space.rollback(channel, because=because))
    show_channel(moved, "is back at", dry_run, as_json)
