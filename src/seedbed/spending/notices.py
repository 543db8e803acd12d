"""Spending notices: what people should know of what a workspace spends, each noted once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from seedbed.errors import StoreError, dollars
from seedbed.settings import Quota, Settings
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Json, Query, Store

LEVELS = (50, 80, 100)
"""The per cent of a limit at which people are told."""

USUAL_DAYS = 7
"""An hour or a day is unusual if it costs so many times the most expensive one before it, from this amount on:"""
UNUSUAL_TIMES = 3.0
UNUSUAL_USD = 1.0

LOOK_EVERY = timedelta(minutes=10)
"""How often spending is compared with that of the time before."""


@dataclass(frozen=True, slots=True)
class SpendingNotice:
    """Something about spending that people should know: `key` names it once and for all processes."""

    key: str
    kind: str
    message: str
    details: Json
    at: datetime
    critical: bool = False


def reached_level(used: float, limit: float | None) -> int:
    """The highest level of a limit that was reached; 0 for none."""
    return max((level for level in LEVELS if limit and used >= limit * level / 100), default=0)


class SpendingNotices:
    """The notices of one process, while there is somebody to tell."""

    def __init__(self, settings: Settings, store: Store, clock: Callable[[], datetime]) -> None:
        self._environment, self._watched = settings.environment, bool(settings.alerts)
        self._store, self._clock = store, clock
        self._notices: dict[str, SpendingNotice] = {}
        self._sent: set[str] = set()
        self._looked: datetime | None = None

    def add(self, notice: SpendingNotice) -> None:
        """Note something; what was noted before stays as it was."""
        self._notices.setdefault(notice.key, notice)

    def add_levels(self, label: str, quota: Quota, runs: int, usd: float, at: datetime) -> None:
        """Note how much of a quota is used."""
        used: tuple[tuple[str, float, float | None, Callable[[float], str]], ...] = (
            ("runs_per_day", runs, quota.runs_per_day, "{:,.0f} runs".format),
            ("usd_per_day", usd, quota.usd_per_day, dollars),
        )
        for name, spent, limit, write in used:
            if limit and (level := reached_level(spent, limit)):
                self.add(
                    SpendingNotice(
                        f"quota/{label}/{name}/{level}/{at:%Y-%m-%d}",
                        "quota",
                        f"{level} % of {name} in {label} are used: {write(spent)} of {write(limit)}",
                        {"quota": name, "per_cent": level, "used": spent, "limit": limit},
                        at,
                        critical=level == 100,
                    )
                )

    async def news(self) -> list[SpendingNotice]:
        """What was noted and not yet returned; nothing if there is nobody to tell."""
        if not self._watched:
            return []
        at = self._clock()
        if self._looked is None or at >= self._looked + LOOK_EVERY:
            self._looked = at
            with suppress(StoreError):
                await off_loop(self._note_unusual, at)
        fresh = [notice for key, notice in self._notices.items() if key not in self._sent]
        self._sent.update(notice.key for notice in fresh)
        return fresh

    def _note_unusual(self, at: datetime) -> None:
        """Note if the last hour, or the last 24 hours, cost far more than any of those before."""
        query = Query(kind="run", since=at - timedelta(days=USUAL_DAYS + 1))
        runs = [(at - fact.at, fact.value or 0.0) for fact in self._store.facts(query)]
        for name, span, each in (("hour", timedelta(hours=1), "an hour"), ("day", timedelta(days=1), "a day")):
            spans: defaultdict[int, float] = defaultdict(float)
            for ago, usd in runs:
                spans[ago // span] += usd
            now, before = spans.pop(0, 0.0), [usd for usd in spans.values() if usd > 0]
            if before and now >= UNUSUAL_USD and now > UNUSUAL_TIMES * max(before):
                message = (
                    f"{dollars(now)} was spent in {self._environment} within {each}; the most expensive {name} of the "
                    f"previous {USUAL_DAYS} days cost {dollars(max(before))}"
                )
                details = {"usd": now, f"dearest_{name}_usd": max(before)}
                key = f"spending/{self._environment}/unusual/{name}/{at:%Y-%m-%d}"
                self.add(SpendingNotice(key, "unusual_spending", message, details, at))
                return
