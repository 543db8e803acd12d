"""A store that can be cut off."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from seedbed.errors import StoreError
from seedbed.storage.store import Fact, Ref, Store


class Broken:
    """A store that can be cut off: it fails, or it does not answer at all."""

    def __init__(self, within: Store) -> None:
        self.within = within
        self.reads = self.writes = True
        self.answers = threading.Event()
        self.answers.set()
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)

    def ref(self, name: str) -> Ref | None:
        self.looks += 1
        self.answers.wait(60)
        if not self.reads:
            raise StoreError("connection refused")
        return self.within.ref(name)

    def append(self, facts: Iterable[Fact]) -> int:
        if not self.writes:
            raise StoreError("connection refused")
        return self.within.append(facts)
