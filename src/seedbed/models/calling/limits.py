"""Limits of the calls to a model: rate limit, reservation of money, retries and circuit breaker.

Nothing here calls a model: `ModelLimits` has the state, `fallback` acts on it. Clock and sleep are parameters, so that
tests need no time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from seedbed.errors import Why
from seedbed.models.calling.hedging import Latencies
from seedbed.models.cards import Model
from seedbed.models.chat import Message
from seedbed.spending.ledger import Reservation
from seedbed.storage.redis import Ticket

Clock: TypeAlias = Callable[[], float]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

WINDOW_SECONDS = 60.0


class Reserve(Protocol):
    """Reserves the most that a request with these messages and an answer of that length can cost.

    Raises BudgetSpent if there is too little left. A `spare` request is optional: it does not wait for money, is not
    cut short, and does not count as refused if there is none.
    """

    def __call__(
        self, model: Model, messages: Sequence[Message], max_tokens: int | None, /, *, spare: bool = False
    ) -> AbstractAsyncContextManager[Reservation]: ...


def free(
    model: Model, messages: Sequence[Message], max_tokens: int | None, *, spare: bool = False
) -> AbstractAsyncContextManager[Reservation]:
    """The Reserve of callers without a budget."""
    return nullcontext(Reservation(max_tokens))


@dataclass(slots=True, eq=False)
class Booking:
    """A place in the queue of a rate limit: when the request may be sent, and the tokens it takes."""

    moment: float
    tokens: int
    counts: bool = True
    """Whether it can still fall into the same minute as a later one."""
    ticket: Ticket | None = None
    """Its place in the queue that all processes share, if there is one."""


class SharedRateLimit(Protocol):
    """A rate limit that processes share. `book` returns None while the server that holds it is away."""

    def book(self, requests: int | None, tokens_at_most: int | None, tokens: int) -> Ticket | None: ...

    def settle(self, ticket: Ticket, tokens: int) -> None: ...

    def cancel(self, ticket: Ticket) -> None: ...


class RateLimit:
    """A limit on the requests and tokens within any 60 seconds.

    A request gets the earliest free moment and sleeps until then once; requests keep their order. One with more tokens
    than a minute allows has a minute to itself. With a `shared` limit this holds for all processes together; while that
    is away, each process keeps the limit by itself, counting what it sent before.
    """

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        shared: SharedRateLimit | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._shared = shared
        self._clock = clock
        self._sleep = sleep
        self._booked: deque[Booking] = deque()  # those that may share a minute with a new one, in order
        self._sum = 0  # of their tokens
        self._last = -float("inf")  # the latest moment that was booked: bookings keep the order of requests

    async def wait(self, tokens: int = 0) -> tuple[Booking, float]:
        """Wait until a request with this many tokens may be sent; the second value is the seconds waited."""
        if self._requests is None and self._tokens is None:
            return Booking(0.0, 0, counts=False), 0.0
        came = self._clock()
        ticket = self._shared.book(self._requests, self._tokens, tokens) if self._shared else None
        booking = self.book(tokens, self._clock() + ticket.wait_seconds if ticket else came)
        booking.ticket = ticket
        if booking.moment <= (now := self._clock()):
            return booking, 0.0
        try:
            await self._sleep(booking.moment - now)
        except BaseException:
            self.cancel(booking)
            raise
        return booking, self._clock() - came

    def book(self, tokens: int = 0, earliest: float = -float("inf")) -> Booking:
        """Book the earliest free moment, which may be now."""
        if self._tokens is not None:
            tokens = min(tokens, self._tokens)
        moment = max(self._clock(), self._last, earliest)
        # Later bookings are never earlier than this one, so an old one that cannot share a minute with this one
        # cannot share one with any of them.
        while self._booked and (self._booked[0].moment <= moment - WINDOW_SECONDS or self._full(tokens)):
            oldest = self._booked.popleft()
            oldest.counts = False
            self._sum -= oldest.tokens
            moment = max(moment, oldest.moment + WINDOW_SECONDS)
        booking = Booking(moment, tokens)
        self._booked.append(booking)
        self._sum += tokens
        self._last = moment
        return booking

    def _full(self, tokens: int) -> bool:
        if self._requests is not None and len(self._booked) >= self._requests:
            return True
        return self._tokens is not None and self._sum + tokens > self._tokens

    def settle(self, booking: Booking, tokens: int) -> None:
        """Set how many tokens the request took in the end; later requests get those it did not use."""
        if booking.counts:
            self._sum += tokens - booking.tokens
            booking.tokens = tokens
        if self._shared and booking.ticket and self._tokens is not None:
            self._shared.settle(booking.ticket, tokens)

    def cancel(self, booking: Booking) -> None:
        """Return a place to later requests; those that wait already keep theirs."""
        if booking.counts:
            self._booked.remove(booking)
            booking.counts = False
            self._sum -= booking.tokens
        if self._shared and booking.ticket:
            self._shared.cancel(booking.ticket)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a failed request is sent again, and after how long.

    The pause is random between zero and a bound that doubles from `first_seconds` to `longest_seconds`, so that
    requests that failed together are not repeated together. None is sent later than `total_seconds` after the first.
    """

    tries: int = 4
    first_seconds: float = 0.5
    longest_seconds: float = 8.0
    total_seconds: float = 60.0

    def pause(
        self, tried: int, why: Why, wait_seconds: float | None, gone_seconds: float, chance: random.Random
    ) -> float | None:
        """Seconds until the next try, after `tried` of them; None if there is no next one.

        Only failures that pass by themselves are retried. If the provider says how long to wait, we wait that long.
        """
        if why not in ("transient", "rate") or tried >= self.tries:
            return None
        pause = (wait_seconds or 0.0) + self.jitter(tried, chance)
        return pause if gone_seconds + pause <= self.total_seconds else None

    def jitter(self, tried: int, chance: random.Random) -> float:
        return chance.uniform(0.0, min(self.longest_seconds, self.first_seconds * 2.0 ** min(tried - 1, 60)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How many failures open a breaker, and for how long.

    It opens after `failures` in a row, or if `share` of the last `of_last` calls failed. The rest doubles from
    `rest_seconds` to `longest_rest_seconds` while the call that ends it fails too.
    """

    failures: int = 5
    share: float = 0.5
    of_last: int = 20
    rest_seconds: float = 5.0
    longest_rest_seconds: float = 300.0
    credit_rest_seconds: float = 900.0


class Breaker:
    """A circuit breaker: closed, calls pass; open, none does; half-open, one passes as a probe.

    A call that `enter` lets pass reports its outcome with `leave`. The outcome of a call from before the last change of
    state is ignored: a late failure does not prolong a rest, and a late answer does not end it.
    """

    def __init__(self, tolerance: Tolerance | None = None, *, clock: Clock = time.monotonic) -> None:
        self._tolerance = tolerance or Tolerance()
        self._clock = clock
        self._age = 0  # counts changes of state; `enter` returns it
        self._until: float | None = None  # the end of the rest; None while closed
        self._rest = 0.0  # seconds of the current or last rest
        self._probing = False
        self._in_a_row = 0
        self._failed: deque[bool] = deque(maxlen=self._tolerance.of_last)
        self.why: Why = "transient"  # of the current or last rest
        self.because = ""

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        if self._until is None:
            return "closed"
        return "open" if self._clock() < self._until else "half-open"

    @property
    def rest_seconds(self) -> float:
        """How much longer no call passes; zero while a probe is under way, which may end at any moment."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    @property
    def lets_in(self) -> bool:
        return self.state == "closed" or (self.state == "half-open" and not self._probing)

    def enter(self) -> int | None:
        """A token to hand to `leave`, or None if no call may pass now."""
        if not self.lets_in:
            return None
        if self._until is not None:
            self._probing = True
            self._age += 1
        return self._age

    def leave(self, entered: int, why: Why | None) -> None:
        """Report that a call ended: with an answer (None), or why there was none. "ours" says nothing of the model."""
        if entered != self._age:
            return
        if why == "credit":
            self.rest(self._tolerance.credit_rest_seconds, "credit", "its credit is used up")
        elif why == "transient":
            self._fail()
        elif why == "ours":
            self._probing = False
        elif self._until is None:
            self._in_a_row = 0
            self._failed.append(False)
        else:
            self._until = None
            self._rest = 0.0
            self._change()

    def rest(self, seconds: float, why: Why, because: str) -> None:
        """Open the breaker for so long."""
        self._until = self._clock() + seconds
        self.why, self.because = why, because
        self._change()

    def _fail(self) -> None:
        tolerance = self._tolerance
        self._in_a_row += 1
        self._failed.append(True)
        if self._until is not None:
            because = "it failed again after a rest"
        elif self._in_a_row >= tolerance.failures:
            because = f"it failed {self._in_a_row} times in a row"
        elif len(self._failed) == tolerance.of_last and sum(self._failed) >= tolerance.share * tolerance.of_last:
            because = f"it failed {sum(self._failed)} times of {tolerance.of_last}"
        else:
            return
        self._rest = min(self._rest * 2 or tolerance.rest_seconds, tolerance.longest_rest_seconds)
        self.rest(self._rest, "transient", because)

    def _change(self) -> None:
        self._age += 1
        self._probing = False
        self._in_a_row = 0
        self._failed.clear()


@dataclass(frozen=True, slots=True)
class ModelLimit:
    """The limits of one model."""

    rate: RateLimit
    breaker: Breaker
    latencies: Latencies


class ModelLimits:
    """The limits of all models of a workspace, by name; all calls share them."""

    def __init__(
        self,
        *,
        retry: Retry | None = None,
        tolerance: Tolerance | None = None,
        seed: int = 0,
        shared: Callable[[Model], SharedRateLimit] | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.retry = retry or Retry()
        self._shared = shared
        self.chance = random.Random(seed)
        self.clock = clock
        self.sleep = sleep
        self._tolerance = tolerance or Tolerance()
        self._by_name: dict[str, ModelLimit] = {}

    def __getitem__(self, model: Model) -> ModelLimit:
        limit = self._by_name.get(model.name)
        if limit is None:
            rate = RateLimit(
                model.card.requests_per_minute,
                model.card.tokens_per_minute,
                shared=self._shared(model) if self._shared else None,
                clock=self.clock,
                sleep=self.sleep,
            )
            limit = ModelLimit(rate, Breaker(self._tolerance, clock=self.clock), Latencies())
            self._by_name[model.name] = limit
        return limit
