"""Rehearsal: a store in which everything can be tried and nothing is kept. Every dry run happens in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice

from seedbed.errors import NotFound
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, Store, Target, checked, moved, next_move


class DryRunStore:
    """Reads the store within; what is written stays in memory, where later reads find it first."""

    def __init__(self, within: Store) -> None:
        self._within = within
        self._own = MemoryStore()
        self._moved: dict[str, Ref | None] = {}

    def put(self, kind: str, body: Json) -> Digest:
        return self._own.put(kind, body)

    def get(self, digest: Digest) -> Json:
        with suppress(NotFound):
            return self._own.get(digest)
        return self._within.get(digest)

    def append(self, facts: Iterable[Fact]) -> int:
        new = [fact for fact in checked(facts) if not any(self._within.facts(Query(kind=fact.kind, key=fact.key)))]
        return self._own.append(new)

    def facts(self, query: Query) -> Iterator[Fact]:
        if query.follow:
            found: Iterable[Fact] = self._followed(query)
        elif query.newest:
            # What was added here is newer than any fact of the store, so also than the last one seen there.
            own = () if query.after is not None else self._own.facts(query)
            found = chain(own, self._within.facts(query))
        else:
            found = chain(self._within.facts(query), self._own.facts(replace(query, after=None)))
        return islice(found, query.limit)

    def _followed(self, query: Query) -> Iterator[Fact]:
        ahead, seen = [query.key], set()
        while ahead:
            key = ahead.pop()
            for fact in self._own.facts(Query(kind=query.kind, key=key)):
                seen.add(key)
                yield fact
                ahead += [parent for parent in fact.parents if parent not in seen]
            if key not in seen:
                for fact in self._within.facts(replace(query, key=key)):
                    if fact.key not in seen:
                        seen.add(fact.key)
                        yield fact

    def ref(self, name: str) -> Ref | None:
        return self._moved[name] if name in self._moved else self._within.ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        known: dict[str, Ref | None] = {ref.name: ref for ref in self._within.refs(prefix)}
        known |= {name: ref for name, ref in self._moved.items() if name.startswith(prefix)}
        return [ref for _, ref in sorted(known.items()) if ref]

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        # A ref that was removed goes on counting when it comes back.
        last = next(self.facts(Query(kind="move", subject=name, newest=True, limit=1)), None)
        version = moved(last).version if last else 0
        current = self.ref(name)
        at = datetime.now(UTC)
        ref, fact = next_move(name, current, version, to, expected=expected, because=because, by=by, at=at)
        self._own.load([], [fact])
        self._moved[name] = ref if to is not None else None
        return ref
