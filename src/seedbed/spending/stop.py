"""Stop: a person halts every run of a workspace at its next call, and lifts the stop again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress

from seedbed.errors import Problem, SettingsError, Stopped, StoreError
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Fact, Query, Store, now

EVERY_SECONDS = 1.0
"""How often a process looks whether it was stopped."""


class Stop:
    """Whether a workspace is stopped: one fact, which every process and machine on its store reads."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._look_at = -float("inf")
        self._last: Fact | None = None

    def set(self, because: str, by: str) -> Fact:
        """Stop everything. Raises SettingsError without a reason."""
        if not because.strip():
            remedy = "The people whose runs end will read it."
            raise SettingsError([Problem("because", "nothing", "why everything stops", remedy)])
        return self._add(because, by, lifted=False)

    def lift(self, because: str, by: str) -> Fact:
        """Let runs go on: new ones, and those that the stop ended when they are resumed."""
        return self._add(because, by, lifted=True)

    def current(self) -> Fact | None:
        """The stop that holds now, if there is one."""
        newest = next(iter(self._store.facts(Query(kind="stop", newest=True, limit=1))), None)
        return None if newest is None or newest.body["lifted"] else newest

    async def check(self) -> None:
        """Raise Stopped if a stop holds. The store is read at most once a second, outside of the event loop."""
        if self._clock() >= self._look_at:
            self._look_at = float("inf")  # for others, until this look is over
            try:
                with suppress(StoreError):  # what was known counts; the run itself notices that the store is gone
                    self._last = await off_loop(self.current)
            finally:
                self._look_at = self._clock() + EVERY_SECONDS
        if self._last is not None:
            stop = self._last
            raise Stopped(
                f"This workspace was stopped by {stop.by} at {stop.at:%Y-%m-%d %H:%M} UTC: {stop.body['because']}. "
                "To allow runs again: seedbed stop --lift"
            )

    def _add(self, because: str, by: str, *, lifted: bool) -> Fact:
        body = {"because": because, "lifted": lifted}
        fact = Fact(kind="stop", key=uuid.uuid4().hex, subject="workspace", at=now(), by=by, body=body)
        self._store.append([fact])
        self._look_at = -float("inf")  # here it holds at once
        return fact
