"""How the nouns look: each as a document with stable keys, and as people see it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from seedbed.cli import output
from seedbed.cli.output import clipped, counted, line, money, when
from seedbed.errors import shown
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, Store, short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from seedbed.playbooks.changes import Change
    from seedbed.playbooks.library import Entry
    from seedbed.playbooks.playbook import Playbook
    from seedbed.runs.run import Run
    from seedbed.stats.estimates import Interval


def interval_text(interval: Interval) -> str:
    from seedbed.reports.numbers import interval_texts

    mean, reach = interval_texts(interval)
    return f"{mean} [{reach.replace(' to ', ', ')}]" if reach else mean


# Runs


MADE_OF = ("turns", "failures", "decisions", "calls", "children")
"""What a run is told with, besides its outcome."""


def run_document(run: Run) -> Json:
    return {
        "run": run.id,
        "playbook": run.playbook,
        "status": run.status,
        "inputs": run.inputs,
        "output": run.output,
        "error": run.error,
        "seed": run.seed,
        "started": run.started,
        "tokens": run.tokens,
        "cost_usd": run.cost_usd,
        "latency_seconds": run.latency_seconds,
        **{name: [each.body() for each in getattr(run, name)] for name in MADE_OF},
        "parent": run.parent,
        "max_cost_usd": run.max_cost_usd,
    }


def answer_text(answer: object) -> str:
    """What a run answered: text as it is, anything else as JSON."""
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def run_line(run: Run) -> RenderableType:
    spent = f"{counted(run.tokens, 'token')}, {money(run.cost_usd)}, {run.latency_seconds:.2f} s"
    return line((f"run {run.id[:10]} of playbook {short(run.playbook)}, seed {run.seed}: {spent}", "dim"))


ENTRIES = ("turn", "failure", "decision", "call", "child", "remark")
"""What happened in a run that people want to see, by kinds of facts."""


def entry_view(fact: Fact) -> list[RenderableType]:
    """One thing that happened in a run, in full."""
    from rich.padding import Padding
    from rich.rule import Rule

    body = fact.body
    if fact.kind == "turn":
        title = f"{body['step'] or body['role']} · {body['model']} · {body['latency_seconds']:.2f} s"
        asked = [Padding(line((f"{speaker}: ", "cyan"), text), (0, 0, 0, 2)) for speaker, text in body["messages"]]
        rule = Rule(line((title, "bold")), align="left", style="dim")  # type: ignore[arg-type]
        return [rule, *asked, Padding(line(("→ ", "bold green"), body["text"]), (0, 0, 0, 2))]
    if fact.kind == "failure":
        name = body["step"] or body["role"]
        return [line(("✗ ", "bold red"), f"{name} was not answered, {money(body['cost_usd'])}: {body['error']}")]
    if fact.kind == "decision":
        told = f"; {body['answered']}" if body.get("answered") else ""
        return [line(("decided ", "bold"), f"{body['point']}: {body['action']}, because {body['because']}{told}")]
    if fact.kind == "call":
        asked_for = json.dumps(body["arguments"], ensure_ascii=False)
        answer = (f" ✗ {body['error']}", "red") if body["error"] else f" → {answer_text(body['result'])}"
        return [line(("tool ", "bold"), f"{body['tool']} {asked_for}", answer)]
    if fact.kind == "child":
        spent = f"{counted(body['tokens'], 'token')}, {money(body['cost_usd'])}"
        outcome = f"{body['status']}: {body['error'] or answer_text(body['output'])}"
        return [line(("opened ", "bold"), f"{body['run'][:10]} by {body['step']}, {spent}, {outcome}")]
    return [line(("remark ", "bold"), str(body["text"]))]


# Scores


def scores(store: Store, playbook: Digest) -> Json:
    """The mean score of a playbook over all cells it ever got live, by metric."""
    from seedbed.experiments.replay.history import OF

    values: dict[str, list[float]] = {}
    for fact in store.facts(Query(kind="cell", subject=playbook)):
        if fact.value is not None and not fact.body["task"].startswith(OF):  # replays are no performance of today
            values.setdefault(fact.body["metric"], []).append(fact.value)
    return {metric: {"mean": sum(each) / len(each), "cells": len(each)} for metric, each in values.items()}


def scores_text(found: Json) -> str:
    return ", ".join(
        f"{metric} {score['mean']:.3f} on {counted(score['cells'], 'task')}" for metric, score in found.items()
    )


# Playbooks


def served(ref: Ref) -> Digest:
    return ref.target if isinstance(ref.target, str) else str(ref.target["stable"])


def names(store: Store) -> dict[Digest, list[str]]:
    """What each named playbook is called."""
    from seedbed.playbooks.library import names_a_playbook

    called: dict[Digest, list[str]] = {}
    for ref in filter(names_a_playbook, store.refs()):
        called.setdefault(served(ref), []).append(ref.name)
    return called


def entry_document(entry: Entry, called: Iterable[str], store: Store) -> Json:
    return {
        "playbook": entry.digest,
        "names": list(called),
        "parents": list(entry.parents),
        "how": entry.how,
        "because": entry.because,
        "by": entry.by,
        "at": entry.at,
        "scores": scores(store, entry.digest),
    }


def entries_view(documents: Iterable[Json]) -> RenderableType:
    rows = [
        (
            line((short(each["playbook"]), "yellow")),
            ", ".join(each["names"]),
            scores_text(each["scores"]),
            f"{each['how']}: {clipped(each['because'], 50)}",
            each["by"],
            when(each["at"]),
        )
        for each in documents
    ]
    return output.table("playbook", "names", "score", "how", "by", "at", rows=rows)


def change_document(change: Change) -> Json:
    return {"path": change.path, "before": change.before, "after": change.after}


def change_view(change: Change) -> RenderableType:
    """Numbers from and to; texts word by word, what went in red and what came in green."""
    from rich.text import Text

    text = Text.assemble((output.safe(change.path), "bold"), "  ")
    if not change.is_text:
        before, after = (output.safe(value_text(value)) for value in (change.before, change.after))
        return text.append(before, "red").append(" → ").append(after, "green")
    styles = {"kept": "", "removed": "red strike", "added": "green"}
    # Without colour the marks of wdiff tell the words apart.
    marks = {} if output.coloured() else {"removed": ("[-", "-]"), "added": ("{+", "+}")}
    for what, piece in change.pieces():
        before, after = marks.get(what, ("", ""))
        text.append(f"{before}{output.safe(piece)}{after}", styles[what])
    return text


def value_text(value: object) -> str:
    """A value of a playbook on one line."""
    if value is None:
        return "nothing"
    if isinstance(value, list) and value and all(isinstance(each, dict) and "output" in each for each in value):
        return counted(len(value), "demo")
    if isinstance(value, list):
        told = (json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else shown(each) for each in value)
        return clipped(", ".join(told), 200)
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else clipped(value, 200)


# Changes


def difference(start: Playbook, other: Playbook) -> str:
    """What a playbook says differently, in one line: texts in quotes, everything else by its path."""
    from seedbed.playbooks.changes import diff

    return " + ".join(
        f"“{clipped(change.after, 90)}”"
        if change.is_text
        else value_text(change.after)
        if change.path.startswith("demos.")
        else f"{change.path}: {value_text(change.after)}"
        for change in diff(start, other)
    )
