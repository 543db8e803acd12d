"""What a run may spend is reserved before each call, and never exceeded."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.errors import BudgetSpent
from seedbed.spending.ledger import LEAST_TOKENS, USUAL_TOKENS, Ledger, most_tokens

DOLLAR = (1_000_000.0, 1_000_000.0)
"""A dollar for each token."""


async def test_without_a_limit_nothing_is_held_back() -> None:
    ledger = Ledger()
    async with ledger.reserved(10**9, DOLLAR, None) as held:
        assert held.max_tokens is None
        held.spent_usd = 5.0
    assert (ledger.spent_usd, ledger.refused) == (5.0, False)


async def test_an_answer_is_cut_to_what_can_be_paid() -> None:
    ledger = Ledger(100.0, last_share=0.0)
    async with ledger.reserved(40, DOLLAR, 1000) as held:
        assert held.max_tokens in (59, 60)
        held.spent_usd = 50.0
    async with ledger.reserved(10, DOLLAR, 20) as held:
        assert held.max_tokens == 20


async def test_the_most_that_a_call_can_cost_is_told() -> None:
    async with Ledger(100.0, last_share=0.0).reserved(40, DOLLAR, 20) as held:
        assert held.most_usd == pytest.approx(60.0)
    async with Ledger().reserved(40, DOLLAR, 20) as held:
        assert held.most_usd is None


async def test_an_answer_that_is_wanted_short_needs_no_more_money_than_that() -> None:
    async with Ledger(10.0, last_share=0.0).reserved(5, DOLLAR, 2) as held:
        assert held.max_tokens == 2


async def test_a_small_limit_is_told_with_all_its_digits() -> None:
    ledger = Ledger(0.00123, last_share=0.0)
    ledger.spend(0.001)
    with pytest.raises(BudgetSpent, match=r"found \$0\.000230 left of \$0\.00123;"):
        async with ledger.reserved(40, DOLLAR, 20):
            pass


async def test_a_share_is_kept_for_the_last_step() -> None:
    ledger = Ledger(100.0, last_share=0.5)
    ledger.spend(45.0)
    with pytest.raises(BudgetSpent, match=r"of \$100.00"):
        async with ledger.reserved(1, DOLLAR, 20):
            pass
    assert ledger.refused
    async with ledger.reserved(1, DOLLAR, 20, last=True) as held:
        assert held.max_tokens == 20


async def test_who_finds_the_money_held_by_others_waits_for_what_they_leave() -> None:
    ledger = Ledger(100.0, last_share=0.0)
    order = []

    async def spend(name: str, usd: float) -> None:
        async with ledger.reserved(0, DOLLAR, 90) as held:
            order.append(name)
            await asyncio.sleep(0)
            held.spent_usd = usd

    await asyncio.gather(spend("first", 10.0), spend("second", 10.0))
    assert order == ["first", "second"]
    assert (ledger.spent_usd, ledger.refused) == (20.0, False)


async def test_who_waits_in_vain_is_told() -> None:
    ledger = Ledger(100.0, last_share=0.0)

    async def spend(usd: float) -> None:
        async with ledger.reserved(0, DOLLAR, 100) as held:
            await asyncio.sleep(0)
            held.spent_usd = usd

    told = await asyncio.gather(spend(95.0), spend(95.0), return_exceptions=True)
    assert [type(each) for each in told] == [type(None), BudgetSpent]


async def test_a_call_that_fails_gives_back_what_it_held() -> None:
    ledger = Ledger(100.0, last_share=0.0)
    with pytest.raises(ZeroDivisionError):
        async with ledger.reserved(0, DOLLAR, 100):
            raise ZeroDivisionError
    async with ledger.reserved(0, DOLLAR, 90) as held:
        assert held.max_tokens == 90


async def test_a_free_model_needs_no_money() -> None:
    async with Ledger(0.0).reserved(10**6, (0.0, 0.0), None) as held:
        assert held.max_tokens == USUAL_TOKENS
    ledger = Ledger(1.0, last_share=0.2)
    ledger.spend(0.9)  # by the last step: of what was kept for it nothing is left for others
    async with ledger.reserved(10**6, (0.0, 0.0), 10) as held:
        assert held.max_tokens == 10
    assert (ledger.left_usd(), ledger.refused) == (0.0, False)


async def test_sums_that_do_not_come_out_even_keep_nobody_waiting() -> None:
    """0.1 + 0.2 − 0.1 − 0.2 is not nothing: whoever needs all that is left would wait for calls that are over."""
    prices = (0.0, 40_000.0)
    ledger = Ledger(LEAST_TOKENS * 0.04, last_share=0.0)
    ended = [asyncio.Event() for _ in range(3)]

    async def call(usd: float, end: asyncio.Event) -> None:
        async with ledger.reserved(1, (usd * 1e6, 0.0), 1):
            await end.wait()

    calls = [asyncio.ensure_future(call(usd, end)) for usd, end in zip((0.1, 0.2, 0.3), ended, strict=True)]
    for end in ended:
        await asyncio.sleep(0)
        end.set()
    await asyncio.gather(*calls)
    async with asyncio.timeout(20), ledger.reserved(0, prices, 16) as held:
        assert held.max_tokens


@given(st.integers(0, 2**32), st.floats(0, 3), st.integers(1, 12))
def test_calls_at_the_same_time_never_spend_more_than_the_limit(seed: int, limit: float, calls: int) -> None:
    chance = random.Random(seed)
    ledger = Ledger(limit, last_share=chance.random())

    async def call() -> None:
        prompt, prices = chance.randrange(2000), (chance.uniform(0, 100), chance.uniform(0, 1000))
        wanted = chance.choice([None, chance.randrange(1, 5000)])
        try:
            async with ledger.reserved(prompt, prices, wanted, last=chance.random() < 0.2) as held:
                assert held.max_tokens is not None
                assert held.max_tokens >= min(wanted or USUAL_TOKENS, LEAST_TOKENS)
                await asyncio.sleep(0)
                read, written = chance.randint(0, prompt), chance.randint(0, held.max_tokens)
                held.spent_usd = (read * prices[0] + written * prices[1]) / 1e6
        except BudgetSpent:
            assert ledger.refused

    async def all_of_them() -> None:
        await asyncio.gather(*(call() for _ in range(calls)))

    asyncio.run(all_of_them())
    assert ledger.spent_usd <= limit


# Tokens


FREE = (0.0, 0.0)


async def test_a_limit_in_tokens_holds_for_the_prompt_and_the_answer_also_of_a_free_model() -> None:
    ledger = Ledger(limit_tokens=100, last_share=0.0)
    async with ledger.reserved(40, FREE, 1000) as held:
        assert held.max_tokens in (59, 60)
        assert held.most_tokens == 40 + held.max_tokens
        held.spent_tokens = 50
    assert (ledger.spent_tokens, ledger.left_tokens(), ledger.is_short) == (50, 50, False)
    with pytest.raises(BudgetSpent, match=r"found 50 tokens left of 100 tokens; expected enough for another answer"):
        async with ledger.reserved(40, FREE, 1000):
            pass
    assert ledger.is_short


async def test_the_scarcer_of_money_and_tokens_decides() -> None:
    async with Ledger(50.0, 100, last_share=0.0).reserved(10, DOLLAR, 1000) as held:
        assert held.max_tokens in (39, 40)
    async with Ledger(100.0, 50, last_share=0.0).reserved(10, DOLLAR, 1000) as held:
        assert held.max_tokens in (39, 40)
        assert held.most_usd == pytest.approx(10 + held.max_tokens)


async def test_a_ledger_within_another_holds_the_tokens_of_both() -> None:
    above = Ledger(limit_tokens=100, last_share=0.0)
    own = Ledger(5.0, last_share=0.0, within=above)
    async with own.reserved(10, FREE, 60) as held:
        assert above.left_tokens() == 30
        held.spent_tokens = 20
    assert (own.spent_tokens, above.spent_tokens) == (20, 20)
    with pytest.raises(BudgetSpent, match="80 tokens left"):
        async with own.reserved(70, FREE, 60):
            pass
    assert above.is_short


async def test_who_finds_the_tokens_held_by_others_waits_for_what_they_leave() -> None:
    ledger = Ledger(limit_tokens=100, last_share=0.0)
    order = []

    async def spend(name: str) -> None:
        async with ledger.reserved(50, FREE, 40) as held:
            order.append(name)
            await asyncio.sleep(0)
            order.append(name)
            held.spent_tokens = 10

    await asyncio.gather(spend("first"), spend("second"))
    assert order == ["first", "first", "second", "second"]
    assert (ledger.spent_tokens, ledger.refused) == (20, False)


async def test_only_a_limit_in_money_needs_prices() -> None:
    assert not Ledger(limit_tokens=10).needs_prices
    assert Ledger(within=Ledger(1.0)).needs_prices


@given(st.integers(0, 2**32), st.integers(0, 9000), st.integers(1, 12))
def test_calls_at_the_same_time_never_take_more_tokens_than_the_limit(seed: int, limit: int, calls: int) -> None:
    chance = random.Random(seed)
    above = Ledger(chance.choice([None, 1.0]), limit, last_share=chance.random())
    taken = 0

    async def call() -> None:
        nonlocal taken
        ledger = Ledger(None, chance.choice([None, 2000]), within=above)
        prompt, prices = chance.randrange(2000), (chance.uniform(0, 100), chance.uniform(0, 1000))
        try:
            async with ledger.reserved(prompt, prices, chance.choice([None, 30]), last=chance.random() < 0.2) as held:
                assert held.max_tokens is not None
                await asyncio.sleep(0)
                if chance.random() < 0.2:
                    raise ZeroDivisionError  # it was not even asked
                held.spent_tokens = chance.randint(0, prompt) + chance.randint(0, held.max_tokens)
                taken += held.spent_tokens
            assert ledger.spent_tokens <= 2000 or ledger.limit_tokens is None
        except (BudgetSpent, ZeroDivisionError):
            pass

    async def all_of_them() -> None:
        await asyncio.gather(*(call() for _ in range(calls)))

    asyncio.run(all_of_them())
    assert above.spent_tokens == taken <= limit


@given(st.text())
def test_no_tokenizer_makes_more_of_a_text_than_its_bytes(text: str) -> None:
    assert most_tokens(text) >= len(text.encode(errors="replace"))


# Shares


async def test_shares_at_the_same_time_never_come_to_more_than_is_left() -> None:
    ledger = Ledger(12.0, 120, last_share=0.0)
    async with ledger.share(3) as one, ledger.share(3) as two, ledger.share(3) as three:
        assert [one.most_usd, two.most_usd, three.most_usd] == [4.0, 4.0, 4.0]
        assert [one.most_tokens, two.most_tokens, three.most_tokens] == [40, 40, 40]
        assert ledger.left_usd() == 0.0
        one.spent_usd, one.spent_tokens = 1.0, 10
    assert (ledger.spent_usd, ledger.spent_tokens) == (9.0, 90)  # the others were not settled, so they count in full


async def test_whoever_takes_all_that_is_left_waits_for_the_other_shares() -> None:
    ledger = Ledger(12.0, last_share=0.0)
    taken = asyncio.Event()

    async def alone() -> float | None:
        async with ledger.share(2, alone=True) as share:
            taken.set()
            share.spent_usd = 0.0
            return share.most_usd

    async with ledger.share(2) as share:
        waiting = asyncio.ensure_future(alone())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not taken.is_set()
        share.spent_usd = 2.0
    assert await waiting == 10.0
    assert ledger.spent_usd == 2.0


async def test_a_ledger_that_is_exhausted_gives_empty_shares_and_one_without_limits_gives_open_ones() -> None:
    ledger = Ledger(12.0, last_share=0.0)
    ledger.exhaust()
    assert ledger.refused
    async with ledger.share(2) as share:
        assert share.most_usd == 0.0
    async with Ledger().share(2) as share:
        assert (share.most_usd, share.most_tokens) == (None, None)
