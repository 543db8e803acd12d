"""What is wrong with a dataset, before anything is decided on it: tasks that repeat, leaks between splits, gaps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.identity import task_key
from seedbed.evaluation.datasets.near_tasks import Near, count_alike, leaks, near
from seedbed.storage.store import Digest, Json, canonical

LONG, REPEATED = 20, 0.5
"""A field may be the source of tasks if its texts are so long on average and at most this share of them is distinct."""


@dataclass(frozen=True, slots=True)
class RepeatedField:
    """An input that many tasks share, which may be their source: a document, a customer, a conversation."""

    field: str
    distinct: int
    rows: int


@dataclass(frozen=True, slots=True)
class SplitLeak:
    """A task of one split that another split repeats, in the same or nearly the same words."""

    split: str
    task: str
    other_split: str
    other: str


@dataclass(frozen=True, slots=True)
class ShownTask:
    """A task that a playbook shows, in the same or nearly the same words: in which worked example or text."""

    task: str
    where: str


@dataclass(frozen=True, slots=True)
class DatasetCheck:
    """What was found in a dataset. Tasks that ask the same count once in a comparison; leaks make a split useless."""

    tasks: int
    units: int
    """How many different things are asked."""
    duplicates: tuple[tuple[str, ...], ...]
    near: tuple[Near, ...]
    fields: tuple[RepeatedField, ...]
    leaks: tuple[SplitLeak, ...]
    unanswered: tuple[str, ...]
    shown: tuple[ShownTask, ...] = ()
    """The tasks that a playbook shows, if one was named."""

    def document(self) -> Json:
        return asdict(self)


def check_dataset(tasks: Dataset, cleared: Collection[Digest] = ()) -> DatasetCheck:
    """What repeats in a dataset, leaks between its splits or is missing. `cleared` are keys of tasks that do not leak,
    however like others they are."""
    by_key: dict[str, list[str]] = {}
    for task in tasks:
        by_key.setdefault(task_key(task.inputs, case=tasks.case), []).append(task.id)
    answered = any(task.expected is not None for task in tasks)
    return DatasetCheck(
        tasks=len(tasks),
        units=len(by_key),
        duplicates=tuple(tuple(ids) for ids in by_key.values() if len(ids) > 1),
        near=tuple(near(tasks.tasks)),
        fields=tuple(_fields(tasks.tasks)),
        leaks=tuple(_leaks(tasks, cleared)),
        unanswered=tuple(task.id for task in tasks if answered and task.expected is None),
    )


def shared_source(tasks: Sequence[Task]) -> str:
    """That tasks seem to share sources which they do not name, if so: they count as independent then."""
    distinct = len({canonical(dict(task.inputs)) for task in tasks})
    if 1 < distinct <= REPEATED * len(tasks) and not any(task.source for task in tasks):
        return f"{len(tasks)} tasks ask {distinct} different things: set their source, or the interval is too narrow"
    for each in _fields(tasks):
        return (
            f"{each.rows} tasks have {each.distinct} different texts as {each.field}: if tasks with the same one are "
            "alike, set it as their source, or the interval is too narrow"
        )
    return ""


def shared_wording(tasks: Sequence[Task]) -> str:
    """That most tasks are nearly the same as another and name no source, if so."""
    alike = 0 if any(task.source for task in tasks) else count_alike(tasks)
    if alike <= REPEATED * len(tasks):
        return ""
    return (
        f"{alike} of {len(tasks)} tasks are nearly the same as another: if they are one question in several ways, give "
        "them one source, or the interval is too narrow"
    )


def _fields(tasks: Sequence[Task]) -> Sequence[RepeatedField]:
    if any(task.source for task in tasks):
        return []
    names = dict.fromkeys(name for task in tasks for name in task.inputs)
    repeated = []
    for name in names if len(names) > 1 else ():
        texts = [canonical(task.inputs[name]) for task in tasks if name in task.inputs]
        if sum(map(len, texts)) >= LONG * len(texts) and 1 < len({*texts}) <= REPEATED * len(texts):
            repeated.append(RepeatedField(name, len({*texts}), len(texts)))
    return repeated


def _leaks(tasks: Dataset, cleared: Collection[Digest]) -> Sequence[SplitLeak]:
    """Each pair of splits once; folds, which overlap on purpose, are not compared."""
    names = [name for name in tasks.splits if not name.startswith("fold-")]
    shared: list[SplitLeak] = []
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            here, there = tasks.only(split=one).tasks, tasks.only(split=other).tasks
            harmful = [task for task in there if task_key(task.inputs) not in cleared]
            keys = {task_key(task.inputs): task.id for task in there}
            same = [(task.id, keys[task_key(task.inputs)]) for task in here if task_key(task.inputs) in keys]
            exact = {mine for mine, _ in same}
            rest = [task for task in here if task.id not in exact and task_key(task.inputs) not in cleared]
            nearly = leaks(rest, [task.inputs for task in harmful], by_meaning=True)
            same += [(each.task, harmful[int(each.other)].id) for each in nearly]
            shared += [SplitLeak(one, mine, other, yours) for mine, yours in same]
    return shared
