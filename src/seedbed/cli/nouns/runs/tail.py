"""Follow runs as they happen, from the facts that other processes add to the store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from seedbed.cli.output import clipped, counted, line, money
from seedbed.cli.views import run as views
from seedbed.errors import NotFound, shown
from seedbed.storage.store import Fact, Feed, Json, Query, Store, short

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERVAL_SECONDS = 0.5
"""How often the store is asked for more."""

INSIDE = ("turn", "failure", "decision", "call", "child", "remark")
KINDS = ("start", *INSIDE, "run")


def follow(store: Store, run: str | None = None, *, wait: Callable[[float], None] = time.sleep) -> Iterator[Fact]:
    """Facts of a run from its beginning until it ends; without one, of all runs from now on and without end.

    Raises NotFound if there is no such run.
    """
    if run is None:
        newest = (fact for kind in KINDS for fact in store.facts(Query(kind=kind, newest=True, limit=1)))
        after = max((fact.number for fact in newest), default=0)
        return _followed(Feed(store, [Query(kind=kind) for kind in KINDS], after), wait, endless=True)
    start = Query(kind="start", key=run)
    if not any(store.facts(start)):
        raise NotFound(f"no run {shown(run)} is recorded here. `seedbed runs list` shows what is")
    inside = [Query(kind=kind, subject=run) for kind in INSIDE]
    return _followed(Feed(store, [start, *inside, Query(kind="run", key_from=run)], 0), wait, endless=False)


def _followed(news: Feed, wait: Callable[[float], None], *, endless: bool) -> Iterator[Fact]:
    last = ""
    while endless or last != "run":  # after which a run that is taken up again goes on
        for fact in news.read():
            yield fact
            last = fact.kind
        if endless or last != "run":
            wait(INTERVAL_SECONDS)


def run_of(fact: Fact) -> str:
    return fact.key.partition("@")[0] if fact.kind in ("start", "run") else fact.subject


def document(fact: Fact) -> Json:
    """A fact on one line for programs."""
    return {
        "kind": fact.kind,
        "run": run_of(fact),
        "number": fact.number,
        "at": fact.at.isoformat(),
        "by": fact.by,
        "body": fact.body,
    }


def told(fact: Fact) -> RenderableType:
    """A fact on one line for people."""
    return line((f"{run_of(fact)[:10]}  ", "yellow"), *_TOLD[fact.kind](fact))


Parts: TypeAlias = list[str | tuple[str, str]]


def _start(fact: Fact) -> Parts:
    inputs = ", ".join(f"{name}={clipped(value, 40)}" for name, value in fact.body["inputs"].items())
    opened = f", opened by {fact.body['parent'][:10]}" if fact.body["parent"] else ""
    return [("started", "bold"), f" playbook {short(fact.subject)} by {fact.by}{opened}: {inputs or 'no inputs'}"]


def _turn(fact: Fact) -> Parts:
    from seedbed.runs.run import Turn

    turn = Turn.from_body(fact.body)
    tokens = counted(turn.tokens, "token")
    return [
        (turn.step or turn.role, "bold"),
        (f" · {turn.role} · {turn.model}: ", "cyan"),
        f"{clipped(turn.text, 70) or 'nothing'}  ",
        (f"{tokens}, {money(turn.cost_usd)}, {turn.latency_seconds:.2f} s", "dim"),
        *((f"  {clipped(notice, 200)}", "yellow") for notice in turn.notices),
    ]


def _failure(fact: Fact) -> Parts:
    body = fact.body
    told = [(body["step"] or body["role"], "bold"), (f" · {body['role']}", "cyan")]
    return [*told, (f" ✗ {clipped(body['error'], 100)}  ", "red"), (money(body["cost_usd"]), "dim")]


def _decision(fact: Fact) -> Parts:
    body = fact.body
    return [("decided ", "bold"), f"{body['point']}: {clipped(body['action'])}, because {clipped(body['because'])}"]


def _call(fact: Fact) -> Parts:
    body = fact.body
    asked = clipped(json.dumps(body["arguments"], ensure_ascii=False))
    failed, seconds = body["error"], (f"  {body['latency_seconds']:.2f} s", "dim")
    answered = (f" ✗ {clipped(failed)}", "red") if failed else f" → {clipped(views.answer_text(body['result']))}"
    return [(f"tool {body['tool']} ", "bold"), asked, answered, seconds]


def _child(fact: Fact) -> Parts:
    body = fact.body
    return [("opened ", "bold"), f"{body['run'][:10]} by {body['step']}, {_outcome(body)}  ", _spent(body)]


def _remark(fact: Fact) -> Parts:
    more = "".join(f", {name}={clipped(value, 40)}" for name, value in fact.body.items() if name != "text")
    return [("remark ", "bold"), f"{clipped(fact.body['text'], 120)}{more}"]


def _run(fact: Fact) -> Parts:
    body = fact.body
    mark = {"completed": ("✓ ", "bold green"), "failed": ("✗ ", "bold red")}.get(body["status"], ("! ", "bold yellow"))
    return [mark, f"{_outcome(body)}  ", (f"{counted(body['turns'], 'turn')}, ", "dim"), _spent(body)]


def _outcome(body: Json) -> str:
    return f"{body['status']}: {clipped(body['error'] or views.answer_text(body['output']), 100)}"


def _spent(body: Json) -> tuple[str, str]:
    seconds = f", {body['latency_seconds']:.2f} s" if "latency_seconds" in body else ""
    return (f"{counted(body['tokens'], 'token')}, {money(body['cost_usd'])}{seconds}", "dim")


_TOLD: dict[str, Callable[[Fact], Parts]] = {
    "start": _start,
    "turn": _turn,
    "failure": _failure,
    "decision": _decision,
    "call": _call,
    "child": _child,
    "remark": _remark,
    "run": _run,
}
