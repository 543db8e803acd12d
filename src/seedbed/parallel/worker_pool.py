"""Executor: where work is done. Crew: one whose workers are other processes."""

from __future__ import annotations

import asyncio
import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from seedbed.errors import Problem, RunError, SettingsError

GRACE_SECONDS = 5.0
"""How long work that is called off may take to stop before its worker is ended."""

Work = Callable[[Any], Awaitable[Any]]
"""An async function of a module, which other processes import by its name."""


class WorkerLost(Exception):
    """A worker ended before it gave its result."""


class Executor(Protocol):
    """Where work is done. It may be used from several event loops, one after the other."""

    async def ready(self) -> int:
        """Start what has to be, and say how many workers there are."""

    async def do(self, work: Work, chunk: object) -> Any:
        """The result of the work, or the error it raised. Raises WorkerLost.

        When it is cancelled the work is too: it has stopped, or its worker has ended, when the cancellation is over.
        """

    def packed(self, value: object, name: str) -> bytes:
        """A value as it travels to a worker. Raises SettingsError, which calls it by its name, if it cannot."""

    def close(self) -> None:
        """End the workers. What they had under way is lost; they start again when they are needed."""


class Loop:
    """Work is done here, in the event loop of whoever asks."""

    async def ready(self) -> int:
        return 1

    async def do(self, work: Work, chunk: object) -> Any:
        return await work(chunk)

    def packed(self, value: object, name: str) -> bytes:
        return packed(value, name)

    def close(self) -> None:
        pass


class Worker(Protocol):
    """One process that does work."""

    def start(self, job: bytes) -> Future[bytes]:
        """Send a job. The future has its answer, nothing if it was called off, or WorkerLost."""

    def call_off(self, job: Future[bytes]) -> None: ...

    def end(self) -> None: ...


class WorkerPool(ABC):
    """Workers that are started when they are needed, and replaced when they are lost."""

    def __init__(self) -> None:
        self._busy: dict[Worker, int] = {}

    @abstractmethod
    async def ready(self) -> int:
        """How many workers there can be."""

    @abstractmethod
    def hired(self) -> Worker:
        """Another worker."""

    def packed(self, value: object, name: str) -> bytes:
        return packed(value, name)

    async def do(self, work: Work, chunk: object) -> Any:
        size = await self.ready()
        job = self.packed((work, chunk), "work")
        worker = min(self._busy, key=self._busy.__getitem__, default=None)
        if worker is None or (self._busy[worker] and len(self._busy) < size):
            worker = self.hired()
            self._busy[worker] = 0
        self._busy[worker] += 1
        try:
            answer = await self._answered(worker, worker.start(job))
        except WorkerLost:
            self._busy.pop(worker, None)
            worker.end()  # we may only have lost touch, and others do its work from here on
            raise
        finally:
            if worker in self._busy:
                self._busy[worker] -= 1
        if not answer:
            raise RunError("the work was called off where it was done; expected its result")
        went_well, result = pickle.loads(answer)  # noqa: S301 - from a process that we started
        if went_well:
            return result
        raise result

    async def _answered(self, worker: Worker, job: Future[bytes]) -> bytes:
        answer = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            worker.call_off(job)
            try:
                await asyncio.wait([answer], timeout=GRACE_SECONDS)
            finally:
                if not job.done():
                    self._busy.pop(worker, None)
                    worker.end()
            with suppress(WorkerLost):
                await answer
            raise

    def close(self) -> None:
        workers, self._busy = self._busy, {}
        for worker in workers:
            worker.end()


def packed(value: object, name: str) -> bytes:
    try:
        told = pickle.dumps(value)
        _Elsewhere(io.BytesIO(told)).load()
    except Exception as wrong:
        raise unsendable(name, wrong) from wrong
    return told


def unsendable(name: str, wrong: Exception) -> SettingsError:
    found = f"what no other process can be given ({type(wrong).__name__}: {wrong})"
    remedy = "Define it at the top of a module that can be imported, or work in this loop."
    return SettingsError([Problem(name, found, "what can be pickled", remedy)])


class _Elsewhere(pickle.Unpickler):
    """Reads as another process would, which has another __main__."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            raise pickle.UnpicklingError(f"{name} is in the script itself")
        return super().find_class(module, name)


async def answer(job: bytes) -> bytes:
    """What a worker makes of a job: whether it went well, and the result or the error."""
    try:
        work, chunk = pickle.loads(job)  # noqa: S301 - from the process that started this one
        return pickle.dumps((True, await work(chunk)))
    except Exception as wrong:  # noqa: BLE001 - whoever asked for it shall hear of it
        try:
            told = pickle.dumps((False, wrong))
            pickle.loads(told)  # noqa: S301 - pickled one line above
        except Exception:  # noqa: BLE001 - errors of others need not survive the journey
            return pickle.dumps((False, RunError(f"{type(wrong).__name__}: {wrong}")))
        return told
