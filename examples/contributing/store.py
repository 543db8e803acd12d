"""A store: everything in one JSON file, which several processes can share."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from filelock import FileLock

from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Content, Digest, Fact, Json, Query, Ref, Target


class JsonFileStore:
    """A store in one file.

    `MemoryStore` implements the rules: what may be written, how facts are numbered, chained and found, when a ref may
    move. This class adds durability: a call that returns is on disk, a call that fails has written nothing, and two
    processes do not overwrite each other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    # The seven methods of Store

    def put(self, kind: str, body: Json) -> Digest:
        with self._changed() as memory:
            return memory.put(kind, body)

    def get(self, digest: Digest) -> Json:
        return self._read().get(digest)

    def append(self, facts: Iterable[Fact]) -> int:
        with self._changed() as memory:
            return memory.append(facts)

    def facts(self, query: Query) -> Iterator[Fact]:
        return self._read().facts(query)

    def ref(self, name: str) -> Ref | None:
        return self._read().ref(name)

    def refs(self, prefix: str = "") -> list[Ref]:
        return self._read().refs(prefix)

    def move(self, name: str, to: Target | None, *, expected: Ref | None, because: str, by: str) -> Ref:
        with self._changed() as memory:
            return memory.move(name, to, expected=expected, because=because, by=by)

    # The methods of Upkeep, for copying, verifying and cleaning

    def contents(self, kind: str | None = None) -> Iterator[Content]:
        return self._read().contents(kind)

    def kinds(self) -> dict[str, int]:
        return self._read().kinds()

    def load(self, contents: Iterable[Content], facts: Iterable[Fact]) -> None:
        with self._changed() as memory:
            memory.load(contents, facts)

    def discard(self, digests: Iterable[Digest]) -> int:
        with self._changed() as memory:
            return memory.discard(digests)

    def close(self) -> None:
        """Nothing to close: no file stays open between calls."""

    def _read(self) -> MemoryStore:
        memory = MemoryStore()
        if self._path.exists():
            written = json.loads(self._path.read_text())
            memory.load([Content(**content) for content in written["contents"]], map(_fact, written["facts"]))
        return memory

    @contextmanager
    def _changed(self) -> Iterator[MemoryStore]:
        """The contents of the file, to change; written back atomically unless the change fails."""
        with FileLock(f"{self._path}.lock"):
            memory = self._read()
            yield memory
            facts = [fact for kind in memory.kinds() for fact in memory.facts(Query(kind=kind))]
            facts.sort(key=lambda fact: fact.number)
            written = {
                "contents": [asdict(content) for content in memory.contents()],
                "facts": [{**asdict(fact), "at": fact.at.isoformat()} for fact in facts],
            }
            new = Path(f"{self._path}.new")
            with new.open("w") as file:
                json.dump(written, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)


def open_url(url: str) -> JsonFileStore:
    """The store at a URL such as json:notes.json."""
    return JsonFileStore(Path(url.partition(":")[2]))


def _fact(written: Json) -> Fact:
    tuples = {name: tuple(written[name]) for name in ("parents", "tags")}
    return Fact(**{**written, **tuples, "at": datetime.fromisoformat(written["at"])})
