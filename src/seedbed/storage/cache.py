"""CachedStore: any store, with Redis in front for what never changes.

Redis holds content under its digest, which verifies it, and facts under their kind and key, with a code that only
those who can read the store can make. The store answers for everything that is missing there or does not verify. Never
cached: refs, chained facts, which decide what is released, and that something does not exist. Writes are durable in the
store before anything else happens.

An encrypted store wraps this one, so that Redis sees its facts sealed, and none of its content.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from seedbed.errors import StoreDamaged, StoreError
from seedbed.storage.redis import Redis
from seedbed.storage.store import (
    CHAINED,
    BriefFact,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    Target,
    UpkeptStore,
    batched,
    brief_of,
    canonical,
    from_micros,
    in_brief,
    is_name,
    micros,
)

CHUNK = 500
"""Facts per request to Redis."""

MAC_BYTES = 32

LARGEST = 1_000_000
"""The most bytes of a cached value: Redis serves one request at a time, and others wait meanwhile."""

_log = logging.getLogger("seedbed")


class CachedStore:
    """A store that reads from Redis first. `name` distinguishes it from other stores in the same Redis.

    Facts are cached when they are first read by key, as only then their numbers are known. The server decides how much
    it holds and for how long (`maxmemory`, `maxmemory-policy allkeys-lru`).
    """

    def __init__(self, inner: UpkeptStore, redis: Redis, name: str, secret: bytes) -> None:
        self.inner = inner
        self._redis = redis
        self._secret = secret
        self._prefix = "seedbed:" + hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
        self._warned = False

    def put(self, kind: str, body: Json) -> Digest:
        text = f"{kind}\n{canonical(body)}"
        name = self.inner.put(kind, body)
        self._save({self._content_at(name): text.encode()})
        return name

    def get(self, digest: Digest) -> Json:
        if is_name(digest):
            at = self._content_at(digest)
            text = (self._redis.read(lambda client: client.mget([at])) or [None])[0]
            if isinstance(text, bytes):
                if "b2:" + hashlib.blake2b(text, digest_size=32).hexdigest() == digest:
                    body: Json = json.loads(text.partition(b"\n")[2])
                    return body
                self._warn()
                self._delete([at])
        return self.inner.get(digest)

    def append(self, facts: Iterable[Fact]) -> int:
        return self.inner.append(facts)

    def facts(self, query: Query) -> Iterator[Fact]:
        keys = _keys(query)
        if keys is None:
            return self.inner.facts(query)
        known = self._read_known(query.kind, keys)
        missing = [key for key in keys if key not in known]
        try:
            fresh = list(self.inner.facts(Query(kind=query.kind, keys=missing))) if missing else []
        except StoreDamaged:
            return self.inner.facts(query)  # raises where the damaged fact is, after the intact ones
        self._save({self._fact_at(fact.kind, fact.key): self._to_bytes(fact) for fact in fresh})
        ordered = sorted([*known.values(), *fresh], key=lambda fact: fact.number, reverse=query.newest)
        return islice(iter(ordered), query.limit)

    def brief(self, query: Query) -> Iterator[BriefFact]:
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
        self._delete([self._content_at(name) for name in names if is_name(name)])
        return count

    def close(self) -> None:
        self._redis.close()
        self.inner.close()

    def _read_known(self, kind: str, keys: Sequence[str]) -> dict[str, Fact]:
        known: dict[str, Fact] = {}
        for some in batched(keys, CHUNK):
            places = [self._fact_at(kind, key) for key in some]
            texts = self._redis.read(lambda client, places=places: client.mget(places))  # type: ignore[misc]
            if texts is None:
                return known
            for key, text in zip(some, texts, strict=True):
                if text is not None and (fact := self._from_bytes(kind, key, text)):
                    known[key] = fact
        return known

    def _save(self, values: Mapping[str, bytes]) -> None:
        small = [(at, value) for at, value in values.items() if len(value) <= LARGEST]
        for some in batched(small, CHUNK):
            self._redis.write(lambda client, some=some: client.mset(dict(some)))  # type: ignore[misc]

    def _delete(self, places: Sequence[str]) -> None:
        if places:
            self._redis.write(lambda client: client.delete(*places))

    def _to_bytes(self, fact: Fact) -> bytes:
        fields = [micros(fact.at), fact.subject, fact.by, fact.body, fact.value, fact.parents, fact.tags, fact.number]
        text = canonical([*fields, fact.salt, fact.commitment]).encode()
        return self._mac(fact.kind, fact.key, text) + text

    def _from_bytes(self, kind: str, key: str, text: bytes) -> Fact | None:
        mac, fields = text[:MAC_BYTES], text[MAC_BYTES:]
        try:
            if not hmac.compare_digest(mac, self._mac(kind, key, fields)):
                raise ValueError("another code")
            at, subject, by, body, value, parents, tags, number, salt, commitment = json.loads(fields)
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
                salt=salt,
                commitment=commitment,
            )
        except (ValueError, TypeError, OverflowError, StoreError):
            self._warn()
            return None

    def _mac(self, kind: str, key: str, text: bytes) -> bytes:
        """Binds a text to its key by the store's secret, so that access to the server is not enough to write a fact."""
        place = f"{self._fact_at(kind, key)}\n".encode()
        return hmac.digest(self._secret, place + text, "sha256")

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "cache %s: found values that seedbed did not write; the store answers instead. "
                "Check what else writes to this Redis",
                self._redis.name,
            )

    def _content_at(self, name: Digest) -> str:
        return f"{self._prefix}:content:{name}"

    def _fact_at(self, kind: str, key: str) -> str:
        return f"{self._prefix}:fact:{kind}:{key}"


def with_cache(store: UpkeptStore, redis: Redis) -> UpkeptStore:
    """Put Redis in front of a store, if it is in a database: only those have an identity."""
    identity: str | None = getattr(store, "identity", None)
    secret: bytes = getattr(store, "secret", b"")
    return store if identity is None else CachedStore(store, redis, identity, secret)


def _keys(query: Query) -> list[str] | None:
    """The keys of a query that has no other condition and may be answered from a cache; else None."""
    bare = replace(query, key=None, keys=None, newest=False, follow=False, limit=None)
    if query.follow or query.kind in CHAINED or not is_name(query.kind) or bare != Query(kind=query.kind):
        return None
    if (query.key is None) == (query.keys is None):
        return None
    keys = [query.key] if query.key is not None else query.keys or []
    return [key for key in dict.fromkeys(keys) if is_name(key)]
