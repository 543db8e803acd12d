"""Worker presence: which process performs a run, and whether it is still alive."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from pathlib import Path

from seedbed.errors import StoreError
from seedbed.storage.store import Fact, Query, Store

BEAT_SECONDS = 10.0
"""How often a worker records a heartbeat."""

SILENCE = timedelta(seconds=60)
"""A worker on another machine that has recorded nothing for so long counts as gone."""

_performed: Counter[str] = Counter()
"""The runs that this process performs."""


def new_worker() -> str:
    """A unique name for a worker in this process."""
    return f"{_process()}/{uuid.uuid4().hex[:12]}"


def is_alive(worker: str, run: str, since: datetime, store: Store, now: datetime) -> bool:
    """Whether a worker may still perform a run, of which it recorded something at the time `since`.

    In this process that is known; on this machine a process lives or not; elsewhere the last heartbeat counts.
    """
    machine, pid, started, _ = worker.split("/")
    if worker.startswith(f"{_process()}/"):
        return run in _performed
    if machine in (_machine(), socket.gethostname()):  # names were shorter once
        return _start_time(int(pid)) == started
    beats = store.facts(Query(kind="heartbeat", subject=worker, newest=True, limit=1))
    return max([since, *(beat.at for beat in beats)]) > now - SILENCE


@contextmanager
def performing(run: str) -> Iterator[None]:
    """Show this process, while the block lasts, that it performs a run."""
    _performed[run] += 1
    try:
        yield
    finally:
        _performed[run] -= 1
        if not _performed[run]:
            del _performed[run]


def seconds() -> float:
    """A clock that goes on while this process, or the whole machine, sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def may_count_as_gone(since: float) -> bool:
    """Whether others may soon believe that a worker is gone which last recorded something then, by `seconds`."""
    return seconds() - since > SILENCE.total_seconds() / 2


class Heartbeat:
    """Records every few seconds, while any block lasts, that a worker is alive. A lost store does not end it."""

    def __init__(self, worker: str, add: Callable[[Fact], Awaitable[bool]]) -> None:
        self._worker, self._add = worker, add
        self._blocks = 0
        self._beating: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def block(self, by: str) -> AsyncIterator[None]:
        self._blocks += 1
        if self._beating is None:
            self._beating = asyncio.ensure_future(self._beat(by))
        try:
            yield
        finally:
            self._blocks -= 1
            if not self._blocks:
                beating, self._beating = self._beating, None
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, by: str) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)  # the claim that begins a run is a sign of life itself
            at = datetime.now(UTC)
            key = f"{self._worker}/{at.timestamp():.6f}"
            with suppress(StoreError):
                await self._add(Fact(kind="heartbeat", key=key, subject=self._worker, at=at, by=by, body={}))


def _process() -> str:
    pid = os.getpid()
    return f"{_machine()}/{pid}/{_start_time(pid)}"


def _machine() -> str:
    """The name of this machine or container: two may have the same host name."""
    return f"{socket.gethostname()}{_kernel()}"


@cache
def _kernel() -> str:
    with suppress(OSError):
        kernel = f"{Path('/proc/sys/kernel/random/boot_id').read_text()}{Path('/proc/self/ns/pid').readlink()}"
        return f"~{blake2b(kernel.encode(), digest_size=4).hexdigest()}"
    return ""


def _start_time(pid: int) -> str:
    """When a process of this machine started; "" if there is none. Process ids are used again, start times are not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    with suppress(OSError):  # not every system has /proc
        os.kill(pid, 0)
        return "?"
    return ""
