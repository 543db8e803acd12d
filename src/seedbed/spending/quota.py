"""Quota: how many runs a workspace may perform, and what they may cost, within 24 hours; and who should know of it."""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from seedbed.errors import QuotaSpent, StoreError, dollars
from seedbed.settings import Quota, Settings
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Fact, Json, Query, Store

DAY = timedelta(days=1)

LEVELS = (50, 80, 100)
"""The per cent of a quota at which people are told."""

USUAL_DAYS = 7
"""A day is unusual if it costs so many times the most expensive of the days before it, from this amount on:"""
UNUSUAL_TIMES = 3.0
UNUSUAL_USD = 1.0

LOOK_EVERY = timedelta(minutes=10)
"""How often spending is compared with that of the days before."""


@dataclass
class Expense:
    """A run that counts against the quota: when it started, and its cost, once that is known.

    The cost of a run that another one opened counts, but not as a run of its own. `number` is the place of its start
    in the store, once that is known.
    """

    at: datetime
    usd: float = 0.0
    opened: bool = False
    run: str = ""
    number: int | None = None


@dataclass(frozen=True, slots=True)
class SpendingNotice:
    """Something about spending that people should know: `key` names it once and for all processes."""

    key: str
    kind: str
    message: str
    details: Json
    at: datetime
    critical: bool = False


class Spending:
    """The runs of the last 24 hours against the quota, in all processes and on all machines that share the store.

    A run counts from its start, so that runs at the same time cannot exceed the quota together: of those that start at
    once in several processes, the first in the store count. Its cost is known when it has ended: runs that are under
    way when `usd_per_day` is reached still finish.
    """

    def __init__(
        self, settings: Settings, store: Store, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._quota = settings.quota
        self._environment = settings.environment
        self._watched = bool(settings.alerts)
        self._store = store
        self._clock = clock
        self._expenses: dict[str, Expense] = {}
        self._mine: dict[str, Expense] = {}
        self._read: dict[str, int] = {}
        self._notices: dict[str, SpendingNotice] = {}
        self._sent: set[str] = set()
        self._looked: datetime | None = None
        self._lock = threading.Lock()

    def start(self, run: str = "") -> Expense:
        """Count another run. Raises QuotaSpent if the quota leaves no room for it."""
        at = self._clock()
        if self._quota == Quota():
            return Expense(at, run=run)
        with self._lock:
            self._refresh(at)
            self._expect_room(each for each in self._expenses.values() if not run or each.run != run)
            expense = self._expenses.setdefault(run or uuid.uuid4().hex, Expense(at, run=run))  # a resumed run is known
            self._mine[run] = expense
            self._note_levels(at)
            return expense

    def confirm(self, expense: Expense) -> None:
        """Look, when its start is stored, whether runs of other processes were quicker. Raises QuotaSpent."""
        if self._quota.runs_per_day is None or not expense.run:
            return
        with self._lock:
            self._refresh(expense.at)
            if expense.number is not None:
                place = expense.number
                before = [each for each in self._expenses.values() if each.number is not None and each.number < place]
                self._expect_room(before)

    def end(self, expense: Expense, usd: float) -> None:
        """Count what a run has cost since it started here."""
        expense.usd += usd
        if self._quota != Quota():
            with self._lock:
                with suppress(StoreError):  # the run itself says that the store is gone
                    self._refresh(self._clock())
                self._mine.pop(expense.run, None)
                self._note_levels(self._clock())

    async def news(self) -> list[SpendingNotice]:
        """What people should be told, each once; nothing if there is nobody to tell."""
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

    def _expect_room(self, recent: Iterable[Expense]) -> None:
        runs, usd = _totals(recent)
        quota, over = self._quota, []
        if quota.runs_per_day is not None and runs >= quota.runs_per_day:
            over.append(f"{runs} runs within a day; expected at most {quota.runs_per_day}")
        if quota.usd_per_day is not None and usd >= quota.usd_per_day:
            over.append(f"{dollars(usd)} spent within a day; expected at most {dollars(quota.usd_per_day)}")
        if over:
            remedy = "Wait, raise quota in the workspace file, or choose another environment"
            raise QuotaSpent(f"{self._environment}: {' and '.join(over)}. {remedy}")

    # Reading what other processes did

    def _refresh(self, at: datetime) -> None:
        """Read what was stored since the last time, and forget what is older than a day."""
        for fact in self._new("start", at - DAY):
            if mine := self._mine.get(fact.key):
                mine.number = fact.number
            elif not _is_free(fact):
                opened = bool(fact.body.get("parent"))
                self._expenses[fact.key] = Expense(fact.at, opened=opened, run=fact.key, number=fact.number)
        for fact in self._new("run", at - DAY):
            run = fact.key.partition("@")[0]
            if run in self._mine or _is_free(fact):
                continue
            if _was_refused(fact):
                self._expenses.pop(run, None)
                continue
            opened = bool(fact.body.get("parent"))
            self._expenses.setdefault(run, Expense(fact.at, opened=opened, run=run)).usd += fact.value or 0.0
        old = [key for key, each in self._expenses.items() if each.at < at - DAY]
        for key in old:
            del self._expenses[key]

    def _new(self, kind: str, since: datetime) -> Iterator[Fact]:
        after = self._read.get(kind)
        query = Query(kind=kind, since=since) if after is None else Query(kind=kind, after=after)
        self._read.setdefault(kind, 0)
        for fact in self._store.facts(query):
            self._read[kind] = max(self._read[kind], fact.number)
            yield fact

    # What people should know

    def _note_levels(self, at: datetime) -> None:
        runs, usd = _totals(self._expenses.values())
        used: tuple[tuple[str, float, float | None, Callable[[float], str]], ...] = (
            ("runs_per_day", runs, self._quota.runs_per_day, "{:,.0f} runs".format),
            ("usd_per_day", usd, self._quota.usd_per_day, dollars),
        )
        for name, spent, limit, write in used:
            reached = [level for level in LEVELS if limit and spent >= limit * level / 100]
            if limit and reached:
                self._note(
                    f"quota/{self._environment}/{name}/{reached[-1]}/{at:%Y-%m-%d}",
                    "quota",
                    f"{reached[-1]} % of {name} in {self._environment} are used: {write(spent)} of {write(limit)}",
                    {"quota": name, "per_cent": reached[-1], "used": spent, "limit": limit},
                    at,
                    critical=reached[-1] == 100,
                )

    def _note_unusual(self, at: datetime) -> None:
        """Note if the last 24 hours cost far more than any of the days before."""
        days: defaultdict[int, float] = defaultdict(float)
        for fact in self._store.facts(Query(kind="run", since=at - (USUAL_DAYS + 1) * DAY)):
            days[(at - fact.at) // DAY] += fact.value or 0.0
        today, before = days.pop(0, 0.0), [usd for usd in days.values() if usd > 0]
        if before and today >= UNUSUAL_USD and today > UNUSUAL_TIMES * max(before):
            most = dollars(max(before))
            self._note(
                f"spending/{self._environment}/unusual/{at:%Y-%m-%d}",
                "unusual_spending",
                f"{dollars(today)} was spent in {self._environment} within a day; the most expensive of the "
                f"previous {USUAL_DAYS} days cost {most}",
                {"usd": today, "dearest_day_usd": max(before)},
                at,
            )

    def _note(self, key: str, kind: str, message: str, details: Json, at: datetime, *, critical: bool = False) -> None:
        self._notices.setdefault(key, SpendingNotice(key, kind, message, details, at, critical))


def _totals(expenses: Iterable[Expense]) -> tuple[int, float]:
    counted = list(expenses)
    return sum(not each.opened for each in counted), sum(each.usd for each in counted)


def _is_free(run: Fact) -> bool:
    """Whether a run was free: a strict replay asks no model."""
    return bool((run.body.get("replay") or {}).get("mode") == "strict")


def _was_refused(run: Fact) -> bool:
    """Whether a run was not even begun, because others had used up the quota."""
    return run.body.get("status") == "cost_limited" and not run.body.get("turns") and not run.value
