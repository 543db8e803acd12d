"""Which process is at a run, and whether it is still there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from seedbed.errors import StoreError
from seedbed.runs import worker_presence
from seedbed.runs.journal import Journal
from seedbed.runs.worker_presence import SILENCE, Heartbeat, is_alive, new_worker, performing
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ELSEWHERE = "another-machine/17/4711/abc"


def test_nobody_has_the_name_of_another() -> None:
    assert len({new_worker() for _ in range(100)}) == 100


def is_there(worker: str, store: MemoryStore | None = None, *, now: datetime = NOW) -> bool:
    return is_alive(worker, "r", NOW - timedelta(days=1), store or MemoryStore(), now)


def test_a_worker_of_this_machine_is_there_as_long_as_its_process() -> None:
    script = "from seedbed.runs.worker_presence import new_worker; print(new_worker(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        worker = process.stdout.readline().strip()
        assert is_there(worker)
        process.kill()
        process.wait()
        assert not is_there(worker)


def test_a_worker_of_this_process_is_there_while_it_performs_the_run() -> None:
    worker = new_worker()
    assert not is_there(worker)
    with performing("r"), performing("r"):
        assert is_there(worker)
    assert not is_there(worker)


def test_another_process_with_the_same_number_is_not_the_worker() -> None:
    assert not is_there(f"{socket.gethostname()}/{os.getpid()}/1/abc")


def test_a_machine_of_the_same_name_is_another_machine() -> None:
    machine, *process = new_worker().split("/")
    other = "/".join([f"{machine.partition('~')[0]}~00000000", *process])
    with performing("r"):
        assert not is_there(other)
    assert is_alive(other, "r", NOW, MemoryStore(), NOW)


def test_a_worker_elsewhere_is_there_while_it_is_heard_of() -> None:
    store = MemoryStore()
    assert not is_there(ELSEWHERE, store)
    beat = Fact(kind="heartbeat", key="1", subject=ELSEWHERE, at=NOW, by="ann", body={})
    store.append([beat])
    assert is_there(ELSEWHERE, store, now=NOW + SILENCE - timedelta(seconds=1))
    assert not is_there(ELSEWHERE, store, now=NOW + SILENCE)


def test_what_a_worker_elsewhere_records_shows_that_it_is_there() -> None:
    assert is_alive(ELSEWHERE, "r", NOW, MemoryStore(), NOW + SILENCE - timedelta(seconds=1))
    assert not is_alive(ELSEWHERE, "r", NOW, MemoryStore(), NOW + SILENCE)


async def test_a_worker_is_heard_of_until_the_last_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_presence, "BEAT_SECONDS", 0.0)
    journal = Journal(MemoryStore())
    heartbeat = Heartbeat(journal.worker, journal.add)

    async def beats() -> int:
        before = len(list(journal.store.facts(Query(kind="heartbeat", subject=journal.worker))))
        for _ in range(20):
            await asyncio.sleep(0.001)
        return len(list(journal.store.facts(Query(kind="heartbeat", subject=journal.worker)))) - before

    async with heartbeat.block("ann"):
        first = asyncio.ensure_future(_short_block(heartbeat))
        assert await beats()
        await first
        assert await beats()
    assert not await beats()
    assert len(asyncio.all_tasks()) == 1


async def test_a_lost_store_does_not_end_the_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_presence, "BEAT_SECONDS", 0.0)
    tried = asyncio.Event()
    tries = 0

    async def add(fact: Fact) -> bool:
        nonlocal tries
        tries += 1
        if tries == 3:
            tried.set()
        raise StoreError("the database is gone")

    async with Heartbeat("w", add).block("ann"):
        await asyncio.wait_for(tried.wait(), 10)


async def _short_block(heartbeat: Heartbeat) -> None:
    async with heartbeat.block("ann"):
        await asyncio.sleep(0.001)
