"""The contract of an executor. To test yours, inherit ExecutorContract and add one fixture:

class TestMyExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self): ...
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from seedbed.errors import ModelUnavailable, Problem, RunError, SettingsError
from seedbed.parallel import Executor, WorkerLost, in_chunks, in_order

NumberedFolder = tuple[str, int]
"""A folder that the test and the worker both see, and a number."""


class ExecutorContract:
    """The promises of an executor, one test each. One without worker processes sets `may_lose = False`."""

    may_lose = True

    async def test_the_result_is_what_the_work_gave(self, executor: Executor) -> None:
        assert await executor.ready() >= 1
        value = {"text": "é\0" * 70_000, "numbers": [1, 2.5, None]}  # more than a pipe holds
        assert await executor.do(_same, value) == value

    async def test_many_are_done_at_the_same_time_and_each_gets_its_own(self, executor: Executor) -> None:
        assert await asyncio.gather(*(executor.do(_same, number) for number in range(100))) == list(range(100))

    @pytest.mark.parametrize("size", [0, 1, 7, 300])
    async def test_results_come_in_order_whatever_is_done_first(self, executor: Executor, size: int) -> None:
        sleeps = [random.Random(5).random() / 50 for _ in range(size)]
        got = await _all(executor, _slept, list(enumerate(sleeps)))
        assert got == list(range(size))

    @pytest.mark.parametrize(
        "wrong",
        [
            SettingsError([Problem("a", "b", "c")], "file"),
            ModelUnavailable("gone", "rate", 3.0),
            LookupError("nobody", 7),
        ],
    )
    async def test_an_error_of_the_work_is_raised_as_it_was(self, executor: Executor, wrong: Exception) -> None:
        with pytest.raises(type(wrong)) as caught:
            await executor.do(_raised, wrong)
        assert (caught.value.args, str(caught.value)) == (wrong.args, str(wrong))
        assert await executor.do(_same, 1) == 1

    async def test_an_error_that_cannot_be_pickled_is_reported(self, executor: Executor) -> None:
        with pytest.raises(Exception, match="not pickled"):
            await executor.do(_raised_odd, None)

    async def test_an_error_ends_the_work_on_the_others(self, executor: Executor, tmp_path: Path) -> None:
        with pytest.raises(LookupError):
            await _all(executor, _fails_or_waits, [(str(tmp_path), number) for number in range(40)])
        assert _names(tmp_path, "began") == _names(tmp_path, "stopped")

    async def test_work_that_is_cancelled_has_stopped_when_the_cancellation_is_over(
        self, executor: Executor, tmp_path: Path
    ) -> None:
        doing = asyncio.ensure_future(executor.do(_waits, (str(tmp_path), 1)))
        await until(lambda: (tmp_path / "began-1").exists())
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing
        assert (tmp_path / "stopped-1").exists()
        assert await executor.do(_same, 1) == 1

    async def test_a_value_that_cannot_be_sent_to_a_worker_is_named(self, executor: Executor) -> None:
        with pytest.raises(SettingsError, match=r"metrics: found a value that cannot be sent .*pickle"):
            executor.packed(threading.Lock(), "metrics")

    async def test_one_that_was_closed_starts_again(self, executor: Executor) -> None:
        assert await executor.do(_same, 1) == 1
        executor.close()
        executor.close()
        assert await executor.do(_same, 2) == 2

    def test_one_event_loop_after_the_other_can_use_it(self, executor: Executor) -> None:
        for number in range(3):
            assert asyncio.run(executor.do(_same, number)) == number

    async def test_a_worker_that_is_lost_is_reported(self, executor: Executor, tmp_path: Path) -> None:
        self._expect_workers()
        with pytest.raises(WorkerLost, match=r"."):
            await executor.do(_dies, (str(tmp_path), 1))
        assert await executor.do(_same, 1) == 1

    async def test_what_a_lost_worker_had_is_done_by_others(self, executor: Executor, tmp_path: Path) -> None:
        self._expect_workers()
        got = await _all(executor, _dies_the_first_time, [(str(tmp_path), number) for number in range(60)])
        assert got == list(range(60))
        assert (tmp_path / "died").exists()

    async def test_a_chunk_that_loses_every_worker_is_named(self, executor: Executor, tmp_path: Path) -> None:
        self._expect_workers()
        with pytest.raises(RunError, match=r"a chunk of \d+, .*found that 4 workers were lost with it"):
            await _all(executor, _dies, [(str(tmp_path), 1)])
        assert await executor.do(_same, 1) == 1

    def _expect_workers(self) -> None:
        if not self.may_lose:
            pytest.skip("it has no workers to lose")


async def until(true: Any) -> None:
    """Wait until something is true that another process does."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def _all(executor: Executor, work: Any, items: Sequence[Any]) -> list[Any]:
    async def chunk(some: Sequence[Any]) -> tuple[Sequence[Any], float]:
        results, seconds = await executor.do(_each, (work, list(some)))
        return results, seconds

    return [result async for result in in_chunks(items, chunk, workers=await executor.ready())]


def _names(folder: Path, beginning: str) -> set[str]:
    return {path.name.partition("-")[2] for path in folder.glob(f"{beginning}-*")}


# The work of the tests


async def _each(chunk: tuple[Any, list[Any]]) -> tuple[list[Any], float]:
    work, items = chunk
    began = time.perf_counter()
    async with aclosing(in_order(items, work, at_once=len(items))) as coming:
        results = [result async for result in coming]
    return results, time.perf_counter() - began


async def _same(value: object) -> object:
    return value


async def _slept(item: tuple[int, float]) -> int:
    number, seconds = item
    await asyncio.sleep(seconds)
    return number


async def _raised(wrong: Exception) -> None:
    raise wrong


class _Odd(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("it stays here")


async def _raised_odd(_: object) -> None:
    raise _Odd("not pickled")


async def _waits(item: NumberedFolder) -> None:
    folder, number = Path(item[0]), item[1]
    (folder / f"began-{number}").touch()
    try:
        await asyncio.Event().wait()
    finally:
        (folder / f"stopped-{number}").touch()


async def _fails_or_waits(item: NumberedFolder) -> None:
    if item[1] == 0:  # an error is raised when it is its turn
        await asyncio.sleep(0.2)
        raise LookupError("the first")
    await _waits(item)


async def _dies(_: NumberedFolder) -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


async def _dies_the_first_time(item: NumberedFolder) -> int:
    folder, number = item
    if number == 30:
        try:
            (Path(folder) / "died").touch(exist_ok=False)
        except FileExistsError:
            return number
        await _dies(item)
    await asyncio.sleep(0.005)
    return number
