"""Programs that have other runs act: what those did before an interruption is not done again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

import seedbed
from seedbed import Playbook, Workspace, tool
from seedbed.errors import BudgetSpent, InDoubt, RunTaken
from seedbed.runs.journal import Journal
from seedbed.runs.recorder import Recorder
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

paid: list[int] = []
above: list[Workspace] = []
waiting: list[asyncio.Event] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    paid.clear()
    waiting.clear()


def pay(usd: int) -> str:
    paid.append(usd)
    return f"paid {usd}"


async def interrupted() -> None:
    """Where a run is interrupted, the first time."""
    if waiting:
        waiting[0].set()
        await (waiting[1] if waiting[1:] else asyncio.Event()).wait()


async def pays(task: Mapping[str, Any], stage: Stage) -> str:
    answer = str(await stage.call("pay", usd=task["usd"]))
    if task["where"] == "inside":
        await interrupted()
    return answer


PAYS = Playbook.from_document({"program": f"{__name__}:pays", "rules": {"allow": ["pay"]}})


async def outer(task: Mapping[str, Any], stage: Stage) -> Any:
    (at,) = above
    how, inputs = task["how"], {"usd": 7, "where": task["where"]}
    for _ in range(2):  # the same twice is two payments
        if how == "run":
            await at.run(PAYS, **inputs)
        elif how == "channel":
            await at.run("live", key="anna", **inputs)
        else:
            async with at.runs.recording(PAYS, **inputs) as inner:
                await pays(inputs, inner)
                inner.output = "done"
    if task["where"] == "after":
        await interrupted()
    return "both paid"


OUTER = Playbook.from_document({"program": f"{__name__}:outer", "rules": {"allow": ["pay"]}})


async def space() -> Workspace:
    at = seedbed.open(store=MemoryStore(), tools=[tool(pay, changes=True)], by="ada")
    above[:] = [at]
    digest = at.playbooks.keep(PAYS, because="to serve")
    at.store.move("channels/live", digest, expected=None, because="first", by="ada")
    return at


@pytest.mark.parametrize("where", ["inside", "after"])
@pytest.mark.parametrize("how", ["run", "recording", "channel"])
async def test_what_an_inner_run_paid_is_not_paid_again_when_the_outer_one_is_resumed(how: str, where: str) -> None:
    at = await space()
    waiting[:] = [asyncio.Event()]
    running = asyncio.ensure_future(at.run(OUTER, how=how, where=where))
    await waiting[0].wait()
    running.cancel()
    await asyncio.wait([running])
    waiting.clear()
    (run,) = at.runs.recent()
    assert paid == [7] * (1 if where == "inside" else 2)
    assert (await at.runs.resume(run)).output == "both paid"
    assert paid == [7, 7]
    assert len([each for each in at.runs.recent(children=True) if each.parent]) == 2


@pytest.mark.parametrize("how", ["run", "recording"])
async def test_an_inner_run_does_not_act_when_another_worker_has_the_outer_one(how: str) -> None:
    at = await space()
    waiting[:] = [asyncio.Event(), asyncio.Event()]
    running = asyncio.ensure_future(at.run(OUTER, how=how, where="inside"))
    await waiting[0].wait()
    (run,) = at.runs.recent()
    other = Recorder.resume(Journal(at.store), run.id, by="ben")
    await other.claims.take()
    waiting[1].set()
    with pytest.raises(RunTaken):
        await running
    assert paid == [7]
    assert list(at.store.facts(Query(kind="run"))) == []


async def shrugs(task: Mapping[str, Any], stage: Stage) -> Any:
    with suppress(InDoubt):
        await above[0].run(PAYS, usd=7, where=task["where"])
    return "as if nothing had happened"


async def test_a_run_does_not_end_as_if_an_inner_one_were_not_in_doubt() -> None:
    async def cut_off(usd: int) -> None:
        paid.append(usd)
        raise TimeoutError

    at = await space()
    at.tools = [tool(cut_off, changes=True, name="pay")]
    playbook = Playbook.from_document({"program": f"{__name__}:shrugs", "rules": {"allow": ["pay"]}})
    with pytest.raises(InDoubt):
        await at.run(playbook, where="")
    (run,) = at.runs.recent()
    (doubt,) = at.runs.doubts()
    assert (run.status, doubt.run != run.id) == ("failed", True)
    at.runs.settle(doubt.run, "pay", done=True, because="the bank says so")
    assert (await at.runs.resume(run)).status == "completed"
    assert paid == [7]


async def spends(task: Mapping[str, Any], stage: Stage) -> Any:
    (at,) = above
    says = Playbook.from_document({"roles": {"clerk": {"model": "fast", "max_tokens": 1}}})
    for number in range(3):
        await at.run(says, text=f"hello {number}", max_cost_usd=2.5)
        await interrupted()
    return "done"


async def test_what_inner_runs_spent_counts_once_when_the_outer_one_is_resumed() -> None:
    card = {"use": "scripted", "args": {"replies": {"": "yes"}}, "usd_per_million": [0, 1_000_000]}
    at = seedbed.open(store=MemoryStore(), models={"fast": card}, by="ada")
    above[:] = [at]
    for limit, enough in ((3.5, True), (2.0, False)):
        waiting[:] = [asyncio.Event()]
        playbook = Playbook.from_document({"program": f"{__name__}:spends"})
        running = asyncio.ensure_future(at.run(playbook, max_cost_usd=limit))
        await waiting[0].wait()
        running.cancel()
        await asyncio.wait([running])
        waiting.clear()
        (run, *_) = at.runs.recent()
        if enough:
            assert (await at.runs.resume(run)).output == "done"
        else:
            with pytest.raises(BudgetSpent):
                await at.runs.resume(run)
