"""Redis: a server beside the store for a cache and a shared rate limit. It may be lost at any time.

Nothing depends on it. A call returns an answer, or None within a short time; a server that failed is not called for a
while, and the log says so once.
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

from seedbed import plugins
from seedbed.errors import Problem, SettingsError, shown
from seedbed.storage.paths import without_password

if TYPE_CHECKING:
    import redis

TIMEOUT_SECONDS = 0.5
"""How long to wait for a connection, and for an answer."""

REST_SECONDS = 5.0
"""How long a server that failed is not called."""

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
        self._package = plugins.optional("redis", extra="redis", needed_for="cache")
        self._client = self._connect(url, timeout_seconds)
        self._clock = clock
        self._lock = threading.Lock()
        self._rests: dict[_Use, float] = {}  # until when not to call; a use that works is not in here

    def read(self, work: Callable[[redis.Redis], _Result]) -> _Result | None:
        """The answer of the server; None if there is none."""
        return self._call("read", work)

    def write(self, work: Callable[[redis.Redis], _Result]) -> _Result | None:
        """Like `read`. A server that is full can still be read."""
        return self._call("write", work)

    def close(self) -> None:
        self._client.connection_pool.disconnect()

    def _connect(self, url: str, timeout_seconds: float) -> redis.Redis:
        package = self._package
        # A connection from before a restart of the server is made again once; a slow server is not waited for twice.
        retry = package.retry.Retry(package.backoff.NoBackoff(), 1, supported_errors=(package.ConnectionError,))
        try:
            client: redis.Redis = package.Redis.from_url(
                url, socket_timeout=timeout_seconds, socket_connect_timeout=timeout_seconds, retry=retry
            )
        except ValueError:
            expected = "a URL such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock"
            raise SettingsError([Problem("cache", shown(without_password(url)), expected)]) from None
        return client

    def _call(self, use: _Use, work: Callable[[redis.Redis], _Result]) -> _Result | None:
        if self._clock() < self._rests.get(use, 0.0):
            return None
        try:
            result = work(self._client)
        except self._package.ResponseError as wrong:  # it answers, but refuses this: full, read-only, another product
            self._rest((use,), wrong)
        except (self._package.RedisError, OSError) as wrong:
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
            # Neither the class nor the message of the error holds a password, and the name hides it.
            _log.warning(
                "cache %s: found %s: %s; expected an answer. seedbed continues without it and tries again every %g s",
                *(self.name, type(wrong).__name__, shown(str(wrong), 120), REST_SECONDS),
            )

    def _back(self, use: _Use) -> None:
        with self._lock:
            self._rests.pop(use, None)
        _log.info("cache %s: answers again (%s)", self.name, use)


@cache
def redis_at(url: str) -> Redis:
    """The server at a URL, one object per process, so that all callers know when it fails."""
    return Redis(url)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A booked request: its moment by the server's clock, and the time until then."""

    id: str
    moment: float
    wait_seconds: float


class RedisRateLimit:
    """A limit of requests and tokens per minute, shared by all processes that use the same name.

    The clock is the server's. As in `models.calling.limits.RateLimit`, each booking gets the earliest free moment, in
    order of arrival. While the server is away there are no bookings.
    """

    def __init__(self, redis: Redis, name: str, *, window_seconds: float = WINDOW_SECONDS) -> None:
        self._redis = redis
        self._keys = [f"seedbed:{{limit:{name}}}:moments", f"seedbed:{{limit:{name}}}:tokens"]
        self._window = round(window_seconds * 1e6)

    def book(self, requests: int | None, tokens_at_most: int | None, tokens: int) -> Ticket | None:
        """Book the earliest free moment. A bound of None is no limit. Returns None if the server does not answer."""
        ticket = secrets.token_hex(8)
        bounds = [-1 if bound is None else bound for bound in (requests, tokens_at_most)]
        booked = self._run(_BOOK, self._window, *bounds, tokens, ticket)
        return Ticket(ticket, booked[0] / 1e6, booked[1] / 1e6) if booked else None

    def settle(self, ticket: Ticket, tokens: int) -> None:
        """Record how many tokens the request took."""
        self._run(_SETTLE, ticket.id, tokens)

    def cancel(self, ticket: Ticket) -> None:
        """Release a booking."""
        self._run(_CANCEL, ticket.id)

    def _run(self, script: str, *arguments: str | int) -> Any:
        return self._redis.write(lambda client: client.eval(script, 2, *self._keys, *arguments))


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
