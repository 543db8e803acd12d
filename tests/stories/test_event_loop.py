"""The event loop never waits for the store: everything that a run needs of it happens in other threads."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from seedbed.errors import RunError
from seedbed.playbooks.playbook import Playbook
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

CALLS = ("put", "get", "append", "facts", "brief", "ref", "refs", "move", "contents", "kinds")
MODELS = {"m": {"use": "scripted", "args": {"replies": {"": "yes"}}, "usd_per_million": [1, 1], "can": ["reasoning"]}}


class Watched(MemoryStore):
    """A store that notes who calls it from the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.loop_thread: int | None = None
        self.from_the_loop: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        known = super().__getattribute__(name)
        if name not in CALLS:
            return known

        def call(*args: Any, **named: Any) -> Any:
            self.note()
            result = known(*args, **named)
            return self.noted(result) if isinstance(result, Iterator) else result

        return call

    def noted(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.note()
            yield item

    def note(self) -> None:
        if threading.get_ident() == self.loop_thread:
            self.from_the_loop.append("".join(traceback.format_stack(limit=8)))


def pay(usd: int) -> str:
    return f"paid {usd}"


async def pays(task: Mapping[str, Any], stage: Stage) -> str:
    asked = (await stage.ask("clerk", f"Is {task['n']} right?")).text
    await stage.decide("pay", "yes", because="it is right")
    await stage.call("pay", usd=7)
    await stage.now()
    if failing:
        raise RunError("it fails")
    return asked


failing: list[bool] = []
PAYS = {"program": f"{__name__}:pays", "roles": {"clerk": {"needs": ["reasoning"]}}, "rules": {"allow": ["pay"]}}
OPENS = {"roles": {"a": {"model": "m"}}, "steps": [{"name": "parts", "role": "a", "prompt": "{q}"}]}


async def outer(task: Mapping[str, Any], stage: Stage) -> str:
    (at,) = spaces
    child = await stage.open({"n": 1}, playbook=Playbook.from_document(PAYS).digest)
    inner = await at.run(Playbook.from_document(PAYS), n=2)
    async with at.runs.recording(Playbook.from_document(PAYS), n=3) as recorded:
        recorded.output = await recorded.call("pay", usd=8)
    return f"{child.output} {inner.output}"


spaces: list[Workspace] = []
OUTER = Playbook.from_document({"program": f"{__name__}:outer", "rules": {"allow": ["pay"]}})


@pytest.mark.parametrize("quota", [{}, {"runs_per_day": 1000, "usd_per_day": 100}])
async def test_no_run_has_the_event_loop_wait_for_its_store(quota: dict[str, Any]) -> None:
    store = Watched()
    space = Workspace(Settings.model_validate({"by": "ann", "models": MODELS, "quota": quota}), store)
    space.tools = [tool(pay, changes=True)]
    spaces[:] = [space]
    for each in (PAYS, OPENS):
        space.playbooks.keep(Playbook.from_document(each), because="to open")
    store.loop_thread = threading.get_ident()
    await space.run(Playbook.from_document(OPENS), q="why", max_cost_usd=1)
    failing.append(True)
    with pytest.raises(RunError):
        await space.run(OUTER)
    (failed,) = await asyncio.to_thread(space.runs.recent, 1)
    failing.clear()
    resumed = await space.runs.resume(failed.id)
    assert resumed.output == "yes yes"
    assert store.from_the_loop == []
