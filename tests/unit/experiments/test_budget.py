from __future__ import annotations

import pytest
from loop_samples import agent, bench, numbers

from seedbed.evaluation.metrics import ExactMatch
from seedbed.experiments.budget import error_budget
from seedbed.experiments.compare import compare
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.multiplicity import Lord
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Store

OLD, BETTER, WORSE = agent("[0-4]|1."), agent(".*"), agent("x")


async def judged(store: Store, candidate: Playbook, first: int = 0, channel: str = "production") -> float:
    verdict = await compare(OLD, candidate, numbers(30, first=first), ExactMatch(), bench(store), channel=channel)
    return verdict.alpha


async def test_each_candidate_pays_a_level_and_a_discovery_earns_some_back() -> None:
    store = MemoryStore()
    fresh = Lord(alpha=0.05)
    first = await judged(store, WORSE)
    assert first == fresh.next_alpha
    poor = error_budget(store, "production").balance()
    assert (poor.tested, poor.discoveries, poor.spent) == (1, 0, first)
    assert poor.next_alpha < first
    await judged(store, BETTER, first=100)
    rich = error_budget(store, "production").balance()
    assert (rich.tested, rich.discoveries) == (2, 1)
    assert rich.next_alpha > poor.next_alpha


async def test_a_comparison_that_is_repeated_or_goes_on_pays_once_and_at_the_same_level() -> None:
    store = MemoryStore()
    assert await judged(store, BETTER) == await judged(store, BETTER)
    assert error_budget(store, "production").balance().tested == 1


async def test_asking_again_in_another_order_is_another_candidate_to_pay_for() -> None:
    store = MemoryStore()
    first = await judged(store, WORSE)
    again = await compare(OLD, WORSE, numbers(30), ExactMatch(), bench(store), seed=1, channel="production")
    assert again.alpha < first
    assert error_budget(store, "production").balance().tested == 2


async def test_other_channels_and_comparisons_for_none_cost_nothing_here() -> None:
    store = MemoryStore()
    await judged(store, WORSE, channel="staging")
    await compare(OLD, WORSE, numbers(30), ExactMatch(), bench(store))
    balance = error_budget(store, "production").balance()
    assert (balance.tested, balance.waiting, balance.next_alpha) == (0, 0, Lord(alpha=0.05).next_alpha)


async def test_no_comparison_has_more_than_the_rate_of_the_budget_whatever_was_earned_at_once() -> None:
    store = MemoryStore()

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    candidates = [agent(f".*|{number}") for number in range(6)]
    for each in candidates:
        with pytest.raises(ZeroDivisionError):
            await compare(OLD, each, numbers(90), ExactMatch(), bench(store, broken), channel="production")
    for each in candidates:
        verdict = await compare(OLD, each, numbers(90), ExactMatch(), bench(store), channel="production")
        assert verdict.finding == "superior"
    assert error_budget(store, "production").next_alpha > 0.05
    assert await judged(store, BETTER) == 0.05


async def test_one_that_was_begun_and_never_answered_has_used_its_level() -> None:
    store = MemoryStore()

    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await compare(OLD, BETTER, numbers(30), ExactMatch(), bench(store, broken), channel="production")
    balance = error_budget(store, "production").balance()
    assert (balance.tested, balance.waiting, balance.spent) == (0, 1, Lord(alpha=0.05).next_alpha)
