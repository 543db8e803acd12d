"""Processes: an executor whose workers are processes of this machine."""

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
    """An executor whose workers are processes of this machine, by default one for each core."""

    def __init__(self, workers: int | None = None) -> None:
        super().__init__()
        self._size = workers or os.cpu_count() or 1

    async def ready(self) -> int:
        return self._size

    def start_worker(self) -> Worker:
        return _Process()


class _Process:
    """A Python process that reads jobs from its standard input and writes answers to its standard output.

    `multiprocessing` is not used, as it would run the user's script again. The process ends when its input ends.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from seedbed.parallel.processes import serve; serve()"]
        path = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C goes to the parent alone, which ends its workers
        )
        self._numbers = itertools.count()
        self._jobs: dict[int, Future[bytes]] = {}
        self._outbox: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_gone = False
        for loop in (self._send, self._receive):
            threading.Thread(target=loop, daemon=True).start()

    def start(self, job: bytes) -> Future[bytes]:
        answer: Future[bytes] = Future()
        with self._lock:
            if self._is_gone:
                answer.set_exception(self._loss())
            else:
                number = next(self._numbers)
                self._jobs[number] = answer
                self._outbox.put((number, job))
        return answer

    def cancel(self, job: Future[bytes]) -> None:
        with self._lock:
            number = next((number for number, each in self._jobs.items() if each is job), None)
        if number is not None:
            self._outbox.put((number, b""))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _send(self) -> None:
        assert self._process.stdin
        with suppress(OSError), self._process.stdin as pipe:
            while message := self._outbox.get():
                _write(pipe, *message)

    def _receive(self) -> None:
        assert self._process.stdout
        with self._process.stdout as pipe:
            for number, answer in _messages(pipe):
                with self._lock:
                    job = self._jobs.pop(number)
                job.set_result(answer)
        self.end()  # it may only have closed its output
        with self._lock:
            self._is_gone = True
            jobs = [*self._jobs.values()]
        self._outbox.put(None)
        for job in jobs:
            job.set_exception(self._loss())

    def _loss(self) -> WorkerLost:
        return WorkerLost(f"process {self._process.pid}, which ended with {self._process.returncode}")


def serve() -> None:
    """Do the jobs that come on the standard input until it ends."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the work prints must not mix with the answers
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    asyncio.run(_serve(source, sink))


async def _serve(source: IO[bytes], sink: IO[bytes]) -> None:
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
            _write(sink, number, b"" if job.cancelled() else job.result())

    def listen() -> None:
        for message in _messages(source):
            loop.call_soon_threadsafe(take, *message)
        loop.call_soon_threadsafe(over.set)
        time.sleep(GRACE_SECONDS)
        os._exit(1)  # some work does not stop

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
    """Each number with its text, until the pipe ends, possibly in the middle of a message."""
    while len(head := pipe.read(_HEAD.size)) == _HEAD.size:
        number, size = _HEAD.unpack(head)
        text = pipe.read(size)
        if len(text) < size:
            return
        yield number, text
