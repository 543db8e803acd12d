"""Freshness: what was known of the tasks of a comparison before it was registered.

A verdict that may release a candidate rests on tasks of which no result of the candidate was known, so that it was not
chosen for them. And the set of tasks was not chosen with knowledge of results: those at which the control failed by
chance make any candidate look better, and so do those that a twin of the candidate passed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from seedbed.errors import DatasetError, NotFound, Problem
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.seal import retirements, seals, without
from seedbed.experiments.experiment import Experiment, drawn
from seedbed.experiments.proof.choices import KnownControl
from seedbed.experiments.proof.held_out import inputs_read
from seedbed.playbooks.genes import distance
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Query, Store

ALIKE = 0.15
"""Two playbooks are nearly identical if they differ by less than this share of what candidate and control differ by."""

LEAST = 20
"""So many tasks must be left where some are left out, or too much depends on which."""


NAMED_SINCE = 4
"""The first edition of experiments whose tasks were named before results of any playbook were known on them."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """What was known of the tasks: of how many, and why the finding can only be exploratory, if it can."""

    tasks: int
    seen: tuple[str, ...] = ()
    """The tasks of which a result of the candidate, or of a playbook that is nearly the same, was known."""
    known: tuple[str, ...] = ()
    """The tasks of which a result of the control was known."""
    exploratory: str = ""

    @property
    def fresh(self) -> int:
        return self.tasks - len(self.seen)


def freshness(library: Library, plan: Experiment, tasks: Dataset, *, before: float = math.inf) -> Freshness:
    """What was known of the tasks of a comparison before that fact was written; by default, before now."""
    control, candidate = library.get(plan.control), library.get(plan.candidate)
    store, read = library.store, inputs_read(control, candidate)
    keys = {task.id: task_key(task.inputs, read) for task in tasks}
    ours, theirs = families(library, control, candidate)
    first, tried = (first_results(store, each, read, before) for each in (ours, theirs))
    seen = tuple(name for name, key in keys.items() if key in tried)
    known = tuple(name for name, key in keys.items() if key in first)
    why = _exploratory(len(tasks), len(seen), bool(known))
    if known and not why:
        runs = KnownControl(store, ours, {*keys.values()}, read, before)
        if late := runs.chosen_late(plan):
            why = f"results of the control were known when {late} was chosen"
    everyone = first_results(store, None, read, before) if plan.edition >= NAMED_SINCE else first
    numbers = {key: each.number for key, each in everyone.items()}
    # Tasks with results of the candidate are left out where no result of the control is known.
    tell = known or any(key in everyone and key not in tried for key in keys.values())
    if tell and not why and not NamedSets(store, read, numbers, before).include(tasks):
        whose = "the control" if known else "another playbook"
        why = f"results of {whose} were known before this set of tasks was named, or others could have been taken"
    return Freshness(len(tasks), seen, known, why)


def families(library: Library, control: Playbook, candidate: Playbook) -> tuple[list[Digest], list[Digest]]:
    """The playbooks whose results tell those of the control: it and nearly identical ones; and the same for the
    candidate, with what it was made from."""
    apart = ALIKE * distance(control, candidate)
    others = [
        each
        for digest in dict.fromkeys(fact.key for fact in library.store.facts(Query(kind="derivation")))
        if digest not in (control.digest, candidate.digest) and (each := _playbook(library, digest))
    ]
    ours, theirs = (
        [playbook.digest, *(each.digest for each in others if distance(each, playbook) <= apart)]
        for playbook in (control, candidate)
    )
    served = {entry.digest for entry in library.ancestry(control.digest)}
    theirs += [entry.digest for entry in library.ancestry(candidate.digest) if entry.digest not in served]
    return ours, theirs


def _exploratory(tasks: int, seen: int, known: bool) -> str:
    """Why results of the candidate spoil the comparison, if they do."""
    results = f"results of the candidate were known at {seen} of {tasks} tasks"
    if seen and known:
        return f"{results}, and results of the control too"
    return f"{results}, which leaves fewer than {LEAST}" if seen and tasks - seen < LEAST else ""


@dataclass(frozen=True, slots=True)
class FirstResult:
    """The first run on a task: its place in the store, and what was asked."""

    number: float
    inputs: Mapping[str, Any]


def first_results(
    store: Store,
    playbooks: Collection[Digest] | None = None,
    read: Collection[str] | None = None,
    before: float = math.inf,
) -> dict[Digest, FirstResult]:
    """The tasks, by their keys, on which any of the playbooks was run, scored or not, and the first such run: whoever
    ran it has seen the answer.

    By default all playbooks. `read` names the inputs that count, as in `task_key`.
    """
    known: dict[Digest, FirstResult] = {}
    for playbook in [None] if playbooks is None else playbooks:
        for start in store.facts(Query(kind="start", subject=playbook)):
            if start.number < before:
                key = task_key(start.body["inputs"], read)
                if key not in known or start.number < known[key].number:
                    known[key] = FirstResult(start.number, start.body["inputs"])
    return known


def fresh_units(tasks: Dataset, known: Freshness, read: Collection[str] | None) -> Dataset:
    """The tasks of all units that are new to both arms: no task of the unit has a known result.

    Raises DatasetError if there is none.
    """
    old = {*known.seen, *known.known}
    fresh = {task.id for unit in drawn(tasks, 0, read) for task in unit if not any(each.id in old for each in unit)}
    if not fresh:
        actual = f"{len(tasks)}, all with results of the control or the candidate"
        raise DatasetError([Problem("tasks", actual, "some that are new to both", "Add new tasks to the dataset.")])
    return tasks.only(ids=fresh)


@dataclass(frozen=True)
class NamedSets:
    """The sets of tasks that were named before results were known on them, of whichever playbook.

    Where such results are known, the sets to choose among must not depend on them, and be as good as one: a hold-out or
    the set of an attempt, whose results cost an attempt each; or else one stored dataset as a whole.
    """

    store: Store
    read: Collection[str] | None
    first: Mapping[Digest, float]
    """When the first result became known for each task, by its key."""
    before: float = math.inf

    def include(self, tasks: Dataset) -> bool:
        keys = self._keys(tasks)
        for seal in seals(self.store):
            if seal.number < self.before and keys & self._keys(held := seal.tasks(self.store)):
                return seal.number < self._known(held) and self._is(tasks, held, seal.name)
        return self._attempted(tasks) or self._stored(tasks)

    def _attempted(self, tasks: Dataset) -> bool:
        """Whether an attempt was registered with these tasks before any result."""
        known = self._known(tasks)
        return any(
            fact.number < known and fact.body["dataset"] == tasks.digest and fact.body.get("mode") == "confirmatory"
            for fact in self.store.facts(Query(kind="comparison"))
        )

    def _stored(self, tasks: Dataset) -> bool:
        """Whether these tasks are the one dataset that was stored as a whole before any result: of all names with
        results the oldest, and of its versions the last before the first result on any of them."""
        versions: dict[str, list[tuple[int, Dataset]]] = {}
        for fact in self.store.facts(Query(kind="move", key_from="datasets/")):
            if (
                fact.number < self.before
                and isinstance(fact.body["to"], str)
                and (version := self._get(fact.body["to"]))
            ):
                versions.setdefault(fact.subject, []).append((fact.number, version))
        for name, stored in versions.items():
            known = min(self._known(each) for _, each in stored)
            early = [each for number, each in stored if number < known < math.inf]
            if early and not seals(self.store, name):
                return self._is(tasks, early[-1], name)
        return False

    def _is(self, tasks: Dataset, named: Dataset, name: str) -> bool:
        """Whether the tasks are those of a set, but for tasks that were retired before any result of them."""
        gone = [each for each in retirements(self.store, name) if each.number < self.before]
        if gone and tasks.digest != named.digest:
            known = first_results(self.store)
            unknown = {each.key for each in gone if each.key not in known or each.number < known[each.key].number}
            named = without(named, unknown)
        return tasks.digest == named.digest

    def _known(self, tasks: Dataset) -> float:
        """The number of the first result on any of the tasks."""
        return min((self.first.get(key, math.inf) for key in self._keys(tasks)), default=math.inf)

    def _keys(self, tasks: Dataset) -> set[Digest]:
        return {task_key(task.inputs, self.read) for task in tasks}

    def _get(self, digest: Digest) -> Dataset | None:
        try:
            return Dataset.from_content(self.store.get(digest))
        except NotFound:
            return None


def _playbook(library: Library, digest: Digest) -> Playbook | None:
    try:
        return library.get(digest)
    except NotFound:
        return None
