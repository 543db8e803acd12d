"""EncryptedStore: any store, with its bodies encrypted ("sealed").

Secret: the bodies of content and of facts. Not secret: digests, kinds, keys, subjects, parents, tags, values, times and
authors, which must stay searchable; the length of a body; and the audit log, which must be provable without the key:
refs and the facts of `CHAINED` kinds (moves, approvals, answers, key changes, verdicts, trials) with their bodies and
reasons. A digest is that of the plain text, so anyone who guesses a text exactly can confirm it.

A random data key seals the bodies; the master key seals the data keys, which the store holds as its keyring. There is
no way around the master key: if it is lost, so is every body. Keep a copy of it away from the store.
"""

from __future__ import annotations

import json
import os
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from seedbed import plugins
from seedbed.errors import NotFound, Problem, SettingsError, StoreDamaged, StoreError, shown
from seedbed.storage.chain import commitment, new_salt
from seedbed.storage.content import words, words_of
from seedbed.storage.store import (
    CHAINED,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    Store,
    Target,
    UpkeptStore,
    canonical,
    check_facts,
    is_sealed,
    micros,
    now,
    short,
)
from seedbed.storage.store import digest as digest_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "SEEDBED_KEY"
KEYRING = "seedbed-keyring"
"""The kind of content that holds the data keys. EncryptedStore does not show it."""

MAKE_ONE = (
    "Make one: python -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())'. Keep a copy of it"
)
KEY_BYTES, NONCE_BYTES = 32, 12
WHOLE = "s1:"
"""How the sealed body of a fact begins that is bound to all its columns."""


class _Keys:
    """Secret keys by id: the current one seals, each opens what it sealed. repr does not show them."""

    def __init__(self, keys: Mapping[str, bytes], current: str) -> None:
        self.keys = keys
        self.current = current

    def seal(self, text: str, place: str, form: str = "") -> Json:
        nonce = os.urandom(NONCE_BYTES)
        box = nonce + _cipher(self.keys[self.current]).encrypt(nonce, text.encode(), place.encode())
        return {"sealed": f"{form}{self.current}:{b64encode(box).decode()}"}

    def open(self, body: Json, place: str) -> str:
        """The text in a sealed body. Raises ValueError for another key or place, or an edited body."""
        key_id, _, coded = str(body["sealed"]).removeprefix(WHOLE).partition(":")
        box = b64decode(coded, validate=True)
        # The last letter of base64 has spare bits: an edit there must be detected, too.
        if key_id not in self.keys or len(box) < NONCE_BYTES or b64encode(box).decode() != coded:
            raise ValueError("no such key, or not a sealed body")
        try:
            return _cipher(self.keys[key_id]).decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], place.encode()).decode()
        except _optional("cryptography.exceptions").InvalidTag:
            raise ValueError("another key, another place or another text") from None


class MasterKey(_Keys):
    """The key to the data keys of a store: base64 of 32 random bytes. Raises SettingsError, which never quotes it."""

    def __init__(self, text: str, source: str = "master key") -> None:
        try:
            key = b64decode(text.strip(), validate=True)
            description = f"base64 of {len(key)} bytes" if key else "nothing"
        except ValueError:
            key, description = b"", "text that is not base64"
        if len(key) != KEY_BYTES:
            raise SettingsError([Problem(source, description, f"base64 of {KEY_BYTES} random bytes", MAKE_ONE)])
        _cipher(key)
        super().__init__({"master": key}, "master")

    @classmethod
    def from_environment(cls) -> MasterKey:
        return cls(os.environ.get(VARIABLE, ""), VARIABLE)


class _Keyring(_Keys):
    """The data keys of a store. Each generation has all earlier keys and a new one that seals."""

    def __init__(self, generation: int, keys: Mapping[str, bytes]) -> None:
        super().__init__(keys, str(generation))
        self.generation = generation

    def next(self) -> _Keyring:
        generation = self.generation + 1
        return _Keyring(generation, {**self.keys, str(generation): os.urandom(KEY_BYTES)})

    def to_content(self, master: MasterKey) -> Content:
        """Named by its generation, so that of two made at the same time the store saves one."""
        name = _ring_name(self.generation)
        keys = {key_id: b64encode(key).decode() for key_id, key in self.keys.items()}
        return Content(KEYRING, name, master.seal(canonical(keys), name))

    @classmethod
    def read(cls, generation: int, body: Json, master: MasterKey) -> _Keyring:
        try:
            keys = json.loads(master.open(body, _ring_name(generation)))
        except ValueError:
            raise StoreError("cannot open: wrong key") from None
        return cls(generation, {key_id: b64decode(key) for key_id, key in keys.items()})


class EncryptedStore:
    """A store whose bodies are sealed with AES-256-GCM, each bound to its place: edits and swaps are detected.

    It behaves like the inner store, except that a search by `text` opens every candidate: correct, but slow. Raises
    StoreError if the master key is not the one of this store.

    Every seal draws a random nonce of 96 bits. Two equal nonces would break a data key; their chance is below 2^-32
    while the key has sealed at most 2^32 bodies: `rotate` before that.
    """

    def __init__(self, inner: UpkeptStore, master: MasterKey) -> None:
        self._inner = inner
        self._master = master
        self._lock = threading.Lock()
        self._ring = self._newest_ring()
        # The keyring is written before the first body, so bodies without a keyring mean that it is missing.
        has_bodies = not self._ring.keys and (any(inner.contents()) or inner.kinds().keys() - CHAINED)
        if has_bodies and not self._newest_ring().keys:
            raise StoreError(
                "found a store with bodies but without a keyring; expected an empty or an encrypted one. "
                "Copy a plain store into a new encrypted one, or restore a damaged one from a copy"
            )

    def put(self, kind: str, body: Json) -> Digest:
        name = digest_of(kind, body)
        try:
            self._inner.get(name)
        except NotFound:
            self.load([Content(kind, name, body)], [])
        return name

    def get(self, digest: Digest) -> Json:
        kind, body = self._open(self._inner.get(digest), digest, f"content {short(digest)}")
        if digest_of(kind, body) != digest:
            raise StoreDamaged(f"{kind} {short(digest)} is not what was put there. Restore it from a copy")
        return body

    def append(self, facts: Iterable[Fact]) -> int:
        return self._inner.append([self._seal_fact(fact) for fact in check_facts(facts)])

    def facts(self, query: Query) -> Iterator[Fact]:
        if query.text is None:
            return map(self._open_fact, self._inner.facts(query))
        wanted = frozenset(words(query.text))
        holds = cache(lambda subject: bool(wanted) and wanted <= self._words_of(subject))
        every = self._inner.facts(replace(query, text=None, limit=None))
        return map(self._open_fact, islice((fact for fact in every if holds(fact.subject)), query.limit))

    def ref(self, name: str) -> Ref | None:
        return self._inner.ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        return self._inner.refs(prefix)

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        return self._inner.move(name, to, expected=expected, because=because, by=by)

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        return map(self._open_content, filter(lambda content: content.kind != KEYRING, self._inner.contents(kind)))

    def kinds(self) -> dict[str, int]:
        return self._inner.kinds()

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        bodies = [replace(content, body=self._seal(content.kind, content.body, content.digest)) for content in contents]
        self._inner.load(bodies, [self._seal_fact(fact) for fact in facts])

    def discard(self, digests: Iterable[Digest]) -> int:
        return self._inner.discard(digests)

    def close(self) -> None:
        self._inner.close()

    def rotate(self, new: MasterKey, *, by: str = "seedbed") -> None:
        """Change the master key, seal with a fresh data key from now on, and record it as a fact.

        The old master key no longer opens the store, and never opens what the fresh key seals. Earlier bodies are not
        sealed again: anyone with the old key and the file, or an old copy of it, can still read those. If the old key
        has leaked, copy everything into a new encrypted store and destroy this one. Stores opened before the change
        continue to seal with the data key they know: open them again.
        """
        with self._lock:
            ring = self._newest_ring().next()
            content = ring.to_content(new)
            self._inner.load([content], [])
            if self._inner.get(content.digest) != content.body:
                raise StoreError("someone else changed the key first; nothing changed here. Open the store again")
            self._ring, self._master = ring, new
        name, body = digest_of(KEYRING, content.body), {"generation": ring.generation}
        self._inner.append([Fact(kind="key", key=name, subject="keyring", at=now(), by=by, body=body)])

    def _newest_ring(self) -> _Keyring:
        """The keyring of the newest generation; an empty one if nothing is sealed yet."""
        generation, body = 0, None
        with suppress(NotFound):
            while True:
                body = self._inner.get(_ring_name(generation + 1))
                generation += 1
        return _Keyring.read(generation, body, self._master) if body else _Keyring(0, {})

    def _sealing_ring(self) -> _Keyring:
        """The keyring to seal with. Creates the first one of a store, or takes the one another process created."""
        with self._lock:
            if not self._ring.keys:
                self._inner.load([self._ring.next().to_content(self._master)], [])
                self._ring = self._newest_ring()
            return self._ring

    def _opening_ring(self, body: Json) -> _Keyring:
        """The keyring to open with, read again if it lacks the key that this body names."""
        with self._lock:
            if _key_id(body) not in self._ring.keys:
                self._ring = self._newest_ring()
            return self._ring

    def _seal(self, kind: str, body: Json, place: str) -> Json:
        # With its kind, so that `get`, which does not know the kind, can derive the digest.
        return self._sealing_ring().seal(canonical([kind, body]), place)

    def _open(self, body: Json, place: str, name: str) -> tuple[str, Json]:
        kind, plain = self._unseal(body, place, name)
        return kind, plain

    def _unseal(self, body: Json, place: str, name: str) -> Any:
        if not is_sealed(body):
            raise StoreDamaged(f"{name}: found a plain body; expected a sealed one. Restore it from a copy")
        try:
            return json.loads(self._opening_ring(body).open(body, place))
        except ValueError:
            raise StoreDamaged(f"{name}: found a body that was not sealed there. Restore it from a copy") from None

    def _open_content(self, content: Content) -> Content:
        name = f"{content.kind} {short(content.digest)}"
        return replace(content, body=self._open(content.body, content.digest, name)[1])

    def _seal_fact(self, fact: Fact) -> Fact:
        """The fact with its body and salt encrypted, bound to all its columns."""
        if fact.kind in CHAINED:
            return fact
        text, salt = canonical(fact.body), fact.salt
        if not fact.commitment:
            salt = new_salt()
            fact = replace(fact, commitment=commitment(salt, text))
        ring = self._sealing_ring()
        return replace(fact, body=ring.seal(canonical([salt, text]), _columns(fact, ring.current), WHOLE), salt="")

    def _open_fact(self, fact: Fact) -> Fact:
        if fact.kind in CHAINED:
            return fact
        name = f"{fact.kind} fact {shown(fact.key)}"
        if not fact.commitment:  # it was sealed before facts had one, and bound to its kind and key only
            return replace(fact, body=self._open(fact.body, canonical([fact.kind, fact.key]), name)[1])
        salt, text = self._unseal(fact.body, _columns(fact, _key_id(fact.body)), name)
        return replace(fact, body=json.loads(text), salt=salt)

    def _words_of(self, subject: str) -> frozenset[str]:
        try:
            return frozenset(words_of(self.get(subject)))
        except NotFound:
            return frozenset()


def keyring(store: Store) -> Json | None:
    """The first keyring of a store, sealed; None if nothing is sealed yet, or for an EncryptedStore."""
    if isinstance(store, EncryptedStore):
        return None
    try:
        return store.get(_ring_name(1))
    except NotFound:
        return None


def expect_plain(store: Store) -> None:
    """Raise StoreError if a store is encrypted: without its key, reads would fail and writes would not be sealed."""
    if keyring(store):
        raise StoreError(
            "found an encrypted store; expected a plain one. "
            f"Set encrypted: true in the workspace file, and {VARIABLE} to its key"
        )


def _cipher(key: bytes) -> AESGCM:
    cipher: AESGCM = _optional("cryptography.hazmat.primitives.ciphers.aead").AESGCM(key)
    return cipher


def _optional(module: str) -> Any:
    return plugins.optional(module, extra="encryption", needed_for="encryption")


def _ring_name(generation: int) -> Digest:
    """A digest that no content has, as a body is never a list."""
    return digest_of(KEYRING, [generation])


def _key_id(body: Json) -> str:
    """The key that sealed a body; empty for what is not sealed."""
    return str(body.get("sealed", "")).removeprefix(WHOLE).partition(":")[0]


def _columns(fact: Fact, key_id: str) -> str:
    """What the body of a fact is bound to: all its columns. Content is bound to its digest, which covers its kind."""
    named = [fact.kind, fact.key, fact.subject, micros(fact.at), fact.by, fact.value]
    return canonical([*named, fact.parents, fact.tags, fact.commitment, key_id])
