"""seedbed runs replay: a recorded run performed again on what it was told, step beside step."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seedbed.cli import options, output
from seedbed.cli.options import AsJson, WorkspaceFile
from seedbed.cli.output import BLOCKED, PASS, clipped, line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.playbooks.playbook import Playbook
    from seedbed.runs.cassette import ReplayMode
    from seedbed.runs.run import Run
    from seedbed.storage.store import Fact, Json, Store
    from seedbed.workspace import Workspace

STYLES = {"exact": "green", "substituted": "yellow", "live": "cyan", "missed": "bold red"}

SHOWN = {"turn": "text", "decision": "action", "reading": "value"}
"""Where the answer to a step is, by its kind."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of both runs, or of one of them: what it is, how the replay was answered, and the two answers.

    The label is empty where nobody answered: what a program says of itself, and what the replay did not come to.
    """

    kind: str
    name: str
    label: str
    recorded: Any
    replayed: Any
    differs: bool


def replay(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the beginning of it.")],
    playbook: Annotated[
        str | None,
        typer.Option("--playbook", metavar="PLAYBOOK", help="Perform this one on it. Unless given: the one it had."),
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="strict, lenient, or fork:K, live from step K.")
    ] = "strict",
    workspace: WorkspaceFile = None,
    as_json: AsJson = False,
) -> None:
    """Perform a recorded run again on what it was told, and lay both side by side. Nothing in the world is done.

    Each step is exact (as recorded), substituted (by the nearest recording), live (asked today) or missed (not to be
    answered). A replay that was made before is shown as it is.

    JSON: run, of, playbook, mode, status, output, error, recorded (status, output, error), same, missed, diverges_at,
    steps (kind, name, label, recorded, replayed, differs).
    Exit code 1 if a step is missed.
    """
    from seedbed.runs.recorder import recall

    how = options.mode(mode)
    with options.opened(workspace) as space:
        then = recall(space.store, options.whole_run(space.store, run))
        chosen = space.playbook(playbook or then.playbook)
        now, missed = _replayed(space, then, chosen, how)
        steps = laid_beside(_facts(space.store, then.id), _facts(space.store, now.id))
    told = ("status", "output", "error")
    outcome, before = ({name: getattr(each, name) for name in told} for each in (now, then))
    at = next((number for number, step in enumerate(steps, 1) if step.differs), None)
    body = {
        "run": now.id,
        "of": then.id,
        "playbook": now.playbook,
        "mode": str(how),
        **outcome,
        "recorded": before,
        "same": outcome == before,
        "missed": missed,
        "diverges_at": at,
        "steps": [asdict(step) for step in steps],
    }
    output.show(body, as_json, *_view(body, steps))
    raise typer.Exit(BLOCKED if missed else PASS)


def _replayed(space: Workspace, then: Run, playbook: Playbook, mode: ReplayMode) -> tuple[Run, bool]:
    """The replay, also one that failed, and whether a step of it was missed."""
    from seedbed.errors import NotFound, RunError
    from seedbed.evaluation.context import seed_of
    from seedbed.evaluation.datasets.dataset import Task
    from seedbed.experiments.replay.history import OF
    from seedbed.experiments.replay.replay import Replayer
    from seedbed.runs.cassette import Missed
    from seedbed.runs.recorder import recall
    from seedbed.spending.ledger import Ledger

    space.library.keep(playbook, because="replayed")
    task = Task(f"{OF}{then.id}", then.inputs)
    seed, perform = seed_of(task, 0), Replayer(space.runner, mode)
    try:
        return options.complete(perform("", playbook, task, seed, Ledger())), False
    except RunError as wrong:
        try:
            return recall(space.store, perform.key(playbook, task, seed).id), isinstance(wrong, Missed)
        except NotFound:  # it did not even begin
            raise wrong from None


def _facts(store: Store, run: str) -> list[Fact]:
    """What a run was told, in order; a choice of a model is part of the turn that it was made for."""
    from seedbed.runs.cassette import ANSWERS
    from seedbed.storage.store import Query

    kinds = [kind for kind in ANSWERS if kind != "routing"]
    facts = [fact for kind in kinds for fact in store.facts(Query(kind=kind, subject=run))]
    return sorted(facts, key=lambda fact: fact.number)


def laid_beside(recorded: list[Fact], replayed: list[Fact]) -> list[Step]:
    """Steps of the replay, each with the recorded one of the same request, else the next of its kind and name.

    Those that only the recording has come last.
    """
    left = {_place(fact): fact for fact in recorded}
    pairs: list[tuple[Fact | None, Fact | None]] = []
    same = {_place(fact) for fact in replayed} & left.keys()
    for fact in replayed:
        place = _place(fact)
        if place not in same:
            place = next((other for other in left if other not in same and _named(other) == _named(place)), place)
        pairs.append((left.pop(place, None), fact))
    pairs += [(fact, None) for fact in left.values()]
    return [_step(then, now) for then, now in pairs]


def _place(fact: Fact) -> str:
    """Kind, name, request and how manieth time: how a step is called within its run."""
    return fact.key.partition("/")[2]


def _named(place: str) -> tuple[str, str]:
    """The kind and the name of a step; a name may have strokes of its own."""
    kind, _, rest = place.partition("/")
    return kind, rest.rsplit("/", 2)[0]


def _step(then: Fact | None, now: Fact | None) -> Step:
    fact = now or then
    assert fact is not None
    label = now.tags[0] if now and now.tags else ""
    before, after = (_answer(each) if each else None for each in (then, now))
    differs = then is None or now is None or label not in ("exact", "") or before != after
    return Step(*_named(_place(fact)), label, before, after, differs)


def _answer(fact: Fact) -> Any:
    body: Json = fact.body
    if fact.kind in SHOWN:
        return body[SHOWN[fact.kind]]
    return body["error"] or body["result" if fact.kind == "call" else "output"]


def _view(body: Json, steps: list[Step]) -> list[RenderableType]:
    from seedbed.cli.views import run as views

    rows = []
    for number, step in enumerate(steps, 1):
        mark = line((step.label, STYLES[step.label])) if step.label else line("")
        sides = (
            "" if each is None else clipped(views.answer_text(each), 60) for each in (step.recorded, step.replayed)
        )
        style = "bold" if number == body["diverges_at"] else ""
        rows.append((line((str(number), style)), line((f"{step.kind} {step.name}", style)), *sides, mark))
    parts: list[RenderableType] = [
        line((f"run {body['run'][:10]}, the {body['mode']} replay of run {body['of'][:10]}", "dim")),
        output.table("#", "step", "recorded", "replayed", "label", rows=rows) if rows else line("no steps"),
    ]
    if body["diverges_at"]:
        parts.append(line(("! ", "bold yellow"), f"diverges at step {body['diverges_at']}"))
    if body["missed"]:
        return [*parts, line(("✗ ", "bold red"), body["error"])]
    came = body["error"] or views.answer_text(body["output"])
    if body["same"]:
        return [*parts, line(("✓ ", "bold green"), f"came out as it did: {clipped(came, 200)}")]
    before = body["recorded"]["error"] or views.answer_text(body["recorded"]["output"])
    return [*parts, line(("! ", "bold yellow"), f"came out as {clipped(came, 120)}, not as {clipped(before, 120)}")]
