from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest

from seedbed.errors import NotFound, RunError, StoreError
from seedbed.runs.history import recall, recent
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Call, Decision, Failure, Run, Turn
from seedbed.runs.run_start import RunStart
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Json, Query, Store

PLAYBOOK = "b2:" + "1" * 64
TURN = Turn(
    step="answer",
    role="writer",
    model="fast",
    messages=(("user", "Why?"),),
    text="Because.",
    prompt_tokens=5,
    completion_tokens=2,
    cost_usd=0.25,
    latency_seconds=0.5,
    finish_reason="stop",
    seed=7,
)


async def recorder(store: Store, inputs: Any = None, **given: Any) -> Recorder:
    about = {"by": "ada", **{name: given.pop(name) for name in ("by", "run", "clock") if name in given}}
    asked = {"question": "Why?"} if inputs is None else inputs
    start = RunStart(PLAYBOOK, asked, **{"seed": 7, "models": {"fast": {"use": "scripted"}}, **given})
    record = Recorder(Journal(store), start, **about)
    await record.start()
    return record


async def add(record: Recorder, turn: Turn = TURN) -> Turn:
    async def answered() -> Json:
        record.paid_usd += turn.cost_usd
        return turn.body()

    return await ask(record, answered, turn)


async def ask(record: Recorder, work: Callable[[], Awaitable[Json]], turn: Turn = TURN) -> Turn:
    """As a stage does it."""
    done = Turn.from_body(await record.record("turn", turn.step, turn.text, work))
    record.turns.append(done)
    return done


def facts(store: Store, kind: str) -> list[Fact]:
    return list(store.facts(Query(kind=kind)))


async def test_a_turn_is_a_fact_at_once_and_the_run_only_at_its_end() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await add(record)
    (turn,) = facts(store, "turn")
    assert (turn.subject, turn.by) == (record.id, "ada")
    assert Turn.from_body(turn.body) == TURN
    assert facts(store, "run") == []
    await record.end("completed", output="Because.")
    (run,) = facts(store, "run")
    assert (run.key, run.subject, run.by, run.value) == (record.id, PLAYBOOK, "ada", 0.25)


async def test_a_run_says_under_which_conditions_it_happened() -> None:
    store = MemoryStore()
    await (await recorder(store)).end("completed", output="x")
    (run,) = facts(store, "run")
    assert run.body["inputs"] == {"question": "Why?"}
    assert run.body["seed"] == 7
    assert run.body["models"] == {"fast": {"use": "scripted"}}
    assert run.body["seedbed"]


async def test_a_run_is_dated_by_its_start_and_its_turns_by_their_end() -> None:
    times = iter(datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(4))
    store = MemoryStore()
    record = await recorder(store, clock=lambda: next(times))
    await add(record)
    run = await record.end("completed")
    assert run.started.hour == 0
    assert [fact.at.hour for fact in (*facts(store, "run"), *facts(store, "turn"))] == [0, 3]


async def test_each_entry_has_when_its_work_began_and_ended_by_the_clock_of_the_record() -> None:
    times = iter(datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(24))
    store = MemoryStore()
    record = await recorder(store, clock=lambda: next(times))
    await add(record)

    async def looked() -> Json:
        return Call(tool="look", arguments={}, result=1, error="", changes=False, latency_seconds=0.1).body()

    async def decided() -> Json:
        return Decision(point="way", action="left", because="x").body()

    async def opened(name: str) -> Run:
        return replace(await (await recorder(store, run=name, parent=record.id)).end("completed"))

    record.calls.append(Call.from_body(await record.record("call", "look", {}, looked)))
    record.decisions.append(Decision.from_body(await record.record("decision", "way", "x", decided)))
    await record.record_child("inner", {}, opened)
    run = await record.end("completed")
    entries = [*run.turns, *run.calls, *run.decisions, *run.children]
    hours = [(each.started.hour, each.ended.hour) for each in entries if each.started and each.ended]
    assert hours == [(1, 2), (4, 5), (7, 8), (10, 11)]
    assert all(each.started and each.started.tzinfo is UTC for each in entries)
    read = recall(store, run.id)
    assert [each.times for each in (*read.turns, *read.calls, *read.decisions, *read.children)] == [
        each.times for each in entries
    ]


async def test_a_recording_without_times_opens_and_equals_one_with_them() -> None:
    old, new = MemoryStore(), MemoryStore()
    for store in (old, new):
        record = await recorder(store, run="r", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        await add(record)
        await record.end("completed")
    turn = facts(new, "turn")[0]
    bare = replace(turn, body={name: value for name, value in turn.body.items() if name != "ran"})
    untimed = MemoryStore()
    untimed.append(bare if fact == turn else fact for kind in ("start", "turn", "run") for fact in facts(new, kind))
    before = recall(untimed, "r")
    assert (before.turns[0].started, before.turns[0].times) == (None, {})
    assert before.turns == recall(old, "r").turns


@pytest.mark.parametrize("url", ["memory:", "sqlite:///runs.db", "files:runs"])
async def test_recall_gives_back_an_equal_run(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store: Any = open_store(url)
    record = await recorder(
        store, {"question": "Why?", "odd": [1, 2.5, None, True, {"ü": "\u2028\n"}], "pair": (1, 2.0)}
    )
    for number in range(3):
        await add(record, replace(TURN, text=f"answer {number}"))
    run = await record.end("completed", output={"label": ("a", 1.0), "score": 0.1})
    assert recall(store, record.id) == run
    store.close()
    if url != "memory:":
        again: Any = open_store(url)
        assert recall(again, record.id) == run
        again.close()


async def test_a_failed_run_is_recorded_with_its_error() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await add(record)
    run = await record.end("failed", error="ModelUnavailable: gone")
    assert (run.status, run.output, run.error) == ("failed", None, "ModelUnavailable: gone")
    assert run.cost_usd == 0.25
    assert recall(store, record.id) == run


async def test_turns_of_runs_at_the_same_time_do_not_mix() -> None:
    store = MemoryStore()
    one, other = await recorder(store), await recorder(store)
    await add(one, replace(TURN, text="one 1"))
    await add(other, replace(TURN, text="other 1"))
    await add(one, replace(TURN, text="one 2"))
    await one.end("completed")
    await other.end("completed")
    assert [turn.text for turn in recall(store, one.id).turns] == ["one 1", "one 2"]
    assert [turn.text for turn in recall(store, other.id).turns] == ["other 1"]


async def test_a_program_that_alters_its_inputs_and_output_does_not_alter_the_record() -> None:
    store = MemoryStore()
    inputs: dict[str, Any] = {"mail": {"subject": "Hello"}}
    record = await recorder(store, inputs)
    inputs["mail"]["subject"] = inputs["extra"] = "overwritten"
    output = ["first"]
    run = await record.end("completed", output=output)
    output.append("second")
    assert run.inputs == {"mail": {"subject": "Hello"}}
    assert run.output == ["first"]
    assert recall(store, record.id) == run


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), "\ud800"])
async def test_inputs_that_cannot_be_kept_are_refused_before_anything_is_paid(value: object) -> None:
    store = MemoryStore()
    with pytest.raises(StoreError):
        await recorder(store, {"question": value})
    assert store.kinds() == {}


def test_an_unknown_run_is_not_found_and_the_error_says_where_to_look() -> None:
    with pytest.raises(NotFound, match="seedbed runs list"):
        recall(MemoryStore(), "absent")


async def test_a_run_that_has_not_ended_is_recalled_as_far_as_it_came() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await add(record)
    run = recall(store, record.id)
    assert (run.status, run.turns, run.cost_usd, run.output) == ("running", (TURN,), 0.25, None)
    assert [each.status for each in recent(store, 1)] == ["running"]


async def test_recent_runs_come_newest_first_without_their_turns() -> None:
    store = MemoryStore()
    ids = []
    for number in range(4):
        record = await recorder(store, {"number": number})
        await add(record)
        ids.append((await record.end("completed")).id)
    assert [run.id for run in recent(store, 3)] == ids[:0:-1]
    assert all(run.turns == () for run in recent(store, 3))


# Taking a run up again


async def never() -> Any:
    raise AssertionError("asked again")


async def test_a_run_that_is_taken_up_again_is_given_what_it_was_told() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await add(record)
    again = Recorder.resume(Journal(store), record.id, by="ben")
    await again.start()
    assert await ask(again, never) == TURN
    assert (again.inputs, again.seed, again.playbook) == ({"question": "Why?"}, 7, PLAYBOOK)
    run = await again.end("completed", output="x")
    assert recall(store, record.id) == run
    assert store.kinds() == {"start": 1, "turn": 1, "claim": 1, "run": 1}


async def test_the_nth_question_of_the_same_words_gets_the_nth_answer() -> None:
    store = MemoryStore()
    record = await recorder(store)
    for number in range(3):
        await record.record("reading", "answer", "Why?", lambda number=number: told({"text": number}))  # type: ignore[misc]
    again = Recorder.resume(Journal(store), record.id, by="ada")
    assert [(await again.record("reading", "answer", "Why?", never))["text"] for _ in range(3)] == [0, 1, 2]
    assert (await again.record("reading", "answer", "Why?", lambda: told({"text": 3})))["text"] == 3


async def told(body: dict[str, Any]) -> dict[str, Any]:
    return body


async def test_other_words_are_asked_anew() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await record.record("reading", "answer", "Why?", lambda: told({"text": "because"}))
    again = Recorder.resume(Journal(store), record.id, by="ada")
    assert await again.record("reading", "answer", "Why not?", lambda: told({"text": "new"})) == {"text": "new"}
    assert await again.record("reading", "other", "Why?", lambda: told({"text": "other"})) == {"text": "other"}


async def test_a_failed_run_goes_on_and_its_money_is_counted_once() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await add(record)
    await record.end("failed", error="gone")
    again = Recorder.resume(Journal(store), record.id, by="ada")
    await ask(again, never)
    await add(again, replace(TURN, text="second"))
    run = await again.end("completed", output="x")
    assert (run.status, run.cost_usd) == ("completed", 0.5)
    assert recall(store, record.id) == run
    assert [(fact.key, fact.value) for fact in facts(store, "run")] == [(run.id, 0.25), (f"{run.id}@2", 0.25)]
    assert [each.status for each in recent(store, 5)] == ["completed"]


FAILURE = Failure(step="answer", role="writer", error="too slow", cost_usd=0.25, tokens=40)


async def test_what_was_paid_for_no_answer_is_counted_too_and_once() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await add(record)
    await record.record_failure(FAILURE)
    failed = await record.end("failed", error="gone")
    assert (failed.cost_usd, failed.failures) == (0.5, (FAILURE,))
    assert recall(store, failed.id) == failed
    again = Recorder.resume(Journal(store), record.id, by="ada")
    assert again.paid_before == (0.5, failed.tokens)
    await again.start()
    await ask(again, never)
    await again.record_failure(FAILURE)
    run = await again.end("failed", error="gone again")
    assert (run.cost_usd, len(run.failures)) == (0.75, 2)
    assert recall(store, run.id) == run
    assert [fact.value for fact in facts(store, "run")] == [0.5, 0.25]


async def test_what_a_run_may_cost_is_known_when_it_is_taken_up_again() -> None:
    store = MemoryStore()
    record = await recorder(store, max_cost_usd=0.5)
    again = Recorder.resume(Journal(store), record.id, by="ada")
    assert again.max_cost_usd == 0.5
    assert recall(store, record.id).max_cost_usd == 0.5


async def test_a_complete_run_is_not_taken_up_again() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await record.end("completed", output="x")
    with pytest.raises(RunError, match="found it complete"):
        Recorder.resume(Journal(store), record.id, by="ada")
    with pytest.raises(NotFound, match="seedbed runs list"):
        Recorder.resume(Journal(store), "absent", by="ada")


async def test_what_may_have_happened_outside_is_not_done_again_but_named() -> None:
    store = MemoryStore()
    record = await recorder(store)

    async def killed() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await record.record("call", "send_mail", {"to": "anna"}, killed, risky=True)
    again = Recorder.resume(Journal(store), record.id, by="ada")
    with pytest.raises(RunError, match="send_mail was started, and its result is unknown"):
        await again.record("call", "send_mail", {"to": "anna"}, never, risky=True)


async def test_what_has_happened_outside_is_not_done_again() -> None:
    store = MemoryStore()
    record = await recorder(store)
    await record.record("call", "send_mail", {"to": "anna"}, lambda: told({"result": "sent"}), risky=True)
    again = Recorder.resume(Journal(store), record.id, by="ada")
    assert (await again.record("call", "send_mail", {"to": "anna"}, never, risky=True))["result"] == "sent"


KEY = "sk-proj-" + "a1B2c3D4e5F6" * 3


async def test_no_secret_reaches_the_record_of_a_run() -> None:
    store = MemoryStore()
    record = await recorder(store, {"question": f"Is {KEY} valid?"})
    seen = await add(record, replace(TURN, messages=(("user", f"Is {KEY} valid?"),), text=f"{KEY} is."))
    assert KEY in seen.text  # the program goes on with what was said
    await record.record_failure(Failure(step="x", role="y", error=f"refused {KEY}", cost_usd=0.1))
    run = await record.end("completed", output={"says": [f"{KEY} is."]})
    assert run.output == {"says": ["[secret] is."]}
    stored = [fact for kind in store.kinds() for fact in facts(store, kind)]
    assert len(stored) == 4
    assert KEY not in repr(stored)
    assert recall(store, run.id).output == run.output


async def test_a_run_from_whose_record_a_secret_was_taken_is_not_continued() -> None:
    store = MemoryStore()
    record = await recorder(store, {"question": f"Is {KEY} valid?"})
    with pytest.raises(RunError, match="secret was taken out"):
        Recorder.resume(Journal(store), record.id, by="ada")


async def opened_by(record: Recorder) -> str:
    """The id of a run that this one opens."""
    opened: list[str] = []

    async def work(run: str) -> Any:
        opened.append(run)
        raise RunError("it fails")

    with pytest.raises(RunError, match="it fails"):
        await record.record_child("part", [None, {}], work)
    return opened[0]


async def test_the_id_of_a_live_run_begins_with_its_time_and_so_do_those_it_opens() -> None:
    record, other = await recorder(MemoryStore()), await recorder(MemoryStore())
    assert record.id[0] == "t"
    child = await opened_by(record)
    assert child[:13] == record.id[:13]
    assert child not in (record.id, await opened_by(other))
    again = await recorder(MemoryStore(), run=record.id)
    assert await opened_by(again) == child


async def test_a_run_of_an_earlier_version_finds_the_runs_it_opened_then() -> None:
    old = "921716f7b1ce4a2888af3c3729e8c744"
    record = await recorder(MemoryStore(), run=old)
    key = record.keys.next("child", "part", [None, {}])
    again = await recorder(MemoryStore(), run=old)
    assert await opened_by(again) == uuid5(UUID(old), key).hex
