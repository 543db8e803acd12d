"""Doubts: calls that may have happened or not, and what people find out about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seedbed.errors import NotFound, RunTaken, SeedbedError, shown
from seedbed.runs.claims import NO_WORKER, announced_calls, claim_fact, claims_of, idempotency_key, is_taken
from seedbed.storage.store import Json, Query, Store, now, short

SOME = 500
"""How many results are looked up at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInDoubt:
    """A call that was announced and has no result: it may have happened.

    `call` is the idempotency key that its tool received. Older runs did not record the arguments beforehand.
    """

    run: str
    call: str
    tool: str
    arguments: Json | None
    at: datetime
    by: str
    key: str
    """The key of the missing result."""


def calls_in_doubt(store: Store, run: str | None = None) -> list[CallInDoubt]:
    """The calls of a run, or of all, that may have happened and that nobody has settled, oldest first."""
    calls = {key: call.fact for key, call in announced_calls(store, run).items() if call.settled is None}
    keys = list(calls)
    for start in range(0, len(keys), SOME):
        for result in store.facts(Query(kind="call", keys=keys[start : start + SOME])):
            del calls[result.key]
    taken = {each: is_taken(store, each) for each in {fact.subject for fact in calls.values()}}
    return [
        CallInDoubt(
            run=fact.subject,
            call=idempotency_key(key),
            tool=fact.body["what"],
            arguments=fact.body.get("arguments"),
            at=fact.at,
            by=fact.by,
            key=key,
        )
        for key, fact in calls.items()
        if not taken[fact.subject]  # otherwise it may be under way
    ]


def settle(store: Store, run: str, call: str, *, done: bool, because: str, by: str, result: Any = None) -> CallInDoubt:
    """Record whether a call in doubt has happened. `call` is its key, how that begins, or the name of its tool.

    When the run is resumed, a call that has happened has this result, and one that has not is made. The worker that
    announced it can no longer make it. Raises NotFound, or RunTaken if a worker performs the run.
    """
    if not because.strip():
        raise SeedbedError("because: found no reason; expected how you know whether the call has happened")
    if is_taken(store, run):
        raise RunTaken(f"run {short(run)}: found it under way; expected it to be free. Wait for its end")
    doubts = calls_in_doubt(store, run)
    meant = [each for each in doubts if each.call.startswith(call) or each.tool == call]
    if len(meant) != 1:
        which = ", ".join(f"{each.call[:10]} ({each.tool})" for each in doubts) or "none"
        raise NotFound(f"run {short(run)}: found {len(meant)} calls {shown(call)} in doubt; expected one of: {which}")
    answer = {"settled": "done" if done else "not done", "result": result, "because": because.strip()}
    body = {"worker": NO_WORKER, "call": meant[0].key, **answer}
    if not store.append([claim_fact(run, len(claims_of(store, run)) + 1, body, now(), by)]):
        raise RunTaken(f"run {short(run)}: found that a worker has just taken it; expected it to be free")
    return meant[0]
