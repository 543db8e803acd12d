"""Cached: any store, with Redis in front for what never changes.

Content is kept there under its digest, and checked against it; facts under their kind and key, with a checksum beside
them. What is not there, or is not what it should be, the store answers. Never kept: refs, chained facts, which decide
what is released, and that something is not there. Writes are durable in the store before anything else happens.

An encrypted store is wrapped around this one, so that Redis sees its facts sealed, and none of its content.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from seedbed.errors import StoreDamaged, StoreError
from seedbed.storage.redis import Redis
from seedbed.storage.store import (
    CHAINED,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    Target,
    Told,
    UpkeptStore,
    brief_of,
    canonical,
    from_micros,
    in_brief,
    micros,
    nameable,
)

CHUNK = 500
"""Facts asked for, and handed over, at a time."""

LARGEST = 1_000_000
"""Bytes of the largest thing kept: Redis does one thing at a time, and others wait meanwhile."""

_log = logging.getLogger("seedbed")


class Cached:
    """A store that looks into Redis first. `name` tells it from every other store that uses the same Redis.

    Facts get there when they are read by key for the first time: only then their numbers are known. How long anything
    stays, and how much, is the server's to decide (`maxmemory`, `maxmemory-policy allkeys-lru`).
    """

    def __init__(self, inner: UpkeptStore, redis: Redis, name: str) -> None:
        self.inner = inner
        self._redis = redis
        self._prefix = "seedbed:" + hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
        self._told = False

    def put(self, kind: str, body: Json) -> Digest:
        text = f"{kind}\n{canonical(body)}"
        name = self.inner.put(kind, body)
        self._keep({self._content_at(name): text.encode()})
        return name

    def get(self, digest: Digest) -> Json:
        if nameable(digest):
            at = self._content_at(digest)
            found = self._redis.read(lambda client: client.mget([at])) or [None]
            if isinstance(found[0], bytes):
                if "b2:" + hashlib.blake2b(found[0], digest_size=32).hexdigest() == digest:
                    body: Json = json.loads(found[0].partition(b"\n")[2])
                    return body
                self._distrust()
                self._forget([at])
        return self.inner.get(digest)

    def append(self, facts: Iterable[Fact]) -> int:
        return self.inner.append(facts)

    def facts(self, query: Query) -> Iterator[Fact]:
        keys = _keys(query)
        if keys is None:
            return self.inner.facts(query)
        known = self._known(query.kind, keys)
        missing = [key for key in keys if key not in known]
        try:
            fresh = list(self.inner.facts(Query(kind=query.kind, keys=missing))) if missing else []
        except StoreDamaged:
            return self.inner.facts(query)  # which raises in its turn, after those that are whole
        self._keep({self._fact_at(fact.kind, fact.key): self._written(fact) for fact in fresh})
        found = sorted([*known.values(), *fresh], key=lambda fact: fact.number, reverse=query.newest)
        return islice(iter(found), query.limit)

    def brief(self, query: Query) -> Iterator[Told]:
        return in_brief(self.inner, query) if _keys(query) is None else map(brief_of, self.facts(query))

    def ref(self, name: str) -> Ref | None:
        return self.inner.ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        return self.inner.refs(prefix)

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        return self.inner.move(name, to, expected=expected, because=because, by=by)

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        return self.inner.contents(kind)

    def kinds(self) -> dict[str, int]:
        return self.inner.kinds()

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        self.inner.load(contents, facts)

    def discard(self, digests: Iterable[Digest]) -> int:
        names = list(digests)
        count = self.inner.discard(names)
        self._forget([self._content_at(name) for name in names if nameable(name)])
        return count

    def close(self) -> None:
        self._redis.close()
        self.inner.close()

    def _known(self, kind: str, keys: Sequence[str]) -> dict[str, Fact]:
        known: dict[str, Fact] = {}
        for start in range(0, len(keys), CHUNK):
            some = keys[start : start + CHUNK]
            places = [self._fact_at(kind, key) for key in some]
            found = self._redis.read(lambda client, places=places: client.mget(places))  # type: ignore[misc]
            if found is None:
                return known
            for key, text in zip(some, found, strict=True):
                if text is not None and (fact := self._read(kind, key, text)):
                    known[key] = fact
        return known

    def _keep(self, values: Mapping[str, bytes]) -> None:
        small = iter([(at, value) for at, value in values.items() if len(value) <= LARGEST])
        while some := dict(islice(small, CHUNK)):
            self._redis.write(lambda client, some=some: client.mset(some))  # type: ignore[misc]

    def _forget(self, places: Sequence[str]) -> None:
        if places:
            self._redis.write(lambda client: client.delete(*places))

    def _written(self, fact: Fact) -> bytes:
        told = [micros(fact.at), fact.subject, fact.by, fact.body, fact.value, fact.parents, fact.tags, fact.number]
        text = canonical(told).encode()
        return self._checksum(fact.kind, fact.key, text) + text

    def _read(self, kind: str, key: str, text: bytes) -> Fact | None:
        checksum, told = text[:32], text[32:]
        try:
            if checksum != self._checksum(kind, key, told):
                raise ValueError("another checksum")
            at, subject, by, body, value, parents, tags, number = json.loads(told)
            return Fact(
                kind=kind,
                key=key,
                subject=subject,
                at=from_micros(at),
                by=by,
                body=body,
                value=None if value is None else float(value),
                parents=tuple(parents),
                tags=tuple(tags),
                number=number,
            )
        except (ValueError, TypeError, OverflowError, StoreError):
            self._distrust()
            return None

    def _checksum(self, kind: str, key: str, text: bytes) -> bytes:
        """Binds a text to its place, so that one that was swapped or cut is found."""
        place = f"{self._fact_at(kind, key)}\n".encode()
        return hashlib.blake2b(place + text, digest_size=16).hexdigest().encode()

    def _distrust(self) -> None:
        if not self._told:
            self._told = True
            _log.warning(
                "cache %s: found other values than were put there; expected ours. The store answers instead. "
                "See who else writes to it",
                self._redis.name,
            )

    def _content_at(self, name: Digest) -> str:
        return f"{self._prefix}:content:{name}"

    def _fact_at(self, kind: str, key: str) -> str:
        return f"{self._prefix}:fact:{kind}:{key}"


def with_cache(store: UpkeptStore, redis: Redis) -> UpkeptStore:
    """A store with Redis in front of it, if it is in a database: only those have a name of their own."""
    from seedbed.storage.sql.store import SqlStore

    return Cached(store, redis, store.identity) if isinstance(store, SqlStore) else store


def _keys(query: Query) -> list[str] | None:
    """The keys a query asks for, if it asks for nothing else and they may be answered from a cache."""
    bare = replace(query, key=None, keys=None, newest=False, follow=False, limit=None)
    if query.follow or query.kind in CHAINED or not nameable(query.kind) or bare != Query(kind=query.kind):
        return None
    if (query.key is None) == (query.keys is None):
        return None
    asked = [query.key] if query.key is not None else query.keys or []
    return [key for key in dict.fromkeys(asked) if nameable(key)]
