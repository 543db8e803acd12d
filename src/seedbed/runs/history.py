"""History: recorded runs, read back from a store."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from seedbed.errors import NotFound, shown
from seedbed.runs.messages import whole_turns
from seedbed.runs.run import Call, Child, Decision, Failure, Run, Turn
from seedbed.storage.store import Digest, Fact, Json, Query, Store

ENTRIES = ("turn", "failure", "routing", "call", "decision", "child", "reading", "remark")
"""The facts of a run: answers, turns that were paid for and failed, choices of models, uses of tools, decisions, runs
it opened, readings of the clock and of chance, log lines."""

TIMED = ("turn", "call", "decision")
"""The facts that say when their work began and ended; those of child runs do so too."""

OF_A_RUN = ("turn", "failure", "decision", "child")
"""The facts that a `Run` has, apart from its calls."""

_TRY = re.compile(r"@\d+$")

START_FIELDS = ("inputs", "seed", "models", "parent", "max_cost_usd")
"""The conditions of a run, stored when it starts."""

TOKENS = ("prompt_tokens", "completion_tokens", "uncounted_tokens", "tokens")
"""The fields of turns and failures that count tokens."""

LATEST_TURNS = 2_000
"""How many of the latest turns the speed of models is measured by."""


def recall(store: Store, run: str) -> Run:
    """A recorded run by its id, whether it has ended or not. Raises NotFound."""
    start, ends = start_of(store, run), ends_of(store, run)
    entries = {kind: [fact.body for fact in entries_of(store, run, kind)] for kind in OF_A_RUN}
    turns = tuple(map(Turn.from_body, entries["turn"]))
    children = tuple({body["run"]: Child.from_body(body) for body in entries["child"]}.values())  # as they last ended
    failures = tuple(Failure(**body) for body in entries["failure"])
    return _read_run(
        ends[-1] if ends else start,
        turns=turns,
        children=children,
        failures=failures,
        tokens=total_tokens(turns, failures, children),
        cost_usd=total_cost_usd(turns, failures, children),
        unpriced=total_unpriced(turns, failures, children),
        calls=_last_tries(store, run),
        decisions=tuple(Decision.from_body(body) for body in entries["decision"]),
    )


def entries_of(store: Store, run: str, kind: str) -> Iterator[Fact]:
    """The facts of one kind of a run, in order; those of turns have all their messages."""
    facts = store.facts(Query(kind=kind, subject=run))
    return whole_turns(facts) if kind == "turn" else facts


def recent(store: Store, limit: int, playbook: Digest | None = None, *, children: bool = True) -> Iterator[Run]:
    """The newest runs without their turns, and without replays; `children` includes runs that others opened."""
    starts = store.facts(Query(kind="start", subject=playbook, newest=True))
    live = (each for each in starts if (children or not each.body["parent"]) and "replay" not in each.body)
    for start in islice(live, limit):
        ends = ends_of(store, start.key)
        if len(ends) == 1 and not any(store.facts(Query(kind="claim", subject=start.key, limit=1))):
            yield _read_run(ends[-1])
        else:  # it has not ended, or was resumed: its entries tell what it cost so far
            yield replace(recall(store, start.key), turns=(), calls=(), decisions=(), children=(), failures=())


def _last_tries(store: Store, run: str) -> tuple[Call, ...]:
    """The calls of a run: a reading one that failed and was repeated as it last ended."""
    facts = store.facts(Query(kind="call", subject=run))
    return tuple({request_of(fact.key): Call.from_body(fact.body) for fact in facts}.values())


def request_of(key: str) -> str:
    """The key of an entry without the number of its try."""
    return _TRY.sub("", key)


def start_of(store: Store, run: str) -> Fact:
    """The fact that a run began with. Raises NotFound."""
    for fact in store.facts(Query(kind="start", key=run)):
        return fact
    raise NotFound(f"no run {shown(run)} is recorded here. `seedbed runs list` shows what is")


def ends_of(store: Store, run: str) -> list[Fact]:
    """The facts that a run ended with: one each time it was performed to an end."""
    return list(store.facts(Query(kind="run", key_from=run)))


def _read_run(fact: Fact, **entries: Any) -> Run:
    """A run from the fact of its end or, if it has none, of its start."""
    body = fact.body
    return Run(
        id=fact.key.partition("@")[0],
        playbook=fact.subject,
        **{name: body[name] for name in START_FIELDS},
        replay=body.get("replay"),
        real_tools=body.get("real_tools", True),
        quality=body.get("quality", ""),
        started=fact.at,
        status=body.get("status", "running"),
        output=body.get("output"),
        error=body.get("error", ""),
        latency_seconds=body.get("latency_seconds", 0.0),
        **{**{name: body.get(name, 0) for name in ("tokens", "cost_usd", "unpriced")}, "turns": (), **entries},
    )


def total_tokens(turns: Sequence[Turn], failures: Sequence[Failure], children: Sequence[Child]) -> int:
    return sum(sum(each.tokens for each in used) for used in (turns, failures, children))


def total_cost_usd(turns: Sequence[Turn], failures: Sequence[Failure], children: Sequence[Child]) -> float:
    return sum(sum(each.cost_usd for each in paid) for paid in (turns, failures, children))


def total_unpriced(turns: Sequence[Turn], failures: Sequence[Failure], children: Sequence[Child]) -> int:
    return sum(sum(each.unpriced for each in paid) for paid in (turns, failures, children))


def model_speeds(store: Store) -> dict[str, Json]:
    """Each model's median and 95th percentile of latency, and the tokens it wrote a second."""
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for fact in store.facts(Query(kind="turn", newest=True, limit=LATEST_TURNS)):
        by_model.setdefault(fact.body["model"], []).append(fact.body)
    return {name: _speed(own) for name, own in by_model.items()}


def _speed(turns: Sequence[Mapping[str, Any]]) -> Json:
    seconds = sorted(turn["latency_seconds"] for turn in turns)
    total = sum(seconds)
    return {
        "turns": len(turns),
        "median_seconds": statistics.median(seconds),
        "slowest_seconds": seconds[math.ceil(0.95 * len(seconds)) - 1],
        "tokens_per_second": sum(turn["completion_tokens"] for turn in turns) / total if total else None,
    }


def paid_by_family(store: Store, run: str, number: int | None, tag: str | None) -> tuple[float, int]:
    """The US dollars and tokens known to have been used by a run, whose start has that number, and all below it; if not
    all entries were paid for, those with a tag were."""
    family = {run}
    # By the order in the store, not by the clock: a parent is stored before its children.
    for start in store.facts(Query(kind="start", after=number)):
        if start.body["parent"] in family:
            family.add(start.key)
    paid = (Query(kind=kind, subject=each, tag=tag) for each in family for kind in ("turn", "failure"))
    bodies = [fact.body for query in paid for fact in store.facts(query)]
    return sum(float(body["cost_usd"]) for body in bodies), sum(int(body.get(n, 0)) for body in bodies for n in TOKENS)
