"""Quota: how many runs a workspace may perform, and what they may cost, within 24 hours."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from seedbed.errors import QuotaSpent
from seedbed.settings import Quota, Settings
from seedbed.spending.ledger import dollars
from seedbed.storage.store import Fact, Query, Store


@dataclass
class Expense:
    """A run that counts against the quota: when it started, and its cost, once that is known.

    The cost of a run that another one opened counts, but not as a run of its own.
    """

    at: datetime
    usd: float = 0.0
    opened: bool = False


class Spending:
    """The runs of the last 24 hours against the quota: counted once from the store, and then here.

    A run counts from its start, so that runs at the same time cannot exceed the quota together. Its cost is known when
    it has ended: runs that are under way when `usd_per_day` is reached still finish.
    """

    def __init__(
        self, settings: Settings, store: Store, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._quota = settings.quota
        self._environment = settings.environment
        self._store = store
        self._clock = clock
        self._recent: deque[Expense] | None = None

    def start(self) -> Expense:
        """Count another run. Raises QuotaSpent if the quota leaves no room for it."""
        expense = Expense(self._clock())
        quota = self._quota
        if quota == Quota():
            return expense
        recent = self._since(expense.at - timedelta(days=1))
        runs, usd = sum(not each.opened for each in recent), sum(each.usd for each in recent)
        over = []
        if quota.runs_per_day is not None and runs >= quota.runs_per_day:
            over.append(f"{runs} runs within a day; expected at most {quota.runs_per_day}")
        if quota.usd_per_day is not None and usd >= quota.usd_per_day:
            over.append(f"{dollars(usd)} spent within a day; expected at most {dollars(quota.usd_per_day)}")
        if over:
            remedy = "Wait, raise quota in the workspace file, or choose another environment"
            raise QuotaSpent(f"{self._environment}: {' and '.join(over)}. {remedy}")
        recent.append(expense)
        return expense

    def _since(self, start: datetime) -> deque[Expense]:
        if self._recent is None:
            facts = [fact for fact in self._store.facts(Query(kind="run", since=start)) if not _is_free(fact)]
            known = [Expense(fact.at, fact.value or 0.0, bool(fact.body.get("parent"))) for fact in facts]
            self._recent = deque(sorted(known, key=lambda expense: expense.at))
        while self._recent and self._recent[0].at < start:
            self._recent.popleft()
        return self._recent


def _is_free(run: Fact) -> bool:
    """Whether a run was free: a strict replay asks no model."""
    return bool((run.body.get("replay") or {}).get("mode") == "strict")
