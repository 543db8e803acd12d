from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from seedbed.parallel import in_order


@pytest.fixture(autouse=True)
async def complaints() -> AsyncIterator[list[dict[str, Any]]]:
    """What the event loop would print about lost tasks and lost errors: nothing, after any test here."""
    heard: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(context))
    yield heard
    gc.collect()
    await asyncio.sleep(0)
    assert heard == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


class Bench:
    """Work that ends when the test says so, and tells what is under way."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.most = 0
        self.started: list[int] = []
        self.cancelled: list[int] = []
        self._gates: dict[int, asyncio.Future[int]] = {}

    async def __call__(self, item: int) -> int:
        self.started.append(item)
        self.running.add(item)
        self.most = max(self.most, len(self.running))
        self._gates[item] = asyncio.get_running_loop().create_future()
        try:
            return await self._gates[item]
        except asyncio.CancelledError:
            self.cancelled.append(item)
            raise
        finally:
            self.running.discard(item)

    def finish(self, item: int) -> None:
        self._gates[item].set_result(item * 10)

    def fail(self, item: int, wrong: BaseException) -> None:
        self._gates[item].set_exception(wrong)


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_results_come_in_the_order_of_the_items_whatever_order_they_finish_in() -> None:
    bench = Bench()
    results = in_order(range(4), bench, at_once=4)
    first = asyncio.ensure_future(anext(results))
    await settle()
    for item in (3, 1, 2):
        bench.finish(item)
        await settle()
        assert not first.done()
    bench.finish(0)
    assert await first == 0
    assert [result async for result in results] == [10, 20, 30]


async def test_never_more_than_the_bound_are_under_way() -> None:
    bench = Bench()
    read: list[int] = []

    async def read_all() -> None:
        read.extend([result async for result in in_order(range(30), bench, at_once=3)])

    reader = asyncio.ensure_future(read_all())
    rng = random.Random(7)
    while not reader.done():
        await settle()
        if bench.running:
            bench.finish(rng.choice(sorted(bench.running)))
        await settle()
    assert bench.most == 3
    assert read == [item * 10 for item in range(30)]


async def test_finished_results_that_wait_for_their_turn_count_against_the_bound() -> None:
    """Else one slow item would let all the others be paid for before the reader can say stop."""
    bench = Bench()
    results = in_order(range(10), bench, at_once=3)
    first = asyncio.ensure_future(anext(results))
    await settle()
    bench.finish(1)
    bench.finish(2)
    await settle()
    assert bench.started == [0, 1, 2]
    bench.finish(0)
    await first
    await results.aclose()


async def test_items_are_taken_only_when_there_is_room_for_them() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    async def work(item: int) -> int:
        return item

    async with aclosing(in_order(items(), work, at_once=2)) as results:
        assert await anext(results) == 0
        assert len(taken) <= 3


async def test_no_items_give_no_results() -> None:
    assert [result async for result in in_order([], Bench(), at_once=3)] == []


async def test_with_a_bound_of_one_everything_happens_one_after_another() -> None:
    happened: list[str] = []

    async def work(item: int) -> int:
        happened.append(f"start {item}")
        await settle()
        happened.append(f"end {item}")
        return item

    assert [result async for result in in_order(range(3), work, at_once=1)] == [0, 1, 2]
    assert happened == ["start 0", "end 0", "start 1", "end 1", "start 2", "end 2"]


async def test_leaving_early_cancels_what_is_under_way_before_going_on() -> None:
    bench = Bench()
    async with aclosing(in_order(range(10), bench, at_once=4)) as results:
        reading = asyncio.ensure_future(anext(results))
        await settle()
        bench.finish(0)
        assert await reading == 0
    assert bench.running == set()
    assert bench.cancelled == [1, 2, 3]


async def test_leaving_waits_for_what_cleans_up_after_itself() -> None:
    cleaned: list[int] = []

    async def work(item: int) -> int:
        try:
            if item:
                await asyncio.get_running_loop().create_future()
            return item
        finally:
            await settle()
            cleaned.append(item)

    async with aclosing(in_order(range(3), work, at_once=3)) as results:
        assert await anext(results) == 0
    assert sorted(cleaned) == [0, 1, 2]


async def test_an_error_is_raised_in_its_turn_and_cancels_the_rest() -> None:
    bench = Bench()
    read: list[int] = []

    async def read_all() -> None:
        async for result in in_order(range(10), bench, at_once=3):
            read.append(result)

    reader = asyncio.ensure_future(read_all())
    await settle()
    bench.fail(1, ValueError("no luck"))
    await settle()
    assert not reader.done()
    bench.finish(0)
    with pytest.raises(ValueError, match="no luck"):
        await reader
    assert read == [0]
    assert bench.running == set()
    assert bench.started == [0, 1, 2]


async def test_a_second_error_behind_the_first_is_not_lost_noisily() -> None:
    bench = Bench()
    reading = asyncio.ensure_future(anext(in_order(range(3), bench, at_once=3)))
    await settle()
    bench.fail(2, RuntimeError("also"))
    bench.fail(0, ValueError("first"))
    with pytest.raises(ValueError, match="first"):
        await reading


async def test_an_error_among_the_items_cancels_what_is_under_way() -> None:
    bench = Bench()

    def items() -> Iterator[int]:
        yield 0
        raise LookupError("no more")

    with pytest.raises(LookupError):
        await anext(in_order(items(), bench, at_once=3))
    assert bench.running == set()


async def test_an_error_of_the_reader_cancels_what_is_under_way() -> None:
    bench = Bench()

    async def read() -> None:
        async with aclosing(in_order(range(5), bench, at_once=3)) as results:
            async for _ in results:
                raise LookupError("the reader's own")

    reader = asyncio.ensure_future(read())
    await settle()
    bench.finish(0)
    with pytest.raises(LookupError):
        await reader
    assert bench.running == set()


async def test_cancelling_the_reader_cancels_everything_under_way() -> None:
    bench = Bench()

    async def read() -> None:
        async with aclosing(in_order(range(5), bench, at_once=3)) as results:
            async for _ in results:
                pass

    reader = asyncio.ensure_future(read())
    await settle()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert bench.cancelled == [0, 1, 2]
    assert bench.started == [0, 1, 2]


async def test_one_that_is_slow_to_stop_does_not_keep_the_others_going() -> None:
    began, stopped, let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(number: int) -> None:
        try:
            if number == 1:
                began.set()
            await asyncio.Event().wait()
        finally:
            if number == 1:
                stopped.set()
            else:
                await let_go.wait()

    async def read() -> None:
        async with aclosing(in_order(range(2), work, at_once=2)) as results:
            async for _ in results:
                pass

    reader = asyncio.ensure_future(read())
    await began.wait()
    reader.cancel()
    await asyncio.wait_for(stopped.wait(), 10)
    let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await reader
