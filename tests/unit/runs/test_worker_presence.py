"""Which process is at a run, and whether it is still there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from seedbed.runs.journal import Journal
from seedbed.runs.worker_presence import SILENCE, heartbeat, is_alive, new_worker
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ELSEWHERE = "another-machine/17/4711/abc"


def test_nobody_has_the_name_of_another() -> None:
    assert len({new_worker() for _ in range(100)}) == 100


def test_a_worker_of_this_machine_is_there_as_long_as_its_process() -> None:
    script = "from seedbed.runs.worker_presence import new_worker; print(new_worker(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        worker = process.stdout.readline().strip()
        assert is_alive(worker, MemoryStore(), NOW)
        process.kill()
        process.wait()
        assert not is_alive(worker, MemoryStore(), NOW)


def test_another_process_with_the_same_number_is_not_the_worker() -> None:
    assert is_alive(new_worker(), MemoryStore(), NOW)
    assert not is_alive(f"{socket.gethostname()}/{os.getpid()}/1/abc", MemoryStore(), NOW)


def test_a_worker_elsewhere_is_there_while_it_is_heard_of() -> None:
    store = MemoryStore()
    assert not is_alive(ELSEWHERE, store, NOW)
    beat = Fact(kind="heartbeat", key="1", subject=ELSEWHERE, at=NOW, by="ann", body={})
    store.append([beat])
    assert is_alive(ELSEWHERE, store, NOW + SILENCE - timedelta(seconds=1))
    assert not is_alive(ELSEWHERE, store, NOW + SILENCE)


async def test_a_worker_is_heard_of_at_once_and_no_longer_than_its_block() -> None:
    journal = Journal(MemoryStore())
    async with heartbeat(journal.worker, journal.add, "ann"):
        for _ in range(5):
            await asyncio.sleep(0)
        (beat,) = journal.store.facts(Query(kind="heartbeat"))
        assert beat.subject == journal.worker
    assert len(asyncio.all_tasks()) == 1
