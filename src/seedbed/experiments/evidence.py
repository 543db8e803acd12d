"""Evidence: the root of the hash tree over everything that a verdict was computed from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from seedbed.evaluation.cells import FEW, Cell
from seedbed.storage.chain import leaf, merkle_root
from seedbed.storage.store import Digest, Fact, Query, Store, canonical

AT_A_TIME = 1_000
"""The most facts that one query asks for by their keys."""

ENTRIES = ("turn", "call", "decision", "child", "failure")
"""The kinds of facts that say what happened in a run: a metric may have used them."""


def same_numbers(recorded: Any, computed: Any) -> bool:
    """Whether a result is the recorded one. The last digits of a number differ between machines, and are let go."""
    if isinstance(recorded, float) and isinstance(computed, float):
        return recorded == computed or math.isclose(recorded, computed, rel_tol=1e-9, abs_tol=1e-12)
    if is_dataclass(recorded) and not isinstance(recorded, type) and type(recorded) is type(computed):
        return same_numbers(asdict(recorded), asdict(computed))
    if isinstance(recorded, Mapping) and isinstance(computed, Mapping):
        return {*recorded} == {*computed} and all(same_numbers(recorded[name], computed[name]) for name in recorded)
    if isinstance(recorded, list | tuple) and type(recorded) is type(computed):
        return len(recorded) == len(computed) and all(map(same_numbers, recorded, computed))
    return bool(recorded == computed)


def evidence_of(store: Store, cells: Sequence[Cell], experiment: Digest) -> Digest:
    """The Merkle root of the facts of cells, of the ends of their runs and of the answers in them, in the order of
    cells; of a cell without a score, that it failed in the experiment.

    Facts of before there were commitments have one digest over all instead, as verdicts of that time do.
    """
    runs = [cell.run for cell in cells if cell.value is not None and cell.run]
    facts = facts_by_key(store, "cell", [cell.key for cell in cells if cell.value is not None])
    failed = facts_by_key(store, "lapse", [f"{experiment}/{cell.key}" for cell in cells if cell.value is None])
    ended, entries = ends(store, runs), answers(store, runs)
    lines: list[bytes] = []
    for cell in cells:
        if cell.value is not None:
            lines += [line_of(fact) for fact in (facts.get(cell.key), *ended.get(cell.run, ()))]
            lines.append(entries.get(cell.run, b""))
    if not any(fact.commitment for fact in facts.values()):
        return f"b2:{hashlib.blake2b(b''.join(lines), digest_size=32).hexdigest()}"
    lines += [line_of(fact) for fact in failed.values()]
    return merkle_root(lines)


def answers(store: Store, runs: Iterable[str]) -> dict[str, bytes]:
    """The digest of the answers that each run got, with those of the runs it opened."""
    kinds = [kind for kind in ENTRIES if any(store.facts(Query(kind=kind, limit=1)))]
    wholes: dict[str, hashlib.blake2b] = {}
    opened: dict[str, dict[str, None]] = {}
    pending = dict.fromkeys(runs)
    every = list(pending)
    while pending:
        for run in pending:
            wholes[run], opened[run] = hashlib.blake2b(digest_size=32), {}
        first = _first(store, pending)
        for kind in kinds:
            for fact in _entries(store, kind, pending, first):
                wholes[fact.subject].update(line_of(fact, *fact.tags))
                if kind == "child":
                    opened[fact.subject][fact.body["run"]] = None
        pending = dict.fromkeys(child for run in pending for child in opened[run] if child not in wholes)

    def whole(run: str) -> bytes:
        digest = wholes[run].copy()
        for child in opened[run]:
            digest.update(whole(child))
        return digest.digest()

    return {run: whole(run) for run in every}


def _entries(store: Store, kind: str, runs: Collection[str], first: int | None) -> Iterator[Fact]:
    """The entries of runs: queried one by one for a few, else all entries since the first run are read."""
    if len(runs) <= FEW:
        for run in runs:
            yield from store.facts(Query(kind=kind, subject=run))
    else:
        yield from (fact for fact in store.facts(Query(kind=kind, after=first)) if fact.subject in runs)


def _first(store: Store, runs: Collection[str]) -> int | None:
    """The number of the fact with which the first of many runs began, if the beginnings of all are known."""
    if len(runs) <= FEW:
        return None
    starts = facts_by_key(store, "start", list(runs))
    return min(fact.number for fact in starts.values()) if len(starts) == len(runs) else None


def line_of(fact: Fact | None, *more: str) -> bytes:
    """A fact as it goes into a digest: its hash, which covers a commitment to its body; or, without one, its fields."""
    if fact and fact.commitment:
        return leaf(fact)
    fields = fact and [fact.key, fact.subject, fact.at.isoformat(), fact.by, fact.value, fact.body, *more]
    return f"{canonical(fields)}\n".encode()


def ends(store: Store, runs: Sequence[str]) -> dict[str, list[Fact]]:
    """The ends of runs, in order: a run that was not completed may be resumed, and ends again."""
    ended: dict[str, list[Fact]] = {}
    pending, time = dict.fromkeys(runs), 1
    while pending:
        names = {run if time == 1 else f"{run}@{time}": run for run in pending}
        known = facts_by_key(store, "run", list(names))
        for name, fact in known.items():
            ended.setdefault(names[name], []).append(fact)
        pending = dict.fromkeys(names[name] for name, fact in known.items() if fact.body.get("status") != "completed")
        time += 1
    return ended


def facts_by_key(store: Store, kind: str, keys: Sequence[str]) -> dict[str, Fact]:
    """The facts with these keys that exist."""
    facts: dict[str, Fact] = {}
    for start in range(0, len(keys), AT_A_TIME):
        some = list(keys[start : start + AT_A_TIME])
        facts |= {fact.key: fact for fact in store.facts(Query(kind=kind, keys=some))}
    return facts
