"""Request keys: what names each request of a run, so that the same request gets the same answer another time."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import NamedTuple

from seedbed.storage.store import Json, digest


class _Reserved(NamedTuple):
    key: str
    turn: str


class RequestKeys:
    """The keys of the requests of a run: the n-th with the same content has the number n.

    A call that a model asks for has its number from the moment its turn is recorded. Equal calls that a framework makes
    at the same time arrive in any order, and yet each keeps its own result.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._counts: Counter[str] = Counter()
        self._reserved: dict[tuple[str, str], deque[_Reserved]] = defaultdict(deque)
        """By the id of the call, which may come again, and the place of its key."""
        self._due: dict[str, str] = {}

    def next(self, kind: str, name: str, request: object) -> str:
        """The key of the next request with this content."""
        place = self._place(kind, name, request)
        return self._due.get(place) or f"{place}/{self._counts[place] + 1}"

    def take(self, kind: str, name: str, request: object) -> str:
        """That key, which from now on is taken."""
        key = self.next(kind, name, request)
        place = key.rpartition("/")[0]
        if self._due.pop(place, None) is None:
            self._counts[place] += 1
        return key

    def reserve(self, turn: str, calls: Iterable[Json]) -> None:
        """Take the keys of the calls that the turn of that key asks for."""
        for each in calls:
            if each["arguments"] is not None:
                key = self.take("call", each["tool"], each["arguments"])
                self._reserved[each["id"], key.rpartition("/")[0]].append(_Reserved(key, turn))

    def expect(self, call: str, tool: str, arguments: Json) -> str:
        """Make the next request with this content the call of that id; returns the key of the turn that asked."""
        place = self._place("call", tool, arguments)
        if not (reserved := self._reserved.get((call, place))):
            return ""
        self._due[place] = reserved[0].key
        return reserved.popleft().turn

    def _place(self, kind: str, name: str, request: object) -> str:
        return f"{self._run}/{kind}/{name}/{digest('request', request)[3:19]}"
