"""A recorder that answers from a recording. What it does on a stage is in unit/stage/test_replays.py."""

from __future__ import annotations

from typing import Any

import pytest

from seedbed.runs.cassette import Cassette, Missed, ReplayMode
from seedbed.runs.drift import AnswerDrift, drift_of
from seedbed.runs.history import recall
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.replay_record import ReplayRecord, ReplaySource, replay_of
from seedbed.runs.run import Call
from seedbed.runs.run_start import RunStart
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, Query

PLAYBOOK = "b2:" + "1" * 64
START = RunStart(PLAYBOOK, {}, seed=7, models={})

done: list[str] = []


def doing(what: str) -> Any:
    async def work() -> Json:
        done.append(what)
        return {"tool": what, "arguments": {}, "result": 1, "error": "", "changes": False, "latency_seconds": 0.5}

    return work


@pytest.fixture(autouse=True)
def _afresh() -> None:
    done.clear()


async def recording(store: MemoryStore) -> Cassette:
    recorder = Recorder(Journal(store), START, by="ada")
    await recorder.start()
    await recorder.record("call", "look", {"at": "it"}, doing("look"))
    await recorder.end("completed")
    done.clear()
    return Cassette.load(store, recorder.id, lambda step, role: {})


async def replaying(store: MemoryStore, mode: str = "strict") -> ReplayRecord:
    tape = await recording(store)
    made = ReplayRecord(Journal(store), START, ReplaySource(tape, ReplayMode.parse(mode)), by="ada")
    await made.start()
    return made


async def test_what_was_recorded_is_not_done_and_what_was_not_is_missed() -> None:
    recorder = await replaying(MemoryStore())
    assert (await recorder.record("call", "look", {"at": "it"}, doing("look")))["result"] == 1
    recorder.check()
    with pytest.raises(Missed, match=r"arguments\.at: found"):
        await recorder.record("call", "look", {"at": "that"}, doing("look"))
    assert done == []
    with pytest.raises(Missed, match=r"arguments\.at: found"):
        recorder.check()


async def test_what_a_recording_answers_keeps_its_times_and_has_none_if_it_has_none() -> None:
    store = MemoryStore()
    tape = await recording(store)
    (call,) = store.facts(Query(kind="call"))
    assert {"started", "ended"} <= call.body.keys()
    recorder = ReplayRecord(Journal(store), START, ReplaySource(tape, ReplayMode.parse("strict")), by="ada")
    await recorder.start()
    assert await recorder.record("call", "look", {"at": "it"}, doing("look")) == call.body
    for entry in tape._entries.values():
        entry.body.pop("started")
        entry.body.pop("ended")
    recorder = ReplayRecord(Journal(store), START, ReplaySource(tape, ReplayMode.parse("strict")), by="ada")
    await recorder.start()
    assert Call.from_body(await recorder.record("call", "look", {"at": "it"}, doing("look"))).times == {}


async def test_what_a_program_says_of_itself_needs_no_recording() -> None:
    recorder = await replaying(MemoryStore())
    await recorder.record("remark", "log", ["so"], doing("remark"))
    await recorder.record("decision", "how", {"point": "how"}, doing("decision"))
    assert done == ["remark", "decision"]
    with pytest.raises(Missed):
        await recorder.record("decision", "confirm", ["send", "because"], doing("asked"), person=True)
    assert recorder.labels == {"decision": {"missed": 1}}


async def test_steps_are_labelled_in_the_store_as_they_are_done() -> None:
    store = MemoryStore()
    recorder = await replaying(store, "lenient")
    await recorder.record("call", "look", {"at": "it"}, doing("look"))
    await recorder.record("call", "look", {"at": "that"}, doing("look"))
    await recorder.record("call", "find", {"at": "it"}, doing("find"))
    facts = store.facts(Query(kind="call", subject=recorder.id))
    assert [fact.tags for fact in facts] == [("exact",), ("substituted",), ("live",)]
    assert done == ["find"]
    run = await recorder.end("completed")
    assert run.replay == {
        "of": recorder.cassette.run,
        "mode": "lenient",
        "labels": {"call": {"exact": 1, "live": 1, "substituted": 1}},
    }


async def test_a_replay_says_so_from_its_start_and_a_live_run_does_not() -> None:
    store = MemoryStore()
    recorder = await replaying(store, "fork:2")
    assert replay_of(store, recorder.id) == {"of": recorder.cassette.run, "mode": "fork:2"}
    assert replay_of(store, recorder.cassette.run) is None
    assert replay_of(store, "f" * 32) is None


async def test_only_what_was_live_was_paid_before_a_replay_was_taken_up_again() -> None:
    store = MemoryStore()
    recorder = await replaying(store)
    for label, key in (("exact", "1"), ("live", "2")):
        recorder._label_of[key] = label  # type: ignore[assignment]
        await recorder._add("turn", key, recorder.id, {"cost_usd": 0.25})
    assert recorder.paid_before[0] == 0.25


async def test_a_replay_that_is_taken_up_again_counts_the_same_labels() -> None:
    store = MemoryStore()
    first = await replaying(store, "lenient")
    await first.record("call", "find", {"at": "it"}, doing("find"))
    source = ReplaySource(first.cassette, first.mode)
    again = ReplayRecord.resume_replay(Journal(store), first.id, source, by="ada")
    await again.start()
    await again.record("call", "find", {"at": "it"}, doing("find"))
    assert done == ["find"]
    assert again.labels == first.labels == {"call": {"live": 1}}


def looking(result: Any) -> Any:
    async def work() -> Json:
        return {
            "tool": "look",
            "arguments": {},
            "result": result,
            "error": "",
            "changes": False,
            "latency_seconds": 0.5,
        }

    return work


async def test_a_live_answer_is_compared_with_that_recorded_for_the_same_request() -> None:
    store = MemoryStore()
    first = Recorder(Journal(store), START, by="ada")
    await first.start()
    for at in range(3):
        await first.record("call", "look", {"at": at}, looking({"items": [{"price": at}]}))
    await first.end("completed")
    tape = Cassette.load(store, first.id, lambda step, role: {})
    again = ReplayRecord(Journal(store), START, ReplaySource(tape, ReplayMode.parse("fork:2")), by="ada")
    await again.start()
    for at, price in ((0, 9), (1, 1), (2, 7), (8, 8)):  # exact, the same, another, asked for the first time
        await again.record("call", "look", {"at": at}, looking({"items": [{"price": price}]}))
    found = await again.end("completed")
    drift = AnswerDrift(
        kind="call", name="look", compared=2, differ=1, path="result.items.0.price", now="7", recorded="2"
    )
    assert drift_of(found) == drift_of(recall(store, again.id)) == [drift]


async def test_a_strict_replay_has_nothing_to_compare() -> None:
    recorder = await replaying(MemoryStore())
    await recorder.record("call", "look", {"at": "it"}, doing("look"))
    assert "drift" not in ((await recorder.end("completed")).replay or {})
