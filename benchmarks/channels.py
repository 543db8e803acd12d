"""How long it takes to switch a channel, and to read it while ten readers do.

python benchmarks/channels.py [--moves 300] [--reads 500] [--url sqlite:///FILE]

A switch is a release or a rollback through the same functions that the command line calls, without gates; a read is
what a service does before it runs anything, and a choice also writes the exposure down. Readers are processes of their
own, each at it fifty times a second, while the channel is switched. Without a URL it is a SQLite file in a temporary
folder.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.release.assignment import Reader, choose
from seedbed.release.channels import release, rollback, settled
from seedbed.storage import open_store

READERS = 10
PAUSE_SECONDS = 0.02


def playbooks() -> list[Playbook]:
    return [Playbook.from_document({"roles": {"writer": {"system": f"Say {n}."}}}) for n in range(2)]


async def switched(url: str, moves: int) -> list[float]:
    """Seconds of each release and each rollback."""
    took = []
    with closing(open_store(url)) as store:
        library = Library(store, "operator")
        first, second = (library.keep(each, because="written") for each in playbooks())
        if not settled(store, "production"):
            await release(library, "production", first, [], verdict=None, because="first")
        for _ in range(moves // 2):
            began = time.perf_counter()
            await release(library, "production", second, [], verdict=None, because="forth")
            took.append(time.perf_counter() - began)
            began = time.perf_counter()
            rollback(library, "production", because="back")
            took.append(time.perf_counter() - began)
    return took


async def _read(url: str, reads: int, name: int, begin: Barrier) -> tuple[list[float], list[float]]:
    looked, chosen = [], []
    with closing(open_store(url)) as store:
        reader = Reader(Library(store, f"reader {name}"), "production")
        await reader.read()
        begin.wait()
        for number in range(reads):
            began = time.perf_counter()
            await reader.read()
            looked.append(time.perf_counter() - began)
            if number % 10 == 0:
                began = time.perf_counter()
                await choose(reader, f"user {name}/{number}")
                chosen.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
    return looked, chosen


def read(url: str, reads: int, name: int, begin: Barrier, told: Queue[tuple[list[float], list[float]]]) -> None:
    told.put(asyncio.run(_read(url, reads, name, begin)))


def line(what: str, took: Sequence[float], limit: str = "") -> str:
    ranked = sorted(took)
    at = {name: ranked[min(len(ranked) - 1, int(share * len(ranked)))] for name, share in (("p50", 0.5), ("p99", 0.99))}
    figures = "  ".join(f"{name} {1000 * seconds:8.2f} ms" for name, seconds in at.items())
    return f"{what:<28} {len(took):>7,}  {figures}  {limit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=300)
    parser.add_argument("--reads", type=int, default=500, help="of each reader")
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{Path(folder) / 'channels.db'}"
        print(line("switch, alone", asyncio.run(switched(url, given.moves)), "bar: p99 < 100 ms"))
        begin, told = multiprocessing.Barrier(READERS + 1), multiprocessing.Queue()
        readers = [
            multiprocessing.Process(target=read, args=(url, given.reads, name, begin, told)) for name in range(READERS)
        ]
        for each in readers:
            each.start()
        begin.wait()
        print(line("switch, while they read", asyncio.run(switched(url, given.moves)), "bar: p99 < 100 ms"))
        results = [told.get() for _ in readers]
        for each in readers:
            each.join()
        print(line(f"read, {READERS} readers", [one for looked, _ in results for one in looked], "bar: p99 < 5 ms"))
        print(line(f"choose, {READERS} readers", [one for _, chosen in results for one in chosen]))


if __name__ == "__main__":
    main()
