"""How often a model may be asked, on what money, how often again after a failure, and when it is left alone a while.

Nothing here speaks to a model: `Lines` remembers, `fallback` acts on it. Clock and sleep are given, so that tests need
no time.
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
from seedbed.storage.redis import Ticket

__all__ = [
    "Booking",
    "Breaker",
    "Hold",
    "ModelLimit",
    "ModelLimits",
    "RateLimit",
    "Reserve",
    "Retry",
    "SharedRateLimit",
    "Tolerance",
    "free",
]

Clock: TypeAlias = Callable[[], float]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

WINDOW_SECONDS = 60.0


class Hold(Protocol):
    """What is held for one try: how long its answer may be, the most it can take if that was counted, and what it did.

    The amounts are US dollars, and tokens read and written.
    """

    max_tokens: int | None
    most_usd: float | None
    most_tokens: int | None
    spent_usd: float
    spent_tokens: int


class Reserve(Protocol):
    """Holds what a try of this model with these messages and so many tokens may cost, or raises BudgetSpent.

    What is only done with money to `spare` is neither waited for nor cut short, and is not missed if there is none.
    """

    def __call__(
        self, model: Model, messages: Sequence[Message], max_tokens: int | None, /, *, spare: bool = False
    ) -> AbstractAsyncContextManager[Hold]: ...


@dataclass(slots=True)
class _Free:
    max_tokens: int | None
    most_usd: float | None = None
    most_tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0


def free(
    model: Model, messages: Sequence[Message], max_tokens: int | None, *, spare: bool = False
) -> AbstractAsyncContextManager[Hold]:
    """For those who need not look at money."""
    return nullcontext(_Free(max_tokens))


@dataclass(slots=True, eq=False)
class Booking:
    """A place in the line: the moment it may go, and the tokens it takes with it."""

    moment: float
    tokens: int
    counts: bool = True
    """Whether it can still meet a later one within a minute."""
    ticket: Ticket | None = None
    """Its place in the line of all processes, if they share one."""


class SharedRateLimit(Protocol):
    """A line that many processes stand in, kept as `RateLimit` keeps its own. No ticket: nobody is there to ask."""

    def book(self, requests: int | None, tokens_at_most: int | None, tokens: int) -> Ticket | None: ...

    def settle(self, ticket: Ticket, tokens: int) -> None: ...

    def cancel(self, ticket: Ticket) -> None: ...


class RateLimit:
    """At most so many requests and so many tokens within any minute, whenever that minute begins.

    Whoever comes is given the earliest moment that is free, sleeps until then once, and goes; nobody is overtaken.
    A request with more tokens than a whole minute allows has a minute to itself. With a turnstile this holds for all
    processes together; while that is away, for each by itself, what it asked before included.
    """

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        *,
        turnstile: SharedRateLimit | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._turnstile = turnstile
        self._clock = clock
        self._sleep = sleep
        self._booked: deque[Booking] = deque()  # those a new booking may meet within one minute, in order
        self._sum = 0  # of their tokens
        self._last = -float("inf")  # the latest moment given away: bookings are in the order of their coming

    async def wait(self, tokens: int = 0) -> tuple[Booking, float]:
        """Wait for the turn of a request with so many tokens; the second value is the seconds that took."""
        if self._requests is None and self._tokens is None:
            return Booking(0.0, 0, counts=False), 0.0
        came = self._clock()
        ticket = self._turnstile.book(self._requests, self._tokens, tokens) if self._turnstile else None
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
        """Take the earliest free moment, which may be now."""
        if self._tokens is not None:
            tokens = min(tokens, self._tokens)
        moment = max(self._clock(), self._last, earliest)
        # Later bookings are never earlier than this one, so what no longer meets this one meets none of them.
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
        """Say how many tokens it was in the end; those who come later get what was not used."""
        if booking.counts:
            self._sum += tokens - booking.tokens
            booking.tokens = tokens
        if self._turnstile and booking.ticket and self._tokens is not None:
            self._turnstile.settle(booking.ticket, tokens)

    def cancel(self, booking: Booking) -> None:
        """Give a place back to those who come later; those who wait already keep theirs."""
        if booking.counts:
            self._booked.remove(booking)
            booking.counts = False
            self._sum -= booking.tokens
        if self._turnstile and booking.ticket:
            self._turnstile.cancel(booking.ticket)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When the same model is asked again, and after how long.

    The pause is random between nothing and a bound that doubles from `first_seconds` to `longest_seconds`, so that
    those who failed together do not come back together. No try begins later than `total_seconds` after the first.
    """

    tries: int = 4
    first_seconds: float = 0.5
    longest_seconds: float = 8.0
    total_seconds: float = 60.0

    def pause(
        self, tried: int, why: Why, wait_seconds: float | None, gone_seconds: float, chance: random.Random
    ) -> float | None:
        """Seconds until the next try after so many; None if there shall be none.

        Only what passes by itself is tried again; if the provider says how long to wait, we wait that long.
        """
        if why not in ("transient", "rate") or tried >= self.tries:
            return None
        pause = (wait_seconds or 0.0) + self.jitter(tried, chance)
        return pause if gone_seconds + pause <= self.total_seconds else None

    def jitter(self, tried: int, chance: random.Random) -> float:
        return chance.uniform(0.0, min(self.longest_seconds, self.first_seconds * 2.0 ** min(tried - 1, 60)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much failing is put up with before a model is left alone, and for how long it then is.

    Too much is `failures` in a row, or `share` of the last `of_last`. The rest doubles from `rest_seconds` to
    `longest_rest_seconds` for as long as the call that ends it fails too.
    """

    failures: int = 5
    share: float = 0.5
    of_last: int = 20
    rest_seconds: float = 5.0
    longest_rest_seconds: float = 300.0
    credit_rest_seconds: float = 900.0


class Breaker:
    """Leaves a failing model alone: closed, calls pass; open, none does; half-open, one passes as a probe.

    Who is let in by `enter` says with `leave` what came of it. What was let in before the last change of state has no
    say any more: a late failure does not prolong a rest, and a late answer does not end it.
    """

    def __init__(self, tolerance: Tolerance | None = None, *, clock: Clock = time.monotonic) -> None:
        self._tolerance = tolerance or Tolerance()
        self._clock = clock
        self._age = 0  # counts changes of state; whoever enters is given it
        self._until: float | None = None  # the end of the rest; None while closed
        self._rest = 0.0  # how long the present or last rest is
        self._probing = False
        self._in_a_row = 0
        self._failed: deque[bool] = deque(maxlen=self._tolerance.of_last)
        self.why: Why = "transient"  # of the present or last rest
        self.because = ""

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        if self._until is None:
            return "closed"
        return "open" if self._clock() < self._until else "half-open"

    @property
    def rest_seconds(self) -> float:
        """How much longer no call passes; nothing while a probe is under way, which may end at any moment."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    @property
    def lets_in(self) -> bool:
        return self.state == "closed" or (self.state == "half-open" and not self._probing)

    def enter(self) -> int | None:
        """A pass to give back with `leave`, or None if no call may pass now."""
        if not self.lets_in:
            return None
        if self._until is not None:
            self._probing = True
            self._age += 1
        return self._age

    def leave(self, entered: int, why: Why | None) -> None:
        """Say that a call ended: with an answer (None), or why there was none. "ours" says nothing of the model."""
        if entered != self._age:
            return
        if why == "credit":
            self.rest(self._tolerance.credit_rest_seconds, "credit", "nobody pays for it")
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
        """Let no call pass for so long."""
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
    """The way to one model."""

    limit: RateLimit
    breaker: Breaker
    latencies: Latencies


class ModelLimits:
    """The ways to all models of a workspace, by name: what calls must know of each other."""

    def __init__(
        self,
        *,
        retry: Retry | None = None,
        tolerance: Tolerance | None = None,
        seed: int = 0,
        turnstile: Callable[[Model], SharedRateLimit] | None = None,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.retry = retry or Retry()
        self._turnstile = turnstile
        self.chance = random.Random(seed)
        self.clock = clock
        self.sleep = sleep
        self._tolerance = tolerance or Tolerance()
        self._lines: dict[str, ModelLimit] = {}

    def __getitem__(self, model: Model) -> ModelLimit:
        line = self._lines.get(model.name)
        if line is None:
            limit = RateLimit(
                model.card.requests_per_minute,
                model.card.tokens_per_minute,
                turnstile=self._turnstile(model) if self._turnstile else None,
                clock=self.clock,
                sleep=self.sleep,
            )
            line = self._lines[model.name] = ModelLimit(limit, Breaker(self._tolerance, clock=self.clock), Latencies())
        return line
