"""Quota: how many runs a workspace, a channel or a user of one may have, and what they may cost, within 24 hours."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from seedbed.errors import QuotaSpent, StoreError, dollars
from seedbed.settings import Quota, Settings
from seedbed.spending.notices import SpendingNotice, SpendingNotices
from seedbed.storage.off_loop import off_loop
from seedbed.storage.store import Fact, Query, Store, digest

DAY = timedelta(days=1)

SLICE = 0.01
"""A run holds at least this share of a quota in money at once, so that not every request writes to the store."""

TRIES = 3
"""How often a hold is tried that others, who were quicker, left no room for."""


def scopes_of(channel: str, key: str | None = None) -> tuple[str, ...]:
    """What a run is counted against besides the workspace: its channel and, by a digest of their key, its user."""
    user = () if key is None else (f"user/{digest('user', key)[3:19]}/{channel}",)
    return (f"channel/{channel}", *user)


@dataclass(eq=False)
class Expense:
    """A run that counts against quotas, with all runs below it: when it started, what its ended runs have cost, and
    what it holds or has settled. `number` is the place of its start in the store, once that is known."""

    run: str
    at: datetime
    scopes: tuple[str, ...] = ()
    counted: bool = True
    number: int | None = None
    paid: float = 0.0
    held: float = 0.0
    last: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.at

    @property
    def usd(self) -> float:
        return max(self.paid, self.held)


class Spending:
    """The runs of the last 24 hours against the quotas, in all processes and on all machines that share the store.

    A run counts from its start, so that runs at the same time cannot exceed a quota together: of those that start at
    once in several processes, the first in the store count. Before a request is sent, its run holds the most that it
    can cost, by a fact that all processes read; at its end it gives back what it did not spend. What a process held
    when it died counts as spent.
    """

    def __init__(
        self, settings: Settings, store: Store, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._quota, self._channels = settings.quota, settings.channels
        self._environment = settings.environment
        self.is_limited = any(each != Quota() for each in self._all_quotas())
        self._notices = SpendingNotices(settings, store, clock)
        self._store, self._clock = store, clock
        self._expenses: dict[str, Expense] = {}
        self._root: dict[str, str] = {}
        """The topmost run above each run that another one opened."""
        self._read: dict[str, int] = {}
        self._lock = threading.Lock()

    async def start(self, run: str = "", *, scopes: tuple[str, ...] = (), opened: bool = False) -> QuotaShare:
        """Count another run. Raises QuotaSpent if a quota leaves no room for it."""
        expense = Expense(run or uuid.uuid4().hex, self._clock(), scopes, counted=not opened)
        if self.is_limited:
            expense = await off_loop(self._start, expense)
        return QuotaShare(self, expense, [quota for _, quota in self._quotas(scopes) if quota.usd_per_day is not None])

    async def news(self) -> list[SpendingNotice]:
        """What people should be told, each once; nothing if there is nobody to tell."""
        return await self._notices.news()

    def today(self) -> tuple[int, float]:
        """The runs of the last 24 hours in the workspace, and what they cost or may cost, in US dollars."""
        with self._lock:
            self._refresh(self._clock())
            return self._used("")

    def note(self, notice: SpendingNotice) -> None:
        """Something else that people should be told."""
        self._notices.add(notice)

    def _start(self, expense: Expense) -> Expense:
        with self._lock:
            self._refresh(expense.at)
            if expense.counted:
                self._expect_room(expense.scopes, (each for each in self._expenses.values() if each.run != expense.run))
            known = self._expenses.setdefault(expense.run, expense)  # a resumed run is known
            self._note_levels(expense.at, known.scopes)
            return known

    def confirm(self, expense: Expense) -> None:
        """Look, when its start is stored, whether runs of other processes were quicker. Raises QuotaSpent."""
        with self._lock:
            self._refresh(self._clock())
            if (place := expense.number) is not None:
                others = (each for each in self._expenses.values() if each.number is not None and each.number < place)
                self._expect_room(expense.scopes, others)

    def hold(self, expense: Expense, least: float, most: float, by: str) -> float:
        """Hold more money for a run in all processes, and return how much. Raises QuotaSpent for less than `least`."""
        with self._lock:
            for _ in range(TRIES):
                at = self._clock()
                self._refresh(at)
                free, smallest = self._free(expense.scopes)
                usd = min(free, max(most, SLICE * smallest))
                if usd < least:
                    break
                key = self._store_hold(expense, usd, by, at)
                self._refresh(at, until=key)
                if self._free(expense.scopes)[0] >= -1e-9:
                    return usd
                self._store_hold(expense, -usd, by, at)  # others were quicker
            self._note_levels(self._clock(), expense.scopes, refused=True)
            raise self._spent(expense.scopes, least)

    def settle(self, expense: Expense, usd: float, by: str) -> None:
        """Give back what a run held and did not spend, or count what it spent beyond that."""
        with self._lock, suppress(StoreError):  # then all that was held counts; the run says that the store is gone
            if abs(usd) > 1e-12:
                self._store_hold(expense, usd, by, self._clock())
            self._refresh(self._clock())
            self._note_levels(self._clock(), expense.scopes)

    def _store_hold(self, expense: Expense, usd: float, by: str, at: datetime) -> str:
        key = uuid.uuid4().hex
        fact = Fact(kind="hold", key=key, subject=expense.run, at=at, by=by, value=usd, tags=expense.scopes)
        self._store.append([fact])
        return key

    # Which quotas there are, and what is left of them

    def _all_quotas(self) -> Iterator[Quota]:
        yield self._quota
        for channel in self._channels.values():
            yield from (channel.quota, channel.user_quota)

    def _quotas(self, scopes: Iterable[str]) -> Iterator[tuple[str, Quota]]:
        """The quotas that bind a run, with what they count: the empty scope is the workspace."""
        yield "", self._quota
        for scope in scopes:
            kind, _, rest = scope.partition("/")
            channel = self._channels.get(rest if kind == "channel" else rest.partition("/")[2])
            if channel:
                yield scope, channel.quota if kind == "channel" else channel.user_quota

    def _used(self, scope: str, expenses: Iterable[Expense] | None = None) -> tuple[int, float]:
        """How many runs there were, and what they cost."""
        every = self._expenses.values() if expenses is None else expenses
        counted = [each for each in every if not scope or scope in each.scopes]
        since = self._clock() - DAY
        return sum(each.counted and each.at >= since for each in counted), sum(each.usd for each in counted)

    def _free(self, scopes: Iterable[str]) -> tuple[float, float]:
        """How much money the quotas leave, and the smallest of them."""
        limits = [(scope, quota.usd_per_day) for scope, quota in self._quotas(scopes) if quota.usd_per_day is not None]
        return min(limit - self._used(scope)[1] for scope, limit in limits), min(limit for _, limit in limits)

    def _expect_room(self, scopes: Iterable[str], expenses: Iterable[Expense]) -> None:
        recent = list(expenses)
        for scope, quota in self._quotas(scopes):
            runs, usd = self._used(scope, recent)
            over = []
            if quota.runs_per_day is not None and runs >= quota.runs_per_day:
                over.append(f"{runs} runs within a day; expected at most {quota.runs_per_day}")
            if quota.usd_per_day is not None and usd >= quota.usd_per_day:
                over.append(f"{dollars(usd)} spent within a day; expected at most {dollars(quota.usd_per_day)}")
            if over:
                remedy = "Wait, raise quota in the workspace file, or choose another environment"
                raise QuotaSpent(f"{self._label(scope)}: {' and '.join(over)}. {remedy}")

    def _spent(self, scopes: Iterable[str], least: float) -> QuotaSpent:
        limits = [(scope, quota.usd_per_day or 0.0) for scope, quota in self._quotas(scopes) if quota.usd_per_day]
        scope, limit = min(limits, key=lambda each: each[1] - self._used(each[0])[1], default=("", 0.0))
        used = self._used(scope)[1]
        return QuotaSpent(
            f"{self._label(scope)}: {dollars(used)} of {dollars(limit)} within a day are spent or held by runs under "
            f"way; expected {dollars(least)} for another request. Wait, or raise quota in the workspace file; then "
            "resume the run"
        )

    def _label(self, scope: str) -> str:
        kind, _, rest = scope.partition("/")
        if not scope:
            return self._environment
        return f"channel {rest}" if kind == "channel" else f"this user of channel {rest.partition('/')[2]}"

    def _note_levels(self, at: datetime, scopes: Iterable[str], *, refused: bool = False) -> None:
        for scope, quota in self._quotas(scopes):
            if quota != Quota() and not scope.startswith("user/"):  # one of many users is no news
                label = f"{self._label(scope)} in {self._environment}" if scope else self._environment
                runs, usd = self._used(scope)
                full = refused and quota.usd_per_day is not None
                self._notices.add_levels(label, quota, runs, max(usd, quota.usd_per_day or 0.0) if full else usd, at)

    # Reading what was stored

    def _refresh(self, at: datetime, *, until: str = "") -> None:
        """Read what was stored since the last time, up to the hold of that key, and forget what is older than a day."""
        for fact in self._new("start", at):
            if not _is_free(fact):
                parent = str(fact.body.get("parent") or "")
                if parent:
                    self._root[fact.key] = self._root.get(parent, parent)
                expense = self._expense(fact, counted=not parent)
                if not parent:
                    expense.number = fact.number
        for fact in self._new("run", at):
            if _was_refused(fact):
                self._expenses.pop(fact.key.partition("@")[0], None)
            elif not _is_free(fact):
                self._expense(fact, counted="@" not in fact.key and not fact.body.get("parent")).paid += fact.value or 0
        for fact in self._new("hold", at):
            expense = self._expense(fact, counted=False)
            expense.held += fact.value or 0.0
            if fact.key == until:
                break
        if old := [run for run, each in self._expenses.items() if each.last < at - DAY]:
            for run in old:
                del self._expenses[run]
            self._root = {run: root for run, root in self._root.items() if root in self._expenses}

    def _expense(self, fact: Fact, *, counted: bool) -> Expense:
        """The expense that a fact belongs to; a new one is `counted` as a run if its start is known."""
        run = fact.subject if fact.kind == "hold" else fact.key.partition("@")[0]
        root = self._root.get(run) or str(fact.body.get("parent") or run)
        if root not in self._expenses:
            self._expenses[root] = Expense(root, fact.at, fact.tags, counted=counted and root == run)
        expense = self._expenses[root]
        expense.last = max(expense.last, fact.at)
        return expense

    def _new(self, kind: str, at: datetime) -> Iterator[Fact]:
        after = self._read.get(kind)
        for fact in self._store.facts(
            Query(kind=kind, since=at - DAY) if after is None else Query(kind=kind, after=after)
        ):
            self._read[kind] = fact.number
            yield fact


class QuotaShare:
    """What one run holds of the quotas in money while it is under way."""

    def __init__(self, spending: Spending, expense: Expense, limits: list[Quota]) -> None:
        self.expense = expense
        self.is_limited = bool(limits)
        self._spending = spending
        self._held = self._under_way = self._spent = 0.0
        self._lock = asyncio.Lock()

    async def confirm(self) -> None:
        """Look, when its start is stored, whether runs of other processes were quicker. Raises QuotaSpent."""
        if self._spending.is_limited and self.expense.counted:
            await off_loop(self._spending.confirm, self.expense)

    async def reserve(self, least: float, most: float, by: str) -> float:
        """Hold up to `most` for a request, and at least `least`; returns how much. Raises QuotaSpent, StoreError."""
        async with self._lock:
            left = self._held - self._under_way - self._spent
            if left < most:
                holding = off_loop(self._spending.hold, self.expense, least - left, most - left, by)
                more = asyncio.ensure_future(holding)
                try:
                    self._held += await asyncio.shield(more)
                except QuotaSpent:
                    if left < least:
                        raise
                except asyncio.CancelledError:  # the store has it already, or will
                    with suppress(QuotaSpent, StoreError):
                        self._held += await more
                    raise
            left = self._held - self._under_way - self._spent
            usd = most if left > most - 1e-12 else left
            self._under_way += usd
            return usd

    def settle(self, held: float, spent: float) -> None:
        """Count what a request took in place of what was held for it."""
        self._under_way -= held
        self._spent += spent

    async def end(self, by: str) -> None:
        """Give back what was not spent."""
        if self._spending.is_limited:
            await off_loop(self._spending.settle, self.expense, self._spent - self._held, by)
            self._held = self._spent


def _is_free(run: Fact) -> bool:
    """Whether a run was free: a strict replay asks no model."""
    return bool((run.body.get("replay") or {}).get("mode") == "strict")


def _was_refused(run: Fact) -> bool:
    """Whether a run was not even begun, because others had used up the quota."""
    return run.body.get("status") == "cost_limited" and not run.body.get("turns") and not run.value
