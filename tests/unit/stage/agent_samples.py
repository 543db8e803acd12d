"""A desk whose model searches and refunds: tools, a script for the model, and a way to kill runs at any fact."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from seedbed.errors import InDoubt
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.cassette import ReplayMode
from seedbed.runs.history import recent
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.stage.tools import tool
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query
from seedbed.workspace import Workspace

refunded: list[str] = []
searched: list[str] = []
chance = random.Random(1)


@tool(effect="reads")
async def search(query: str, limit: int = 3) -> str:
    """Find orders by what was bought."""
    for _ in range(chance.randrange(4)):
        await asyncio.sleep(0)
    searched.append(query)
    if query == "nothing":
        raise ValueError("the index is empty")
    return f"o-17 is a {query}, number {len(searched)}"


def pretend(order: str) -> str:
    return f"pretended {order}"


@tool(changes=True, simulated=pretend)
async def refund(order: str) -> str:
    """Give the money back."""
    refunded.append(order)
    return f"refunded {order}"


def calls(*asked: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    return {"calls": [{"tool": name, "arguments": arguments} for name, arguments in asked], "text": text}


TWICE = calls(("search", {"query": "mug"}), ("search", {"query": "mug"}), ("search", {"query": "cup"}))
SCRIPT = {
    "refunded o-17": "The money is back.",
    "pretended o-17": "It would be back.",
    "is a cup": calls(("refund", {"order": "o-17"}), text="I refund it."),
    "^Help": TWICE,
    "": "I do not know.",
}
DESK: dict[str, Any] = {
    "roles": {"clerk": {"model": "fast", "system": "You help.", "tools": ["search", "refund"]}},
    "steps": [{"name": "solve", "role": "clerk", "prompt": "{question}"}],
    "rules": {"allow": ["refund"]},
}
HELP = {"question": "Help: my mug is broken"}


def desk(**step: Any) -> Playbook:
    """The desk with other fields of its step, or of the whole document where those are named in capitals."""
    whole = {name.lower(): step.pop(name) for name in list(step) if name.isupper()}
    return Playbook.from_document({**DESK, "steps": [{**DESK["steps"][0], **step}], **whole})


def workspace(script: Any = SCRIPT, store: Any = None, **settings: Any) -> Workspace:
    models = {"fast": {"use": "scripted", "args": {"replies": script}}}
    document = {"by": "ada", "models": models, **settings}
    return Workspace(Settings.model_validate(document), store or MemoryStore(), tools=[search, refund])


async def replayed(space: Workspace, run: Run, mode: str = "strict", playbook: Playbook | None = None) -> Run:
    chosen = playbook or space.resources.library.get(run.playbook)
    name = f"{chance.randrange(16**32):032x}"
    return await space.resources.runner.replay(name, chosen, run.id, ReplayMode.parse(mode))


class Killed(BaseException):
    """The end of a process."""


@contextmanager
def killing(space: Workspace, number: int, *, before: bool) -> Iterator[list[Fact]]:
    """A block in which the worker dies before or after it stores the fact of that number; with the facts it stored."""
    journal, stored = space.resources.runner.journal, list[Fact]()
    add: Callable[[Fact], Awaitable[bool]] = journal.add
    dead = False

    async def last(fact: Fact) -> bool:
        nonlocal dead
        if dead or (before and len(stored) == number):
            dead = True
            raise Killed
        stored.append(fact)
        outcome = await add(fact)
        if len(stored) > number and not before:
            dead = True
            raise Killed
        return outcome

    journal.add = last  # type: ignore[method-assign]
    try:
        yield stored
    finally:
        journal.add = add  # type: ignore[method-assign]


async def killed_and_resumed(playbook: Playbook, *, before: bool) -> None:
    """A run of the playbook is killed at each of its facts, and resumed: to the same output, or listed in doubt."""
    number, doubts, done = 0, 0, 0
    while True:
        refunded.clear()
        space = workspace()
        with killing(space, number, before=before) as stored:
            try:
                await space.run(playbook, **HELP)
            except Killed:
                pass
            else:
                break
        number += 1
        if not list(space.store.facts(Query(kind="start"))) or next(recent(space.store, 1)).status == "completed":
            continue
        again = workspace(store=space.store)
        try:
            run = await again.runs.resume(stored[0].key)
        except InDoubt:
            doubts += 1
            assert len(refunded) <= 1
        else:
            done += 1
            assert (run.output, refunded) == ("The money is back.", ["o-17"])
    assert number >= 9
    assert (doubts, done) == (1, number - 2)
