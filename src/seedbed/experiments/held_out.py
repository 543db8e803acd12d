"""Tasks that a playbook has seen: those that it or an ancestor was evolved on, and those of its demos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from seedbed.errors import DatasetError, NotFound, Problem, shown
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.stage.dialogue.dialogue import text_of
from seedbed.storage.store import Digest, Query, Store, digest, short


def evolved_on(store: Store, candidate: Digest) -> set[Digest]:
    """The datasets of every search that tried a playbook, whether or not the search chose it."""
    queries = (Query(kind=kind, subject=candidate) for kind in ("trial", "evolution"))
    return {fact.body["dataset"] for query in queries for fact in store.facts(query)}


def seen_before(library: Library, candidate: Playbook, tasks: Iterable[Task]) -> list[Task]:
    """The tasks that the candidate has seen, by their inputs: another id or expected answer makes no difference.

    Raises NotFound if a dataset that it was evolved on is not in the store.
    """
    seen = {_named(demo.inputs) for demos in candidate.demos.values() for demo in demos}
    ancestors = [entry.digest for entry in library.ancestry(candidate.digest)]
    for dataset in {each for ancestor in ancestors for each in evolved_on(library.store, ancestor)}:
        seen |= {_named(task.inputs) for task in known_tasks(library.store, dataset)}
    return [task for task in tasks if _named(task.inputs) in seen]


def expect_unseen(library: Library, candidate: Playbook, tasks: Dataset) -> None:
    """Raises DatasetError if the candidate has seen some of the tasks, and names them."""
    if seen := seen_before(library, candidate, tasks):
        names = ", ".join(shown(task.id) for task in seen[:5]) + (", …" if len(seen) > 5 else "")
        actual = f"{len(seen)} of {len(tasks)} that the candidate was evolved on or is shown: {names}"
        remedy = "Compare on other tasks: what it was chosen on proves nothing."
        raise DatasetError([Problem("tasks", actual, "tasks that it has not seen", remedy)])


def known_tasks(store: Store, dataset: Digest) -> Dataset:
    """The tasks of a dataset in the store. Raises NotFound."""
    try:
        return Dataset.from_content(store.get(dataset))
    except NotFound:
        raise NotFound(f"no dataset {short(dataset)} in this store") from None


def _named(inputs: Mapping[str, Any]) -> Digest:
    return digest("task", {name: text_of(value) for name, value in inputs.items()})
