"""The lines of `seedbed runs tail`: one for each fact of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from rich.console import RenderableType

from seedbed.cli.output import line, money
from seedbed.cli.views import run as views
from seedbed.reports.numbers import clipped, counted
from seedbed.runs.run import Turn
from seedbed.storage.store import Fact, Json, short


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


def view(fact: Fact) -> RenderableType:
    """A fact on one line for people."""
    return line((f"{short(run_of(fact))}  ", "yellow"), *_VIEWS[fact.kind](fact))


LineParts: TypeAlias = list[str | tuple[str, str]]


def _start(fact: Fact) -> LineParts:
    inputs = ", ".join(f"{name}={clipped(value, 40)}" for name, value in fact.body["inputs"].items())
    opened = f", opened by {short(fact.body['parent'])}" if fact.body["parent"] else ""
    return [("started", "bold"), f" playbook {short(fact.subject)} by {fact.by}{opened}: {inputs or 'no inputs'}"]


def _turn(fact: Fact) -> LineParts:
    turn = Turn.from_body(fact.body)
    tokens = counted(turn.tokens, "token")
    return [
        (turn.step or turn.role, "bold"),
        (f" · {turn.role} · {turn.model}: ", "cyan"),
        f"{clipped(turn.text, 70) or 'nothing'}  ",
        (f"{tokens}, {money(turn.cost_usd, turn.unpriced)}, {turn.latency_seconds:.2f} s", "dim"),
        *((f"  {clipped(notice, 200)}", "yellow") for notice in turn.notices),
    ]


def _failure(fact: Fact) -> LineParts:
    body = fact.body
    name = [(body["step"] or body["role"], "bold"), (f" · {body['role']}", "cyan")]
    return [*name, (f" ✗ {clipped(body['error'], 100)}  ", "red"), (views.spent_money(body), "dim")]


def _decision(fact: Fact) -> LineParts:
    body = fact.body
    return [("decided ", "bold"), f"{body['point']}: {clipped(body['action'])}, because {clipped(body['because'])}"]


def _call(fact: Fact) -> LineParts:
    body = fact.body
    arguments = clipped(json.dumps(body["arguments"], ensure_ascii=False))
    failed, seconds = body["error"], (f"  {body['latency_seconds']:.2f} s", "dim")
    answer = (f" ✗ {clipped(failed)}", "red") if failed else f" → {clipped(views.answer_text(body['result']))}"
    return [(f"tool {body['tool']} ", "bold"), arguments, answer, seconds]


def _child(fact: Fact) -> LineParts:
    body = fact.body
    return [("opened ", "bold"), f"{short(body['run'])} by {body['step']}, {_outcome(body)}  ", _spent(body)]


def _remark(fact: Fact) -> LineParts:
    more = "".join(f", {name}={clipped(value, 40)}" for name, value in fact.body.items() if name != "text")
    return [("remark ", "bold"), f"{clipped(fact.body['text'], 120)}{more}"]


def _run(fact: Fact) -> LineParts:
    body = fact.body
    mark = {"completed": ("✓ ", "bold green"), "failed": ("✗ ", "bold red")}.get(body["status"], ("! ", "bold yellow"))
    return [mark, f"{_outcome(body)}  ", (f"{counted(body['turns'], 'turn')}, ", "dim"), _spent(body)]


def _outcome(body: Json) -> str:
    return f"{body['status']}: {clipped(body['error'] or views.answer_text(body['output']), 100)}"


def _spent(body: Json) -> tuple[str, str]:
    seconds = f", {body['latency_seconds']:.2f} s" if "latency_seconds" in body else ""
    return (f"{counted(body['tokens'], 'token')}, {views.spent_money(body)}{seconds}", "dim")


_VIEWS: dict[str, Callable[[Fact], LineParts]] = {
    "start": _start,
    "turn": _turn,
    "failure": _failure,
    "decision": _decision,
    "call": _call,
    "child": _child,
    "remark": _remark,
    "run": _run,
}
