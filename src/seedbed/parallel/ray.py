"""Ray: work is done on a cluster, or by the Ray of this machine."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from seedbed.errors import Problem, SettingsError
from seedbed.parallel.worker_pool import Worker, WorkerLost, WorkerPool, answer, unsendable


class Ray(WorkerPool):
    """Work is done by actors of a Ray cluster, one for each of its cores unless told otherwise.

    The address is one that `ray.init` takes. Without one it is that of RAY_ADDRESS, or a Ray of our own is started on
    this machine, which ends when it is closed.
    """

    def __init__(self, address: str = "", workers: int | None = None) -> None:
        super().__init__()
        self._address = address or os.environ.get("RAY_ADDRESS", "")
        self._size = workers
        self._is_ours = False

    async def ready(self) -> int:
        if self._size is None or not _ray().is_initialized():
            self._size = await asyncio.to_thread(self._connected)
        return self._size

    def _connected(self) -> int:
        ray = _ray()
        if not ray.is_initialized():
            quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
            if self._address:
                ray.init(self._address, **quiet)
            else:
                ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
            self._is_ours = True
        return self._size or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def packed(self, value: object, name: str) -> bytes:
        try:
            return bytes(_ray().cloudpickle.dumps(value))  # also what is defined in the script itself
        except Exception as wrong:
            raise unsendable(name, wrong) from wrong

    def hired(self) -> Worker:
        return _Actor()

    def close(self) -> None:
        super().close()
        if self._is_ours:
            self._is_ours = False
            _ray().shutdown()


class _Actor:
    """A worker of the cluster. Its claim is small, so that one that is lost with its node finds a place elsewhere."""

    def __init__(self) -> None:
        how = {"num_cpus": 0.1, "scheduling_strategy": "SPREAD", "max_restarts": 0, "max_concurrency": 1_000}
        self._actor = _ray().remote(_Remote).options(**how).remote([each for each in sys.path if each])
        self._numbers = itertools.count()
        self._jobs: dict[Future[bytes], int] = {}

    def start(self, job: bytes) -> Future[bytes]:
        told: Future[bytes] = Future()
        self._jobs[told] = number = next(self._numbers)
        self._actor.do.remote(number, job).future().add_done_callback(lambda done: self._ended(told, done))
        return told

    def _ended(self, told: Future[bytes], done: Future[bytes]) -> None:
        self._jobs.pop(told, None)
        wrong = done.exception()
        if wrong is None:
            told.set_result(done.result())
        else:  # the actor itself answers errors, so that it is the way there which failed
            told.set_exception(WorkerLost(f"a Ray actor: {str(wrong).partition(chr(10))[0]}"))

    def call_off(self, job: Future[bytes]) -> None:
        # Not by ray.cancel, after which the work may still be going on.
        if (number := self._jobs.get(job)) is not None:
            self._actor.call_off.remote(number)

    def end(self) -> None:
        with suppress(Exception):  # a cluster that is gone has no actors either
            _ray().kill(self._actor)


class _Remote:
    """What an actor is, there."""

    def __init__(self, path: list[str]) -> None:
        sys.path += [each for each in path if each not in sys.path]
        self._jobs: dict[int, asyncio.Task[bytes]] = {}
        self._called_off: set[int] = set()

    async def do(self, number: int, job: bytes) -> bytes:
        """The answer; nothing if it was called off, when it has stopped."""
        if number in self._called_off:
            return b""
        self._jobs[number] = asyncio.ensure_future(answer(job))
        try:
            return await self._jobs[number]
        except asyncio.CancelledError:
            return b""
        finally:
            del self._jobs[number]

    async def call_off(self, number: int) -> None:
        self._called_off.add(number)  # it may come before what it calls off
        if number in self._jobs:
            self._jobs[number].cancel()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        remedy = "Run: pip install 'seedbed[ray]'"
        raise SettingsError([Problem("parallel", "no Ray", "it to be installed", remedy)]) from None
    return ray
