"""Redis: a server beside the store that may be lost at any time, and what is agreed on through it.

Nothing is kept here that cannot be done without. Whoever asks is given an answer or None, within a short time; a
server that gave none is left alone for a while, and the user is told once.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from seedbed.errors import Problem, SettingsError, shown
from seedbed.storage.store import without_password

if TYPE_CHECKING:
    import redis

TIMEOUT_SECONDS = 0.5
"""How long to wait for a connection, and for an answer."""

REST_SECONDS = 5.0
"""How long a server that failed is left alone."""

WINDOW_SECONDS = 60.0

_Result = TypeVar("_Result")
_Use = Literal["read", "write"]
_log = logging.getLogger("seedbed")


class Redis:
    """A Redis or Valkey server at `redis://`, `rediss://` or `unix://`. Safe to share between threads."""

    def __init__(
        self, url: str, *, timeout_seconds: float = TIMEOUT_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = without_password(url)
        self._client = _client(url, timeout_seconds)
        self._clock = clock
        self._lock = threading.Lock()
        self._rests: dict[_Use, float] = {}  # until when it is not asked; what is missing here works

    def read(self, work: Callable[[redis.Redis], _Result]) -> _Result | None:
        """What the server says; None if it says nothing."""
        return self._asked("read", work)

    def write(self, work: Callable[[redis.Redis], _Result]) -> _Result | None:
        """As `read`. A server that is full is still read from."""
        return self._asked("write", work)

    def close(self) -> None:
        self._client.connection_pool.disconnect()

    def _asked(self, use: _Use, work: Callable[[redis.Redis], _Result]) -> _Result | None:
        from redis.exceptions import RedisError, ResponseError

        if self._clock() < self._rests.get(use, 0.0):
            return None
        try:
            result = work(self._client)
        except ResponseError as wrong:  # it is there, but refuses this: full, read-only, of another make
            self._rest((use,), wrong)
        except (RedisError, OSError) as wrong:
            self._rest(("read", "write"), wrong)
        else:
            if use in self._rests:
                self._back(use)
            return result
        return None

    def _rest(self, uses: tuple[_Use, ...], wrong: Exception) -> None:
        with self._lock:
            known = all(use in self._rests for use in uses)
            for use in uses:
                self._rests[use] = self._clock() + REST_SECONDS
        if not known:
            # By what it is called and says, which holds no password: the address is told without.
            found = f"{type(wrong).__name__}: {shown(str(wrong), 120)}"
            _log.warning(
                "cache %s: found %s; expected an answer. We go on without it, and try again every %g s",
                *(self.name, found, REST_SECONDS),
            )

    def _back(self, use: _Use) -> None:
        with self._lock:
            self._rests.pop(use, None)
        _log.info("cache %s: answers again (%s)", self.name, use)


@cache
def redis_at(url: str) -> Redis:
    """The server at a URL, the same for all of this process: what one finds out about it, all know."""
    return Redis(url)


def _client(url: str, timeout_seconds: float) -> redis.Redis:
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError as Lost
        from redis.retry import Retry
    except ImportError:
        remedy = "Run pip install 'seedbed[redis]'"
        raise SettingsError([Problem("cache", "no redis package", "it installed", remedy)]) from None
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            # A connection of before a restart of the server is made anew once; what is slow is not waited for twice.
            retry=Retry(NoBackoff(), 1, supported_errors=(Lost,)),
        )
    except ValueError:
        expected = "a URL such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock"
        raise SettingsError([Problem("cache", shown(without_password(url)), expected)]) from None


# What processes agree on through it


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in a line that many processes stand in: its moment by the server's clock, and the time until then."""

    id: str
    moment: float
    wait_seconds: float


class RedisRateLimit:
    """At most so many requests and tokens within any minute, of all processes that use the same name.

    The clock is the server's. Bookings are those of `models.limits.RateLimit`: the earliest moment that is free, and
    nobody is overtaken. While the server is away there are none.
    """

    def __init__(self, redis: Redis, name: str, *, window_seconds: float = WINDOW_SECONDS) -> None:
        self._redis = redis
        self._keys = [f"seedbed:{{limit:{name}}}:moments", f"seedbed:{{limit:{name}}}:tokens"]
        self._window = round(window_seconds * 1e6)

    def book(self, requests: int | None, tokens_at_most: int | None, tokens: int) -> Ticket | None:
        """Take the earliest free moment. None means no limit; no ticket, that nobody could be asked."""
        ticket = secrets.token_hex(8)
        bounds = [-1 if bound is None else bound for bound in (requests, tokens_at_most)]
        booked = self._run(_BOOK, self._window, *bounds, tokens, ticket)
        return Ticket(ticket, booked[0] / 1e6, booked[1] / 1e6) if booked else None

    def settle(self, ticket: Ticket, tokens: int) -> None:
        """Say how many tokens it was in the end."""
        self._run(_SETTLE, ticket.id, tokens)

    def cancel(self, ticket: Ticket) -> None:
        """Give a place back to those who come later."""
        self._run(_CANCEL, ticket.id)

    def _run(self, script: str, *given: str | int) -> Any:
        return self._redis.write(lambda client: client.eval(script, 2, *self._keys, *given))


_BOOK = """
local window, requests, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens, ticket = tonumber(ARGV[4]), ARGV[5]
local moments, weights = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if limit >= 0 then tokens = math.min(tokens, limit) end
local count = redis.call('ZCARD', moments)
local sum = tonumber(redis.call('HGET', weights, 'sum') or '0')
local moment = math.max(now, tonumber(redis.call('HGET', weights, 'last') or '0'))
-- Later bookings are never earlier than this one, so what no longer meets this one meets none of them.
while count > 0 do
  local oldest = redis.call('ZRANGE', moments, 0, 0, 'WITHSCORES')
  local full = (requests >= 0 and count >= requests) or (limit >= 0 and sum + tokens > limit)
  if tonumber(oldest[2]) > moment - window and not full then break end
  sum = sum - tonumber(redis.call('HGET', weights, oldest[1]) or '0')
  redis.call('ZREM', moments, oldest[1])
  redis.call('HDEL', weights, oldest[1])
  count = count - 1
  moment = math.max(moment, tonumber(oldest[2]) + window)
end
redis.call('ZADD', moments, string.format('%.0f', moment), ticket)
redis.call('HSET', weights, ticket, tokens, 'sum', sum + tokens, 'last', string.format('%.0f', moment))
local gone = string.format('%.0f', math.ceil((moment - now + window) / 1000))
redis.call('PEXPIRE', moments, gone)
redis.call('PEXPIRE', weights, gone)
return {moment, moment - now}
"""

_SETTLE = """
local before = redis.call('HGET', KEYS[2], ARGV[1])
if before then
  redis.call('HINCRBY', KEYS[2], 'sum', ARGV[2] - before)
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
"""

_CANCEL = """
local before = redis.call('HGET', KEYS[2], ARGV[1])
if before then
  redis.call('HINCRBY', KEYS[2], 'sum', -before)
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('ZREM', KEYS[1], ARGV[1])
end
"""
