"""Stores shared by processes that race each other and are killed at any moment.

By default two seconds of racing and fifteen kills for each store; SEEDBED_TEST_SOAK_SECONDS and SEEDBED_TEST_KILLS
change that, and --log-cli-level=INFO shows what happened.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pytest

from seedbed.errors import RefMoved
from seedbed.storage import open_store
from seedbed.storage.store import Fact, Query, UpkeptStore
from seedbed.storage.upkeep import verify
from seedbed.testing import everything, fact, keys, move

log = logging.getLogger(__name__)

WORKERS = 8
ROUNDS = 10
SOAK_SECONDS = float(os.environ.get("SEEDBED_TEST_SOAK_SECONDS", "2"))
KILLS = int(os.environ.get("SEEDBED_TEST_KILLS", "15"))
KINDS = ("cell", "turn", "approval", "cell", "key")

processes = multiprocessing.get_context("forkserver")


@pytest.fixture(params=["files", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return {"files": f"files:{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/x.db"}[request.param]


def batch(name: str) -> list[Fact]:
    return [fact(f"{name}-{part}", kind) for part, kind in enumerate(KINDS)]


class Raced(NamedTuple):
    rounds: int
    won: list[int]
    lost: int


def race(url: str, worker: int) -> Raced:
    """Append and move until done. The first move is made by all at once, against a ref nobody has made yet."""
    with closing(open_store(url)) as store:
        ref = store.ref("main")
        store.append([fact(f"{worker}", "arrival")])
        while store.kinds()["arrival"] < WORKERS:
            time.sleep(0.01)
        end = time.monotonic() + SOAK_SECONDS
        won, lost = [], 0
        for n in count():
            if n >= ROUNDS and time.monotonic() >= end:
                return Raced(n, won, lost)
            try:
                won.append(move(store, "main", f"{worker}", ref, by=f"{worker}").version)
            except RefMoved:
                lost += 1
            store.append(batch(f"{worker}-{n}"))
            ref = store.ref("main")
    raise AssertionError


def test_racing_processes_lose_nothing_and_each_version_has_one_winner(url: str) -> None:
    open_store(url).close()
    with ProcessPoolExecutor(WORKERS, mp_context=processes) as pool:
        raced = list(pool.map(race, [url] * WORKERS, range(WORKERS)))
    with closing(open_store(url)) as store:
        winners = {version: f"{worker}" for worker, (_, won, _) in enumerate(raced) for version in won}
        attempts = sum(worker.rounds for worker in raced)
        assert sorted(version for worker in raced for version in worker.won) == list(range(1, len(winners) + 1))
        assert len(winners) + sum(worker.lost for worker in raced) == attempts
        assert sum(worker.lost for worker in raced) >= WORKERS - 1
        moves = list(store.facts(Query(kind="move")))
        assert [(told.key, told.by) for told in moves] == [(f"main@{n}", winners[n]) for n in sorted(winners)]
        expected = {
            told.key
            for worker, (rounds, *_) in enumerate(raced)
            for n in range(rounds)
            for told in batch(f"{worker}-{n}")
        }
        assert {told.key for told in everything(store)[1] if told.kind in KINDS} == expected
        report = verify(store)
        assert report.problems == ()
        log.info("%d facts, %d moves won of %d", report.facts, len(winners), attempts)


def write(url: str, run: int, acknowledge: Connection) -> None:
    """Append whole batches and move a ref, for ever, and say when each round is done."""
    store = open_store(url)
    target = store.put("playbook", {"run": run})
    for n in count():
        store.append(batch(f"{run}-{n}"))
        move(store, "main", target, store.ref("main"))
        acknowledge.send(n)


def written(store: UpkeptStore, run: int) -> tuple[Counter[str], int]:
    """How many facts of each batch of a run there are, and moves of all runs; a last commit may still be under way."""
    while True:
        before = store.kinds()
        names = [key for kind in set(KINDS) for key in keys(store.facts(Query(kind=kind)))]
        if store.kinds() == before:
            batches = Counter(name.rpartition("-")[0] for name in names if name.startswith(f"{run}-"))
            return batches, before.get("move", 0)


def test_a_writer_killed_at_any_moment_leaves_whole_batches_and_a_sound_store(url: str) -> None:
    chance = random.Random(url.partition(":")[0])
    moves = rounds = 0
    for run in range(KILLS):
        told, acknowledge = processes.Pipe(duplex=False)
        writer = processes.Process(target=write, args=(url, run, acknowledge))
        writer.start()
        acknowledge.close()
        done = -1
        if chance.random() < 0.8:
            done = told.recv()
        time.sleep(chance.uniform(0, 0.05))
        writer.kill()
        writer.join()
        while True:
            try:
                done = told.recv()
            except EOFError:
                break
        assert writer.exitcode == -9
        with closing(open_store(url)) as store:
            assert verify(store).problems == ()
            batches, moves_now = written(store, run)
            assert set(batches.values()) <= {len(KINDS)}
            assert len(batches) in (done + 1, done + 2)
            assert moves_now - moves in (done + 1, done + 2)
            assert moves_now - moves <= len(batches)
            ref = store.ref("main")
            assert (ref.version if ref else 0) == moves_now
        told.close()
        writer.close()
        moves, rounds = moves_now, rounds + done + 1
    log.info("%d kills, %d rounds acknowledged, %d moves kept", KILLS, rounds, moves)
