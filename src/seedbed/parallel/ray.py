"""Ray: an executor whose workers are actors of a Ray cluster, or of a Ray on this machine."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from seedbed.errors import Problem, SettingsError
from seedbed.parallel.worker_pool import Worker, WorkerLost, WorkerPool, answer, unsendable


class Ray(WorkerPool):
    """An executor whose workers are actors of a Ray cluster, by default one for each of its cores.

    The address is one that `ray.init` takes; default: RAY_ADDRESS, or else a Ray that is started on this machine and
    ended by `close`.
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
            init = partial(ray.init, log_to_driver=False, logging_level=logging.ERROR)
            if self._address:
                init(self._address)
            else:
                init("local", include_dashboard=False, _node_ip_address="127.0.0.1")
            self._is_ours = True
        return self._size or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def packed(self, value: object, name: str) -> bytes:
        try:
            return bytes(_ray().cloudpickle.dumps(value))  # which also takes what the script itself defines
        except Exception as wrong:
            raise unsendable(name, wrong) from wrong

    def start_worker(self) -> Worker:
        return _Actor()

    def close(self) -> None:
        super().close()
        if self._is_ours:
            self._is_ours = False
            _ray().shutdown()


class _Actor:
    """A worker of the cluster. It reserves little CPU, so that another node has room for it if its own is lost."""

    def __init__(self) -> None:
        actor = _ray().remote(_Remote)
        actor = actor.options(num_cpus=0.1, scheduling_strategy="SPREAD", max_restarts=0, max_concurrency=1_000)
        self._actor = actor.remote([each for each in sys.path if each])
        self._numbers = itertools.count()
        self._jobs: dict[Future[bytes], int] = {}

    def start(self, job: bytes) -> Future[bytes]:
        answer: Future[bytes] = Future()
        self._jobs[answer] = number = next(self._numbers)
        self._actor.do.remote(number, job).future().add_done_callback(lambda done: self._ended(answer, done))
        return answer

    def _ended(self, answer: Future[bytes], done: Future[bytes]) -> None:
        self._jobs.pop(answer, None)
        wrong = done.exception()
        if wrong is None:
            answer.set_result(done.result())
        else:  # the actor returns errors of the work as answers, so this one is Ray's
            answer.set_exception(WorkerLost(f"a Ray actor: {str(wrong).partition(chr(10))[0]}"))

    def cancel(self, job: Future[bytes]) -> None:
        # After ray.cancel the work might still go on.
        if (number := self._jobs.get(job)) is not None:
            self._actor.cancel.remote(number)

    def end(self) -> None:
        with suppress(Exception):  # a cluster that is gone has no actors either
            _ray().kill(self._actor)


class _Remote:
    """The actor's own code, which runs on the cluster."""

    def __init__(self, path: list[str]) -> None:
        sys.path += [each for each in path if each not in sys.path]
        self._jobs: dict[int, asyncio.Task[bytes]] = {}
        self._cancelled: set[int] = set()

    async def do(self, number: int, job: bytes) -> bytes:
        """The answer; empty if the job was cancelled."""
        if number in self._cancelled:
            return b""
        self._jobs[number] = asyncio.ensure_future(answer(job))
        try:
            return await self._jobs[number]
        except asyncio.CancelledError:
            return b""
        finally:
            del self._jobs[number]

    async def cancel(self, number: int) -> None:
        self._cancelled.add(number)  # this may arrive before the job does
        if number in self._jobs:
            self._jobs[number].cancel()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        remedy = "Run: pip install 'seedbed[ray]'"
        raise SettingsError([Problem("parallel", "no package ray", "it to be installed", remedy)]) from None
    return ray
