"""Upkeep: verify, copy, measure and clean any store."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from seedbed.errors import NotFound, Problem, StoreDamaged, StoreError
from seedbed.storage.cache import Cached
from seedbed.storage.encryption import Encrypted, keyring
from seedbed.storage.store import (
    CHAINED,
    GENESIS,
    Content,
    Digest,
    Fact,
    Query,
    Ref,
    Store,
    UpkeptStore,
    canonical,
    link,
    moved,
    sealed,
    short,
)

PAGE = 1000
RESTORE = "Restore it from a copy of the store"

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `verify` found.

    A clean one proves content, refs and the `chained` facts: moves, approvals, key changes, verdicts and trials.
    Other facts (cells, turns, derivations) can be read, no more: nothing shows whether they were edited.
    `sealed` content is encrypted: look through the store that has the key to check its text too. `head` is the
    last link of the chain: written down elsewhere, it shows later that nothing was cut off its end since.
    """

    problems: tuple[Problem, ...]
    contents: int
    sealed: int
    facts: int
    chained: int
    refs: int
    head: str

    @property
    def clean(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Stats:
    """How much a store holds: pieces of content and facts of each kind, and refs."""

    contents: dict[str, int]
    facts: dict[str, int]
    refs: int


def verify(store: UpkeptStore) -> Report:
    """Re-derive everything that can be: names of content, links of the chain, refs from their moves.

    Damage is reported, all of it, and never raised. Others may go on writing meanwhile.
    """
    check = _Check(store.inner if isinstance(store, Cached) else store)  # a cache would hide what the store lost
    for look in (check.refs, check.evidence, check.contents, check.facts):
        try:
            look()
        except StoreDamaged as damage:
            check.unreadable(damage)
    return Report(
        problems=tuple(dict.fromkeys(check.problems)),
        contents=check.count["contents"],
        sealed=check.count["sealed"],
        facts=check.count["facts"],
        chained=check.count["chained"],
        refs=check.count["refs"],
        head=check.head,
    )


class _Check:
    """One verification under way."""

    def __init__(self, store: UpkeptStore) -> None:
        self.store = store
        self.problems: list[Problem] = []
        self.count: Counter[str] = Counter()
        self.head = GENESIS
        self._wanted: dict[Digest, list[tuple[str, str]]] = {}
        """Content that must be there: who speaks of it, and as what."""

    def refs(self) -> None:
        before, _ = self._refs()
        told = self._told()
        after, unreadable = self._refs()
        self.count["refs"] = len(after)
        for ref in after.values():
            for digest in _digests(ref.target):
                self._want(digest, f"ref {ref.name}", "a target")
        for name in sorted((before.keys() | told.keys() | after.keys()) - unreadable):
            # A ref that moved while we read its moves is not judged.
            if before.get(name) == after.get(name) != told.get(name):
                self._problem(f"ref {name}", _shown(after.get(name)), f"what its moves say: {_shown(told.get(name))}")

    def evidence(self) -> None:
        """Read before the content: what a fact speaks of was there when it was added."""
        for kind in ("verdict", "trial"):
            for fact in self._readable(self.store.facts(Query(kind=kind))):
                for role, named in (("dataset", "a dataset"), ("experiment", "an experiment")):
                    for digest in _digests(fact.body.get(role)):
                        self._want(digest, f"{kind} fact {fact.key}", named)

    def contents(self) -> None:
        for content in self._readable(self.store.contents()):
            self.count["contents"] += 1
            self.count["sealed"] += sealed(content.body)
            self._wanted.pop(content.digest, None)
            if not content.intact:
                self._problem(f"{content.kind} {content.digest}", "a text that does not match its name", "the one put")
        for digest, named in self._wanted.items():
            try:
                self.store.get(digest)
            except NotFound:
                for name, role in named:
                    self._problem(name, f"{role} that is not there, {short(digest)}", "content of that name")
            except StoreDamaged as damage:
                self.unreadable(damage)

    def facts(self) -> None:
        kinds = self.store.kinds()
        newest = (self._readable(self.store.facts(Query(kind=kind, newest=True))) for kind in kinds)
        last = max((fact.number for facts in newest for fact in islice(facts, 1)), default=0)
        number = 0
        for fact in _by_number((self._readable(self.store.facts(Query(kind=kind))) for kind in kinds), last):
            self.count["facts"] += 1
            name = f"{fact.kind} fact {fact.key}"
            if fact.number <= number:
                self._problem(name, f"the number {fact.number} again", f"one after {number}")
            number = fact.number
            if fact.kind in CHAINED:
                self.count["chained"] += 1
                if fact.link != link(self.head, fact):
                    self._problem(name, "a link that does not follow", "the fact as it was added, after the one before")
                self.head = fact.link

    def _told(self) -> dict[str, Ref]:
        told: dict[str, Ref] = {}
        for fact in self._readable(self.store.facts(Query(kind="move"))):
            try:
                told[fact.subject] = moved(fact)
            except StoreDamaged as damage:
                self._problem(f"move fact {fact.key}", str(damage), "a whole move")
        return {name: ref for name, ref in told.items() if ref.target}

    def _refs(self) -> tuple[dict[str, Ref], set[str]]:
        """The refs that can be read, and the names of those that cannot: one by one, if they cannot all."""
        try:
            return {ref.name: ref for ref in self.store.refs()}, set()
        except StoreDamaged as damage:
            self.unreadable(damage)
        refs: dict[str, Ref] = {}
        unreadable = set()
        for name in sorted({fact.subject for fact in self._readable(self.store.facts(Query(kind="move")))}):
            try:
                if ref := self.store.ref(name):
                    refs[name] = ref
            except StoreDamaged as damage:
                unreadable.add(name)
                self.unreadable(damage)
        return refs, unreadable

    def _readable(self, items: Iterator[Item]) -> Iterator[Item]:
        """Those that can be read; the others are problems."""
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except StoreDamaged as damage:
                self.unreadable(damage)
            else:
                yield item

    def unreadable(self, damage: StoreDamaged) -> None:
        for told in str(damage).splitlines():
            self.problems.append(Problem("store", told, "one that can be read"))

    def _want(self, digest: Digest, name: str, role: str) -> None:
        self._wanted.setdefault(digest, []).append((name, role))

    def _problem(self, path: str, found: str, expected: str) -> None:
        self.problems.append(Problem(path, found, expected, RESTORE))


def copy(source: UpkeptStore, target: UpkeptStore, progress: Callable[[int], None] | None = None) -> None:
    """Everything of one store into another, and nothing lost: digests, order, links, times and refs.

    Run it again after an interruption and it completes. `progress` hears how many contents and facts were
    offered so far. Raises StoreError if the target's chained facts are not the beginning of the source's, and
    StoreDamaged at the first thing of the source that is not as it was written; its batch is not copied.
    """
    _check_seals(source, target)
    _check_history(source, target)
    # Facts added from now on may speak of content added from now on: those wait for the next copy.
    last = _last_number(source)
    done = 0
    for contents in _batches(map(_intact, source.contents())):
        target.load(contents, [])
        done += len(contents)
        if progress:
            progress(done)
    for facts in _batches(_linked(_in_order(source, source.kinds(), last))):
        target.load([], facts)
        done += len(facts)
        if progress:
            progress(done)


def stats(store: UpkeptStore) -> Stats:
    """How much there is of everything."""
    contents = Counter(content.kind for content in store.contents())
    return Stats(dict(sorted(contents.items())), store.kinds(), len(store.refs()))


def gc(store: UpkeptStore, *, dry_run: bool) -> dict[Digest, str]:
    """Discard content that no fact, no ref and no content reached from them mentions; say which, with its kind.

    Run it while nothing writes: a writer puts content first and mentions it afterwards, and between the two
    it looks forgotten. As a second guard, only what is found forgotten twice in a row is discarded.
    """
    forgotten = _forgotten(store)
    if forgotten and not dry_run:
        still = _forgotten(store)
        forgotten = {digest: kind for digest, kind in forgotten.items() if digest in still}
        store.discard(forgotten)
    return forgotten


def _forgotten(store: UpkeptStore) -> dict[Digest, str]:
    kinds: dict[Digest, str] = {}
    mentions: dict[Digest, set[Digest]] = {}
    for content in store.contents():
        _refuse_sealed(sealed(content.body))
        kinds[content.digest] = content.kind
        mentions[content.digest] = _digests(content.body)
    ahead = {digest for ref in store.refs() for digest in _digests(ref.target)}
    for kind in store.kinds():
        for fact in _pages(store, kind):
            _refuse_sealed(sealed(fact.body))
            ahead |= _digests([fact.key, fact.subject, fact.body, fact.parents, fact.tags])
    reached: set[Digest] = set()
    while ahead:
        digest = ahead.pop()
        reached.add(digest)
        ahead |= mentions.get(digest, set()) - reached
    return {digest: kind for digest, kind in kinds.items() if digest not in reached}


def _refuse_sealed(found: bool) -> None:
    if found:
        raise StoreError("found encrypted bodies; expected to see what they mention. Open the store with its key")


def _check_seals(source: UpkeptStore, target: UpkeptStore) -> None:
    """Plain bodies among sealed ones would lie open, and bodies sealed with other keys could not be opened."""
    ours, theirs = keyring(source), keyring(target)
    if ours != theirs and (theirs or isinstance(target, Encrypted) or any(target.contents())):
        raise StoreError(
            f"the source is seen {'sealed' if ours else 'plain'}, the target {'sealed' if theirs else 'plain'}; "
            "expected both plain, or both sealed with the same keys. Open what is encrypted with its key: "
            "--unseal, --seal"
        )


def _check_history(source: UpkeptStore, target: UpkeptStore) -> None:
    ours = _in_order(source, CHAINED, _last_number(source))
    for theirs in _in_order(target, CHAINED, _last_number(target)):
        known = next(ours, None)
        if known is None or known.link != theirs.link:
            raise StoreError(
                f"the target has the {theirs.kind} {theirs.key} by {theirs.by}, the source "
                f"{f'the {known.kind} {known.key} by {known.by}' if known else 'nothing'} in its place; "
                "expected a target that is empty or an earlier copy. Copy into a new store instead"
            )


def _intact(content: Content) -> Content:
    if not content.intact:
        name = f"{content.kind} {short(content.digest)}"
        raise StoreDamaged(f"{name} does not match its name. {RESTORE}, or see all that is damaged: verify it")
    return content


def _linked(facts: Iterable[Fact]) -> Iterator[Fact]:
    """The facts, as long as each chained one follows from the one before."""
    head = GENESIS
    for fact in facts:
        if fact.kind in CHAINED:
            if fact.link != link(head, fact):
                raise StoreDamaged(
                    f"{fact.kind} fact {fact.key}, or what was before it, is not what was added. "
                    f"{RESTORE}, or see all that is damaged: verify it"
                )
            head = fact.link
        yield fact


def _last_number(store: UpkeptStore) -> int:
    newest = (store.facts(Query(kind=kind, newest=True, limit=1)) for kind in store.kinds())
    return max((fact.number for facts in newest for fact in facts), default=0)


def _in_order(store: Store, kinds: Iterable[str], last: int) -> Iterator[Fact]:
    return _by_number((_pages(store, kind) for kind in kinds), last)


def _by_number(facts: Iterable[Iterator[Fact]], last: int) -> Iterator[Fact]:
    """Facts of several kinds, up to the last: of those added meanwhile we might see some and not others."""
    for fact in heapq.merge(*facts, key=lambda fact: fact.number):
        if fact.number <= last:
            yield fact


def _pages(store: Store, kind: str) -> Iterator[Fact]:
    """The facts of a kind, read page by page: no cursor stays open while they are worked on."""
    after = 0
    while page := list(store.facts(Query(kind=kind, after=after, limit=PAGE))):
        yield from page
        after = page[-1].number


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    left = iter(items)
    while batch := list(islice(left, PAGE)):
        yield batch


def _digests(value: object) -> set[Digest]:
    return set(re.findall(r"b2:[0-9a-f]{64}", canonical(value)))


def _shown(ref: Ref | None) -> str:
    return f"version {ref.version} to {canonical(ref.target)} by {ref.by}" if ref else "no ref"
