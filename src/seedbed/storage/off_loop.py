"""Off loop: calls of a store in threads of their own, so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

AT_ONCE = 8
"""How many calls wait for a store at a time. None of them takes a thread from tools, or from looking up addresses."""

_threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="seedbed-store")


async def off_loop(work: Callable[Parameters, Result], /, *args: Parameters.args, **named: Parameters.kwargs) -> Result:
    """The result of work with a store, done in another thread."""
    call = partial(copy_context().run, work, *args, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads, call)


def _after_fork() -> None:
    """A forked child has none of the threads."""
    global _threads
    _threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="seedbed-store")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
