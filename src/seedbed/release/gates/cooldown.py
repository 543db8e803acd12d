"""The `cooldown` gate: some time lies between two releases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from seedbed.release.gates.gate import Refusal, ReleaseRequest
from seedbed.release.states import time_span
from seedbed.storage.store import Query, now


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Some time lies between two releases. A rollback does not count as a release."""

    wait: timedelta
    clock: Callable[[], datetime] = now

    async def __call__(self, request: ReleaseRequest) -> Refusal | None:
        moves = request.library.store.facts(Query(kind="move", subject=f"channels/{request.channel}", newest=True))
        last = next((move.at for move in moves if (move.body["to"] or {}).get("how") == "release"), None)
        if last is None or self.clock() - last >= self.wait:
            return None
        free = (last + self.wait).astimezone().strftime("%Y-%m-%d %H:%M")
        actual = f"a release at {last.astimezone():%Y-%m-%d %H:%M}"
        return Refusal("cooldown", actual, f"{time_span(self.wait)} between two", f"Wait until {free}.")
