"""Tasks that a playbook has seen: those that it or an ancestor was evolved on, and those of its demos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from seedbed.errors import DatasetError, NotFound, Problem, shown
from seedbed.evaluation.datasets.check import ShownTask
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.datasets.identity import normal_text, task_key, text_of
from seedbed.evaluation.datasets.near_tasks import leaks
from seedbed.evaluation.datasets.seal import cleared
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.playbooks.values import texts
from seedbed.storage.store import Digest, Query, Store, short

LONG = 20
"""A task with no text of so many characters may stand in a prompt by chance."""


def evolved_on(store: Store, candidate: Digest) -> set[Digest]:
    """The datasets of every search that tried a playbook, whether or not the search chose it."""
    queries = (Query(kind=kind, subject=candidate) for kind in ("trial", "evolution"))
    return {fact.body["dataset"] for query in queries for fact in store.facts(query)}


def inputs_read(*playbooks: Playbook) -> frozenset[str] | None:
    """The inputs of a task that any of the playbooks reads; None if one reads all: a program may, and a step without a
    prompt is shown the whole task."""
    if any(playbook.program or not all(step.prompt for step in playbook.all_steps()) for playbook in playbooks):
        return None
    return frozenset().union(*(playbook.needed_inputs for playbook in playbooks))


def seen_before(library: Library, candidate: Playbook, tasks: Iterable[Task]) -> list[Task]:
    """The tasks that the candidate has seen, in these or nearly these words: another id, expected answer, case or white
    space makes no difference, nor an input that it does not read.

    Raises NotFound if a dataset that it was evolved on is not in the store.
    """
    read, judged = inputs_read(candidate), list(tasks)

    def keyed(shown: Iterable[Mapping[str, Any]]) -> dict[Digest, Mapping[str, Any]]:
        used = ({name: each[name] for name in each if read is None or name in read} for each in shown)
        return {task_key(each): each for each in used}

    demos = keyed(demo.inputs for demos in candidate.demos.values() for demo in demos)
    seen = demos | keyed(_evolved_on(library, candidate))
    same = {task.id for task in judged if task_key(task.inputs, read) in seen}
    harmless = cleared(library.store)
    others = [task for task in judged if task.id not in same and task_key(task.inputs) not in harmless]
    same |= {each.task for each in leaks(others, list(seen.values()), read)}
    # Worked examples are few and were chosen; among the tasks of a search some always mean nearly the same.
    same |= {each.task for each in leaks(others, list(demos.values()), read, by_meaning=True)}
    same |= {each.task for each in _in_texts(candidate, judged)}
    return [task for task in judged if task.id in same]


def shown_tasks(library: Library, playbook: Playbook, tasks: Iterable[Task]) -> list[ShownTask]:
    """The tasks that a playbook shows in a worked example or in a text, and where."""
    read, judged, harmless = inputs_read(playbook), list(tasks), cleared(library.store)
    places = [(f"demos.{name}[{n}]", each) for name, demos in playbook.demos.items() for n, each in enumerate(demos)]
    keys = {task_key(demo.inputs, read): where for where, demo in reversed(places)}
    shown_at = {task.id: keys[key] for task in judged if (key := task_key(task.inputs, read)) in keys}
    others = [task for task in judged if task_key(task.inputs) not in harmless]
    near = leaks(others, [demo.inputs for _, demo in places], read, by_meaning=True)
    shown_at = {each.task: places[int(each.other)][0] for each in near} | shown_at
    shown_at = {each.task: each.where for each in _in_texts(playbook, judged)} | shown_at
    return [ShownTask(task.id, shown_at[task.id]) for task in judged if task.id in shown_at]


def _in_texts(playbook: Playbook, tasks: Iterable[Task]) -> Iterator[ShownTask]:
    """The tasks of which one text of the playbook, such as a prompt, holds all that they ask."""
    read, written = inputs_read(playbook), [(at, normal_text(words)) for at, words in texts(playbook.document())]
    for task in tasks:
        parts = text_of(task.inputs, read).split(" \n ")
        if max(map(len, parts)) >= LONG:
            where = (at for at, words in written if all(each in words for each in parts))
            yield from (ShownTask(task.id, at) for at in islice(where, 1))


def _evolved_on(library: Library, candidate: Playbook) -> Iterator[Mapping[str, Any]]:
    """The inputs of everything that a playbook or an ancestor was evolved on."""
    ancestors = [entry.digest for entry in library.ancestry(candidate.digest)]
    for dataset in {each for ancestor in ancestors for each in evolved_on(library.store, ancestor)}:
        yield from (task.inputs for task in known_tasks(library.store, dataset))


def expect_unseen(library: Library, candidate: Playbook, tasks: Dataset) -> None:
    """Raises DatasetError if the candidate has seen some of the tasks, and names them."""
    if seen := seen_before(library, candidate, tasks):
        names = ", ".join(shown(task.id) for task in seen[:5]) + (", …" if len(seen) > 5 else "")
        actual = f"{len(seen)} of {len(tasks)} that the candidate was evolved on or is shown, or nearly: {names}"
        remedy = "Compare on other tasks: what it was chosen on proves nothing."
        raise DatasetError([Problem("tasks", actual, "tasks that it has not seen", remedy)])


def known_tasks(store: Store, dataset: Digest) -> Dataset:
    """The tasks of a dataset in the store. Raises NotFound."""
    try:
        return Dataset.from_content(store.get(dataset))
    except NotFound:
        raise NotFound(f"no dataset {short(dataset)} in this store") from None
