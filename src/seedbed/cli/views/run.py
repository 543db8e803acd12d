"""How runs look: as a document with stable keys, and to people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule

from seedbed.cli import output
from seedbed.cli.output import Column, line, money
from seedbed.evaluation.estimate import RunEstimate
from seedbed.reports.numbers import counted
from seedbed.reports.timeline import HEADS, TimelineRow
from seedbed.runs.drift import AnswerDrift
from seedbed.runs.run import Run
from seedbed.storage.store import Fact, Json, short

BAR = 30
"""The width of a bar of a timeline, which leaves room for the numbers on 80 columns."""

MADE_OF = ("turns", "failures", "decisions", "calls", "children")
"""The parts of a run that its document lists."""


def run_document(run: Run) -> Json:
    return {
        "run": run.id,
        "playbook": run.playbook,
        "status": run.status,
        "converged_at": run.converged_at,
        "inputs": run.inputs,
        "output": run.output,
        "error": run.error,
        "seed": run.seed,
        "started": run.started,
        "tokens": run.tokens,
        "cost_usd": run.cost_usd,
        "unpriced": run.unpriced,
        "latency_seconds": run.latency_seconds,
        **{name: [each.body() for each in getattr(run, name)] for name in MADE_OF},
        "parent": run.parent,
        "max_cost_usd": run.max_cost_usd,
    }


def estimate_line(estimate: RunEstimate, what: str = "") -> RenderableType:
    """What work would take, as people read it."""
    usd, seconds = estimate.usd, estimate.seconds
    parts = [
        counted(estimate.runs, "run"),
        "unknown calls" if estimate.calls is None else counted(round(estimate.calls), "call"),
        "unknown tokens" if estimate.tokens is None else counted(round(estimate.tokens), "token"),
        "unknown cost" if usd is None else money(usd),
        "unknown time" if seconds is None else f"{seconds:,.0f} s in sequence",
    ]
    basis = f"based on its last {counted(estimate.as_runs, 'run')}" if estimate.as_runs else "if each step runs once"
    return line(("would take ", "yellow"), f"{what}{', '.join(parts)} ({basis})")


def answer_text(answer: object) -> str:
    """What a run answered: text as it is, anything else as JSON."""
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def run_line(run: Run) -> RenderableType:
    spent = f"{counted(run.tokens, 'token')}, {money(run.cost_usd, run.unpriced)}, {run.latency_seconds:.2f} s"
    ending = "" if run.converged_at is None else f"{run.ending}, "
    return line((f"run {short(run.id)} of playbook {short(run.playbook)}, seed {run.seed}: {ending}{spent}", "dim"))


def call_line(call: Json) -> RenderableType:
    """One use of a tool, with its result."""
    result = (f" ✗ {call['error']}", "red") if call["error"] else f" → {answer_text(call['result'])}"
    return line(("tool ", "bold"), f"{call['tool']} {answer_text(call['arguments'])}", result)


def spent_money(body: Json) -> str:
    """What an entry of a run cost."""
    return money(body["cost_usd"], body.get("unpriced", 0))


def entry_view(fact: Fact) -> list[RenderableType]:
    """One thing that happened in a run, in full."""
    body = fact.body
    if fact.kind == "turn":
        title = f"{body['step'] or body['role']} · {body['model']} · {body['latency_seconds']:.2f} s"
        prompts = [
            Padding(line((f"{speaker}: ", "cyan"), text), (0, 0, 0, 2)) for speaker, text, *_ in body["messages"]
        ]
        rule = Rule(line((title, "bold")), align="left", style="dim")
        said = [body["text"]] if body["text"] or not body.get("calls") else []
        said += [f"calls {each['tool']} {answer_text(each['arguments'])}" for each in body.get("calls", ())]
        return [rule, *prompts, *(Padding(line(("→ ", "bold green"), each), (0, 0, 0, 2)) for each in said)]
    if fact.kind == "failure":
        name = body["step"] or body["role"]
        return [line(("✗ ", "bold red"), f"{name} got no answer, {spent_money(body)}: {body['error']}")]
    if fact.kind == "decision":
        answer = f"; {body['answered']}" if body.get("answered") else ""
        return [line(("decided ", "bold"), f"{body['point']}: {body['action']}, because {body['because']}{answer}")]
    if fact.kind == "call":
        return [call_line(body)]
    if fact.kind == "child":
        spent = f"{counted(body['tokens'], 'token')}, {spent_money(body)}"
        outcome = f"{body['status']}: {body['error'] or answer_text(body['output'])}"
        return [line(("opened ", "bold"), f"{short(body['run'])} by {body['step']}, {spent}, {outcome}")]
    return [line(("remark ", "bold"), str(body["text"]))]


def timeline_view(rows: Sequence[TimelineRow]) -> RenderableType:
    """When each step happened: a bar of blocks while it worked, pale while it waited, a line for a run it opened."""
    whole = max((row.at_seconds + row.seconds for row in rows), default=0.0)
    if not rows:
        return line(("no step has its own times: the run is a replay, or an earlier version recorded it", "dim"))
    columns = (
        Column(HEADS[0], lambda row: line(f"{'  ' * row.depth}{row.texts[0]}"), flexible=True),
        Column(HEADS[1], lambda row: row.texts[1], 1, True),
        Column(HEADS[2], lambda row: row.texts[2], 2, True),
        Column(HEADS[3], lambda row: row.texts[3], 3, True),
        Column("", lambda row: line((_bar(row, whole), "cyan"))),
    )
    return output.listing(columns, rows)


def _bar(row: TimelineRow, whole: float) -> str:
    ends = [row.at_seconds, row.at_seconds + row.waited_seconds, row.at_seconds + row.seconds]
    first, works, last = (min(BAR, round(at / whole * BAR)) if whole > 0 else 0 for at in ends)
    first = min(first, BAR - 1)
    work = max(last - works, int(works == first))
    return " " * first + "░" * (works - first) + ("─" if row.kind == "child" else "█") * work


def drift_lines(drift: Iterable[AnswerDrift]) -> list[RenderableType]:
    """How many live answers of a replay differ from the recorded ones, and where first, a line for each step."""
    lines: list[RenderableType] = []
    for each in drift:
        what = (
            f"{each.kind} {each.name}: {each.differ:,} of {each.compared:,} live answers differ from the recorded ones"
        )
        where = f", first at {each.path}: {each.now}, recorded {each.recorded}" if each.differ else ""
        lines.append(line(("drift ", "yellow" if each.differ else "dim"), f"{what}{where}"))
    return lines
