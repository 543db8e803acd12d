"""What is known of a run that has begun, and how it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.errors import NotFound, RunError, RunTaken
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.resuming import completed, expect_free, has_begun, resumed
from seedbed.runs.run_start import RunStart
from seedbed.runs.worker_presence import performing
from seedbed.storage.memory import MemoryStore

START = RunStart("b2:0", {}, seed=1, models={})


def no_cassette(run: str) -> Any:
    raise NotFound(run)


async def begun(store: MemoryStore) -> Recorder:
    record = Recorder(Journal(store), START, by="ann")
    await record.start()
    return record


async def test_a_run_that_goes_on_elsewhere_is_not_free() -> None:
    store = MemoryStore()
    record = await begun(store)
    assert (has_begun(store, record.id), completed(store, record.id)) == (True, None)
    with performing(record.id), pytest.raises(RunTaken, match="under way in process"):
        expect_free(store, record.id)
    expect_free(store, record.id)
    assert (has_begun(store, "other"), completed(store, "other")) == (False, None)
    with pytest.raises(NotFound):
        expect_free(store, "other")


async def test_a_run_that_is_complete_goes_on_only_if_that_is_meant() -> None:
    store = MemoryStore()
    record = await begun(store)
    run = await record.end("completed", "yes")
    assert completed(store, run.id) == run
    with pytest.raises(RunError, match="found it complete"):
        resumed(Journal(store), run.id, "ben", no_cassette)
    again = resumed(Journal(store), run.id, "ben", no_cassette, complete=True)
    await again.start()
    assert (await again.end("completed", "yes")).id == run.id


async def test_a_worker_that_is_overtaken_by_the_end_does_not_perform_the_run_again() -> None:
    store = MemoryStore()
    record = await begun(store)
    other = resumed(Journal(store), record.id, "ben", no_cassette)
    await record.end("completed", "yes")
    with pytest.raises(RunTaken, match="just completed"):
        await other.start()
