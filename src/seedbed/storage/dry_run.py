"""DryRunStore: reads another store and writes only to memory. Every dry run uses one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice

from seedbed.errors import NotFound, StoreError
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Digest, Fact, Json, Query, Ref, RefMove, Store, Target, check_facts, now, ref_after


class DryRunStore:
    """Reads the inner store; writes stay in memory, where later reads see them.

    Runs are refused: they would be paid for, and what they show would be known without a trace.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._own = MemoryStore()
        self._moved: dict[str, Ref | None] = {}

    def put(self, kind: str, body: Json) -> Digest:
        return self._own.put(kind, body)

    def get(self, digest: Digest) -> Json:
        with suppress(NotFound):
            return self._own.get(digest)
        return self._inner.get(digest)

    def append(self, facts: Iterable[Fact]) -> int:
        def is_known(kind: str, key: str) -> bool:
            return any(self._inner.facts(Query(kind=kind, key=key)))

        batch = check_facts(facts)
        if any(fact.kind == "start" for fact in batch):
            raise StoreError("run: found one in a dry run; expected it outside of one, where it is recorded")
        return self._own.append(
            fact for fact in batch if not any(is_known(*name) for name in ((fact.kind, fact.key), *fact.unless))
        )

    def facts(self, query: Query) -> Iterator[Fact]:
        facts: Iterable[Fact]
        if query.follow:
            facts = self._follow(query)
        elif query.newest:
            # Facts added here are newer than all of the inner store, so also newer than `after`.
            own = () if query.after is not None else self._own.facts(query)
            facts = chain(own, self._inner.facts(query))
        else:
            facts = chain(self._inner.facts(query), self._own.facts(replace(query, after=None)))
        return islice(facts, query.limit)

    def _follow(self, query: Query) -> Iterator[Fact]:
        ahead, visited = [query.key], set()
        while ahead:
            key = ahead.pop()
            for fact in self._own.facts(Query(kind=query.kind, key=key)):
                visited.add(key)
                yield fact
                ahead += [parent for parent in fact.parents if parent not in visited]
            if key not in visited:
                for fact in self._inner.facts(replace(query, key=key)):
                    if fact.key not in visited:
                        visited.add(fact.key)
                        yield fact

    def ref(self, name: str) -> Ref | None:
        return self._moved[name] if name in self._moved else self._inner.ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        known: dict[str, Ref | None] = {ref.name: ref for ref in self._inner.refs(prefix)}
        known |= {name: ref for name, ref in self._moved.items() if name.startswith(prefix)}
        return [ref for _, ref in sorted(known.items()) if ref]

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        # The version of a removed ref continues when it comes back.
        last = next(self.facts(Query(kind="move", subject=name, newest=True, limit=1)), None)
        version = ref_after(last).version if last else 0
        move = RefMove(name=name, to=to, expected=expected, because=because, by=by)
        ref, fact = move.apply(self.ref(name), version, now())
        self._own.load([], [fact])
        self._moved[name] = ref if to is not None else None
        return ref
