"""What may happen within a day is counted over any 24 hours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from seedbed.errors import BudgetSpent
from seedbed.settings import Quota, Settings
from seedbed.spending.quota import Spending
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_the_day_moves_on_with_the_clock() -> None:
    now = [NOON]
    spending = Spending(Settings(quota=Quota(runs_per_day=2)), MemoryStore(), lambda: now[0])
    await spending.start()
    now[0] += timedelta(hours=12)
    await spending.start()
    with pytest.raises(BudgetSpent, match="2 runs within a day; expected at most 2"):
        await spending.start()
    now[0] += timedelta(hours=12, seconds=1)
    await spending.start()


async def test_a_small_quota_is_told_with_all_its_digits() -> None:
    store = MemoryStore()
    spending = Spending(Settings(quota=Quota(usd_per_day=0.002)), store, lambda: NOON)
    store.append([Fact(kind="run", key="r1", subject="p", at=NOON, by="ada", value=0.0025)])
    with pytest.raises(BudgetSpent, match=r"\$0\.00250 spent within a day; expected at most \$0\.00200"):
        await spending.start()


async def test_what_was_spent_before_counts_by_what_each_end_says_was_paid() -> None:
    store = MemoryStore()
    store.append(
        Fact(kind="run", key=f"r{n}", subject="p", at=NOON - timedelta(hours=n), by="ada", value=1.0) for n in (1, 30)
    )
    share = await Spending(Settings(quota=Quota(usd_per_day=1.5)), store, lambda: NOON).start()
    assert await share.reserve(0.1, 0.4, "ada") == 0.4
    assert await share.reserve(0.05, 0.4, "ada") == pytest.approx(0.1)  # all that is left
    with pytest.raises(BudgetSpent, match=r"\$1\.50 of \$1\.50"):
        await share.reserve(0.01, 0.4, "ada")


async def test_a_run_gives_back_what_it_did_not_spend_and_writes_little() -> None:
    store = MemoryStore()
    spending = Spending(Settings(quota=Quota(usd_per_day=10.0)), store, lambda: NOON)
    share = await spending.start("r1")
    for _ in range(20):
        share.settle(await share.reserve(0.001, 0.004, "ada"), 0.002)
    await share.end("ada")
    holds = list(store.facts(Query(kind="hold")))
    assert len(holds) == 2  # a hundredth of the quota at once, and what is given back
    assert sum(each.value or 0.0 for each in holds) == pytest.approx(0.04)


async def test_what_a_run_below_another_paid_is_not_counted_twice() -> None:
    store = MemoryStore()
    settings = Settings(quota=Quota(usd_per_day=1.0))
    share = await Spending(settings, store, lambda: NOON).start("r1")
    share.settle(await share.reserve(0.5, 0.5, "ada"), 0.5)
    for run, parent in (("r1", ""), ("r2", "r1")):
        store.append([Fact(kind="start", key=run, subject="p", at=NOON, by="ada", body={"parent": parent})])
    for run, parent in (("r2", "r1"), ("r1", "")):
        body = {"parent": parent, "turns": 1}
        store.append([Fact(kind="run", key=run, subject="p", at=NOON, by="ada", body=body, value=0.25)])
    await share.end("ada")
    other = await Spending(settings, store, lambda: NOON).start("r3")
    assert await other.reserve(0.49, 0.49, "ada") == 0.49


async def test_a_request_that_is_cancelled_while_money_is_held_for_it_gives_it_back() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def append(self, facts: Iterable[Fact]) -> int:
            entered.set()
            leave.wait()
            return super().append(facts)

    store = Slow()
    share = await Spending(Settings(quota=Quota(usd_per_day=1.0)), store, lambda: NOON).start("r1")
    request = asyncio.create_task(share.reserve(0.5, 0.5, "ada"))
    await asyncio.to_thread(entered.wait)
    request.cancel()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await request
    await share.end("ada")
    assert sum(fact.value or 0.0 for fact in store.facts(Query(kind="hold"))) == 0.0
