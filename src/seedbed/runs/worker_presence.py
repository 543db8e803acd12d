"""Workers: which process is at a run, and whether it is still there."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from seedbed.storage.store import Fact, Query, Store

BEAT_SECONDS = 10.0
"""How often a worker says that it is there."""

SILENCE = timedelta(seconds=60)
"""After so long without a word a worker on another machine is taken to be gone."""


def new_worker() -> str:
    """A name for somebody in this process, like nobody else's."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{pid}/{_began(pid)}/{uuid.uuid4().hex[:12]}"


def is_there(worker: str, store: Store, now: datetime) -> bool:
    """Whether a worker may still be at its work: on this machine that is known, of others by when they last spoke."""
    host, pid, began, _ = worker.split("/")
    if host == socket.gethostname():
        return _began(int(pid)) == began
    beats = store.facts(Query(kind="heartbeat", subject=worker, newest=True, limit=1))
    return any(beat.at > now - SILENCE for beat in beats)


@asynccontextmanager
async def heartbeat(
    worker: str,
    add: Callable[[Fact], Awaitable[bool]],
    by: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> AsyncIterator[None]:
    """Say every few seconds, as long as the block lasts, that a worker is there."""

    async def beat() -> None:
        while True:
            at = clock()
            key = f"{worker}/{at.timestamp():.6f}"
            await add(Fact(kind="heartbeat", key=key, subject=worker, at=at, by=by, body={}))
            await asyncio.sleep(BEAT_SECONDS)

    beating = asyncio.ensure_future(beat())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


def _began(pid: int) -> str:
    """When a process of this machine began; "" if there is none. Numbers of processes are given out again."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    with suppress(OSError):  # not everybody has /proc
        os.kill(pid, 0)
        return "?"
    return ""
