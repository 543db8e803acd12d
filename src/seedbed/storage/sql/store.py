"""SqlStore: content, facts and refs in SQLite or PostgreSQL.

One table each, and a SQL view per kind of fact. Nothing is held open between two calls: an iterator reads
page by page, so no writer waits for a reader, and a lost connection costs one page.
"""

from __future__ import annotations

import os
import platform
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice, starmap
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from seedbed.errors import NotFound, StoreDamaged, StoreError, shown
from seedbed.storage.paths import missing
from seedbed.storage.search_words import words
from seedbed.storage.sql.dialects import FACT, Row, dialect
from seedbed.storage.sql.migrations import migrate, possible, version
from seedbed.storage.sql.query import Narrowed, beginning, narrowed, selection
from seedbed.storage.sql.rows import digest_of, to_content, to_fact, to_ref
from seedbed.storage.store import (
    CHAINED,
    EPOCH,
    GENESIS,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    Target,
    Told,
    canonical,
    checked,
    digest,
    link,
    micros,
    moved,
    nameable,
    next_move,
    now,
    short,
    without_password,
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
_Item = TypeVar("_Item")

_GET = text("SELECT kind, body FROM content WHERE digest = :digest")
_REF = "name, target, version, at, by, because"


class SqlStore:
    """A store in a database at `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.

    Made if it is not there yet; without `create`, NotFound is raised then.
    """

    def __init__(self, url: str, *, clock: Callable[[], datetime] = now, create: bool = True) -> None:
        self._clock = clock
        self._dialect, parsed = dialect(url)
        self._name = without_password(url)
        self._engine = self._dialect.engine(parsed, create=create)
        _engines.add(self._engine)
        try:
            if not create:
                self._expect_tables()
            migrate(self._engine, self._dialect)
        except DBAPIError as error:
            self.close()
            raise self._dialect.explained(error, self._name) from error
        except StoreError:
            self.close()
            raise

    def put(self, kind: str, body: Json) -> Digest:
        name = digest(kind, body)
        row = (name, kind, canonical(body), micros(self._clock()))
        self._write(lambda db: self._dialect.add_contents(db, [row]))
        return name

    def put_all(self, kind: str, bodies: Sequence[Json]) -> list[Digest]:
        at = micros(self._clock())
        texts = [canonical(body) for body in bodies]
        rows = [(digest_of(kind, body), kind, body, at) for body in texts]
        if rows:
            self._write(lambda db: self._dialect.add_contents(db, rows))
        return [row[0] for row in rows]

    def get(self, digest: Digest) -> Json:
        row = self._read(lambda db: db.execute(_GET, {"digest": digest}).first()) if nameable(digest) else None
        if row is None:
            raise NotFound(f"no content {shown(digest)}; expected a full digest. List what is there, or put it first")
        kind, body = row
        content = to_content(digest, kind, body)
        if digest_of(kind, body) != digest and not content.intact:
            raise StoreDamaged(f"{kind} {short(digest)} is not what was put there. Restore it from a copy")
        return content.body

    def append(self, facts: Iterable[Fact]) -> int:
        batch = checked(facts)
        if len(batch) == 1 and not batch[0].tags and batch[0].kind not in CHAINED:
            # One statement is a transaction of its own, and to repeat this one is harmless.
            return self._read(lambda db: self._dialect.add_facts(db, _rows(batch)))
        return self._write(lambda db: self._add(db, batch)) if batch else 0

    def facts(self, query: Query) -> Iterator[Fact]:
        return map(to_fact, islice(chain.from_iterable(self._pages(query, FACT)), query.limit))

    def brief(self, query: Query) -> Iterator[Told]:
        rows = chain.from_iterable(self._pages(query, ("key", "value", "body")))
        return map(itemgetter(0, 1, 2), islice(rows, query.limit))

    def ref(self, name: str) -> Ref | None:
        return next(iter(self._refs("name = :name", {"name": name})), None) if nameable(name) else None

    def refs(self, prefix: str = "") -> list[Ref]:
        return self._refs(*beginning("name", prefix)) if nameable(prefix) else []

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        at = self._clock()

        def work(db: Connection) -> Ref:
            self._dialect.lock_chain(db)
            row = db.execute(text(f"SELECT {_REF} FROM refs WHERE name = :name"), {"name": name}).first()
            current = to_ref(row) if row and row.target is not None else None
            version = row.version if row else 0
            ref, fact = next_move(name, current, version, to, expected=expected, because=because, by=by, at=at)
            self._add(db, [fact])
            _point(db, [fact])
            return ref

        return self._write(work)

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        return starmap(to_content, self._bodies(kind))

    def kinds(self) -> dict[str, int]:
        sql = text("SELECT kind, count(*) AS facts FROM facts GROUP BY kind ORDER BY kind")
        return {row.kind: row.facts for row in self._read(lambda db: db.execute(sql).all())}

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        loaded = 0
        for some in _chunks(contents):
            self._write(partial(self._load_contents, contents=some))
        for many in _chunks(facts):
            self._write(partial(self._load_facts, facts=many))
            loaded += len(many)
        if loaded >= CHUNK:
            self._read(lambda db: self._dialect.learn(db, loaded))

    def discard(self, digests: Iterable[Digest]) -> int:
        names = list(digests)
        return self._write(lambda db: sum(self._dialect.discard(db, some) for some in _chunks(names)))

    def close(self) -> None:
        self._engine.dispose()

    @property
    def identity(self) -> str:
        """What tells this store from every other, from one that was at its place before, and from copies elsewhere."""
        made = self._read(lambda db: db.exec_driver_sql("SELECT at FROM migrations WHERE number = 1").scalar_one())
        url = self._engine.url
        place = os.path.realpath(url.database or "") if self._dialect.name == "sqlite" else self._name
        here = platform.node() if url.host in (None, "", "localhost", "127.0.0.1", "::1") else ""
        return f"{place} {here} {made}"

    def _expect_tables(self) -> None:
        with self._engine.connect() as db:
            if not version(db):
                raise missing(self._name)

    def _add(self, db: Connection, facts: Sequence[Fact]) -> int:
        if any(fact.kind in CHAINED for fact in facts):
            self._dialect.lock_chain(db)
            facts = list(self._chained(db, facts))
        return sum(self._dialect.add_facts(db, _rows(some)) for some in _chunks(facts))

    def _chained(self, db: Connection, facts: Sequence[Fact]) -> Iterator[Fact]:
        """The facts without the chained ones already known, each of the others bound to the one before."""
        last = db.scalar(text("SELECT link FROM facts WHERE link IS NOT NULL ORDER BY number DESC LIMIT 1")) or GENESIS
        seen = self._seen(db, [(fact.kind, fact.key) for fact in facts if fact.kind in CHAINED])
        for fact in facts:
            if fact.kind in CHAINED:
                name = (fact.kind, fact.key)
                if name in seen:
                    continue
                seen.add(name)
                last = link(last, fact)
                fact = replace(fact, link=last)
            yield fact

    def _seen(self, db: Connection, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the names, by kind and key, of which there is a fact."""
        sql = text(f"SELECT kind, key FROM facts WHERE kind = :kind AND key {self._dialect.texts.format('keys')}")
        seen: set[tuple[str, str]] = set()
        for kind in {kind for kind, _ in names}:
            for some in _chunks(key for each, key in names if each == kind):
                rows = db.execute(sql, {"kind": kind, "keys": self._dialect.given(some)})
                seen |= {(row.kind, row.key) for row in rows}
        return seen

    def _load_contents(self, db: Connection, contents: Sequence[Content]) -> None:
        at = micros(self._clock())
        rows = [(content.digest, content.kind, canonical(content.body), at) for content in contents]
        self._dialect.add_contents(db, rows)

    def _load_facts(self, db: Connection, facts: Sequence[Fact]) -> None:
        if any(fact.kind in CHAINED for fact in facts):
            self._dialect.lock_chain(db)
        self._dialect.add_facts(db, _rows(facts))
        _point(db, [fact for fact in facts if fact.kind == "move"])

    def _bodies(self, kind: str | None) -> Iterator[tuple[Digest, str, str]]:
        only = "AND kind = :kind" if kind else ""
        sql = text(f"SELECT id, digest, kind, body FROM content WHERE id > :last {only} ORDER BY id LIMIT {PAGE}")
        given = {"last": 0, "kind": kind}
        while rows := self._read(lambda db: db.execute(sql, given).all()):
            for row in rows:
                yield row.digest, row.kind, row.body
            given["last"] = rows[-1].id

    def _pages(self, query: Query, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Those columns and the numbers of the facts a query asks for; the last page may exceed its limit."""
        names = (query.kind, query.key, query.key_from, query.subject, query.by, query.tag)
        if not all(name is None or nameable(name) for name in names):
            return
        if query.text is not None and not words(query.text):
            return
        if query.keys is not None:
            query = replace(query, keys=[key for key in query.keys if nameable(key)])
        left = Narrowed(query)
        if query.since or query.until or query.text:
            left = self._read(lambda db: narrowed(db, self._dialect, query))
        if left.numbers is not None:
            for some in _chunks(left.numbers, PAGE):
                if page := self._page(replace(left, numbers=some), columns, PAGE):
                    yield page
            return
        # Each page of an ancestry would walk it anew.
        size = WALK if query.follow else min(PAGE, PAGE if query.limit is None else query.limit)
        while page := self._page(left, columns, size):
            yield page
            if len(page) < size:
                return
            left = replace(left, query=replace(left.query, after=page[-1].number))

    def _page(self, left: Narrowed, columns: Sequence[str], size: int) -> Sequence[Any]:
        statement, given = selection(self._dialect, left, columns, size)
        return self._read(lambda db: db.execute(statement, given).all())

    def _refs(self, where: str, given: Mapping[str, str]) -> list[Ref]:
        sql = text(f"SELECT {_REF} FROM refs WHERE {where} AND target IS NOT NULL ORDER BY name")
        return [to_ref(row) for row in self._read(lambda db: db.execute(sql, given).all())]

    def _write(self, work: Callable[[Connection], _Result]) -> _Result:
        """Do the work in one transaction, and once only, even if the connection is lost while it commits."""
        tried: list[tuple[str, _Result]] = []

        def transaction(db: Connection) -> _Result:
            for ticket, result in tried:
                if self._dialect.committed(db, ticket):
                    return result
            tried.clear()
            db.exec_driver_sql(self._dialect.begin)
            result = work(db)
            if (open_ticket := self._dialect.ticket(db)) is not None:
                tried.append((open_ticket, result))
            db.commit()
            return result

        return self._read(transaction)

    def _read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Do the work, and again on a new connection if the old one was lost."""
        pauses = iter(PAUSES)
        while True:
            try:
                with self._engine.connect() as db:
                    return work(db)
            except DBAPIError as error:
                pause = next(pauses, None)
                if pause is None or not self._dialect.passing(error):
                    raise self._dialect.explained(error, self._name) from error
                time.sleep(pause)
            except UnicodeEncodeError:
                raise StoreError(f"{self._name}: found a lone surrogate; expected valid Unicode text") from None


def migrate_to(url: str, to: int | None = None, *, dry_run: bool = False) -> tuple[int, int]:
    """Bring a database to a schema version, the newest unless told, and say from which to which.

    Not by opening it as a store, which would bring it to the newest first.
    """
    goal = possible(to)
    speech, parsed = dialect(url)
    engine = speech.engine(parsed, create=not dry_run)
    try:
        with engine.connect() as db:
            before = version(db)
        if not dry_run:
            migrate(engine, speech, goal)
    except DBAPIError as error:
        raise speech.explained(error, without_password(url)) from error
    finally:
        engine.dispose()
    return before, goal


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def _let_go() -> None:
    """A forked child must not inherit connections: SQLite would lose its locks, PostgreSQL its place in the talk."""
    for engine in list(_engines):
        engine.dispose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_let_go)


def _point(db: Connection, moves: Sequence[Fact]) -> None:
    """Bring the refs up to their newest moves."""
    upsert = text(
        f"INSERT INTO refs ({_REF}) VALUES (:name, :target, :version, :at, :by, :because)"
        " ON CONFLICT (name) DO UPDATE SET target = excluded.target, version = excluded.version, at = excluded.at,"
        " by = excluded.by, because = excluded.because WHERE excluded.version > refs.version"
    )
    for fact in moves:
        ref = moved(fact)
        target = canonical(ref.target) if ref.target else None
        given = {"name": ref.name, "target": target, "version": ref.version, "at": micros(ref.at)}
        db.execute(upsert, {**given, "by": ref.by, "because": ref.because})


def _rows(facts: Sequence[Fact]) -> list[Row]:
    rows: list[Row] = []
    at, moment = EPOCH, 0
    for fact in facts:
        if fact.at is not at:  # many happened at once
            at, moment = fact.at, micros(fact.at)
        rows.append(
            (
                fact.kind,
                fact.key,
                fact.subject,
                moment,
                fact.by,
                fact.value,
                canonical(fact.body),
                canonical(fact.parents) if fact.parents else None,
                canonical(fact.tags) if fact.tags else None,
                fact.link or None,
            )
        )
    return rows


def _chunks(items: Iterable[_Item], size: int = CHUNK) -> Iterator[list[_Item]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
