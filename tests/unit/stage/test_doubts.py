"""What a tool may have done is not done twice; a run whose record cannot be kept is no completed one."""

from __future__ import annotations

import asyncio
import http.client
import urllib.error
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import httpx
import pytest
import requests
from broken_store import Broken
from langchain_core.tools import StructuredTool

from seedbed.errors import InDoubt, RunError, RunTaken, SeedbedError, StoreError
from seedbed.playbooks.playbook import Playbook
from seedbed.runs import recorder
from seedbed.runs.history import recent
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import Tool, tool
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, Store, short
from seedbed.workspace import Workspace

ALLOWED = {"rules": {"allow": ["pay"]}}
PAYS = Playbook.from_document({"program": f"{__name__}:pays", **ALLOWED})
keys: list[str] = []


class ReadTimeout(Exception):
    """As libraries for HTTP have it."""


async def pays(task: Mapping[str, Any], stage: Stage) -> Any:
    try:
        return await stage.call("pay", usd=7)
    except RunError:
        if task.get("catches"):
            return "never mind"
        raise


def desk(*tools: Any, store: Store | None = None) -> Workspace:
    space = Workspace(Settings(by="ann"), store or MemoryStore())
    space.tools = list(tools)
    return space


def raising(error: Exception, *, changes: bool = True) -> Tool:
    async def pay(usd: int) -> str:
        raise error

    return tool(pay, changes=changes)


async def hangs(usd: int) -> str:
    await asyncio.sleep(60)
    return "late"


@pytest.mark.parametrize(
    "pay",
    [
        tool(hangs, changes=True, name="pay", timeout_seconds=0.01),
        raising(TimeoutError()),
        raising(ReadTimeout("no answer")),
        raising(ConnectionResetError()),
    ],
)
@pytest.mark.parametrize("catches", [False, True])
async def test_a_changing_call_without_an_answer_is_in_doubt_and_ends_its_run(pay: Tool, catches: bool) -> None:
    space = desk(pay)
    with pytest.raises(InDoubt, match="may have happened"):
        await space.run(PAYS, catches=catches)
    (doubt,) = space.runs.doubts()
    run = space.runs.get(doubt.run)
    assert (run.status, doubt.tool, doubt.arguments) == ("failed", "pay", {"usd": 7})
    assert list(space.store.facts(Query(kind="call"))) == []
    space.tools = [tool(paid, changes=True, name="pay")]
    with pytest.raises(InDoubt, match=rf"seedbed runs settle {short(run.id)} {doubt.call[:10]}"):
        await space.runs.resume(run)
    space.runs.settle(run, "pay", done=False, because="the bank shows nothing")
    assert (await space.runs.resume(run)).output == "paid"


async def paid(usd: int) -> str:
    return "paid"


@pytest.mark.parametrize("pay", [raising(RunError("declined")), raising(ValueError("bad account"))])
async def test_a_changing_call_that_says_it_failed_has_failed(pay: Tool) -> None:
    space = desk(pay)
    assert (await space.run(PAYS, catches=True)).output == "never mind"
    assert space.runs.doubts() == []


async def test_a_reading_call_without_an_answer_has_failed_and_is_tried_again_when_its_run_is_resumed() -> None:
    space = desk(raising(TimeoutError(), changes=False))
    with pytest.raises(RunError, match="no answer in time"):
        await space.run(PAYS)
    (run,) = recent(space.store, 5)
    assert (run.status, space.runs.doubts()) == ("failed", [])
    space.tools = [tool(paid, name="pay", changes=False)]
    done = await space.runs.resume(run)
    assert (done.output, [call.error for call in done.calls]) == ("paid", [""])
    assert space.runs.get(run) == done


# Idempotency keys


async def keyed(usd: int, idempotency_key: str) -> str:
    """Pay."""
    keys.append(idempotency_key)
    if len(keys) == 1:
        raise TimeoutError
    return "paid"


@pytest.mark.parametrize("langchain", [False, True])
async def test_a_tool_that_asks_for_a_key_gets_the_same_for_a_call_whenever_it_is_made(langchain: bool) -> None:
    keys.clear()
    told = {"coroutine": keyed, "name": "pay", "metadata": {"changes": True}}
    pay = StructuredTool.from_function(**told) if langchain else tool(keyed, changes=True, name="pay")
    space = desk(pay)
    with pytest.raises(InDoubt):
        await space.run(PAYS)
    (doubt,) = space.runs.doubts()
    space.runs.settle(doubt.run, "pay", done=False, because="the bank shows nothing")
    run = await space.runs.resume(doubt.run)
    await space.run(PAYS)
    first, again, other = keys
    assert first == again == doubt.call
    assert other != first
    assert [call.arguments for call in run.calls] == [{"usd": 7}]  # rules and people do not see it


async def forges(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call("pay", usd=7, idempotency_key="mine")


async def test_nobody_else_gives_the_key() -> None:
    keys.clear()
    space = desk(tool(keyed, changes=True, name="pay"))
    with pytest.raises(RunError, match="idempotency_key"):
        await space.run(Playbook.from_document({"program": f"{__name__}:forges", **ALLOWED}))
    assert keys == []


async def twice(task: Mapping[str, Any], stage: Stage) -> Any:
    return await asyncio.gather(stage.call("pay", usd=7), stage.call("pay", usd=7))


async def test_two_equal_calls_at_a_time_have_two_keys() -> None:
    keys[:] = ["before"]

    async def yes(action: str, because: str) -> bool:
        await asyncio.sleep(0)
        return True

    space = desk(tool(keyed, changes=True, name="pay"))
    space.resources.confirm = yes
    await space.run(Playbook.from_document({"program": f"{__name__}:twice", "rules": {"confirm": ["pay"]}}))
    assert len({*keys}) == 3


# What a person allowed


asked: list[int] = []


async def looks(usd: int) -> str:
    asked.append(usd)
    return "paid"


async def forks(task: Mapping[str, Any], stage: Stage) -> Any:
    await stage.ask("clerk", "Shall I?")
    return await stage.call("pay", usd=7)


@pytest.mark.parametrize("mode", ["fork:1", "lenient", "strict"])
async def test_a_replay_does_not_repeat_what_a_person_allowed_whatever_the_tool_says_of_itself(mode: str) -> None:
    asked.clear()

    async def yes(action: str, because: str) -> bool:
        return True

    clerk = {"use": "scripted", "args": {"replies": {".": "yes"}}}
    space = Workspace(Settings(by="ann", models={"m": clerk}), MemoryStore())
    space.tools, space.resources.confirm = [tool(looks, name="pay", changes=False)], yes
    book = {"roles": {"clerk": {"model": "m"}}, "program": f"{__name__}:forks"}
    run = await space.run(Playbook.from_document({**book, "rules": {"confirm": ["pay"]}}))
    for playbook in (None, Playbook.from_document(book)):
        replayed, missed = await space.runs.replay(run, playbook, mode=mode)
        assert (replayed.output == "paid") != missed
    assert asked == [7]


# Failures of the store


class Filling(Broken):
    """A disk that is full after so many facts of turns."""

    def __init__(self, within: Store, turns: int) -> None:
        super().__init__(within)
        self.turns = turns

    def append(self, facts: Iterable[Fact]) -> int:
        every = list(facts)
        self.turns -= sum(fact.kind == "turn" for fact in every)
        self.writes = self.turns >= 0
        return super().append(every)


LOOP: dict[str, Any] = {
    "roles": {"w": {"model": "m"}},
    "steps": [
        {"name": "draft", "role": "w", "prompt": "draft {q}"},
        {"name": "better", "role": "w", "prompt": "improve {draft}", "until": {"settled": 1.0, "at_most": 12}},
        {"name": "end", "role": "w", "prompt": "end {better}"},
    ],
}


def talk(store: Store) -> Workspace:
    replies = {"^plan": "- one", ".": "fine"}
    return Workspace(Settings(by="ann", models={"m": {"use": "scripted", "args": {"replies": replies}}}), store)


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_full_disk_ends_no_run_as_completed_and_it_goes_on_at_once(turns: int) -> None:
    store = Filling(MemoryStore(), turns)
    space = talk(store)
    book = Playbook.from_document(LOOP)
    with pytest.raises(StoreError):
        await space.run(book, q="why")
    assert [run.status for run in recent(store, 5)] == ["running"]
    store.turns, store.writes = 1000, True
    (run,) = recent(store, 5)
    whole = await talk(MemoryStore()).run(book, q="why", seed=run.seed)
    other = talk(store)  # of the same process
    done = await other.runs.resume(run)
    assert (done.status, done.output, len(done.turns)) == ("completed", whole.output, len(whole.turns))


class Hiccup(Broken):
    """A store that loses one fact of a turn, and works again at once."""

    def __init__(self, within: Store, turn: int) -> None:
        super().__init__(within)
        self.turn = turn

    def append(self, facts: Iterable[Fact]) -> int:
        every = list(facts)
        self.turn -= sum(fact.kind == "turn" for fact in every)
        self.writes = self.turn != 0 or not any(fact.kind == "turn" for fact in every)
        return super().append(every)


@pytest.mark.parametrize("turn", [1, 2, 3, 4])
@pytest.mark.parametrize("opens", [False, True])
async def test_an_answer_that_the_store_loses_is_not_gone_on_without(turn: int, opens: bool) -> None:
    steps: list[dict[str, Any]] = [{"name": "plan", "role": "w", "prompt": "plan {q}", "opens": {"input": "q"}}]
    book = Playbook.from_document({**LOOP, "steps": [*(steps if opens else []), *LOOP["steps"]]})
    store = Hiccup(MemoryStore(), turn)
    with pytest.raises(StoreError):
        await talk(store).run(book, q="why", seed=1)
    run = next(run for run in recent(store, 9) if not run.parent)
    assert run.status == "failed"
    whole = await talk(MemoryStore()).run(book, q="why", seed=1)
    done = await talk(store).runs.resume(run)
    assert (done.output, len(done.turns)) == (whole.output, len(whole.turns))
    assert [child.status for child in done.children] == ["completed"] * len(whole.children)


async def test_a_run_whose_end_could_not_be_recorded_is_left_as_soon_as_the_store_is_back() -> None:
    store = Filling(MemoryStore(), 1)
    space, book = talk(store), Playbook.from_document(LOOP)
    with pytest.raises(StoreError):
        await space.run(book, q="why")
    (run,) = recent(store, 5)
    assert not list(store.facts(Query(kind="claim", subject=run.id)))
    store.turns, store.writes = 1000, True
    await space.run(book, q="how")
    (left,) = store.facts(Query(kind="claim", subject=run.id))
    assert left.body == {"worker": ""}


async def test_a_run_that_is_under_way_is_not_resumed_beside_itself() -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def pay(usd: int) -> str:
        began.set()
        await go.wait()
        return "paid"

    space = desk(tool(pay, changes=True))
    working = asyncio.ensure_future(space.run(PAYS))
    await began.wait()
    (run,) = recent(space.store, 5)
    for other in (space, desk(tool(pay, changes=True), store=space.store)):
        with pytest.raises(RunTaken, match="under way"):
            await other.runs.resume(run)
    assert space.runs.doubts() == []
    go.set()
    assert (await working).output == "paid"


class Losing(Broken):
    """A store that loses the first facts of one kind, and works again."""

    def __init__(self, within: Store, kind: str, times: int) -> None:
        super().__init__(within)
        self.kind, self.times = kind, times

    def append(self, facts: Iterable[Fact]) -> int:
        every = list(facts)
        self.writes = not self.times or all(fact.kind != self.kind for fact in every)
        self.times -= not self.writes
        return super().append(every)


spent: list[int] = []


async def spend(usd: int) -> str:
    spent.append(usd)
    return "paid"


async def careless(task: Mapping[str, Any], stage: Stage) -> list[str]:
    """Goes on after every error."""
    done = []
    for usd in range(3):
        with suppress(SeedbedError):
            await stage.ask("w", f"payment {usd}")
            done.append(await stage.call("pay", usd=usd))
    return done


CARELESS = Playbook.from_document({"program": f"{__name__}:careless", "roles": {"w": {"model": "m"}}, **ALLOWED})


@pytest.mark.parametrize(
    ("kind", "times", "error"), [("turn", 1, StoreError), ("claim", 1, StoreError), ("call", 2, InDoubt)]
)
async def test_a_program_that_catches_errors_is_not_completed_without_its_record(
    kind: str, times: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PAUSES", (0.01,))
    spent.clear()
    store = Losing(MemoryStore(), kind, times)
    space = talk(store)
    space.tools = [tool(spend, changes=True, name="pay")]
    with pytest.raises(error):
        await space.run(CARELESS)
    (run,) = recent(store, 5)
    assert (run.status, spent) == ("failed", [0] if error is InDoubt else [])
    doubts = space.runs.doubts()
    assert len(doubts) == (error is InDoubt)
    for doubt in doubts:
        space.runs.settle(doubt.run, doubt.call, done=True, because="the bank shows it", result="paid")
    done = await space.runs.resume(run)
    assert (done.status, done.output, spent) == ("completed", ["paid"] * 3, [0, 1, 2])


async def opens_carelessly(task: Mapping[str, Any], stage: Stage) -> str:
    with suppress(SeedbedError):
        await stage.open({}, playbook=CARELESS.digest)
    return "done"


async def test_a_program_that_catches_the_lost_record_of_a_run_it_opened_is_not_completed() -> None:
    spent.clear()
    store = Losing(MemoryStore(), "turn", 1)
    space = talk(store)
    space.tools = [tool(spend, changes=True, name="pay")]
    space.playbooks.keep(CARELESS, because="to open")
    with pytest.raises(StoreError):
        await space.run(Playbook.from_document({"program": f"{__name__}:opens_carelessly", **ALLOWED}))
    run = next(run for run in recent(store, 9) if not run.parent)
    assert (run.status, spent) == ("failed", [])
    assert (await space.runs.resume(run)).output == "done"
    assert spent == [0, 1, 2]


def wrapped(cause: Exception) -> Exception:
    error = RuntimeError("the bank's client failed")
    error.__cause__ = cause
    return error


def while_handling(first: Exception, then: Exception) -> Exception:
    then.__context__ = first
    return then


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadError("x"),
        httpx.WriteError("x"),
        httpx.RemoteProtocolError("server disconnected"),
        requests.ConnectionError("connection aborted"),
        http.client.IncompleteRead(b""),
        http.client.RemoteDisconnected("x"),
        urllib.error.URLError(TimeoutError()),
        ConnectionError("x"),
        wrapped(httpx.ReadError("x")),
        while_handling(ConnectionResetError(), ValueError("no answer")),
        while_handling(ConnectionRefusedError(), httpx.ReadError("of the second host")),
    ],
    ids=repr,
)
async def test_a_lost_connection_leaves_a_call_in_doubt(error: Exception) -> None:
    space = desk(raising(error))
    with pytest.raises(InDoubt):
        await space.run(PAYS)
    assert len(space.runs.doubts()) == 1


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        httpx.ConnectError("refused"),
        urllib.error.URLError(ConnectionRefusedError()),
        requests.ConnectionError(urllib.error.URLError(ConnectionRefusedError())),
        ValueError("x"),
    ],
    ids=repr,
)
async def test_a_connection_that_was_never_made_is_a_failure(error: Exception) -> None:
    space = desk(raising(error))
    with pytest.raises(RunError) as failed:
        await space.run(PAYS)
    assert not isinstance(failed.value, InDoubt)
    assert space.runs.doubts() == []
