"""Resuming: what is known of a run that has begun, and its record to go on with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from seedbed.errors import NotFound, RunTaken
from seedbed.runs.cassette import Cassette, ReplayMode
from seedbed.runs.claims import holder_of, is_taken
from seedbed.runs.history import recall
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.replay_record import ReplayRecord, ReplaySource, replay_of
from seedbed.runs.run import Run
from seedbed.storage.store import Query, Store, short


def has_begun(store: Store, run: str) -> bool:
    return any(store.facts(Query(kind="start", key=run)))


def completed(store: Store, run: str) -> Run | None:
    """A run if it has begun, and is complete."""
    with suppress(NotFound):
        return known if (known := recall(store, run)).status == "completed" else None
    return None


def expect_free(store: Store, run: str) -> None:
    """Raise RunTaken if a worker performs a run, and NotFound if it has not begun."""
    if (holder := holder_of(store, run)) and is_taken(store, run):
        machine, pid, *_ = holder.worker.split("/")
        raise RunTaken(
            f"run {short(run)}: found it under way in process {pid} on {machine.partition('~')[0]}; expected it to "
            "be free. Wait for its end, or end that process first"
        )


def resumed(
    journal: Journal,
    run: str,
    by: str,
    cassette: Callable[[str], Cassette],
    source: ReplaySource | None = None,
    *,
    complete: bool = False,
) -> Recorder:
    """The record of a run to go on with, even if it is `complete`. A replay stays one; by default it answers from the
    run it replays."""
    if source is None and (replay := replay_of(journal.store, run)):
        source = ReplaySource(cassette(replay["of"]), ReplayMode.parse(replay["mode"]))
    if source is None:
        return Recorder.resume(journal, run, by=by, complete=complete)
    return ReplayRecord.resume_replay(journal, run, source, by=by)
