"""Seals and retirements: which tasks of a stored dataset are held out, which are no longer asked, which do not leak.

All three are chained facts: what was decided about tasks before their results were known can be proven later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from seedbed.errors import DatasetError, Problem, shown
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.near_tasks import copies, leaks
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
    """Seal a share of the tasks of a stored dataset, drawn by the seed; no source is divided, nor tasks in the same
    words.

    Raises DatasetError if some are held out already.
    """
    drawn, _ = _undivided(tasks).stratified(share, seed, by="source")
    ref, body = _ref(name), {"tasks": [task.id for task in drawn], "share": share, "seed": seed}
    taken = HELD_OUT in tasks.splits or bool(seals(store, name))
    body["dataset"] = "" if taken else store.put("dataset", tasks.content())
    if taken or not store.append([Fact(kind="seal", key=ref, subject=ref, at=clock(), by=by, body=body)]):
        remedy = f"Compare on {name}:{HELD_OUT}, or hold out tasks of another dataset."
        raise DatasetError([Problem(name, "a part that is held out", "none yet", remedy)])
    return seals(store, name)[0]


def _undivided(tasks: Dataset) -> Dataset:
    """The tasks with one source for all in the same words, so that none of them is drawn without the others."""
    source, first = {task.id: task.source or task.id for task in tasks}, dict[str, str]()

    def find(name: str) -> str:
        while name in first:
            name = first[name]
        return name

    for each in copies(tasks.tasks, case=tasks.case):
        if (mine := find(source[each.task])) != (theirs := find(source[each.other])):
            first[mine] = theirs
    return Dataset(tuple(replace(task, source=find(source[task.id])) for task in tasks), tasks.splits, tasks.case)


def expect_open(
    store: Store, tasks: Iterable[Task], demos: Iterable[Mapping[str, Any]] = (), *, remedy: str = ""
) -> None:
    """Raises DatasetError if some tasks or demos are held out, whatever they are called here, or nearly repeat one that
    is."""
    if not (known := seals(store)):
        return
    examples = [Task(f"demo {number}", inputs) for number, inputs in enumerate(demos, 1)]
    parts = (("tasks", list(tasks)), ("demos", examples))
    for seal in known:
        for where, part in parts:
            if held := _closed(store, seal, part):
                names = ", ".join(shown(task.id) for task in held[:5]) + (", …" if len(held) > 5 else "")
                instead = remedy or f"Leave them out, as {seal.name} does; compare on {seal.name}:{HELD_OUT}."
                actual = f"{len(held)} that are held out in {seal.name}, or nearly: {names}"
                raise DatasetError([Problem(where, actual, "tasks that are not held out", instead)])


def _closed(store: Store, seal: Seal, tasks: Sequence[Task]) -> list[Task]:
    """The tasks that are held out or nearly repeat one that is. Those from which these were drawn are open; how far
    they are from each other tells what nearly is."""
    held, every = seal.tasks(store), Dataset.from_content(store.get(seal.dataset))
    keys, open_keys = ({task_key(task.inputs) for task in each} for each in (held, every))
    same = [task_key(task.inputs) for task in tasks]
    harmless, foreign = cleared(store), [n for n, key in enumerate(same) if key not in open_keys]
    rest = [task for task in every if task_key(task.inputs) not in keys]
    own = [Task(str(n), tasks[n].inputs) for n in foreign] + [
        Task(f"rest {n}", task.inputs) for n, task in enumerate(rest)
    ]
    repeated = leaks(own, [task.inputs for task in held]) if foreign else []
    new = [each for each in repeated if not each.task.startswith("rest")]
    near = {each.task for each in new if each.similarity == 1 or same[int(each.task)] not in harmless}
    return [task for n, task in enumerate(tasks) if same[n] in keys or str(n) in near]


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


def cleared(store: Store, before: float = math.inf) -> set[Digest]:
    """The keys of tasks that somebody has looked at and found not to be leaks, before that fact was written."""
    return {fact.key for fact in store.facts(Query(kind="cleared")) if fact.number < before}


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
