"""Rate limits are exact and fair, retries end, and a failing model is left alone; all of it without real time."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from seedbed.errors import Why
from seedbed.models.calling.limits import Booking, Breaker, ModelLimits, RateLimit, Retry, Tolerance
from seedbed.models.cards import Model
from seedbed.settings import Card

MINUTE = 60.0


class Time:
    """Time that passes when everybody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order: Iterator[int] = count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), woken))
        await woken

    async def pass_until(self, *tasks: asyncio.Future[Any]) -> None:
        while not all(task.done() for task in tasks):
            for _ in range(5):
                await asyncio.sleep(0)
            if self._sleepers:
                self.now, _, woken = heapq.heappop(self._sleepers)
                if not woken.done():
                    woken.set_result(None)


def limit(time: Time, requests: int | None = None, tokens: int | None = None) -> RateLimit:
    return RateLimit(requests, tokens, clock=time.clock, sleep=time.sleep)


async def test_without_limits_nobody_waits() -> None:
    time = Time()
    free = limit(time)
    assert [(await free.wait(10**9))[1] for _ in range(100)] == [0.0] * 100
    assert time.slept == []


async def test_who_waits_knows_its_moment_and_sleeps_once() -> None:
    time = Time()
    narrow = limit(time, requests=2)
    waits = [asyncio.ensure_future(narrow.wait()) for _ in range(6)]
    await time.pass_until(*waits)
    assert [wait.result()[1] for wait in waits] == [0, 0, 60, 60, 120, 120]
    assert time.slept == [60, 60, 120, 120]


async def test_tokens_are_limited_too() -> None:
    time = Time()
    narrow = limit(time, requests=10, tokens=100)
    assert [narrow.book(tokens).moment for tokens in (60, 40, 1, 99, 1)] == [0, 0, 60, 60, 120]


async def test_a_request_larger_than_a_minute_has_a_minute_to_itself() -> None:
    narrow = limit(Time(), tokens=100)
    assert [narrow.book(tokens).moment for tokens in (10, 500, 10)] == [0, 60, 120]


async def test_tokens_that_were_not_used_are_there_for_the_next() -> None:
    narrow = limit(Time(), tokens=100)
    first = narrow.book(100)
    narrow.settle(first, 30)
    assert [narrow.book(tokens).moment for tokens in (70, 1)] == [0, 60]


async def test_tokens_used_beyond_the_estimate_count() -> None:
    narrow = limit(Time(), tokens=100)
    narrow.settle(narrow.book(10), 95)
    assert narrow.book(10).moment == 60


async def test_who_gives_up_waiting_leaves_the_place_to_the_next() -> None:
    time = Time()
    narrow = limit(time, requests=1)
    await narrow.wait()
    waiting = asyncio.ensure_future(narrow.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [narrow.book().moment for _ in range(2)] == [60, 120]


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 40 * 8).map(lambda eighths: eighths / 8),  # seconds since the last one, exact as floats
        st.integers(0, 130),
        st.sampled_from(["stay", "stay", "stay", "cancel", "settle"]),
    ),
    max_size=60,
)


@given(arrivals=ARRIVALS, requests=st.none() | st.integers(1, 5), tokens=st.none() | st.integers(1, 120))
@settings(deadline=None)
def test_no_minute_has_more_than_allowed_and_nobody_waits_longer_than_needed(
    arrivals: list[tuple[float, int, str]], requests: int | None, tokens: int | None
) -> None:
    time = Time()
    narrow = limit(time, requests, tokens)
    kept: list[Booking] = []
    last = 0.0
    for gap, wanted, fate in arrivals:
        time.now += gap
        size = wanted if tokens is None else min(wanted, tokens)
        fits = [
            moment
            for moment in {max(time.now, last), *(each.moment + MINUTE for each in kept)}
            if moment >= max(time.now, last) and _room(kept, moment, size, requests, tokens)
        ]
        booking = narrow.book(wanted)
        assert booking.moment == min(fits)
        last = booking.moment
        kept.append(booking)
        if fate == "cancel":
            narrow.cancel(booking)
            kept.pop()
        elif fate == "settle":
            narrow.settle(booking, size // 2)
    for first in kept:
        minute = [each for each in kept if first.moment <= each.moment < first.moment + MINUTE]
        assert requests is None or len(minute) <= requests
        assert tokens is None or sum(each.tokens for each in minute) <= tokens


def _room(kept: list[Booking], moment: float, size: int, requests: int | None, tokens: int | None) -> bool:
    minute = [each for each in kept if moment - MINUTE < each.moment <= moment]
    enough = tokens is None or sum(each.tokens for each in minute) + size <= tokens
    return enough and (requests is None or len(minute) < requests)


# Retries


@pytest.mark.parametrize("why", ["credit", "context", "refused", "ours"])
def test_what_does_not_pass_by_itself_is_not_tried_again(why: Why) -> None:
    assert Retry().pause(1, why, None, 0.0, random.Random(1)) is None


def test_pauses_grow_to_a_bound_and_fill_it_at_random() -> None:
    retry = Retry(tries=9, first_seconds=1.0, longest_seconds=8.0, total_seconds=1000.0)
    chance = random.Random(7)
    for tried, bound in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (8, 8.0)):
        pauses = [retry.pause(tried, "transient", None, 0.0, chance) or 0.0 for _ in range(400)]
        assert max(pauses) <= bound
        assert max(pauses) > 0.9 * bound
        assert min(pauses) < 0.1 * bound


def test_the_same_seed_gives_the_same_pauses() -> None:
    one, other = random.Random(3), random.Random(3)
    assert Retry().pause(1, "transient", None, 0.0, one) == Retry().pause(1, "transient", None, 0.0, other)


@pytest.mark.parametrize("why", ["rate", "transient"])
def test_a_provider_that_says_how_long_to_wait_is_obeyed(why: Why) -> None:
    pause = Retry(first_seconds=0.5).pause(1, why, 20.0, 0.0, random.Random(1))
    assert pause is not None
    assert 20.0 <= pause <= 20.5


def test_tries_and_time_are_bounded() -> None:
    retry, chance = Retry(tries=3, first_seconds=1.0, total_seconds=10.0), random.Random(1)
    assert retry.pause(2, "transient", None, 0.0, chance) is not None
    assert retry.pause(3, "transient", None, 0.0, chance) is None
    assert retry.pause(1, "transient", None, 10.0, chance) is None
    assert retry.pause(1, "rate", 11.0, 0.0, chance) is None


# Breakers


def breaker(time: Time, **tolerance: Any) -> Breaker:
    return Breaker(Tolerance(**tolerance), clock=time.clock)


def call(it: Breaker, why: Why | None) -> bool:
    entered = it.enter()
    if entered is None:
        return False
    it.leave(entered, why)
    return True


def test_failures_in_a_row_open_it_and_a_good_probe_closes_it() -> None:
    time = Time()
    it = breaker(time, failures=3, rest_seconds=5.0)
    assert [call(it, why) for why in ("transient", "transient", None, "transient", "transient")] == [True] * 5
    assert it.state == "closed"
    call(it, "transient")
    assert (it.state, it.rest_seconds, it.because) == ("open", 5.0, "it failed 3 times in a row")
    time.now = 4.9
    assert not call(it, None)
    time.now = 5.0
    assert it.state == "half-open"
    assert call(it, None)
    assert it.state == "closed"


def test_failures_among_answers_open_it_too() -> None:
    it = breaker(Time(), failures=3, share=0.5, of_last=10)
    for _ in range(4):
        call(it, "transient")
        call(it, None)
    assert it.state == "closed"
    call(it, "transient")
    assert it.state == "closed"  # five of nine: too few calls to judge
    call(it, None)
    call(it, "transient")
    assert (it.state, it.because) == ("open", "it failed 5 times of 10")


def test_the_rest_grows_while_probes_fail_and_begins_anew_after_an_answer() -> None:
    time = Time()
    it = breaker(time, failures=1, rest_seconds=5.0, longest_rest_seconds=18.0)
    rests = []
    for _ in range(4):
        call(it, "transient")
        rests.append(it.rest_seconds)
        time.now += it.rest_seconds
    assert rests == [5, 10, 18, 18]
    call(it, None)
    call(it, "transient")
    assert it.rest_seconds == 5


def test_only_one_probes_at_a_time() -> None:
    time = Time()
    it = breaker(time, failures=1, rest_seconds=5.0)
    call(it, "transient")
    time.now = 5.0
    probe = it.enter()
    assert probe is not None
    assert it.enter() is None
    it.leave(probe, None)
    assert it.enter() is not None


def test_nobody_paying_opens_it_at_once_and_for_long() -> None:
    it = breaker(Time(), failures=5, credit_rest_seconds=900.0)
    call(it, "credit")
    assert (it.state, it.rest_seconds, it.why) == ("open", 900.0, "credit")


@pytest.mark.parametrize("why", ["rate", "context", "refused"])
def test_a_model_that_says_no_is_alive(why: Why) -> None:
    time = Time()
    it = breaker(time, failures=2, rest_seconds=5.0)
    for _ in range(10):
        call(it, why)
    call(it, "transient")
    call(it, why)
    call(it, "transient")
    assert it.state == "closed"
    call(it, "transient")
    time.now = 5.0
    call(it, why)
    assert it.state == "closed"


def test_a_probe_that_was_abandoned_says_nothing_and_the_next_may_probe() -> None:
    time = Time()
    it = breaker(time, failures=1, rest_seconds=5.0)
    call(it, "transient")
    time.now = 5.0
    call(it, "ours")
    assert it.state == "half-open"
    assert it.enter() is not None


class BreakerMachine(RuleBasedStateMachine):
    """A breaker among calls that overlap, beside what its contract says it must do."""

    TOLERANCE = Tolerance(
        failures=3, share=0.5, of_last=6, rest_seconds=4.0, longest_rest_seconds=16.0, credit_rest_seconds=50.0
    )

    def __init__(self) -> None:
        super().__init__()
        self.time = Time()
        self.it = Breaker(self.TOLERANCE, clock=self.time.clock)
        self.under_way: list[tuple[int, int, bool]] = []  # pass, epoch it began in, is it the probe?
        self.epoch = 0
        self.until: float | None = None
        self.rest = 0.0
        self.probing = False
        self.row = 0
        self.window: list[bool] = []

    def change(self, until: float | None) -> None:
        self.until, self.probing, self.row, self.window = until, False, 0, []
        self.epoch += 1

    @rule(seconds=st.integers(0, 20))
    def time_passes(self, seconds: int) -> None:
        self.time.now += seconds

    @rule()
    def somebody_calls(self) -> None:
        entered = self.it.enter()
        if self.until is None:
            assert entered is not None
            self.under_way.append((entered, self.epoch, False))
        elif self.time.now < self.until or self.probing:
            assert entered is None
        else:
            assert entered is not None
            self.probing = True
            self.epoch += 1
            self.under_way.append((entered, self.epoch, True))

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), why=st.sampled_from([None, "transient", "transient", "credit", "rate", "refused", "ours"]))
    def a_call_ends(self, data: st.DataObject, why: Why | None) -> None:
        entered, epoch, probe = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        self.it.leave(entered, why)
        if epoch != self.epoch:
            return  # it was let in before the last change
        if why == "credit":
            self.change(self.time.now + 50)
        elif why == "ours":
            self.probing = self.probing and not probe
        elif why != "transient":
            if probe:
                self.rest = 0.0
                self.change(None)
            else:
                self.row, self.window = 0, [*self.window, False][-6:]
        else:
            self.row, self.window = self.row + 1, [*self.window, True][-6:]
            if probe or self.row == 3 or (len(self.window) == 6 and sum(self.window) >= 3):
                self.rest = min(2 * self.rest or 4.0, 16.0)
                self.change(self.time.now + self.rest)

    @invariant()
    def it_is_in_the_right_state(self) -> None:
        if self.until is None:
            assert self.it.state == "closed"
        else:
            assert self.it.state == ("open" if self.time.now < self.until else "half-open")
            assert self.it.rest_seconds == max(0.0, self.until - self.time.now)
        assert sum(probe and epoch == self.epoch for _, epoch, probe in self.under_way) <= 1


TestBreakerAmongOverlappingCalls = BreakerMachine.TestCase
TestBreakerAmongOverlappingCalls.settings = settings(deadline=None, stateful_step_count=60)


# Lines


def test_each_model_has_its_own_line_and_keeps_it() -> None:
    time = Time()
    limits = ModelLimits(tolerance=Tolerance(failures=1), clock=time.clock, sleep=time.sleep)
    fast = Model("fast", Card(use="scripted", requests_per_minute=1))
    strong = Model("strong", Card(use="scripted"))
    call(limits[fast].breaker, "transient")
    assert limits[fast].breaker.state == "open"
    assert limits[strong].breaker.state == "closed"
    assert limits[Model("fast", fast.card)] is limits[fast]
    assert [limits[fast].rate.book().moment for _ in range(2)] == [0, 60]
