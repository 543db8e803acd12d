"""People are told of spending once, and only if there is somebody to tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from seedbed.settings import Quota, Settings
from seedbed.spending.notices import SpendingNotices, reached_level
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact

NOON = datetime(2026, 1, 8, 12, tzinfo=UTC)
WATCHED = Settings.model_validate({"alerts": [{"log": "alerts.jsonl"}]})


def test_a_level_is_the_highest_that_was_reached() -> None:
    assert [reached_level(used, 10) for used in (4.9, 5, 8, 9.9, 10, 20)] == [0, 50, 80, 80, 100, 100]
    assert (reached_level(5, None), reached_level(5, 0)) == (0, 0)


async def test_each_level_is_noted_once() -> None:
    notices = SpendingNotices(WATCHED, MemoryStore(), lambda: NOON)
    for runs in (4, 5, 6, 8):
        notices.add_levels("dev", Quota(runs_per_day=10), runs, 0.0, NOON)
    assert [each.message for each in await notices.news()] == [
        "50 % of runs_per_day in dev are used: 5 runs of 10 runs",
        "80 % of runs_per_day in dev are used: 8 runs of 10 runs",
    ]
    assert await notices.news() == []


@pytest.mark.parametrize(("name", "hours"), [("hour", (0, 0, 0, 0, 0)), ("day", (0, 2, 4, 6, 8))])
async def test_an_hour_or_a_day_that_costs_far_more_than_those_before_is_noted(
    name: str, hours: tuple[int, ...]
) -> None:
    store = MemoryStore()
    spent = [(NOON - timedelta(hours=hour, minutes=5), 3.0) for hour in hours]
    spent += [(NOON - timedelta(days=day, minutes=90), 3.0) for day in range(1, 5)]
    for number, (at, usd) in enumerate(spent):
        store.append([Fact(kind="run", key=f"r{number}", subject="p", at=at, by="ada", value=usd)])
    (notice,) = await SpendingNotices(WATCHED, store, lambda: NOON).news()
    assert f"the most expensive {name} of the previous 7 days cost $3.00" in notice.message


async def test_without_anybody_to_tell_nothing_is_read() -> None:
    notices = SpendingNotices(Settings(), MemoryStore(), lambda: NOON)
    notices.add_levels("dev", Quota(runs_per_day=1), 1, 0.0, NOON)
    assert await notices.news() == []
