from __future__ import annotations

import pytest
from loop_samples import agent, bench, numbers

from seedbed.errors import NotFound, SeedbedError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import abort, run_experiment
from seedbed.experiments.verdict import Verdict, experiment_status, experiments, find_experiment
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import now

OLD, NEW = agent("x"), agent(".*")


@pytest.fixture
async def begun() -> MemoryStore:
    """A store with a comparison that was answered, and one that was left."""
    store = MemoryStore()
    await run_experiment(OLD, NEW, numbers(30), ExactMatch(), bench(store))

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_experiment(OLD, NEW, numbers(40), ExactMatch(), bench(store, broken))
    return store


def test_an_experiment_is_running_until_it_is_answered_or_stopped(begun: MemoryStore) -> None:
    newest, oldest = experiments(begun)
    assert (newest.status, newest.verdict) == ("running", None)
    assert oldest.status == "completed"
    assert oldest.verdict == Verdict.recall(begun, oldest.begun.key)
    abort(begun, newest.begun.key, because="too slow", by="ada", clock=now)
    assert experiment_status(begun, newest.begun.key).status == "aborted"


def test_one_that_has_been_answered_cannot_be_stopped_any_more(begun: MemoryStore) -> None:
    _, done = experiments(begun)
    assert abort(begun, done.begun.key, because="I do not like it", by="ada", clock=now) == done.verdict
    assert experiment_status(begun, done.begun.key).status == "completed"


def test_stopping_needs_a_reason(begun: MemoryStore) -> None:
    newest, _ = experiments(begun)
    with pytest.raises(SeedbedError, match="because: found no reason"):
        abort(begun, newest.begun.key, because=" ", by="ada", clock=now)


def test_an_experiment_is_found_by_how_it_begins(begun: MemoryStore) -> None:
    newest, _ = experiments(begun)
    assert (
        find_experiment(begun, newest.begun.key[3:13]) == find_experiment(begun, newest.begun.key) == newest.begun.key
    )
    with pytest.raises(SeedbedError, match="is not an experiment in this store"):
        find_experiment(begun, "zz")
    with pytest.raises(SeedbedError, match="begins several experiments"):
        find_experiment(begun, "b2:")
    with pytest.raises(NotFound, match="was begun in this store"):
        experiment_status(begun, "b2:nothing")
