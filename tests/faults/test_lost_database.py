"""While a database is gone, all else in the process goes on; its own runs go on when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import RunEvent
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.storage import open_store
from seedbed.workspace import Workspace

MODELS = {"m": {"use": "scripted", "args": {"replies": {"": "one two three"}}}}
CLERK = {"roles": {"clerk": {"model": "m"}}}


async def waits(task: Mapping[str, Any], stage: Stage) -> str:
    """Asks, waits until the test lets it, and decides."""
    answer = await stage.ask("clerk", "How much?")
    waiting["asked"].set()
    await waiting["go on"].wait()
    return await stage.decide("point", answer.text, because="it was said")


async def talks(task: Mapping[str, Any], stage: Stage) -> str:
    for number in range(20):
        await stage.ask("clerk", f"How much is {number}?")
    return "done"


async def never_ends(task: Mapping[str, Any], stage: Stage) -> None:
    await asyncio.Event().wait()


waiting: dict[str, asyncio.Event] = {}


def workspace(url: str) -> Workspace:
    return Workspace(Settings.model_validate({"by": "ann", "models": MODELS}), open_store(url))


def program(name: str) -> Playbook:
    return Playbook.from_document({**CLERK, "program": f"{__name__}:{name}"})


@contextmanager
def gone(admin: str, database: str) -> Iterator[None]:
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        connection.execute(end)
        try:
            yield
        finally:
            connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")


async def test_while_the_database_of_a_run_is_gone_all_else_goes_on(postgres: Any, postgres_url: str) -> None:
    there, elsewhere = workspace(postgres_url), workspace("memory:")
    waiting.update({"asked": asyncio.Event(), "go on": asyncio.Event()})
    deciding = asyncio.ensure_future(there.run(program("waits")))
    await waiting["asked"].wait()
    with gone(postgres.get_uri(), postgres_url.partition("?")[0].rpartition("/")[2]):
        waiting["go on"].set()
        beginning = asyncio.ensure_future(there.run(program("talks")))
        events: list[RunEvent] = []
        assert (await elsewhere.run(program("talks"), on_event=events.append)).output == "done"
        assert sum(bool(event.piece) for event in events) >= 20
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(elsewhere.run(program("never_ends")), 0.05)
        assert not deciding.done()
        assert not beginning.done()
    assert [(await each).status for each in (deciding, beginning)] == ["completed", "completed"]
    there.store.close()
