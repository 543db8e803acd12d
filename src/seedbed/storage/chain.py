"""The chain: every fact of a store is bound to all before it, so that a single edited byte is detected.

The hash of a fact covers its columns and a salted commitment to its body, never the body itself: a body can be erased
later, and the chain still verifies. Facts are linked in small groups. The last of a group holds the link, which covers
the link before and the hashes of all facts in between.

Stores made before there were commitments have a first part in which only facts of `CHAINED` kinds hold a link, over
their whole text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seedbed.storage.store import CHAINED, Fact, canonical, is_sealed, micros

GENESIS = "b2:" + "0" * 64
"""The link before the first fact."""

GROUP = 100
"""The most facts that share a link: verification names the group that was changed."""

_SALT_BYTES = 16
# What is hashed begins with a byte that says what it is, so that none of these can pass for another.
_LEAF, _NODE, _LINK, _UNBOUND, _GROUP = b"\x00", b"\x01", b"\x02", b"\x03", b"\x04"


class Binding(NamedTuple):
    """What binds a fact: the salt and the commitment of its body, and the link if it ends a group."""

    salt: str
    commitment: str
    link: str


def bind(facts: Sequence[Fact], bodies: Sequence[str], previous: str, unbound: int = 0) -> list[Binding]:
    """The bindings of new facts after the link `previous`, by their bodies as canonical text.

    A fact whose body is encrypted has its commitment already. `unbound` counts the facts before the first link of a
    chain that older versions began: none can be added there later.
    """
    salts = os.urandom(_SALT_BYTES * len(facts))
    leaves = [unbound_leaf(unbound)] if unbound else []
    bindings, last = [], len(facts) - 1
    for place, (fact, body) in enumerate(zip(facts, bodies, strict=True)):
        salt, promise = "", fact.commitment
        if not promise:
            salt = salts[place * _SALT_BYTES : (place + 1) * _SALT_BYTES].hex()
            promise = commitment(salt, body)
        leaves.append(leaf(fact, promise))
        link = ""
        if place == last or fact.kind in CHAINED or len(leaves) == GROUP:
            link = previous = link_of(previous, group_of(leaves))
            leaves = []
        bindings.append(Binding(salt, promise, link))
    return bindings


def new_salt() -> str:
    return os.urandom(_SALT_BYTES).hex()


def commitment(salt: str, body: str) -> str:
    """The commitment to a body in canonical text. A guessed body cannot be confirmed without the salt."""
    return hashlib.blake2b(bytes.fromhex(salt) + body.encode(), digest_size=32).hexdigest()


def leaf(fact: Fact, promise: str = "") -> bytes:
    """The hash of a fact: of all its columns and the commitment to its body."""
    columns = (
        fact.kind,
        fact.key,
        fact.subject,
        str(micros(fact.at)),
        fact.by,
        "" if fact.value is None else repr(fact.value + 0.0),  # SQLite does not know -0.0
        canonical(fact.parents) if fact.parents else "",
        canonical(fact.tags) if fact.tags else "",
        promise or fact.commitment or canonical(fact.body),  # facts of older versions have no commitment
    )
    return _hash(_LEAF, "\0".join(columns).encode())


def merkle_root(items: Sequence[bytes]) -> str:
    """The root of the hash tree over these items, in the shape of RFC 6962."""
    level = [_hash(_LEAF, item) for item in items] or [_hash()]
    while len(level) > 1:
        paired = [_hash(_NODE, level[at] + level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = paired + level[len(paired) * 2 :]
    return f"b2:{level[0].hex()}"


class Chain:
    """Follows a chain, fact by fact in the order of their numbers."""

    def __init__(self) -> None:
        self.head = GENESIS
        self.linked = 0
        """How many facts the chain proves so far."""
        self._bound = False
        self._unbound = 0
        self._leaves: list[bytes] = []
        self._group: list[str] = []

    def follow(self, fact: Fact, *, hidden: bool = False) -> list[tuple[str, str]]:
        """What is wrong at the next fact: where, and what was found there. The body of a `hidden` one is not known."""
        name = f"{fact.kind} fact {fact.key}"
        if not fact.commitment:
            return self._follow_unbound(name, fact)
        if not self._bound and self._unbound:
            self._leaves.append(unbound_leaf(self._unbound))
        self._bound = True
        self._leaves.append(leaf(fact))
        self._group.append(name)
        wrong = [] if hidden or _keeps_promise(fact) else [(name, "a body that was changed")]
        return wrong + (self._end_group(fact.link) if fact.link else [])

    def end(self) -> list[tuple[str, str]]:
        """What is wrong after the last fact: some that no link covers."""
        return [(name, "no link that covers it") for name in self._group]

    def _follow_unbound(self, name: str, fact: Fact) -> list[tuple[str, str]]:
        if self._bound:
            return [(name, "no commitment")]
        self._unbound += 1
        if fact.kind not in CHAINED:
            return []
        self.linked += 1
        expected, self.head = first_link(self.head, fact), fact.link
        return [] if fact.link == expected else [(name, "a link that does not follow")]

    def _end_group(self, link: str) -> list[tuple[str, str]]:
        expected, group = link_of(self.head, group_of(self._leaves)), self._group
        self.head, self._leaves, self._group = link, [], []
        self.linked += len(group)
        if link == expected:
            return []
        if len(group) == 1:
            return [(group[0], "a link that does not follow")]
        return [(f"{group[0]} to {group[-1]}", f"a link that does not follow from the {len(group)} facts")]


def broken(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    """What is wrong with the chain of all facts of a store: where, and what was found there."""
    chain = Chain()
    return [*(wrong for fact in facts for wrong in chain.follow(fact)), *chain.end()]


def first_link(previous: str, fact: Fact) -> str:
    """The link of a chained fact as versions before commitments made it: over its whole text."""
    text = canonical(
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
    return "b2:" + hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def _keeps_promise(fact: Fact) -> bool:
    """Whether the body is the one committed to. An encrypted one cannot be checked without the key."""
    if is_sealed(fact.body) and not fact.salt:
        return True
    try:
        return commitment(fact.salt, canonical(fact.body)) == fact.commitment
    except ValueError:
        return False


def group_of(leaves: Sequence[bytes]) -> bytes:
    """The hash of a group of facts, by their hashes."""
    return _hash(_GROUP, *leaves)


def link_of(previous: str, group: bytes) -> str:
    """The link of a group after the link before."""
    return f"b2:{_hash(_LINK, previous.encode(), group).hex()}"


def unbound_leaf(count: int) -> bytes:
    """What stands in the first group for the facts before it, of which older versions bound only some."""
    return _hash(_UNBOUND, str(count).encode())


def _hash(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()
