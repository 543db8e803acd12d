"""Runs that have something else do what their rules forbid: rules, money and simulated tools bind every run below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import seedbed
from seedbed import Dataset, Playbook, Task, Workspace, tool
from seedbed.errors import ActionForbidden, BudgetSpent
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.workspace.nouns.runs import Runs

refunded: list[str] = []
pretended: list[str] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    refunded.clear()
    pretended.clear()


def refund(order: str) -> str:
    refunded.append(order)
    return f"refunded {order}"


def pretend(order: str) -> str:
    pretended.append(order)
    return f"refunded {order}"


async def desk(task: Mapping[str, Any], stage: Stage) -> Any:
    return await stage.call("refund", order=task["order"])


DESK = Playbook.from_document({"program": f"{__name__}:desk", "rules": {"allow": ["refund"]}})
SAYS = Playbook.from_document({"roles": {"clerk": {"model": "fast"}}})
ORDER = Dataset((Task("t0", {"order": "0"}, "refunded 0"),))


def space() -> Workspace:
    return seedbed.open(store=MemoryStore(), tools=[tool(refund, simulated=pretend)], by="ada")


above: list[Workspace] = []


async def outer(task: Mapping[str, Any], stage: Stage) -> Any:
    """Has something else do what its rules forbid."""
    (at,) = above
    how = task["how"]
    if how == "run":
        return (await at.run(DESK, order="1")).output
    if how == "recording":
        async with at.runs.recording(DESK, order="1") as inner:
            return await inner.call("refund", order="1")
    if how == "recorded":
        return await _recorded(at.runs)
    if how == "dialogue":
        return (await stage.open({"order": "1"}, playbook=DESK.digest)).output
    card = await at.evaluate(DESK, ORDER)
    return str(card.cells[0].reason)


async def _recorded(runs: Runs) -> str:
    @runs.recorded(DESK)
    async def work(order: str, stage: Stage) -> str:
        return str(await stage.call("refund", order=order))

    return await work("1")


@pytest.mark.parametrize("how", ["run", "recording", "recorded", "dialogue", "evaluate"])
async def test_the_rules_of_a_run_bind_everything_below_it(how: str) -> None:
    bound = Playbook.from_document({"program": f"{__name__}:outer", "rules": {"never": ["refund"]}})
    async with space() as at:
        at.playbooks.keep(DESK, because="to open")
        above[:] = [at]
        if how == "evaluate":
            assert "never: refund" in (await at.run(bound, how=how)).output
            assert (await at.evaluate(DESK, ORDER)).interval.mean == 1.0  # another run
        else:
            with pytest.raises(ActionForbidden, match="never: refund"):
                await at.run(bound, how=how)
            below = [run for run in at.runs.recent(children=True) if run.parent]
            assert len(below) == 1
            with pytest.raises(ActionForbidden, match="never: refund"):  # nor when it is resumed by itself
                await at.runs.resume(below[0])
        await at.run(DESK, order="9")  # nothing binds what is not below it
    assert refunded == ["9"]


async def spends(task: Mapping[str, Any], stage: Stage) -> Any:
    (at,) = above
    return (await at.run(SAYS, text="hello", max_cost_usd=100)).output


async def test_what_is_below_a_run_is_paid_from_its_budget() -> None:
    card = {"use": "scripted", "args": {"replies": {"": "yes"}}, "usd_per_million": [1000, 1000]}
    async with seedbed.open(store=MemoryStore(), models={"fast": card}, by="ada") as at:
        above[:] = [at]
        with pytest.raises(BudgetSpent):
            await at.run(Playbook.from_document({"program": f"{__name__}:spends"}), max_cost_usd=1e-6)


async def test_an_evaluation_below_a_run_that_is_itself_tried_does_not_act_for_real() -> None:
    playbook = Playbook.from_document({"program": f"{__name__}:outer"})
    async with space() as at:
        above[:] = [at]
        await at.evaluate(playbook, Dataset((Task("t", {"how": "run"}, "refunded 1"),)))
    assert refunded == []
    assert pretended == ["1"]
