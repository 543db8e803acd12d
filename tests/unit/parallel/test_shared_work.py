from __future__ import annotations

import asyncio

import pytest

from seedbed.parallel.shared_work import SharedWork


async def test_work_that_others_wait_for_goes_on_and_work_that_nobody_waits_for_is_cancelled() -> None:
    stopped = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    shared = SharedWork(work())
    one, other = (asyncio.ensure_future(shared.result()) for _ in range(2))
    await asyncio.sleep(0)
    for waiting in (one, other):
        assert not stopped.is_set()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert stopped.is_set()
