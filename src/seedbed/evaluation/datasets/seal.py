"""Seals and retirements: which tasks of a stored dataset are held out, which are no longer asked, which do not leak.

All three are chained facts: what was decided about tasks before their results were known can be proven later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seedbed.errors import DatasetError, Problem, shown
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.identity import task_key
from seedbed.storage.store import Digest, Fact, Query, Store

HELD_OUT = "held-out"
"""`NAME:held-out` names the tasks of a dataset that are held out."""


@dataclass(frozen=True, slots=True)
class Seal:
    """The tasks of a stored dataset that only a confirmatory comparison opens."""

    name: str
    dataset: Digest
    """The version from which they were drawn."""
    ids: tuple[str, ...]
    number: int
    """The place in the store: what has a lower number was known before."""

    def tasks(self, store: Store) -> Dataset:
        """The held-out tasks."""
        drawn_from, ids = Dataset.from_content(store.get(self.dataset)), {*self.ids}
        return Dataset(tuple(task for task in drawn_from if task.id in ids), case=drawn_from.case)


@dataclass(frozen=True, slots=True)
class Retirement:
    """A task that is no longer asked, and why."""

    name: str
    task: str
    key: Digest
    known: bool
    """Whether a result of it was known then."""
    because: str
    number: int


def seals(store: Store, name: str | None = None) -> list[Seal]:
    """All seals in the order in which they were made, or that of one dataset."""
    facts = store.facts(Query(kind="seal", subject=_ref(name) if name else None))
    return [Seal(_name(fact), fact.body["dataset"], tuple(fact.body["tasks"]), fact.number) for fact in facts]


def hold_out(
    store: Store, name: str, tasks: Dataset, *, share: float, seed: int, by: str, clock: Callable[[], datetime]
) -> Seal:
    """Seal a share of the tasks of a stored dataset, drawn by the seed; no source is divided.

    Raises DatasetError if some are held out already.
    """
    drawn, _ = tasks.stratified(share, seed, by="source")
    ref, body = _ref(name), {"tasks": [task.id for task in drawn], "share": share, "seed": seed}
    taken = HELD_OUT in tasks.splits or bool(seals(store, name))
    body["dataset"] = "" if taken else store.put("dataset", tasks.content())
    if taken or not store.append([Fact(kind="seal", key=ref, subject=ref, at=clock(), by=by, body=body)]):
        remedy = f"Compare on {name}:{HELD_OUT}, or hold out tasks of another dataset."
        raise DatasetError([Problem(name, "a part that is held out", "none yet", remedy)])
    return seals(store, name)[0]


def expect_open(
    store: Store, tasks: Iterable[Task], demos: Iterable[Mapping[str, Any]] = (), *, remedy: str = ""
) -> None:
    """Raises DatasetError if some tasks or demos are held out, whatever they are called here."""
    if not (known := seals(store)):
        return
    in_tasks = {task_key(task.inputs) for task in tasks}
    in_demos = {task_key(inputs) for inputs in demos}
    for seal in known:
        keys = {task_key(task.inputs) for task in seal.tasks(store)}
        for where, held in (("tasks", keys & in_tasks), ("demos", keys & in_demos)):
            if held:
                instead = remedy or f"Use {seal.name}, which leaves them out; compare on {seal.name}:{HELD_OUT}."
                actual = f"{len(held)} that are held out in {seal.name}"
                raise DatasetError([Problem(where, actual, "tasks that are not held out", instead)])


def retire(
    store: Store, name: str, task: Task, *, known: bool, because: str, by: str, clock: Callable[[], datetime]
) -> Retirement:
    """Take a task of a stored dataset out of use. The first retirement of a task counts, and is returned."""
    key = task_key(task.inputs)
    body = {"task": task.id, "key": key, "known": known, "because": _reason(because)}
    ref = _ref(name)
    store.append([Fact(kind="retire", key=f"{ref}@{key}", subject=ref, at=clock(), by=by, body=body)])
    return next(each for each in retirements(store, name) if each.key == key)


def retirements(store: Store, name: str | None = None) -> list[Retirement]:
    """All tasks that were taken out of use, oldest first, or those of one dataset."""
    facts = store.facts(Query(kind="retire", subject=_ref(name) if name else None))
    return [Retirement(name=_name(fact), number=fact.number, **fact.body) for fact in facts]


def clear(store: Store, name: str, task: Task, *, because: str, by: str, clock: Callable[[], datetime]) -> None:
    """Record that a task is no leak, although it is very like one that was seen."""
    key = task_key(task.inputs)
    body = {"task": task.id, "key": key, "because": _reason(because)}
    store.append([Fact(kind="cleared", key=key, subject=_ref(name), at=clock(), by=by, body=body)])


def cleared(store: Store) -> set[Digest]:
    """The keys of tasks that somebody has looked at and found not to be leaks."""
    return {fact.key for fact in store.facts(Query(kind="cleared"))}


def without(tasks: Dataset, keys: set[Digest]) -> Dataset:
    """The tasks that do not ask what these keys say; the same dataset if none does."""
    left = {task.id for task in tasks if task_key(task.inputs) not in keys} if keys else {}
    return tasks if not keys or len(left) == len(tasks) else tasks.only(ids=left)


def _ref(name: str) -> str:
    return f"datasets/{name.removeprefix('datasets/')}"


def _name(fact: Fact) -> str:
    return fact.subject.removeprefix("datasets/")


def _reason(because: str) -> str:
    if not because.strip():
        raise DatasetError([Problem("because", shown(because), "a reason")])
    return because.strip()
