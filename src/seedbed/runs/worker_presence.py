"""Worker presence: which process performs a run, and whether it is still alive."""

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
"""How often a worker records a heartbeat."""

SILENCE = timedelta(seconds=60)
"""A worker on another machine without a heartbeat for so long counts as gone."""


def new_worker() -> str:
    """A unique name for a worker in this process."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{pid}/{_start_time(pid)}/{uuid.uuid4().hex[:12]}"


def is_alive(worker: str, store: Store, now: datetime) -> bool:
    """Whether a worker may still be alive: on this machine by its process, elsewhere by its last heartbeat."""
    host, pid, started, _ = worker.split("/")
    if host == socket.gethostname():
        return _start_time(int(pid)) == started
    beats = store.facts(Query(kind="heartbeat", subject=worker, newest=True, limit=1))
    return any(beat.at > now - SILENCE for beat in beats)


@asynccontextmanager
async def heartbeat(
    worker: str,
    add: Callable[[Fact], Awaitable[bool]],
    by: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> AsyncIterator[None]:
    """Record every few seconds, while the block lasts, that a worker is alive."""

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


def _start_time(pid: int) -> str:
    """When a process of this machine started; "" if there is none. Process ids are used again, start times are not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    with suppress(OSError):  # not every system has /proc
        os.kill(pid, 0)
        return "?"
    return ""
