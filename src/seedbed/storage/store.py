"""Store: content never changes, facts are only added, refs move.

Content is named by the digest of its canonical JSON. A fact says that something happened; its key is
unique within its kind, so adding it twice is harmless. A ref is a movable name; each move is itself a
fact, and the facts of `CHAINED` kinds are hash-chained so that an edited byte of those is found.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable

from seedbed.errors import RefMoved, StoreDamaged, StoreError, shown
from seedbed.storage.canonical import canonical, digest

Json: TypeAlias = dict[str, Any]
Digest: TypeAlias = str
Target: TypeAlias = str | Json
"""What a ref points at: a digest, or a small document that holds some (a channel's stable and canary)."""

Told: TypeAlias = tuple[str, float | None, str]
"""A fact in brief: its key, its value, and its body as JSON text."""

CHAINED = frozenset({"move", "approval", "refusal", "request", "key", "verdict", "trial"})
CHAINED |= {"agreement", "reservation", "comparison", "sentinel", "answer"}
"""Kinds of fact whose order and text must be provable later: what decides what is released, and what a person let a run
do. All are rare."""

GENESIS = "b2:" + "0" * 64
"""The link before the first chained fact."""


def sealed(body: object) -> bool:
    """Whether a body is encrypted, so that its digest cannot be derived without the key."""
    return isinstance(body, dict) and body.keys() == {"sealed"}


def short(digest: Digest) -> str:
    """A digest as people see it: ten characters."""
    return digest.removeprefix("b2:")[:10]


def without_password(url: str) -> str:
    """The URL of a store as it may be shown."""
    hidden = re.sub(r"(:/{1,2}(?!/)[^:/@]*:).*@", r"\1***@", url)
    return re.sub(r"(password=)[^&#]*", r"\1***", hidden)


@dataclass(frozen=True, slots=True)
class Content:
    """One piece of content with its name."""

    kind: str
    digest: Digest
    body: Json

    @property
    def intact(self) -> bool:
        """Whether it is what its name says, as far as can be told: a sealed body passes."""
        try:
            return sealed(self.body) or digest(self.kind, self.body) == self.digest
        except StoreError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that happened.

    `subject` is what it happened to (a digest or a ref's name), `parents` are keys of facts of the same
    kind that this one grew from, `tags` are exact words it can be found by. `number` and `link` are given
    by the store: the position in it, and the hash that binds a chained fact to the one before.
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
    link: str = ""

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise StoreError(f"{self.kind} fact {shown(self.key)}: found a time without a zone; expected an aware one")
        if not (self.kind and self.key):
            raise StoreError("a fact needs a kind and a key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which facts, in which order. Everything given must hold; facts come oldest first unless `newest`.

    `follow` turns a query by `key` into a walk: that fact and all it grew from through `parents`,
    newest first. `text` finds facts whose subject is content that contains all the words, in any case.
    `key_from` finds keys by their beginning. `since` is included, `until` is not. `after` is the number of
    the last fact already seen, in the order asked for.
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
    """A movable name. `version` counts its moves; a removed ref keeps counting when it comes back."""

    name: str
    target: Target
    version: int
    at: datetime
    by: str
    because: str


class Store(Protocol):
    """Where everything is kept. Safe to share between threads, processes and, where it can be, machines.

    A call that returns has been written durably; a call that fails has written nothing.
    """

    def put(self, kind: str, body: Json) -> Digest:
        """Keep content; the same content again is the same digest and changes nothing."""

    def get(self, digest: Digest) -> Json:
        """The content of that name. Raises NotFound, or StoreDamaged if its text does not match its name."""

    def append(self, facts: Iterable[Fact]) -> int:
        """Add facts, all or none, and say how many were new: a key already known is not added twice."""

    def facts(self, query: Query) -> Iterator[Fact]: ...

    def ref(self, name: str) -> Ref | None: ...

    def refs(self, prefix: str = "") -> list[Ref]:
        """The refs whose names begin so, by name."""

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        """Point a ref elsewhere if it still is as `expected` (None: it does not exist); else raise RefMoved.

        Moving to None removes the name; its history stays. The move is recorded as a chained fact.
        """


@runtime_checkable
class Upkeep(Protocol):
    """What copying, verifying and cleaning need beyond the seven methods."""

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        """Everything kept, oldest first, as it is stored: nothing is checked.

        What cannot be read raises StoreDamaged in its turn; `next` then goes on with the one after, as in `facts`.
        """

    def kinds(self) -> dict[str, int]:
        """How many facts there are of each kind."""

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        """Bulk write of what another store held: digests, links and times are taken as they are.

        What is already there is not added twice. Refs follow from the move facts among the facts.
        """

    def discard(self, digests: Iterable[Digest]) -> int:
        """Forget content, and say how much was there."""

    def close(self) -> None: ...


@runtime_checkable
class Brief(Protocol):
    """What a store may know besides, for those who read very many facts; `in_brief` asks any store."""

    def brief(self, query: Query) -> Iterator[Told]:
        """As `facts`, but of each only its key, its value, and its body as the text that is stored, unread."""


@runtime_checkable
class Bulk(Protocol):
    """What a store may know besides, for those who put very many things; `put_all` asks any store."""

    def put_all(self, kind: str, bodies: Sequence[Json]) -> list[Digest]:
        """As `put`, all of them or none."""


class UpkeptStore(Store, Upkeep, Protocol):
    """A store that can be looked after; all of seedbed's own can."""


def brief_of(fact: Fact) -> Told:
    return fact.key, fact.value, canonical(fact.body)


def in_brief(store: Store, query: Query) -> Iterator[Told]:
    """The key, value and body of each fact, the body as text: a fraction of the work of `facts`, if the store can."""
    return store.brief(query) if isinstance(store, Brief) else map(brief_of, store.facts(query))


def put_all(store: Store, kind: str, bodies: Sequence[Json]) -> list[Digest]:
    """Put many things together: one transaction, if the store can."""
    return store.put_all(kind, bodies) if isinstance(store, Bulk) else [store.put(kind, body) for body in bodies]


def checked(facts: Iterable[Fact]) -> list[Fact]:
    """Facts ready to be numbered and linked: times in UTC, values as floats, tuples.

    Raises StoreError for what no store can keep, and for a move: only `move` records those.
    """
    batch = []
    known: tuple[object, ...] = ()
    for fact in facts:
        if fact.kind == "move":
            raise StoreError(f"appending {shown(fact.key)}: found a move; expected other facts. Call move() instead")
        alike = (fact.kind, fact.subject, fact.by)  # as those of the fact before, mostly
        names = (fact.key, *(() if alike == known else alike), *fact.parents, *fact.tags)
        if all(map(nameable, names)):
            known = alike
        else:
            raise StoreError(f"{fact.kind} fact {shown(fact.key)}: found names that cannot be; expected {A_NAME}")
        value = fact.value
        if value is not None and (type(value) is not float or not math.isfinite(value)):
            canonical(value)  # the body is checked as it is written
        elif (
            fact.at.tzinfo is UTC and type(fact.parents) is type(fact.tags) is tuple and not (fact.number or fact.link)
        ):
            batch.append(fact)  # as nearly all are
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
            )
        )
    return batch


def link(previous: str, fact: Fact) -> str:
    """The hash that binds a chained fact to the chain before it."""
    told = canonical(
        {
            "previous": previous,
            "kind": fact.kind,
            "key": fact.key,
            "subject": fact.subject,
            "at": micros(fact.at),
            "by": fact.by,
            "body": fact.body,
            "value": fact.value,
            "parents": fact.parents,
            "tags": fact.tags,
        }
    )
    return "b2:" + hashlib.blake2b(told.encode(), digest_size=32).hexdigest()


NAME_BYTES = 1_000
A_NAME = f"text of at most {NAME_BYTES:,} bytes without NUL and lone surrogates"


def nameable(name: object) -> bool:
    """Whether every store can keep and index it as a key, a subject, an author, a tag or the name of a ref."""
    try:
        if not isinstance(name, str) or "\0" in name:
            return False
        return (len(name) if name.isascii() else len(name.encode())) <= NAME_BYTES
    except UnicodeEncodeError:
        return False


def now() -> datetime:
    return datetime.now(UTC)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(at: datetime) -> int:
    """Microseconds since 1970: how stores keep time, exact and sortable."""
    return (at - EPOCH) // timedelta(microseconds=1)


def from_micros(count: int) -> datetime:
    return EPOCH + timedelta(microseconds=count)


def next_move(
    name: str,
    current: Ref | None,
    version: int,
    to: Target | None,
    *,
    expected: Ref | None,
    because: str,
    by: str,
    at: datetime,
) -> tuple[Ref, Fact]:
    """The ref after a move and the fact that records it. Raises RefMoved if `current` is not as `expected`.

    `version` is the number of moves so far, which a removed ref keeps. Every store moves refs through here.
    """
    if not name or not because.strip() or not by:
        raise StoreError(f"moving {shown(name)}: found an empty name, reason or author; expected all three")
    if not (nameable(name) and nameable(by)):
        raise StoreError(f"moving {shown(name)}: found a name or author that cannot be; expected {A_NAME}")
    if "\0" in because:
        raise StoreError(f"moving {name}: found a NUL in the reason; expected printable text")
    if to is not None and not to:
        raise StoreError(f"moving {name}: found an empty target; expected a digest, a document, or None to remove it")
    if (current and current.version) != (expected and expected.version):
        state = f"at version {current.version}, moved by {current.by}: {current.because}" if current else "gone"
        wanted = f"version {expected.version}" if expected else "no such ref"
        raise RefMoved(f"{name} is {state}; expected {wanted}. Read the ref again and decide anew")
    body = {"to": to, "from": current.target if current else None, "because": because}
    fact = Fact(kind="move", key=f"{name}@{version + 1}", subject=name, at=at, by=by, body=body)
    return moved(fact), fact


def moved(fact: Fact) -> Ref:
    """The ref as a move fact left it; its target is empty if the move removed it."""
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


__all__ = [
    "CHAINED",
    "GENESIS",
    "Brief",
    "Bulk",
    "Content",
    "Digest",
    "Fact",
    "Json",
    "Query",
    "Ref",
    "Store",
    "Target",
    "Told",
    "Upkeep",
    "UpkeptStore",
    "brief_of",
    "canonical",
    "checked",
    "digest",
    "from_micros",
    "in_brief",
    "link",
    "micros",
    "moved",
    "nameable",
    "next_move",
    "now",
    "put_all",
    "sealed",
    "short",
    "without_password",
]
