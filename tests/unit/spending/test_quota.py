"""What may happen within a day is counted over any 24 hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from seedbed.errors import BudgetSpent
from seedbed.settings import Quota, Settings
from seedbed.spending.quota import Spending
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_the_day_moves_on_with_the_clock() -> None:
    now = [NOON]
    spending = Spending(Settings(quota=Quota(runs_per_day=2)), MemoryStore(), lambda: now[0])
    spending.start()
    now[0] += timedelta(hours=12)
    spending.start()
    with pytest.raises(BudgetSpent, match="2 runs within a day; expected at most 2"):
        spending.start()
    now[0] += timedelta(hours=12, seconds=1)
    spending.start()


def test_a_small_quota_is_told_with_all_its_digits() -> None:
    spending = Spending(Settings(quota=Quota(usd_per_day=0.002)), MemoryStore(), lambda: NOON)
    spending.start().usd = 0.0025
    with pytest.raises(BudgetSpent, match=r"\$0\.00250 spent within a day; expected at most \$0\.00200"):
        spending.start()


def test_what_was_spent_before_counts_by_what_each_end_says_was_paid() -> None:
    store = MemoryStore()
    store.append(
        Fact(kind="run", key=f"r{n}", subject="p", at=NOON - timedelta(hours=n), by="ada", value=1.0) for n in (1, 30)
    )
    spending = Spending(Settings(quota=Quota(usd_per_day=1.5)), store, lambda: NOON)
    spending.start().usd = 0.6
    with pytest.raises(BudgetSpent, match=r"\$1\.60 spent"):
        spending.start()
