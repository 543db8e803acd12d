"""How far and how fast a channel may change: limits that stand on the channel, where nothing can evolve them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from seedbed.playbooks.changes import excess
from seedbed.release.gates import Change, Refusal
from seedbed.storage.store import Query


@dataclass(frozen=True, slots=True)
class MaxChange:
    """No number moves by more than this share of its range, no text by more than so many characters."""

    number: float = math.inf
    text: float = math.inf

    async def __call__(self, change: Change) -> Refusal | None:
        if change.incumbent is None:
            return None
        before, after = change.library.get(change.incumbent), change.library.get(change.candidate)
        too_much = excess(before, after, number=self.number, text=self.text)
        if not too_much:
            return None
        found = "; ".join(f"{problem.path}: {problem.found}" for problem in too_much)
        limits = {"numbers": self.number, "texts": self.text}
        allowed = ", ".join(f"{what} by at most {limit:g}" for what, limit in limits.items() if math.isfinite(limit))
        return Refusal("max_change", found, f"the same genes, {allowed}", "Go there in smaller steps.")


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Some time lies between two releases. A rollback is no release and needs no patience."""

    wait: timedelta
    clock: Callable[[], datetime] = now

    async def __call__(self, change: Change) -> Refusal | None:
        moves = change.library.store.facts(Query(kind="move", subject=f"channels/{change.channel}", newest=True))
        last = next((move.at for move in moves if move.body["to"]["how"] == "release"), None)
        if last is None or self.clock() - last >= self.wait:
            return None
        free = (last + self.wait).astimezone().strftime("%Y-%m-%d %H:%M")
        found = f"a release at {last.astimezone():%Y-%m-%d %H:%M}"
        return Refusal("cooldown", found, f"{_told(self.wait)} between two", f"Wait until {free}.")


def _told(wait: timedelta) -> str:
    days, hours = wait / timedelta(days=1), wait / timedelta(hours=1)
    return f"{days:g} days" if days >= 1 else f"{hours:g} hours"
