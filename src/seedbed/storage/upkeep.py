"""Upkeep of any store: verify, copy, count, and collect garbage."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from seedbed.errors import NotFound, Problem, StoreDamaged, StoreError
from seedbed.storage.cache import CachedStore
from seedbed.storage.chain import GENESIS, Chain
from seedbed.storage.encryption import EncryptedStore, keyring
from seedbed.storage.store import (
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    Store,
    UpkeptStore,
    batched,
    canonical,
    is_sealed,
    ref_after,
    short,
)

PAGE = 1000
RESTORE = "Restore it from a copy of the store"

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of `verify`.

    Without problems it proves content, refs and the `chained` facts. Those are all facts, except in the first part of a
    store that older versions wrote: there only moves, approvals, verdicts and the like. `sealed` content is encrypted:
    verify the store with its key to check its text too. `head` is the last link of the chain: written down elsewhere,
    it shows later that nothing was cut off the end of the chain.
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
    """How much a store holds: content and facts of each kind, and refs."""

    contents: dict[str, int]
    facts: dict[str, int]
    refs: int


def verify(store: UpkeptStore, head: str = "") -> Verification:
    """Derive digests of content, links of the chain and refs again, and compare them with what is stored.

    It reports all damage, and raises none. Others may write meanwhile. `head` is a link that was the end of the chain
    once: it must still be part of it.
    """
    # A cache would hide what the store lost.
    check = _Verifier(store.inner if isinstance(store, CachedStore) else store, head)
    for look in (check.refs, check.evidence, check.contents, check.facts):
        try:
            look()
        except StoreDamaged as damage:
            check.unreadable(damage)
    return Verification(
        problems=tuple(dict.fromkeys(check.problems)),
        contents=check.count["contents"],
        sealed=check.count["sealed"],
        facts=check.count["facts"],
        chained=check.count["chained"],
        refs=check.count["refs"],
        head=check.head,
    )


class _Verifier:
    """A verification in progress."""

    def __init__(self, store: UpkeptStore, earlier_head: str = "") -> None:
        self.store, self._earlier_head = store, earlier_head
        self.problems: list[Problem] = []
        self.count: Counter[str] = Counter()
        self.head = GENESIS
        self._wanted: dict[Digest, list[tuple[str, str]]] = {}
        """Content that must exist: which refs and facts name it, and as what."""
        self._past_targets: dict[Digest, str] = {}
        """What refs ever pointed to, and the first move that says so."""

    def refs(self) -> None:
        before, _ = self._refs()
        moved = self._refs_by_moves()
        after, unreadable = self._refs()
        self.count["refs"] = len(after)
        for ref in after.values():
            for digest in _digests(ref.target):
                self._want(digest, f"ref {ref.name}", "a target")
        for digest in self._past_targets.keys() - self._wanted.keys():  # a channel may return to it
            self._want(digest, self._past_targets[digest], "a target")
        for name in sorted((before.keys() | moved.keys() | after.keys()) - unreadable):
            # A ref that moved while we read its moves is not compared.
            if before.get(name) == after.get(name) != moved.get(name):
                self._problem(f"ref {name}", _shown(after.get(name)), f"{_shown(moved.get(name))}, as its moves say")

    def evidence(self) -> None:
        """Read before the content: a fact only names content that existed when it was added."""
        for kind in ("verdict", "trial"):
            for fact in self._readable(self.store.facts(Query(kind=kind))):
                for role, named in (("dataset", "a dataset"), ("experiment", "an experiment")):
                    for digest in _digests(fact.body.get(role)):
                        self._want(digest, f"{kind} fact {fact.key}", named)

    def contents(self) -> None:
        for content in self._readable(self.store.contents()):
            self.count["contents"] += 1
            self.count["sealed"] += is_sealed(content.body)
            self._wanted.pop(content.digest, None)
            if not content.intact:
                self._problem(
                    f"{content.kind} {content.digest}",
                    "a text that does not match its digest",
                    "the text that was stored",
                )
        for digest, named in self._wanted.items():
            try:
                self.store.get(digest)
            except NotFound:
                for name, role in named:
                    self._problem(name, f"{role} that is not there, {short(digest)}", "content with that digest")
            except StoreDamaged as damage:
                self.unreadable(damage)

    def facts(self) -> None:
        kinds = self.store.kinds()
        newest = (self._readable(self.store.facts(Query(kind=kind, newest=True))) for kind in kinds)
        last = max((fact.number for facts in newest for fact in islice(facts, 1)), default=0)
        number, chain, is_there = 0, Chain(), self._earlier_head in ("", GENESIS)
        for fact in _by_number((self._readable(self.store.facts(Query(kind=kind))) for kind in kinds), last):
            self.count["facts"] += 1
            name = f"{fact.kind} fact {fact.key}"
            if fact.number <= number:
                self._problem(name, f"the number {fact.number} again", f"one after {number}")
            number = fact.number
            self._broken(chain.follow(fact))
            is_there = is_there or chain.head == self._earlier_head
        self._broken(chain.end())
        if not is_there:
            self._problem("chain", f"no link {short(self._earlier_head)}", "the one that was its end when you kept it")
        self.count["chained"], self.head = chain.linked, chain.head

    def _broken(self, wrong: Iterable[tuple[str, str]]) -> None:
        for name, state in wrong:
            self._problem(name, state, "all facts as they were added, in their order")

    def _refs_by_moves(self) -> dict[str, Ref]:
        refs: dict[str, Ref] = {}
        for fact in self._readable(self.store.facts(Query(kind="move"))):
            for digest in _digests(fact.body.get("to")):
                self._past_targets.setdefault(digest, f"move fact {fact.key}")
            try:
                refs[fact.subject] = ref_after(fact)
            except StoreDamaged as damage:
                self._problem(f"move fact {fact.key}", str(damage), "a whole move")
        return {name: ref for name, ref in refs.items() if ref.target}

    def _refs(self) -> tuple[dict[str, Ref], set[str]]:
        """The refs that can be read, and the names of those that cannot."""
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
        """The items that can be read; the others become problems."""
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
        for line in str(damage).splitlines():
            self.problems.append(Problem("store", line, "one that can be read"))

    def _want(self, digest: Digest, name: str, role: str) -> None:
        self._wanted.setdefault(digest, []).append((name, role))

    def _problem(self, path: str, state: str, expected: str) -> None:
        self.problems.append(Problem(path, state, expected, RESTORE))


def copy(source: UpkeptStore, target: UpkeptStore, progress: Callable[[int], None] | None = None) -> None:
    """Copy all of one store into another: digests, order, links, times and refs stay as they are.

    After an interruption, run it again to complete it. `progress` receives the number of contents and facts so far.
    Raises StoreError if the target's facts are not the beginning of the source's, and StoreDamaged at the first
    damaged item of the source, whose batch is not copied.
    """
    _check_seals(source, target)
    _check_history(source, target)
    # Facts added from now on may name content added from now on: those wait for the next copy.
    last = _last_number(source)
    done = 0
    for contents in batched(map(_intact, source.contents()), PAGE):
        target.load(contents, [])
        done += len(contents)
        if progress:
            progress(done)
    for facts in batched(_linked(in_order(source, last)), PAGE):
        target.load([], facts)
        done += len(facts)
        if progress:
            progress(done)


def stats(store: UpkeptStore) -> Stats:
    """Count content, facts and refs."""
    contents = Counter(content.kind for content in store.contents())
    return Stats(dict(sorted(contents.items())), store.kinds(), len(store.refs()))


def gc(store: UpkeptStore, *, dry_run: bool) -> dict[Digest, str]:
    """Delete content that is not reachable from a fact or a ref, and return its digests with their kinds.

    Run it while nothing writes: a writer puts content first and refers to it afterwards, and between the two it looks
    unreachable. As a second guard, only content that is unreachable twice in a row is deleted.
    """
    unreachable = _unreachable(store)
    if unreachable and not dry_run:
        still = _unreachable(store)
        unreachable = {digest: kind for digest, kind in unreachable.items() if digest in still}
        store.discard(unreachable)
    return unreachable


def _unreachable(store: UpkeptStore) -> dict[Digest, str]:
    kinds: dict[Digest, str] = {}
    mentions: dict[Digest, set[Digest]] = {}
    for content in store.contents():
        _refuse_sealed(content.body)
        kinds[content.digest] = content.kind
        mentions[content.digest] = _digests(content.body)
    ahead = {digest for ref in store.refs() for digest in _digests(ref.target)}
    for kind in store.kinds():
        for fact in _pages(store, kind):
            _refuse_sealed(fact.body)
            ahead |= _digests([fact.key, fact.subject, fact.body, fact.parents, fact.tags])
    reached: set[Digest] = set()
    while ahead:
        digest = ahead.pop()
        reached.add(digest)
        ahead |= mentions.get(digest, set()) - reached
    return {digest: kind for digest, kind in kinds.items() if digest not in reached}


def _refuse_sealed(body: Json) -> None:
    if is_sealed(body):
        raise StoreError(
            "found encrypted bodies; expected to read which digests they name. Open the store with its key"
        )


def _check_seals(source: UpkeptStore, target: UpkeptStore) -> None:
    """Plain bodies among sealed ones would be readable, and bodies sealed with other keys could not be opened."""
    ours, theirs = keyring(source), keyring(target)
    if ours != theirs and (theirs or isinstance(target, EncryptedStore) or any(target.contents())):
        raise StoreError(
            f"the source is {'sealed' if ours else 'plain'}, the target {'sealed' if theirs else 'plain'}; "
            "expected both plain, or both sealed with the same keys. Open an encrypted store with its key: "
            "--unseal, --seal"
        )


def _check_history(source: UpkeptStore, target: UpkeptStore) -> None:
    ours = _linked_facts(source)
    for theirs in _linked_facts(target):
        known = next(ours, None)
        if known is None or known.link != theirs.link:
            raise StoreError(
                f"the target has the {theirs.kind} {theirs.key} by {theirs.by}, the source "
                f"{f'the {known.kind} {known.key} by {known.by}' if known else 'nothing'} in its place; "
                "expected a target that is empty or an earlier copy. Copy into a new store instead"
            )


def _linked_facts(store: UpkeptStore) -> Iterator[Fact]:
    return (fact for fact in in_order(store) if fact.link)


def _intact(content: Content) -> Content:
    if not content.intact:
        name = f"{content.kind} {short(content.digest)}"
        raise StoreDamaged(f"{name} does not match its digest. {RESTORE}, or list all damage: verify the store")
    return content


def _linked(facts: Iterable[Fact]) -> Iterator[Fact]:
    """The facts, up to the first that does not follow from those before."""
    chain = Chain()
    for fact in facts:
        for name, _ in chain.follow(fact):
            raise StoreDamaged(
                f"{name}, or one just before it, was changed since it was added. "
                f"{RESTORE}, or list all damage: verify the store"
            )
        yield fact


def _last_number(store: UpkeptStore) -> int:
    newest = (store.facts(Query(kind=kind, newest=True, limit=1)) for kind in store.kinds())
    return max((fact.number for facts in newest for fact in facts), default=0)


def in_order(store: UpkeptStore, last: int | None = None) -> Iterator[Fact]:
    """All facts of a store in their order, up to that number or the last one now."""
    kinds, end = store.kinds(), _last_number(store) if last is None else last
    return _by_number((_pages(store, kind) for kind in kinds), end)


def _by_number(facts: Iterable[Iterator[Fact]], last: int) -> Iterator[Fact]:
    """Facts of several kinds in order, up to the last: of later ones we might see some and miss others."""
    for fact in heapq.merge(*facts, key=lambda fact: fact.number):
        if fact.number <= last:
            yield fact


def _pages(store: Store, kind: str) -> Iterator[Fact]:
    """The facts of a kind, read page by page, so that no cursor stays open meanwhile."""
    after = 0
    while page := list(store.facts(Query(kind=kind, after=after, limit=PAGE))):
        yield from page
        after = page[-1].number


def _digests(value: object) -> set[Digest]:
    return set(re.findall(r"b2:[0-9a-f]{64}", canonical(value)))


def _shown(ref: Ref | None) -> str:
    return f"version {ref.version} to {canonical(ref.target)} by {ref.by}" if ref else "no ref"
