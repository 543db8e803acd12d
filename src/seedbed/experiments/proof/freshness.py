"""Freshness: what was known of the tasks of a comparison before it was registered.

A verdict that may release a candidate rests on tasks of which no result of the candidate was known, so that it was not
chosen for them. And the set of tasks was not chosen with knowledge of the control's results: those at which the control
failed by chance make any candidate look better.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from seedbed.errors import DatasetError, NotFound, Problem, shown
from seedbed.evaluation.cells import run_of
from seedbed.evaluation.datasets.dataset import Dataset
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.seal import retirements, seals, without
from seedbed.evaluation.datasets.similarity import copies, leaks
from seedbed.experiments.experiment import Experiment, drawn
from seedbed.experiments.proof.held_out import inputs_read
from seedbed.playbooks.genes import distance
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.store import Digest, Query, Store

ALIKE = 0.15
"""Two playbooks are nearly identical if they differ by less than this share of what candidate and control differ by."""

LEFT_OUT_SINCE = 3
"""The first edition of experiments in which tasks that nearly repeat others are left out."""

LEAST = 20
"""So many tasks must be left where some are left out, or too much depends on which."""


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


Draws: TypeAlias = tuple[int, tuple[int, int]]
"""What a comparison draws by: the seed of its order, and the first replicates of both arms."""

FIRST_DRAWS: Draws = (0, (0, 0))
"""Where results of the control are known, any other order or replicate may have been chosen to suit the candidate."""


def freshness(
    library: Library,
    control: Playbook,
    candidate: Playbook,
    tasks: Dataset,
    *,
    draws: Draws = FIRST_DRAWS,
    before: float = math.inf,
) -> Freshness:
    """What was known of the tasks of a comparison before that fact was written; by default, before now."""
    store, read = library.store, inputs_read(control, candidate)
    keys = {task.id: task_key(task.inputs, read) for task in tasks}
    first, tried = (first_results(store, each, read, before) for each in _families(library, control, candidate))
    seen = tuple(name for name, key in keys.items() if key in tried)
    known = tuple(name for name, key in keys.items() if key in first)
    why = _exploratory(len(tasks), len(seen), bool(known))
    if known and not why and draws != FIRST_DRAWS:
        why = "results of the control were known when the order of the tasks or the replicates were chosen"
    numbers = {key: each.number for key, each in first.items()}
    if known and not why and not NamedSets(store, read, numbers, before).include(tasks):
        why = "results of the control were known before this set of tasks was named, or others could have been taken"
    return Freshness(len(tasks), seen, known, why)


def _families(library: Library, control: Playbook, candidate: Playbook) -> tuple[list[Digest], list[Digest]]:
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
    """The first score of a task: the place in the store at which it became known, and what was asked."""

    number: float
    inputs: Mapping[str, Any]


def first_results(
    store: Store,
    playbooks: Collection[Digest] | None = None,
    read: Collection[str] | None = None,
    before: float = math.inf,
) -> dict[Digest, FirstResult]:
    """The tasks, by their keys, at which any of the playbooks was scored, and the first such score.

    By default all playbooks. `read` names the inputs that count, as in `task_key`.
    """
    known: dict[Digest, FirstResult] = {}
    for playbook in [None] if playbooks is None else playbooks:
        scored: dict[str, float] = {}
        for cell in store.facts(Query(kind="cell", subject=playbook)):
            if cell.number < before:
                scored.setdefault(run_of(cell.key), cell.number)
        for start in store.facts(Query(kind="start", subject=playbook)) if scored else ():
            if start.key in scored:
                key, number = task_key(start.body["inputs"], read), scored[start.key]
                if key not in known or number < known[key].number:
                    known[key] = FirstResult(number, start.body["inputs"])
    return known


@dataclass(frozen=True, slots=True)
class Repeats:
    """The tasks of a comparison that ask in slightly other words what was asked before."""

    left_out: tuple[str, ...] = ()
    """Those near one with a known result, and all but one of those that ask the same among themselves."""
    spoiled: tuple[str, ...] = ()
    """Those near one with a result of the candidate that is younger than results of the control on these tasks. To
    leave them out could be a choice by those; so they count as missing answers."""

    def exploratory(self, tasks: int) -> str:
        """Why they leave too little, if they do."""
        if not self.left_out or tasks - len(self.left_out) >= LEAST:
            return ""
        names = ", ".join(map(shown, self.left_out[:5])) + (", …" if len(self.left_out) > 5 else "")
        actual = f"{len(self.left_out)} of {tasks} tasks nearly repeat others of these or some with known results"
        return f"{actual} ({names}), which leaves fewer than {LEAST}; add tasks that ask something else"


def repeats(
    library: Library, control: Playbook, candidate: Playbook, tasks: Dataset, before: float = math.inf
) -> Repeats:
    """The tasks that nearly repeat one of which a result was known before that fact was written, or one another.

    What is left out does not depend on results of the control on these very tasks. Tasks of one source may repeat one
    another: they count as one. The rest of a dataset of which these were held out was never asked about them.
    """
    store, read = library.store, inputs_read(control, candidate)
    first, tried = (first_results(store, each, read, before) for each in _families(library, control, candidate))
    keys, unit = {task_key(task.inputs, read) for task in tasks}, dict[str, int]()
    for number, members in enumerate(drawn(tasks, 0, read)):
        unit |= dict.fromkeys((task.id for task in members), number)
    named = min((each.number for key, each in first.items() if key in keys), default=math.inf)
    elsewhere = keys | _held_out_from(store, keys, read, before)
    first, tried = ({key: each for key, each in known.items() if key not in elsewhere} for known in (first, tried))
    early = {key: each.inputs for key, each in (*first.items(), *tried.items()) if each.number < named}
    late = [each.inputs for key, each in tried.items() if key not in early]
    twice = [each for each in copies(tasks.tasks, read) if unit[each.task] != unit[each.other]]
    gone = {each.task for each in (*twice, *leaks(tasks.tasks, [*early.values()], read))}
    spoiled = {each.task for each in leaks(tasks.tasks, late, read)} - gone
    return Repeats(*(tuple(task.id for task in tasks if task.id in each) for each in (gone, spoiled)))


def check_repeats(library: Library, plan: Experiment, tasks: Dataset, before: float) -> Iterator[Problem]:
    """What is wrong with the tasks that an experiment leaves out, if it may release its candidate."""
    if plan.edition < LEFT_OUT_SINCE:
        return
    again = repeats(library, library.get(plan.control), library.get(plan.candidate), tasks, before)
    if plan.left_out != again.left_out or not {*again.spoiled} <= {*plan.retired}:
        actual = f"{len(plan.left_out)} left out, {len(plan.retired)} counted as missing"
        expected = f"{len(again.left_out)} left out and {len(again.spoiled)} missing, as they nearly repeat others"
        yield Problem("left_out", actual, expected)
    if why := again.exploratory(len(tasks)):
        yield Problem("mode", why, "enough tasks that repeat no others")


def _held_out_from(store: Store, keys: Collection[Digest], read: Collection[str] | None, before: float) -> set[Digest]:
    """The keys of all tasks of the datasets of which these tasks were held out."""
    beside: set[Digest] = set()
    for seal in seals(store):
        if seal.number < before and any(task_key(task.inputs, read) in keys for task in seal.tasks(store)):
            beside |= {task_key(task.inputs, read) for task in Dataset.from_content(store.get(seal.dataset))}
    return beside


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
    """The sets of tasks that were named before results of the control were known on them.

    Where such results are known, the sets to choose among must not depend on them, and be as good as one: a hold-out or
    the set of an attempt, whose results cost an attempt each; or else one stored dataset as a whole.
    """

    store: Store
    read: Collection[str] | None
    first: Mapping[Digest, float]
    """When the first result of the control became known for each task, by its key."""
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
        """The number of the first result of the control on any of the tasks."""
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
