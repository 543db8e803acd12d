"""Executor: where work is done. WorkerPool: an executor whose workers are other processes."""

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
"""How long cancelled work may take to stop before its worker is ended."""

WorkFunction = Callable[[Any], Awaitable[Any]]
"""An async function of a module, which other processes import by its name."""


class WorkerLost(Exception):
    """A worker ended before it gave its result."""


class Executor(Protocol):
    """Where work is done. It may be used from several event loops, one after the other."""

    async def ready(self) -> int:
        """Prepare the workers, and return how many there are."""

    async def do(self, work: WorkFunction, chunk: object) -> Any:
        """The result of the work, or the error it raised. Raises WorkerLost.

        Cancelling it cancels the work, and waits until the work has stopped or its worker has ended.
        """

    def packed(self, value: object, name: str) -> bytes:
        """The value, pickled for a worker. Raises SettingsError, which names it, if that is impossible."""

    def close(self) -> None:
        """End the workers and lose their current work. They start again when they are needed."""


class Loop:
    """An executor that does all work in the caller's event loop."""

    async def ready(self) -> int:
        return 1

    async def do(self, work: WorkFunction, chunk: object) -> Any:
        return await work(chunk)

    def packed(self, value: object, name: str) -> bytes:
        return packed(value, name)

    def close(self) -> None:
        pass


class Worker(Protocol):
    """One process that does work."""

    def start(self, job: bytes) -> Future[bytes]:
        """Send a job. The future gets its answer, which is empty if it was cancelled, or WorkerLost."""

    def cancel(self, job: Future[bytes]) -> None: ...

    def end(self) -> None: ...


class WorkerPool(ABC):
    """An executor that starts workers when it needs them, and replaces those that are lost."""

    def __init__(self) -> None:
        self._busy: dict[Worker, int] = {}

    @abstractmethod
    async def ready(self) -> int:
        """How many workers there can be."""

    @abstractmethod
    def start_worker(self) -> Worker: ...

    def packed(self, value: object, name: str) -> bytes:
        return packed(value, name)

    async def do(self, work: WorkFunction, chunk: object) -> Any:
        size = await self.ready()
        job = self.packed((work, chunk), "work")
        worker = min(self._busy, key=self._busy.__getitem__, default=None)
        if worker is None or (self._busy[worker] and len(self._busy) < size):
            worker = self.start_worker()
            self._busy[worker] = 0
        self._busy[worker] += 1
        try:
            answer = await self._answered(worker, worker.start(job))
        except WorkerLost:
            self._busy.pop(worker, None)
            worker.end()  # it may still run, and its work goes to others now
            raise
        finally:
            if worker in self._busy:
                self._busy[worker] -= 1
        if not answer:
            raise RunError("the worker cancelled the work; expected its result")
        went_well, result = pickle.loads(answer)  # noqa: S301 - from a process that we started
        if went_well:
            return result
        raise result

    async def _answered(self, worker: Worker, job: Future[bytes]) -> bytes:
        answer = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            worker.cancel(job)
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
        pickled = pickle.dumps(value)
        _WorkerUnpickler(io.BytesIO(pickled)).load()
    except Exception as wrong:
        raise unsendable(name, wrong) from wrong
    return pickled


def unsendable(name: str, wrong: Exception) -> SettingsError:
    actual = f"a value that cannot be sent to another process ({type(wrong).__name__}: {wrong})"
    remedy = "Define it at the top of a module that can be imported, or work in this loop."
    return SettingsError([Problem(name, actual, "one that can be pickled", remedy)])


class _WorkerUnpickler(pickle.Unpickler):
    """Unpickles as a worker would, which has another __main__."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            raise pickle.UnpicklingError(f"{name} is in the script itself")
        return super().find_class(module, name)


async def answer(job: bytes) -> bytes:
    """Do a job in a worker: whether it went well, and the result or the error."""
    try:
        work, chunk = pickle.loads(job)  # noqa: S301 - from the process that started this one
        return pickle.dumps((True, await work(chunk)))
    except Exception as wrong:  # noqa: BLE001 - the caller raises it again
        try:
            pickled = pickle.dumps((False, wrong))
            pickle.loads(pickled)  # noqa: S301 - pickled one line above
        except Exception:  # noqa: BLE001 - not every error can be pickled
            return pickle.dumps((False, RunError(f"{type(wrong).__name__}: {wrong}")))
        return pickled
