"""Runs get in as fast as the event loop can serve them."""

from __future__ import annotations

import asyncio
import gc

import pytest

from seedbed.stage import admission as module
from seedbed.stage.admission import CROWD, PER_ROUND, ROUND_SECONDS, AdmissionControl


class Rounds:
    """A clock on which every look takes as long as a round of the loop is said to take."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._now = 0.0

    def perf_counter(self) -> float:
        self._now += self.seconds
        return self._now


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    clock = Rounds()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Guests:
    def __init__(self, door: AdmissionControl) -> None:
        self.door = door
        self.came: list[int] = []
        self.leave = asyncio.Event()

    async def visit(self, number: int) -> None:
        async with self.door:
            self.came.append(number)
            await self.leave.wait()


async def rest(rounds: int) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def test_thousands_get_in_while_the_loop_is_free(rounds: Rounds) -> None:
    guests = Guests(AdmissionControl())
    visits = [asyncio.create_task(guests.visit(number)) for number in range(1_000)]
    await rest(10 + 1_000 // PER_ROUND)
    assert guests.came == list(range(1_000))
    guests.leave.set()
    await asyncio.gather(*visits)


async def test_nobody_else_gets_in_while_the_loop_is_behind(rounds: Rounds) -> None:
    guests = Guests(AdmissionControl())
    rounds.seconds = 2 * ROUND_SECONDS
    visits = [asyncio.create_task(guests.visit(number)) for number in range(10)]
    await rest(100)
    assert guests.came == [0]  # one alone is never kept waiting
    rounds.seconds = 0.0
    await rest(20)
    assert guests.came == list(range(10))
    guests.leave.set()
    await asyncio.gather(*visits)


async def test_who_gives_up_waiting_does_not_keep_the_others_from_coming_in(rounds: Rounds) -> None:
    guests = Guests(AdmissionControl())
    rounds.seconds = 2 * ROUND_SECONDS
    visits = [asyncio.create_task(guests.visit(number)) for number in range(4)]
    await rest(5)
    visits[1].cancel()
    visits[3].cancel()
    await rest(5)
    rounds.seconds = 0.0
    await rest(10)
    assert guests.came == [0, 2]
    guests.leave.set()
    await asyncio.gather(*visits, return_exceptions=True)


def test_those_who_waited_in_a_loop_that_has_ended_keep_nobody_waiting_in_the_next(rounds: Rounds) -> None:
    door = AdmissionControl()
    rounds.seconds = 2 * ROUND_SECONDS

    async def crowd(leave: bool) -> list[int]:
        guests = Guests(door)
        if leave:
            guests.leave.set()
        visits = [asyncio.create_task(guests.visit(number)) for number in range(5)]
        await rest(20)
        if leave:
            await asyncio.gather(*visits)
        return guests.came

    assert asyncio.run(crowd(leave=False)) == [0]
    rounds.seconds = 0.0
    assert asyncio.run(crowd(leave=True)) == list(range(5))


async def test_a_crowd_is_not_held_up_by_garbage_of_before_and_leaves_the_collector_as_it_was(rounds: Rounds) -> None:
    assert not gc.get_freeze_count()
    guests = Guests(AdmissionControl())
    visits = [asyncio.create_task(guests.visit(number)) for number in range(CROWD)]
    await rest(10 + CROWD)
    assert gc.get_freeze_count() > 1_000
    guests.leave.set()
    await asyncio.gather(*visits)
    assert not gc.get_freeze_count()


async def test_what_somebody_else_froze_stays_frozen(rounds: Rounds) -> None:
    gc.freeze()
    try:
        guests = Guests(AdmissionControl())
        guests.leave.set()
        await asyncio.gather(*(guests.visit(number) for number in range(2 * CROWD)))
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
