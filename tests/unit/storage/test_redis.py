"""What many processes agree on through Redis: exact limits, also while it dies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seedbed
from seedbed import Playbook
from seedbed.errors import SettingsError
from seedbed.models.calling.limits import RateLimit
from seedbed.settings import Settings
from seedbed.storage.redis import Redis, RedisRateLimit

BOOKER = """
import sys
from seedbed.storage.redis import Redis, RedisRateLimit

line = RedisRateLimit(Redis(sys.argv[1], timeout_seconds=30), "model", window_seconds=3600)
for n in range(50):
    print(line.book(10, None, 0).moment, flush=True)
"""

CALLER = """
import asyncio, sys
from seedbed.models.calling import limits
from seedbed.storage.redis import Redis, RedisRateLimit

limits.WINDOW_SECONDS = 1.0
line = RedisRateLimit(Redis(sys.argv[1], timeout_seconds=30), "model", window_seconds=1)
limit = limits.RateLimit(8, shared=line)

async def call():
    for _ in range(16):
        booking, _ = await limit.wait()
        print(booking.moment, booking.ticket.moment if booking.ticket else None, flush=True)

asyncio.run(call())
"""


def too_soon(moments: list[float], limit: int) -> list[float]:
    """Those less than a second after the one `limit` places before; a microsecond is lost in rounding."""
    moments = sorted(moments)
    return [later for one, later in zip(moments, moments[limit:], strict=False) if later - one < 1 - 2e-6]


@pytest.fixture
def line(redis_server: Any) -> RedisRateLimit:
    return RedisRateLimit(Redis(redis_server.url, timeout_seconds=30), "model", window_seconds=1)


def started(count: int, script: str, url: str) -> Iterator[subprocess.Popen[str]]:
    for _ in range(count):
        yield subprocess.Popen(
            [sys.executable, "-c", script, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


def test_processes_together_never_exceed_a_limit_and_waste_none_of_it(redis_server: Any) -> None:
    moments = []
    for process in [*started(4, BOOKER, redis_server.url)]:
        said, wrong = process.communicate()
        assert process.returncode == 0, wrong
        moments += [float(line) for line in said.split()]
    assert len(moments) == 200
    moments.sort()
    gaps = [later - one for one, later in zip(moments, moments[10:], strict=False)]
    assert gaps == pytest.approx([3600] * 190, abs=2e-6)


def test_when_redis_is_killed_each_process_keeps_the_limit_by_itself_and_says_so_once(redis_server: Any) -> None:
    processes = [*started(3, CALLER, redis_server.url)]
    first = processes[0].stdout
    assert first
    early = [first.readline() for _ in range(4)]
    redis_server.kill()
    shared = []
    for process in processes:
        assert process.stdout
        assert process.stderr
        # Not by communicate(), which would lose what was read ahead with the early lines.
        said, wrong = process.stdout.read(), process.stderr.read()
        lines = [*(early if process is processes[0] else []), *said.splitlines()]
        assert process.wait() == 0, wrong
        assert len(lines) == 16
        assert too_soon([float(line.split()[0]) for line in lines], 8) == []
        together = [float(moment) for moment in (line.split()[1] for line in lines) if moment != "None"]
        # On a busy machine one may have come to its end before Redis did.
        assert wrong.count("seedbed continues without it") == (len(together) < len(lines))
        shared += together
    assert 4 <= len(shared) < 48
    assert too_soon(shared, 8) == []


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.none() | st.integers(1, 5),
    most=st.none() | st.integers(1, 50),
    asked=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["keep", "cancel", "settle"])), max_size=25),
)
def test_the_line_of_all_processes_is_kept_as_that_of_one(
    redis_server: Any, requests: int | None, most: int | None, asked: list[tuple[int, str]]
) -> None:
    redis_server.client.flushall()
    shared = RedisRateLimit(Redis(redis_server.url, timeout_seconds=30), "model", window_seconds=3600)
    # A minute of the one is an hour of the other, whose clock cannot be stopped: so little passes as to round off.
    alone = RateLimit(requests, most, clock=lambda: 0.0)
    for tokens, then in asked:
        ticket, booking = shared.book(requests, most, tokens), alone.book(tokens)
        assert ticket
        assert round(ticket.wait_seconds / 3600, 2) == round(booking.moment / 60, 2)
        if then == "cancel":
            shared.cancel(ticket)
            alone.cancel(booking)
        if then == "settle":
            shared.settle(ticket, tokens // 2)
            alone.settle(booking, tokens // 2)


async def test_a_place_that_is_given_back_is_given_to_the_next(line: RedisRateLimit) -> None:
    async def impatient(seconds: float) -> None:
        assert seconds > 0
        raise TimeoutError

    limit = RateLimit(1, shared=line, sleep=impatient)
    await limit.wait()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await limit.wait()
    ticket = line.book(1, None, 0)
    assert ticket
    assert ticket.wait_seconds <= 1


def test_nothing_stays_in_redis_when_the_minute_is_over(line: RedisRateLimit, redis_server: Any) -> None:
    assert line.book(5, 100, 7)
    lives = [redis_server.client.pttl(key) for key in redis_server.client.scan_iter()]
    assert len(lives) == 2
    assert all(0 < life <= 1000 for life in lives)


async def test_workspaces_share_the_limit_of_an_endpoint_whatever_they_call_it(
    tmp_path: Path, redis_server: Any
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    for name in ("quick", "fast"):
        model = {"use": "scripted", "args": {"replies": ["Yes."] * 9}, "requests_per_minute": 2}
        (tmp_path / name).mkdir()
        space = seedbed.open(
            Settings(store=f"sqlite:///{tmp_path}/{name}/x.db", cache=redis_server.url, models={name: model}, by="ann")
        )
        space.resources.runner.limits.sleep = sleep
        playbook = Playbook.from_document({"roles": {"writer": {"model": name, "system": "Answer."}}})
        for _ in range(2):
            assert (await space.run(playbook, question="Well?")).output == "Yes."
        space.close()
    assert len(waits) == 2
    assert all(50 < wait <= 60 for wait in waits)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:many/0", "nonsense", "redis://:hunter2@host:many"])
def test_a_url_that_leads_nowhere_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match="expected a URL such as redis://") as refused:
        Redis(url)
    assert "hunter2" not in str(refused.value)
