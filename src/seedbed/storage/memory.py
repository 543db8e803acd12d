"""MemoryStore: a store in this process, lost when it ends. For tests, demonstrations and dry runs."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import islice
from typing import NamedTuple

from seedbed.errors import NotFound, StoreDamaged, shown
from seedbed.storage.chain import GENESIS, bind
from seedbed.storage.content import words, words_of
from seedbed.storage.store import (
    BriefFact,
    Content,
    Digest,
    Fact,
    Json,
    Query,
    Ref,
    RefMove,
    Target,
    canonical,
    check_facts,
    digest,
    now,
    ref_after,
    short,
)


class MemoryStore:
    """A store within one process. It returns copies, so changing them does not change the store."""

    def __init__(self, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._contents: dict[Digest, tuple[str, str]] = {}
        self._facts = Facts()

    def put(self, kind: str, body: Json) -> Digest:
        name, text = digest(kind, body), canonical(body)
        with self._lock:
            self._contents.setdefault(name, (kind, text))
        return name

    def get(self, digest: Digest) -> Json:
        content = self._content(digest)
        if content is None:
            raise NotFound(f"no content {shown(digest)}; expected a full digest. List what is there, or put it first")
        if not content.intact:
            raise StoreDamaged(f"{content.kind} {short(digest)} is not what was put there. Restore it from a copy")
        return content.body

    def append(self, facts: Iterable[Fact]) -> int:
        batch = check_facts(facts)
        with self._lock:
            return self._facts.add(self._facts.fresh(batch))

    def facts(self, query: Query) -> Iterator[Fact]:
        with self._lock:
            return self._facts.find(query, self._words)

    def brief(self, query: Query) -> Iterator[BriefFact]:
        with self._lock:
            return self._facts.brief(query, self._words)

    def ref(self, name: str) -> Ref | None:
        with self._lock:
            return self._facts.ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        with self._lock:
            return self._facts.refs(prefix)

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        move = RefMove(name=name, to=to, expected=expected, because=because, by=by)
        with self._lock:
            ref, fact = move.apply(self._facts.ref(name), self._facts.version(name), self._clock())
            self._facts.add(self._facts.fresh([fact]))
            return ref

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        with self._lock:
            contents = list(self._contents.items())
        return (Content(its, name, json.loads(text)) for name, (its, text) in contents if kind in (None, its))

    def kinds(self) -> dict[str, int]:
        with self._lock:
            return self._facts.kinds()

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        texts = {content.digest: (content.kind, canonical(content.body)) for content in contents}
        batch = list(facts)
        with self._lock:
            self._facts.add(self._facts.fresh(batch, linked=True))
            for name, text in texts.items():
                self._contents.setdefault(name, text)

    def discard(self, digests: Iterable[Digest]) -> int:
        with self._lock:
            return sum(self._contents.pop(name, None) is not None for name in list(digests))

    def close(self) -> None:
        """Nothing to close."""

    def _content(self, name: Digest) -> Content | None:
        kind, text = self._contents.get(name, (None, ""))
        return None if kind is None else Content(kind, name, json.loads(text))

    def _words(self, subject: str) -> list[str]:
        content = self._content(subject)
        return words_of(content.body) if content else []


class _Row(NamedTuple):
    """A fact with its body as text, so that no caller can change it."""

    bare: Fact
    body: str

    @property
    def number(self) -> int:
        return self.bare.number

    @property
    def fact(self) -> Fact:
        return replace(self.bare, body=json.loads(self.body))


class Facts:
    """Facts in memory, indexed by kind, key and subject, and the refs that follow from their moves.

    Lists only grow, so an earlier iterator continues over the facts of its time.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, list[_Row]] = {}
        self._keys: dict[tuple[str, str], _Row] = {}
        self._subjects: dict[tuple[str, str], list[_Row]] = {}
        self._moves: dict[str, _Row] = {}
        self._last_number = 0
        self._last_link = GENESIS
        self._bound = False

    def fresh(self, facts: Iterable[Fact], *, linked: bool = False) -> list[Fact]:
        """The facts not known yet, with their numbers and bindings; `linked` facts keep the bindings they have."""
        new: dict[tuple[str, str], Fact] = {}
        for fact in facts:
            wins = not any(each in self._keys or each in new for each in fact.unless)
            if wins and (fact.kind, fact.key) not in self._keys:
                new.setdefault((fact.kind, fact.key), replace(fact, unless=()) if fact.unless else fact)
        fresh = list(new.values())
        numbers = range(self._last_number + 1, self._last_number + 1 + len(fresh))
        if linked:
            return [replace(fact, number=number) for fact, number in zip(fresh, numbers, strict=True)]
        unbound = 0 if self._bound else len(self._keys)
        bindings = bind(fresh, [canonical(fact.body) for fact in fresh], self._last_link, unbound)
        return [
            replace(fact, number=number, **each._asdict())
            for fact, number, each in zip(fresh, numbers, bindings, strict=True)
        ]

    def add(self, facts: Sequence[Fact]) -> int:
        """Add fresh facts as they are, and return how many."""
        rows = [_Row(replace(fact, body={}), canonical(fact.body)) for fact in facts]
        for row in rows:
            fact = row.bare
            self._kinds.setdefault(fact.kind, []).append(row)
            self._keys[fact.kind, fact.key] = row
            self._subjects.setdefault((fact.kind, fact.subject), []).append(row)
            self._last_number = max(self._last_number, fact.number)
            self._last_link = fact.link or self._last_link
            self._bound = self._bound or bool(fact.commitment)
            if fact.kind == "move":
                self._moves[fact.subject] = row
        return len(rows)

    def knows(self, kind: str, key: str) -> bool:
        return (kind, key) in self._keys

    def last(self, kind: str) -> int:
        """The number of the last fact of that kind."""
        return self._kinds[kind][-1].number if kind in self._kinds else 0

    def kinds(self) -> dict[str, int]:
        return {kind: len(rows) for kind, rows in sorted(self._kinds.items())}

    def version(self, name: str) -> int:
        """How often the ref has moved so far."""
        return ref_after(self._moves[name].fact).version if name in self._moves else 0

    def ref(self, name: str) -> Ref | None:
        row = self._moves.get(name)
        ref = ref_after(row.fact) if row else None
        return ref if ref and ref.target else None

    def refs(self, prefix: str = "") -> list[Ref]:
        names = sorted(name for name in self._moves if name.startswith(prefix))
        return [ref for name in names if (ref := self.ref(name))]

    def find(self, query: Query, words_in: Callable[[str], list[str]]) -> Iterator[Fact]:
        """The facts of a query; `words_in` returns the words of the content with this digest."""
        return (row.fact for row in self._rows(query, words_in))

    def brief(self, query: Query, words_in: Callable[[str], list[str]]) -> Iterator[BriefFact]:
        return ((row.bare.key, row.bare.value, row.body) for row in self._rows(query, words_in))

    def _rows(self, query: Query, words_in: Callable[[str], list[str]]) -> Iterator[_Row]:
        rows = self._candidates(query)
        low, high = 0, len(rows)
        if query.newest or query.follow:
            if query.after is not None:
                high = bisect_left(rows, query.after, key=lambda row: row.number)
            order = range(high - 1, -1, -1)
        else:
            if query.after is not None:
                low = bisect_right(rows, query.after, key=lambda row: row.number)
            order = range(low, high)
        holds = _condition(query, words_in)
        return islice((rows[i] for i in order if holds(rows[i].bare)), query.limit)

    def _candidates(self, query: Query) -> list[_Row]:
        """The shortest indexed list that holds all matches, sorted by number."""
        if query.follow:
            return self._ancestors(query.kind, str(query.key))
        if query.key is not None:
            return self._of_keys(query.kind, [query.key])
        if query.keys is not None:
            return self._of_keys(query.kind, query.keys)
        if query.subject is not None:
            return self._subjects.get((query.kind, query.subject), [])
        return self._kinds.get(query.kind, [])

    def _of_keys(self, kind: str, keys: Iterable[str]) -> list[_Row]:
        rows = (self._keys.get((kind, key)) for key in set(keys))
        return sorted((row for row in rows if row), key=lambda row: row.number)

    def _ancestors(self, kind: str, key: str) -> list[_Row]:
        keys, ahead = {key}, [key]
        while ahead:
            row = self._keys.get((kind, ahead.pop()))
            parents = set(row.bare.parents) - keys if row else set()
            keys |= parents
            ahead.extend(parents)
        return self._of_keys(kind, keys)


def matches(query: Query) -> Callable[[Fact], bool]:
    """A function that says whether a fact is one that a query asks for, as far as its columns tell."""
    return _condition(replace(query, text=None), lambda _: [])


def _condition(query: Query, words_in: Callable[[str], list[str]]) -> Callable[[Fact], bool]:
    """A function that says whether all conditions of a query hold for a fact."""
    keys = None if query.keys is None else frozenset(query.keys)
    wanted = None if query.text is None else frozenset(words(query.text))
    words_about = cache(lambda subject: frozenset(words_in(subject)))

    def holds(fact: Fact) -> bool:
        return (
            (query.key is None or query.follow or fact.key == query.key)
            and (keys is None or fact.key in keys)
            and (query.key_from is None or fact.key.startswith(query.key_from))
            and (query.subject is None or fact.subject == query.subject)
            and (query.by is None or fact.by == query.by)
            and (query.tag is None or query.tag in fact.tags)
            and (query.since is None or fact.at >= query.since)
            and (query.until is None or fact.at < query.until)
            and (wanted is None or (bool(wanted) and wanted <= words_about(fact.subject)))
        )

    return holds
