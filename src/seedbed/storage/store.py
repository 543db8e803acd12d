"""Store: content never changes, facts are only added, refs move.

Content is named by the digest of its canonical JSON. A fact says that something happened; its key is unique within its
kind, so adding it twice is harmless. A ref is a movable name. Each move is a fact itself. All facts are hash-chained,
so that a single edited byte is detected.
"""

from __future__ import annotations

import math
import secrets
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from seedbed.errors import Problem, RefMoved, StoreDamaged, StoreError, shown
from seedbed.redaction import redact, redacted
from seedbed.storage.content import Content as Content
from seedbed.storage.content import Digest as Digest
from seedbed.storage.content import Json as Json
from seedbed.storage.content import canonical as canonical
from seedbed.storage.content import digest as digest
from seedbed.storage.content import is_sealed as is_sealed
from seedbed.storage.content import short as short

Target: TypeAlias = str | Json
"""What a ref points at: a digest, or a small document that holds some (a channel's stable and canary)."""

_Item = TypeVar("_Item")

BriefFact: TypeAlias = tuple[str, float | None, str]
"""The key and value of a fact, and its body as JSON text."""

CHAINED = frozenset({"move", "approval", "refusal", "request", "key", "verdict", "trial"})
CHAINED |= {"agreement", "reservation", "comparison", "sentinel", "answer", "attempt", "signature", "slices"}
CHAINED |= {"seal", "retire", "cleared", "stop"}
"""Kinds of fact that decide a release, and those by which a person allowed a run to act, or stopped all of them. All
are rare. They can be read without the key of an encrypted store, are never cached, and each holds a link of its own."""

WRITTEN = frozenset({"feedback", "approval", "refusal", "request", "stop", "retire", "cleared", "branch", "derivation"})
WRITTEN |= {"specialisation", "question", "answer", "claim", "cell", "lapse", "alert", "delivery", "comparison"}
"""Kinds of fact with texts of people, models or tools: secrets are taken out of them by how they look. Runs do that
themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that happened.

    `subject` is what it happened to (a digest or the name of a ref), `parents` are keys of facts of the same kind from
    which this one derives, `tags` are exact words to find it by. The store sets the rest: `number`, the position in it;
    `salt` and `commitment`, which stand for the body in every proof; and, on some, `link`, the hash that binds it and
    the facts before it to all earlier ones (see `chain`).

    A fact is not added while the store has one of those that `unless` names, each by its kind and key. That is decided
    in the transaction that adds it, and not stored.
    """

    kind: str
    key: str
    subject: str
    at: datetime
    by: str
    body: Json = field(default_factory=dict)
    value: float | None = None
    parents: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    number: int = 0
    link: str = field(default="", compare=False)
    salt: str = field(default="", compare=False, repr=False)
    commitment: str = field(default="", compare=False, repr=False)
    unless: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise StoreError(f"{self.kind} fact {shown(self.key)}: found a time without a zone; expected an aware one")
        if not (self.kind and self.key):
            raise StoreError("a fact needs a kind and a key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which facts, in which order. All conditions must hold; facts come oldest first unless `newest`.

    `follow` turns a query by `key` into a walk: that fact and all its ancestors through `parents`, newest first. `text`
    finds facts whose subject is content that contains all the words, in upper or lower case. `key_from` finds keys by
    their prefix. `since` is included, `until` is not. `after` is the number of the last fact already read, in the order
    of the query.
    """

    kind: str
    key: str | None = None
    keys: Sequence[str] | None = None
    key_from: str | None = None
    subject: str | None = None
    by: str | None = None
    tag: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: int | None = None
    newest: bool = False
    follow: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        for at in (self.since, self.until):
            if at and at.tzinfo is None:
                raise StoreError(f"query for {self.kind} facts: found a time without a zone; expected an aware one")
        if self.follow and self.key is None:
            raise StoreError(f"query for {self.kind} facts: found follow without a key; expected where to start from")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A movable name. `version` counts its moves, and continues if a removed ref comes back."""

    name: str
    target: Target
    version: int
    at: datetime
    by: str
    because: str


@runtime_checkable
class Store(Protocol):
    """Keeps content, facts and refs. Safe to share between threads, processes and, for a server, machines.

    When a call returns, its writes are durable; a call that fails has written nothing.
    """

    def put(self, kind: str, body: Json) -> Digest:
        """Save content and return its digest. Saving the same content again changes nothing."""

    def get(self, digest: Digest) -> Json:
        """The content with this digest. Raises NotFound, or StoreDamaged if its text does not match the digest."""

    def append(self, facts: Iterable[Fact]) -> int:
        """Add facts, all or none, and return how many were new: a key already known is not added twice, nor a fact
        that gives way to another (see `Fact.unless`)."""

    def facts(self, query: Query) -> Iterator[Fact]: ...

    def ref(self, name: str) -> Ref | None: ...

    def refs(self, prefix: str = "") -> list[Ref]:
        """The refs whose names have this prefix, sorted by name."""

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        """Point a ref elsewhere. Raises RefMoved unless it still is as `expected` (None: it does not exist).

        Moving to None removes the name; its history stays. The move is recorded as a chained fact.
        """


@runtime_checkable
class Upkeep(Protocol):
    """What copying, verifying and garbage collection need beyond the seven methods."""

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        """All content, oldest first, as it is stored: nothing is checked.

        The iterator raises StoreDamaged at content that cannot be read; `next` then continues after it, as in `facts`.
        """

    def kinds(self) -> dict[str, int]:
        """How many facts there are of each kind."""

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        """Write in bulk what another store held: digests, links and times stay as they are.

        What is already there is not added twice. Refs follow from the move facts among the facts.
        """

    def discard(self, digests: Iterable[Digest]) -> int:
        """Delete content, and return how much of it there was."""

    def close(self) -> None: ...


@runtime_checkable
class Brief(Protocol):
    """A store that reads very many facts faster. Call `in_brief`, which works with any store."""

    def brief(self, query: Query) -> Iterator[BriefFact]:
        """Like `facts`, but of each only its key, its value, and its body as stored text, not parsed."""


@runtime_checkable
class Bulk(Protocol):
    """A store that saves many contents faster. Call `put_all`, which works with any store."""

    def put_all(self, kind: str, bodies: Sequence[Json]) -> list[Digest]:
        """Like `put`, all of them or none."""


class UpkeptStore(Store, Upkeep, Protocol):
    """A store with upkeep, as all of seedbed's own are."""


def brief_of(fact: Fact) -> BriefFact:
    return fact.key, fact.value, canonical(fact.body)


def in_brief(store: Store, query: Query) -> Iterator[BriefFact]:
    """The key, value and body text of each fact: much faster than `facts` if the store supports it."""
    return store.brief(query) if isinstance(store, Brief) else map(brief_of, store.facts(query))


def put_all(store: Store, kind: str, bodies: Sequence[Json]) -> list[Digest]:
    """Save many contents, in one transaction if the store supports it."""
    return store.put_all(kind, bodies) if isinstance(store, Bulk) else [store.put(kind, body) for body in bodies]


def check_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Check facts and normalise them for numbering and linking: times in UTC, values as floats, tuples.

    Raises StoreError for what no store can save, and for a move: only `move` records those.
    """
    batch = []
    known: tuple[object, ...] = ()
    for fact in facts:
        if fact.kind in WRITTEN and not is_sealed(fact.body):
            with suppress(RecursionError):  # it is refused below
                fact = replace(fact, body=redacted(fact.body))
        if fact.kind == "move":
            raise StoreError(f"appending {shown(fact.key)}: found a move; expected other facts. Call move() instead")
        alike = (fact.kind, fact.subject, fact.by)  # mostly the same as those of the fact before
        names = (fact.key, *(() if alike == known else alike), *fact.parents, *fact.tags)
        if all(map(is_name, names)):
            known = alike
        else:
            raise StoreError(f"{fact.kind} fact {shown(fact.key)}: found invalid names; expected {A_NAME}")
        value = fact.value
        if value is not None and (type(value) is not float or not math.isfinite(value)):
            canonical(value)  # the body is checked as it is written
        elif (
            fact.at.tzinfo is UTC
            and type(fact.parents) is type(fact.tags) is tuple
            and not (fact.number or fact.link or fact.salt)
            and (not fact.commitment or is_sealed(fact.body))
        ):
            batch.append(fact)  # nearly all are normal already
            continue
        batch.append(
            replace(
                fact,
                at=fact.at.astimezone(UTC),
                value=None if value is None else float(value),
                parents=tuple(fact.parents),
                tags=tuple(fact.tags),
                number=0,
                link="",
                salt="",
                commitment=fact.commitment if is_sealed(fact.body) else "",
            )
        )
    return batch


NAME_BYTES = 1_000
A_NAME = f"text of at most {NAME_BYTES:,} bytes without NUL and lone surrogates"


def is_name(name: object) -> bool:
    """Whether every store can save and index it as a key, a subject, an author, a tag or the name of a ref."""
    try:
        if not isinstance(name, str) or "\0" in name:
            return False
        return (len(name) if name.isascii() else len(name.encode())) <= NAME_BYTES
    except UnicodeEncodeError:
        return False


def batched(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def now() -> datetime:
    return datetime.now(UTC)


def new_id() -> str:
    """An id for what happens now, such as a live run: `t` and a UUID of version 7. Such ids sort by time, so that new
    ones lie side by side in an index, however large it is."""
    millis, rest = divmod(time.time_ns(), 1_000_000)
    return f"t{millis << 80 | 7 << 76 | (rest << 12) // 1_000_000 << 64 | 2 << 62 | secrets.randbits(62):032x}"


def child_id(parent: str, request: str) -> str:
    """The id of a run that another one opens: the same whenever that one is resumed. It begins with the time of its
    parent, if the parent's does."""
    if parent.startswith("t"):
        return parent[:13] + digest("child", [parent, request])[3:23]
    return uuid.uuid5(uuid.UUID(parent), request).hex


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(at: datetime) -> int:
    """Microseconds since 1970: stores save times so, exact and sortable."""
    return (at - EPOCH) // timedelta(microseconds=1)


def from_micros(count: int) -> datetime:
    return EPOCH + timedelta(microseconds=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefMove:
    """A request to move a ref, as `Store.move` takes it."""

    name: str
    to: Target | None
    expected: Ref | None
    because: str
    by: str

    def __post_init__(self) -> None:
        name = self.name
        if not isinstance(self.because, str):
            raise StoreError(Problem("because", shown(self.because), "a reason in words", "Say why it moves."))
        if not name or not self.because.strip() or not self.by:
            raise StoreError(f"moving {shown(name)}: found an empty name, reason or author; expected all three")
        if not (is_name(name) and is_name(self.by)):
            raise StoreError(f"moving {shown(name)}: found an invalid name or author; expected {A_NAME}")
        if "\0" in self.because:
            raise StoreError(f"moving {name}: found a NUL in the reason; expected printable text")
        if self.to is not None and not self.to:
            raise StoreError(
                f"moving {name}: found an empty target; expected a digest, a document, or None to remove it"
            )

    def apply(self, current: Ref | None, version: int, at: datetime) -> tuple[Ref, Fact]:
        """The ref after the move and the fact that records it. Raises RefMoved if `current` is not as expected.

        `version` is the number of moves so far, which a removed ref keeps. Every store moves refs by this method.
        """
        if (current and current.version) != (self.expected and self.expected.version):
            state = f"at version {current.version}, moved by {current.by}: {current.because}" if current else "gone"
            wanted = f"version {self.expected.version}" if self.expected else "no such ref"
            raise RefMoved(f"{self.name} is {state}; expected {wanted}. Read the ref again before you move it")
        body = {"to": self.to, "from": current.target if current else None, "because": redact(self.because)}
        fact = Fact(kind="move", key=f"{self.name}@{version + 1}", subject=self.name, at=at, by=self.by, body=body)
        return ref_after(fact), fact


def ref_after(fact: Fact) -> Ref:
    """The ref after a move fact; its target is empty if the move removed it."""
    try:
        return Ref(
            name=fact.subject,
            target=fact.body["to"] or "",
            version=int(fact.key.rpartition("@")[2]),
            at=fact.at,
            by=fact.by,
            because=fact.body["because"],
        )
    except (KeyError, ValueError):
        raise StoreDamaged(f"move fact {shown(fact.key)}: found no target, reason or version; expected all") from None


LATE_SECONDS = 5.0
"""How long a fact may stay invisible: where many write at once, a number is drawn before its fact can be read."""


class Feed:
    """Reads the facts of some queries as they arrive, each once, in the order of the store."""

    def __init__(self, store: Store, queries: Sequence[Query], after: int) -> None:
        self._store = store
        self._queries = queries
        self._after = after
        self._read: set[int] = set()
        self._marks: deque[tuple[float, int]] = deque()

    def read(self) -> list[Fact]:
        """The facts that arrived since the last call."""
        now = time.monotonic()
        while self._marks and self._marks[0][0] < now - LATE_SECONDS:
            self._after = self._marks.popleft()[1]
        self._read = {number for number in self._read if number > self._after}
        queries = (replace(query, after=self._after) for query in self._queries)
        facts = (fact for query in queries for fact in self._store.facts(query))
        fresh = sorted((fact for fact in facts if fact.number not in self._read), key=lambda fact: fact.number)
        if fresh:
            self._read.update(fact.number for fact in fresh)
            self._marks.append((now, max(self._read)))
        return fresh
