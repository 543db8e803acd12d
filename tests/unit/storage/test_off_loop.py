"""Work with a store leaves the event loop free, and has threads of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import ContextVar

import pytest

from seedbed.storage.off_loop import AT_ONCE, off_loop

word = ContextVar("word", default="")


async def test_work_is_done_in_another_thread_in_the_same_context() -> None:
    word.set("here")
    assert await off_loop(lambda: (word.get(), threading.get_ident() != main)) == ("here", True)
    with pytest.raises(KeyError):
        await off_loop({}.__getitem__, "gone")


main = threading.get_ident()


async def test_however_much_waits_for_a_store_other_threads_are_free() -> None:
    there = threading.Event()
    waiting = [asyncio.ensure_future(off_loop(there.wait)) for _ in range(3 * AT_ONCE)]
    assert await asyncio.to_thread(str, 7) == "7"
    there.set()
    assert all(await asyncio.gather(*waiting))


async def test_a_forked_process_has_threads_of_its_own() -> None:
    await off_loop(str, 7)
    if not (child := os.fork()):
        try:
            os._exit(asyncio.Runner().run(off_loop(int, "7")))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
