"""Of all workers that ever had a run, one announces each change, and only while the run is its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from seedbed.errors import InDoubt, NotFound, RunTaken, SeedbedError, StoreError
from seedbed.runs import worker_presence
from seedbed.runs.claims import claims_of, holder_of, idempotency_key
from seedbed.runs.doubts import calls_in_doubt, settle
from seedbed.runs.history import recall
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.runs.run import Turn
from seedbed.runs.run_start import RunStart
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Json, Query

START = RunStart("b2:0", {}, seed=1, models={})


TURN = Turn(
    step="s", role="r", model="m", messages=(), text="yes", prompt_tokens=1, completion_tokens=2, cost_usd=0.5,
    latency_seconds=0.0, finish_reason="", seed=1,
).body()  # fmt: skip


class World:
    """A store, and what happened outside of it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.paid: list[str] = []

    async def begun(self) -> Recorder:
        record = Recorder(Journal(self.store), START, by="ann")
        await record.start()
        return record

    async def taken_over(self, record: Recorder) -> Recorder:
        """Another worker that believes the first is gone."""
        other = Recorder.resume(Journal(self.store), record.id, by="ben")
        await other.start()
        return other

    async def pay(self, record: Recorder, usd: int = 7, *, who: str = "", before: Any = None) -> Json:
        async def work() -> Json:
            if before:
                await before()
            self.paid.append(who or str(usd))
            return call(usd)

        return await record.record("call", "pay", {"usd": usd}, work, risky=True)


def call(usd: int, error: str = "", *, changes: bool = True) -> Json:
    told = {"tool": "pay", "arguments": {"usd": usd}, "result": None if error else "paid", "error": error}
    return {**told, "changes": changes, "latency_seconds": 0.0}


async def test_a_worker_that_slept_before_it_announced_a_call_does_not_make_it() -> None:
    world = World()
    first = await world.begun()
    second = await world.taken_over(first)
    await world.pay(second, 7)
    with pytest.raises(RunTaken):
        await world.pay(first, 7)
    with pytest.raises(RunTaken):  # nor any other, whatever its model told it meanwhile
        await world.pay(first, 8)
    assert world.paid == ["7"]


async def test_a_worker_that_lost_its_run_makes_no_other_call_than_the_new_one_has_made() -> None:
    world = World()
    first = await world.begun()
    await world.taken_over(first)
    with pytest.raises(RunTaken):
        await world.pay(first, 8)
    assert world.paid == []


async def test_a_worker_that_slept_after_it_announced_a_call_looks_before_it_makes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    first = await world.begun()
    add, sleeping = first._journal.add, asyncio.Event()

    async def sleep_after(fact: Fact) -> bool:
        stored = await add(fact)
        sleeping.set()
        monkeypatch.setattr(worker_presence, "SILENCE", timedelta(0))
        await asyncio.sleep(0.01)
        return stored

    monkeypatch.setattr(first._journal, "add", sleep_after)
    paying = asyncio.ensure_future(world.pay(first))
    await sleeping.wait()
    second = Recorder.resume(Journal(world.store), first.id, by="ben")
    await second.start()
    with pytest.raises(InDoubt):
        await world.pay(second)
    with pytest.raises(RunTaken):
        await paying
    assert world.paid == []


async def test_the_result_of_a_call_during_which_the_run_was_lost_is_in_doubt_and_not_made_again() -> None:
    world = World()
    first = await world.begun()

    async def lose() -> None:
        await world.taken_over(first)

    with pytest.raises(RunTaken):
        await world.pay(first, before=lose)
    assert list(world.store.facts(Query(kind="call"))) == []
    (doubt,) = calls_in_doubt(world.store)
    assert doubt.arguments == {"usd": 7}
    with pytest.raises(InDoubt):
        await world.pay(await world.taken_over(first))
    assert world.paid == ["7"]


async def test_a_program_that_catches_the_loss_of_its_run_cannot_go_on() -> None:
    world = World()
    first = await world.begun()
    await world.taken_over(first)
    with pytest.raises(RunTaken):
        await world.pay(first)
    with pytest.raises(RunTaken):
        await first.record("remark", "log", "x", _nothing)
    with pytest.raises(RunTaken):
        first.check()


async def test_a_worker_that_lost_its_run_records_nothing_more_in_it_but_what_it_paid() -> None:
    world = World()
    first = await world.begun()

    async def answer(body: Json) -> Json:
        await world.taken_over(first)
        return body

    for kind, body in (("turn", TURN), ("decision", {"point": "p"}), ("reading", {"value": 1}), ("remark", {})):
        record = Recorder.resume(Journal(world.store), first.id, by="cleo")
        await record.start()
        with pytest.raises(RunTaken):
            await record.record(kind, "x", None, partial(answer, body))
        with pytest.raises(RunTaken):
            await record.end("completed")
        assert list(world.store.facts(Query(kind=kind, subject=first.id))) == []
    assert list(world.store.facts(Query(kind="run"))) == []
    (lost,) = recall(world.store, first.id).failures
    assert (lost.step, lost.cost_usd, lost.tokens) == ("s", 0.5, 3)


async def test_a_worker_that_lost_a_run_has_lost_the_runs_it_opened() -> None:
    world = World()
    first = await world.begun()
    children = []

    async def opens(run: str) -> Any:
        child = Recorder(Journal(world.store), START, by="ann", run=run)
        child.claims.above = first.claims
        children.append(child)
        if len(children) == 1:  # one that has begun, and one that has not
            await child.start()
        await world.taken_over(first)
        with pytest.raises(RunTaken):
            await (world.pay(child) if len(children) == 1 else child.start())
        with pytest.raises(RunTaken):
            await child.record("remark", "log", "x", _nothing)
        raise RunTaken("as it says")

    with pytest.raises(RunTaken):
        await first.record_child("part", [], opens)
    first = await world.taken_over(first)
    with pytest.raises(RunTaken):
        await first.record_child("other", [], opens)
    assert world.paid == []
    assert {fact.key for fact in world.store.facts(Query(kind="start"))} == {first.id, children[0].id}
    assert not {"remark", "child"} & world.store.kinds().keys()


async def test_announcing_calls_stops_neither_other_steps_nor_runs_below() -> None:
    world = World()
    record = await world.begun()
    child = Recorder(Journal(world.store), START, by="ann")
    child.claims.above = record.claims
    await child.start()
    work = [each for usd in range(9) for each in (world.pay(record, usd), world.pay(child, usd))]
    work += [record.record("remark", "log", n, _nothing) for n in range(9)]
    await asyncio.gather(*work, *(child.record("remark", "log", n, _nothing) for n in range(9)))
    assert len(world.paid) == 18
    assert world.store.kinds()["remark"] == 18


async def test_of_many_calls_at_a_time_none_is_made_after_the_run_is_lost() -> None:
    world = World()
    first = await world.begun()
    await world.pay(first, 1)
    await world.taken_over(first)
    told = await asyncio.gather(*(world.pay(first, usd) for usd in range(2, 6)), return_exceptions=True)
    assert [type(each) for each in told] == [RunTaken] * 4
    assert world.paid == ["1"]


async def test_many_calls_at_a_time_are_all_announced() -> None:
    world = World()
    first = await world.begun()
    await asyncio.gather(*(world.pay(first, usd) for usd in range(5)))
    assert [claim.key for claim in claims_of(world.store, first.id)] == [f"{first.id}@{n}" for n in range(1, 6)]
    await first.end("completed")
    assert holder_of(world.store, first.id) is None


async def test_an_ending_that_comes_too_late_does_not_count() -> None:
    world = World()
    first = await world.begun()
    second = await world.taken_over(first)
    await second.end("completed", "second")
    with pytest.raises(RunTaken):
        await first.end("failed", error="late")
    assert recall(world.store, first.id).output == "second"


# Calls in doubt


async def in_doubt(world: World) -> Recorder:
    record = await world.begun()

    async def cut_off() -> Json:
        raise InDoubt("no answer in time")

    with pytest.raises(InDoubt, match="seedbed runs settle"):
        await record.record("call", "pay", {"usd": 7}, cut_off, risky=True)
    with pytest.raises(InDoubt):  # though its program may have caught it
        record.check()
    with pytest.raises(InDoubt):
        await world.pay(record, 8)
    await record.end("failed", error="in doubt")
    return record


async def test_a_call_in_doubt_is_listed_and_made_again_only_if_it_is_known_not_to_have_happened() -> None:
    world = World()
    record = await in_doubt(world)
    (doubt,) = calls_in_doubt(world.store)
    assert (doubt.run, doubt.tool, doubt.arguments, doubt.by) == (record.id, "pay", {"usd": 7}, "ann")
    with pytest.raises(InDoubt):
        await world.pay(await world.taken_over(record))
    settle(world.store, record.id, doubt.call[:8], done=False, because="the bank has nothing", by="ben")
    assert calls_in_doubt(world.store) == []
    assert (await world.pay(await world.taken_over(record)))["result"] == "paid"
    assert world.paid == ["7"]


async def test_a_call_known_to_have_happened_is_not_made_again_and_has_the_result_that_is_given() -> None:
    world = World()
    record = await in_doubt(world)
    settle(world.store, record.id, "pay", done=True, because="the bank shows it", by="ben", result={"id": 3})
    again = await world.taken_over(record)
    assert (await world.pay(again))["result"] == {"id": 3}
    assert world.paid == []
    (stored,) = world.store.facts(Query(kind="call"))
    assert stored.body["arguments"] == {"usd": 7}


async def test_a_worker_that_slept_since_it_announced_a_call_cannot_make_it_once_that_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    record = await world.begun()
    monkeypatch.setattr(worker_presence, "SILENCE", timedelta(0))

    async def settled_meanwhile(fact: Fact) -> bool:
        stored = bool(world.store.append([fact]))
        settle(world.store, record.id, "pay", done=False, because="it did not begin", by="ben")
        return stored

    monkeypatch.setattr(record._journal, "add", settled_meanwhile)
    with pytest.raises(RunTaken):
        await world.pay(record)
    assert world.paid == []


async def test_what_is_settled_is_said_with_a_reason_once_and_of_a_call_that_is_in_doubt() -> None:
    world = World()
    record = await in_doubt(world)
    with pytest.raises(SeedbedError, match="reason"):
        settle(world.store, record.id, "pay", done=True, because=" ", by="ben")
    with pytest.raises(NotFound, match="pay"):
        settle(world.store, record.id, "send", done=True, because="x", by="ben")
    settle(world.store, record.id, "pay", done=True, because="x", by="ben")
    with pytest.raises(NotFound, match="none"):
        settle(world.store, record.id, "pay", done=False, because="x", by="ben")


async def test_a_call_under_way_is_not_in_doubt() -> None:
    world = World()
    record = await world.begun()

    async def look() -> None:
        assert calls_in_doubt(world.store) == []
        with pytest.raises(RunTaken):
            settle(world.store, record.id, "pay", done=False, because="x", by="ben")

    with worker_presence.performing(record.id):
        await world.pay(record, before=look)


async def test_a_call_that_an_older_run_announced_can_be_settled() -> None:
    world = World()
    record = await world.begun()
    key = record.keys.next("call", "pay", {"usd": 7})
    at = datetime(2026, 1, 1, tzinfo=UTC)
    fact = Fact(kind="intent", key=f"intent {key}", subject=record.id, at=at, by="ann", body={"what": "pay"})
    world.store.append([fact])
    with pytest.raises(InDoubt):
        await world.pay(await world.taken_over(record))
    (doubt,) = calls_in_doubt(world.store)
    assert (doubt.call, doubt.arguments) == (idempotency_key(key), None)
    settle(world.store, record.id, "pay", done=False, because="x", by="ben")
    await world.pay(await world.taken_over(record))
    assert world.paid == ["7"]


async def test_a_result_is_kept_for_a_store_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    record = await world.begun()
    add, lost = record._journal.add, iter(range(2))

    async def shaky(fact: Fact) -> bool:
        if fact.kind == "call" and next(lost, None) is not None:
            raise StoreError("the database is gone")
        return await add(fact)

    monkeypatch.setattr(record._journal, "add", shaky)
    await world.pay(record)
    assert (calls_in_doubt(world.store), world.paid) == ([], ["7"])


async def test_a_cancelled_call_is_in_doubt() -> None:
    world = World()
    record = await world.begun()

    async def hang() -> None:
        await asyncio.sleep(60)

    paying = asyncio.ensure_future(world.pay(record, before=hang))
    await asyncio.sleep(0.01)
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    with pytest.raises(InDoubt):
        record.check()
    assert len(calls_in_doubt(world.store)) == 1


# Reading calls


@pytest.mark.parametrize("changed_since", [False, True])
async def test_a_reading_call_that_failed_is_tried_again_unless_the_run_acted_on_it(changed_since: bool) -> None:
    world = World()
    record = await world.begun()
    tried: list[str] = []

    async def look(error: str) -> Json:
        tried.append(error)
        return call(0, error, changes=False)

    async def ask(on: Recorder, error: str) -> str:
        body = await on.record("call", "look", {}, lambda: look(error))
        return str(body["error"])

    assert await ask(record, "down") == "down"
    if changed_since:
        await world.pay(record)
    again = await world.taken_over(record)
    if changed_since:
        assert await ask(again, "never") == "down"
        assert tried == ["down"]
        return
    assert await ask(again, "down still") == "down still"
    third = await world.taken_over(record)
    assert await ask(third, "") == ""
    assert tried == ["down", "down still", ""]
    assert [each.error for each in recall(world.store, record.id).calls] == [""]
    fourth = await world.taken_over(record)
    assert await ask(fourth, "never") == ""


async def _nothing() -> Json:
    return {}
