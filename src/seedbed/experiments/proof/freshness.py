"""Freshness: what was known of the tasks of a comparison before it was registered.

A verdict that may release a candidate rests on tasks of which no result of the candidate was known, so that it was not
chosen for them. And the set of tasks was not chosen with knowledge of the control's results: those at which the control
failed by chance make any candidate look better.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from seedbed.errors import NotFound
from seedbed.evaluation.cells import run_of
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.identity import task_key
from seedbed.experiments.proof.held_out import inputs_read
from seedbed.playbooks.genes import distance
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Query, Store

ALIKE = 0.15
"""Two playbooks are nearly identical if they differ by less than this share of what candidate and control differ by."""

LEAST = 20
"""So many tasks must be left where some are left out, or too much depends on which."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What was known of the tasks: of how many, and why the finding can only be exploratory, if it can."""

    tasks: int
    seen: tuple[str, ...] = ()
    """The tasks of which a result of the candidate, or of a playbook that is nearly the same, was known."""
    known: int = 0
    """Of how many tasks a result of the control was known."""
    exploratory: str = ""

    @property
    def fresh(self) -> int:
        return self.tasks - len(self.seen)


def freshness(
    library: Library, control: Playbook, candidate: Playbook, tasks: Dataset, *, before: float = math.inf
) -> Freshness:
    """What was known of the tasks of a comparison before that fact was written; by default, before now."""
    store, read = library.store, inputs_read(control, candidate)
    keys = {task.id: task_key(task.inputs, read) for task in tasks}
    apart = ALIKE * distance(control, candidate)
    others = [
        each
        for digest in dict.fromkeys(fact.key for fact in store.facts(Query(kind="derivation")))
        if digest not in (control.digest, candidate.digest) and (each := _playbook(library, digest))
    ]
    ours, theirs = (
        [playbook.digest, *(each.digest for each in others if distance(each, playbook) <= apart)]
        for playbook in (control, candidate)
    )
    served = {entry.digest for entry in library.ancestry(control.digest)}
    theirs += [entry.digest for entry in library.ancestry(candidate.digest) if entry.digest not in served]
    wanted = set(keys.values())
    first = _first_known(store, ours, wanted, read, before)
    tried = _first_known(store, theirs, wanted, read, before)
    seen = tuple(name for name, key in keys.items() if key in tried)
    known = sum(key in first for key in keys.values())
    return Freshness(len(tasks), seen, known, _exploratory(store, tasks, len(seen), first, before))


def _exploratory(store: Store, tasks: Dataset, seen: int, first: dict[Digest, float], before: float) -> str:
    """Why the set of tasks may have been chosen with knowledge of results."""
    if seen and first:
        return f"results of the candidate were known at {seen} of {len(tasks)} tasks, and results of the control too"
    if seen and len(tasks) - seen < LEAST:
        return f"results of the candidate were known at {seen} of {len(tasks)} tasks, which leaves fewer than {LEAST}"
    if first and _named(store, tasks) >= min(first.values()):
        return "results of the control were known before this set of tasks was named"
    return ""


def _first_known(
    store: Store, playbooks: Collection[Digest], wanted: set[Digest], read: Collection[str] | None, before: float
) -> dict[Digest, float]:
    """The tasks, by their keys, at which any of the playbooks was scored, and the number of the first such score."""
    known: dict[Digest, float] = {}
    for playbook in playbooks:
        scored: dict[str, float] = {}
        for cell in store.facts(Query(kind="cell", subject=playbook)):
            if cell.number < before:
                scored.setdefault(run_of(cell.key), cell.number)
        for start in store.facts(Query(kind="start", subject=playbook)) if scored else ():
            if start.key in scored and (key := task_key(start.body["inputs"], read)) in wanted:
                known[key] = min(known.get(key, math.inf), scored[start.key])
    return known


def _named(store: Store, tasks: Dataset) -> float:
    """The number of the fact that first named exactly these tasks: an experiment, or a dataset that was stored."""
    numbers = [fact.number for fact in store.facts(Query(kind="comparison")) if fact.body["dataset"] == tasks.digest]
    numbers += [
        fact.number
        for ref in store.refs("datasets/")
        for fact in store.facts(Query(kind="move", subject=ref.name))
        if fact.body["to"] == tasks.digest
    ]
    return min(numbers, default=math.inf)


def _playbook(library: Library, digest: Digest) -> Playbook | None:
    try:
        return library.get(digest)
    except NotFound:
        return None
