from __future__ import annotations

import pytest
from loop_samples import agent, numbers

from seedbed.errors import DatasetError, NotFound
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.proof.held_out import known_tasks, seen_before
from seedbed.playbooks.library import Library
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, digest, now
from seedbed.workspace import Workspace

START, CHILD = agent("x"), agent(".*")


def library(seen: Dataset | None = None) -> Library:
    kept = Library(MemoryStore(), "ada")
    kept.keep(START, because="first")
    kept.keep(CHILD, because="evolved", parents=[START.digest])
    if seen:
        kept.store.put("dataset", seen.content())
        body = {"dataset": seen.digest}
        fact = Fact(kind="trial", key=digest("trial", body), subject=START.digest, at=now(), by="ada", body=body)
        kept.store.append([fact])
    return kept


def test_tasks_that_an_ancestor_was_tried_on_are_seen_under_any_other_id() -> None:
    renamed = [Task(f"other {task.id}", task.inputs, task.expected) for task in numbers(30)]
    assert len(seen_before(library(numbers(10)), CHILD, renamed)) == 10
    assert seen_before(library(), CHILD, renamed) == []


@pytest.mark.parametrize("expected", ["another", None])
def test_tasks_are_seen_whatever_answer_is_expected_now(expected: str | None) -> None:
    changed = [Task(task.id, task.inputs, expected) for task in numbers(30)]
    assert len(seen_before(library(numbers(10)), CHILD, changed)) == 10


def test_a_dataset_that_is_not_in_the_store_is_named() -> None:
    with pytest.raises(NotFound, match=r"no dataset .* in this store"):
        known_tasks(MemoryStore(), numbers(3).digest)


async def test_a_comparison_on_seen_tasks_is_refused_before_anything_is_paid() -> None:
    store = library(numbers(10)).store
    scripted = {"use": "scripted", "args": {"replies": {".*": "hm"}}}
    space = Workspace(Settings(by="ada", models={"oracle": scripted}), store)
    with pytest.raises(DatasetError, match="10 of 30 that the candidate was evolved on") as refused:
        await space.compare(START, CHILD, on=numbers(30), metric=ExactMatch())
    assert "Compare on other tasks" in str(refused.value)
    assert "run" not in store.kinds()
