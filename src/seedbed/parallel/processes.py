"""Processes: work is done by processes of this machine."""

from __future__ import annotations

import asyncio
import itertools
import os
import queue
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import IO

from seedbed.parallel.worker_pool import GRACE_SECONDS, Worker, WorkerLost, WorkerPool, answer


class Processes(WorkerPool):
    """Work is done by processes of this machine, as many as it has cores unless told otherwise."""

    def __init__(self, workers: int | None = None) -> None:
        super().__init__()
        self._size = workers or os.cpu_count() or 1

    async def ready(self) -> int:
        return self._size

    def hired(self) -> Worker:
        return _Process()


class _Process:
    """A Python that is told jobs on its standard input and answers on its standard output.

    It is no child of `multiprocessing`, which would run the user's script again. When its input ends, so does it.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from seedbed.parallel.processes import serve; serve()"]
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the one who asked; he tells his workers
        )
        self._numbers = itertools.count()
        self._jobs: dict[int, Future[bytes]] = {}
        self._told: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_gone = False
        for talk in (self._tell, self._listen):
            threading.Thread(target=talk, daemon=True).start()

    def start(self, job: bytes) -> Future[bytes]:
        answer: Future[bytes] = Future()
        with self._lock:
            if self._is_gone:
                answer.set_exception(self._loss())
            else:
                number = next(self._numbers)
                self._jobs[number] = answer
                self._told.put((number, job))
        return answer

    def call_off(self, job: Future[bytes]) -> None:
        with self._lock:
            number = next((number for number, each in self._jobs.items() if each is job), None)
        if number is not None:
            self._told.put((number, b""))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _tell(self) -> None:
        assert self._process.stdin
        with suppress(OSError), self._process.stdin as pipe:
            while message := self._told.get():
                _write(pipe, *message)

    def _listen(self) -> None:
        assert self._process.stdout
        with self._process.stdout as pipe:
            for number, answer in _messages(pipe):
                with self._lock:
                    job = self._jobs.pop(number)
                job.set_result(answer)
        self.end()  # it may have closed its output only; and nobody may take it to be alive from here on
        with self._lock:
            self._is_gone = True
            jobs = [*self._jobs.values()]
        self._told.put(None)
        for job in jobs:
            job.set_exception(self._loss())

    def _loss(self) -> WorkerLost:
        return WorkerLost(f"process {self._process.pid}, which ended with {self._process.returncode}")


def serve() -> None:
    """Do the jobs that come on the standard input until it ends."""
    told, tell = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the work prints is no answer
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    asyncio.run(_served(told, tell))


async def _served(told: IO[bytes], tell: IO[bytes]) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    jobs: dict[int, asyncio.Task[bytes]] = {}

    def take(number: int, job: bytes) -> None:
        if job:
            jobs[number] = loop.create_task(answer(job))
            jobs[number].add_done_callback(partial(ended, number))
        elif number in jobs:
            jobs[number].cancel()

    def ended(number: int, job: asyncio.Task[bytes]) -> None:
        del jobs[number]
        with suppress(BrokenPipeError):
            _write(tell, number, b"" if job.cancelled() else job.result())

    def listen() -> None:
        for message in _messages(told):
            loop.call_soon_threadsafe(take, *message)
        loop.call_soon_threadsafe(over.set)
        time.sleep(GRACE_SECONDS)
        os._exit(1)  # something does not let go

    threading.Thread(target=listen, daemon=True).start()
    await over.wait()
    left = [*jobs.values()]
    for job in left:
        job.cancel()
    await asyncio.gather(*left, return_exceptions=True)


_HEAD = struct.Struct("<QQ")


def _write(pipe: IO[bytes], number: int, text: bytes) -> None:
    pipe.write(_HEAD.pack(number, len(text)) + text)
    pipe.flush()


def _messages(pipe: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each number with its text, until the pipe ends, be it in the middle of one."""
    while len(head := pipe.read(_HEAD.size)) == _HEAD.size:
        number, size = _HEAD.unpack(head)
        text = pipe.read(size)
        if len(text) < size:
            return
        yield number, text
