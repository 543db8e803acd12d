"""A store that takes nothing for a while, such as a full disk: the run is resumable at once, and pays nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

import seedbed
from seedbed import Playbook, tool
from seedbed.errors import RunError, StoreUnavailable
from seedbed.runs import recorder
from seedbed.stage.stage import Stage
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact

paid: list[int] = []
disk: list[int] = []
"""After how many more facts it is full."""


class Disk(MemoryStore):
    def append(self, facts: Iterable[Fact]) -> int:
        if disk:
            disk[0] -= 1
            if disk[0] < 0:
                raise StoreUnavailable("the disk is full")
        return super().append(facts)


def pay(usd: int) -> str:
    paid.append(usd)
    return "paid"


async def careless(task: Mapping[str, Any], stage: Stage) -> str:
    """A program that goes on, whatever fails."""
    for usd in range(3):
        try:
            await stage.ask("clerk", f"May I pay {usd}?")
            await stage.call("pay", usd=usd)
        except Exception:  # noqa: BLE001
            pass
    return "all paid"


@pytest.mark.parametrize("room", range(2, 12))
async def test_a_run_whose_disk_was_full_goes_on_at_once_in_the_same_process(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "PAUSES", ())
    paid.clear()
    at = seedbed.open(
        store=Disk(),
        models={"m": {"use": "scripted", "args": {"replies": {"": "yes"}}}},
        tools=[tool(pay, changes=True)],
        by="ada",
    )
    roles, rules = {"clerk": {"model": "m"}}, {"allow": ["pay"]}
    playbook = Playbook.from_document({"roles": roles, "program": f"{__name__}:careless", "rules": rules})
    at.playbooks.keep(playbook, because="to pay")
    disk[:] = [room]
    with pytest.raises((StoreUnavailable, RunError)):
        await at.run(playbook)
    disk.clear()
    (run,) = at.runs.recent()
    assert run.status in ("running", "failed")
    for doubt in at.runs.doubts():
        at.runs.settle(run, doubt.call, done=doubt.arguments["usd"] in paid, because="the bank says so")
    whole = await at.runs.resume(run)
    assert (whole.status, whole.output, len(whole.calls)) == ("completed", "all paid", 3)
    assert paid == [0, 1, 2]
