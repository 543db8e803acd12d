"""SqlStore: content, facts and refs in SQLite or PostgreSQL.

One table each, and a SQL view per kind of fact. Nothing stays open between two calls: an iterator reads page by page,
so no writer waits for a reader, and a lost connection costs one page.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice, starmap
from operator import itemgetter
from typing import Any, TypeVar

from seedbed.errors import NotFound, StoreDamaged, StoreError, shown
from seedbed.storage.chain import GENESIS, bind
from seedbed.storage.content import digest_of_text, words
from seedbed.storage.paths import missing
from seedbed.storage.sql import open_database
from seedbed.storage.sql.database import Database, SqlConnection
from seedbed.storage.sql.migrations import migrate, target_version, version
from seedbed.storage.sql.query import NarrowedQuery, narrow, prefix_condition, select_facts
from seedbed.storage.sql.rows import FACT, REF, to_content, to_fact, to_ref, to_rows
from seedbed.storage.store import (
    BriefFact,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    RefMove,
    Target,
    batched,
    canonical,
    check_facts,
    digest,
    is_name,
    micros,
    now,
    ref_after,
    short,
)

PAGE = 1_000
"""Rows read at a time."""

WALK = 100_000
"""Ancestors read at a time."""

CHUNK = 5_000
"""Rows written at a time; a load commits each chunk."""

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, *[1.0] * 8)
"""Seconds to wait before each new attempt after a lost connection: long enough for a server to restart."""

_Result = TypeVar("_Result")

_GET = "SELECT kind, body FROM content WHERE digest = :digest"
_REF = ", ".join(REF)
_TARGET, _VERSION = REF.index("target"), REF.index("version")
_MOVE = (
    f"INSERT INTO refs ({_REF}) VALUES ({', '.join(f':{column}' for column in REF)})"
    " ON CONFLICT (name) DO UPDATE SET target = excluded.target, version = excluded.version, at = excluded.at,"
    " by = excluded.by, because = excluded.because WHERE excluded.version > refs.version"
)
_HEAD = "SELECT link, commitment FROM facts WHERE link IS NOT NULL ORDER BY number DESC LIMIT 1"


class SqlStore:
    """A store in a database at `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.

    Created if there is none; without `create`, NotFound is raised instead.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] = now, create: bool = True) -> None:
        self._clock = clock
        self._database = database = open_database(url, create=create)
        _databases.add(database)
        try:
            if not create:
                with database.connect() as db:
                    if not version(database, db):
                        raise missing(database.name)
            migrate(database)
        except database.errors as error:
            self.close()
            raise database.explain(error) from error
        except StoreError:
            self.close()
            raise

    def put(self, kind: str, body: Json) -> Digest:
        name = digest(kind, body)
        row = (name, kind, canonical(body), micros(self._clock()))
        self._write(lambda db: self._database.add_contents(db, [row]))
        return name

    def put_all(self, kind: str, bodies: Sequence[Json]) -> list[Digest]:
        at = micros(self._clock())
        texts = [canonical(body) for body in bodies]
        rows = [(digest_of_text(kind, body), kind, body, at) for body in texts]
        if rows:
            self._write(lambda db: self._database.add_contents(db, rows))
        return [row[0] for row in rows]

    def get(self, digest: Digest) -> Json:
        row = self._read(lambda db: db.execute(_GET, {"digest": digest}).fetchone()) if is_name(digest) else None
        if row is None:
            raise NotFound(f"no content {shown(digest)}; expected a full digest. List what is there, or put it first")
        kind, body = row
        content = to_content(digest, kind, body)
        if digest_of_text(kind, body) != digest and not content.intact:
            raise StoreDamaged(f"{kind} {short(digest)} is not what was put there. Restore it from a copy")
        return content.body

    def append(self, facts: Iterable[Fact]) -> int:
        batch = [(fact, canonical(fact.body)) for fact in check_facts(facts)]
        return self._write(lambda db: self._add(db, batch)) if batch else 0

    def facts(self, query: Query) -> Iterator[Fact]:
        return map(to_fact, islice(chain.from_iterable(self._pages(query, FACT)), query.limit))

    def brief(self, query: Query) -> Iterator[BriefFact]:
        rows = chain.from_iterable(self._pages(query, ("key", "value", "body")))
        return map(itemgetter(0, 1, 2), islice(rows, query.limit))

    def ref(self, name: str) -> Ref | None:
        return next(iter(self._refs("name = :name", {"name": name})), None) if is_name(name) else None

    def refs(self, prefix: str = "") -> list[Ref]:
        return self._refs(*prefix_condition("name", prefix)) if is_name(prefix) else []

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        move, at = RefMove(name=name, to=to, expected=expected, because=because, by=by), self._clock()

        def work(db: SqlConnection) -> Ref:
            self._database.lock_chain(db)
            row = db.execute(f"SELECT {_REF} FROM refs WHERE name = :name", {"name": name}).fetchone()
            current = to_ref(row) if row and row[_TARGET] is not None else None
            ref, fact = move.apply(current, row[_VERSION] if row else 0, at)
            self._add(db, [(fact, canonical(fact.body))])
            _update_refs(db, [fact])
            return ref

        return self._write(work)

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        return starmap(to_content, self._bodies(kind))

    def kinds(self) -> dict[str, int]:
        sql = "SELECT kind, count(*) FROM facts GROUP BY kind ORDER BY kind"
        return dict(self._read(lambda db: db.execute(sql).fetchall()))

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        loaded = 0
        for some in batched(contents, CHUNK):
            self._write(partial(self._load_contents, contents=some))
        for many in batched(facts, CHUNK):
            self._write(partial(self._load_facts, facts=many))
            loaded += len(many)
        if loaded >= CHUNK:
            self._read(lambda db: self._database.analyze(db, loaded))

    def discard(self, digests: Iterable[Digest]) -> int:
        names = list(digests)
        return self._write(lambda db: sum(self._database.discard(db, some) for some in batched(names, CHUNK)))

    def close(self) -> None:
        self._database.close()

    @property
    def secret(self) -> bytes:
        """Random bytes that only those who can read the database know."""
        sql = "SELECT value FROM secrets WHERE name = 'cache'"
        return bytes.fromhex(self._read(lambda db: db.execute(sql).fetchone()[0]))

    @property
    def identity(self) -> str:
        """Differs from that of every other store, of an earlier one at the same place, and of copies elsewhere."""
        sql = "SELECT at FROM migrations WHERE number = 1"
        return f"{self._database.place} {self._read(lambda db: db.execute(sql).fetchone()[0])}"

    def _add(self, db: SqlConnection, batch: Sequence[tuple[Fact, str]]) -> int:
        """Add facts with their bodies as text, linked to the chain, and count those that were new."""
        self._database.lock_chain(db)
        # A link must not cover what is not added; a single fact that is known adds nothing at all.
        names = [(fact.kind, fact.key) for fact, _ in batch] if len(batch) > 1 else []
        if names or batch[0][0].unless:
            known = self._known(db, [*names, *{name for fact, _ in batch for name in fact.unless}])
            every, batch = batch, []
            for each in every:
                name = (each[0].kind, each[0].key)
                if name not in known and known.isdisjoint(each[0].unless):
                    known.add(name)
                    batch.append(each)
        if not batch:
            return 0
        facts, bodies = [fact for fact, _ in batch], [body for _, body in batch]
        rows = to_rows(facts, bodies, bind(facts, bodies, *self._head(db)))
        return sum(self._database.add_facts(db, some) for some in batched(rows, CHUNK))

    def _head(self, db: SqlConnection) -> tuple[str, int]:
        """The last link, and how many facts came before the first with a commitment, if the next is that one."""
        link, commitment = db.execute(_HEAD).fetchone() or (GENESIS, "")
        if commitment:
            return link, 0
        return link, db.execute("SELECT count(*) FROM facts").fetchone()[0]

    def _known(self, db: SqlConnection, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """The names, kind and key, that have a fact."""
        sql = f"SELECT kind, key FROM facts WHERE kind = :kind AND key {self._database.texts.format('keys')}"
        known: set[tuple[str, str]] = set()
        for kind in {kind for kind, _ in names}:
            for some in batched((key for each, key in names if each == kind), CHUNK):
                known.update(db.execute(sql, {"kind": kind, "keys": self._database.list_parameter(some)}))
        return known

    def _load_contents(self, db: SqlConnection, contents: Sequence[Content]) -> None:
        at = micros(self._clock())
        rows = [(content.digest, content.kind, canonical(content.body), at) for content in contents]
        self._database.add_contents(db, rows)

    def _load_facts(self, db: SqlConnection, facts: Sequence[Fact]) -> None:
        self._database.lock_chain(db)
        self._database.add_facts(db, to_rows(facts))
        _update_refs(db, [fact for fact in facts if fact.kind == "move"])

    def _bodies(self, kind: str | None) -> Iterator[tuple[Digest, str, str]]:
        only = "AND kind = :kind" if kind else ""
        sql = f"SELECT digest, kind, body, id FROM content WHERE id > :last {only} ORDER BY id LIMIT {PAGE}"
        parameters = {"last": 0, "kind": kind}
        while rows := self._read(lambda db: db.execute(sql, parameters).fetchall()):
            for row in rows:
                yield row[:3]
            parameters["last"] = rows[-1][-1]

    def _pages(self, query: Query, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """These columns and the numbers of the facts of a query; the last page may exceed its limit."""
        names = (query.kind, query.key, query.key_from, query.subject, query.by, query.tag)
        if not all(name is None or is_name(name) for name in names):
            return
        if query.text is not None and not words(query.text):
            return
        if query.keys is not None:
            query = replace(query, keys=[key for key in query.keys if is_name(key)])
        left = NarrowedQuery(query)
        if query.since or query.until or query.text:
            left = self._read(lambda db: narrow(db, self._database, query))
        if left.numbers is not None:
            for some in batched(left.numbers, PAGE):
                if page := self._page(replace(left, numbers=some), columns, PAGE):
                    yield page
            return
        # Each page of an ancestry walks it from the start.
        size = WALK if query.follow else min(PAGE, PAGE if query.limit is None else query.limit)
        while page := self._page(left, columns, size):
            yield page
            if len(page) < size:
                return
            left = replace(left, query=replace(left.query, after=page[-1][-1]))

    def _page(self, left: NarrowedQuery, columns: Sequence[str], size: int) -> Sequence[Any]:
        statement, parameters = select_facts(self._database, left, columns, size)
        return self._read(lambda db: db.execute(statement, parameters).fetchall())

    def _refs(self, where: str, parameters: Mapping[str, str]) -> list[Ref]:
        sql = f"SELECT {_REF} FROM refs WHERE {where} AND target IS NOT NULL ORDER BY name"
        return [to_ref(row) for row in self._read(lambda db: db.execute(sql, parameters).fetchall())]

    def _write(self, work: Callable[[SqlConnection], _Result]) -> _Result:
        """Do the work in one transaction, exactly once, even if the connection is lost during the commit."""
        tried: list[tuple[str, _Result]] = []

        def transaction(db: SqlConnection) -> _Result:
            for ticket, result in tried:
                if self._database.was_committed(db, ticket):
                    return result
            tried.clear()
            db.execute(self._database.begin)
            result = work(db)
            if (open_ticket := self._database.ticket(db)) is not None:
                tried.append((open_ticket, result))
            db.commit()
            return result

        return self._read(transaction)

    def _read(self, work: Callable[[SqlConnection], _Result]) -> _Result:
        """Do the work, and repeat it on a new connection if the old one was lost."""
        pauses = iter(PAUSES)
        while True:
            try:
                with self._database.connect() as db:
                    return work(db)
            except self._database.errors as error:
                pause = next(pauses, None)
                if pause is None or not self._database.is_transient(error):
                    raise self._database.explain(error) from error
                time.sleep(pause)
            except UnicodeEncodeError:
                raise StoreError(
                    f"{self._database.name}: found a lone surrogate; expected valid Unicode text"
                ) from None


def migrate_to(url: str, to: int | None = None, *, dry_run: bool = False) -> tuple[int, int]:
    """Migrate a database to a schema version, by default the newest. Returns the versions before and after.

    Opening it as a store would migrate it to the newest first.
    """
    goal = target_version(to)
    with closing(open_database(url, create=not dry_run)) as database:
        try:
            with database.connect() as db:
                before = version(database, db)
            if not dry_run:
                migrate(database, goal)
        except database.errors as error:
            raise database.explain(error) from error
    return before, goal


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _close() -> None:
    """A forked child must not inherit connections: SQLite would lose its locks, PostgreSQL would mix up answers."""
    for database in list(_databases):
        database.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close)


def _update_refs(db: SqlConnection, moves: Sequence[Fact]) -> None:
    """Update the refs to their newest moves."""
    rows = [
        {name: getattr(ref, name) for name in REF}
        | {"target": canonical(ref.target) if ref.target else None, "at": micros(ref.at)}
        for ref in map(ref_after, moves)
    ]
    if rows:
        db.executemany(_MOVE, rows)
