"""What processes do beyond the contract of executors, which tests/contracts/test_executor.py holds them to."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from seedbed.errors import SettingsError
from seedbed.parallel import Loop, executor, worker_pool
from seedbed.parallel.processes import Processes
from seedbed.parallel.ray import Ray
from seedbed.testing.executor import until


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes(2)
    yield made
    made.close()


async def pid(_: object) -> int:
    await asyncio.sleep(0.05)
    return os.getpid()


async def printing(text: str) -> str:
    print(text, flush=True)  # noqa: T201 - as the work of others may
    os.write(1, text.encode())
    return text


async def stubborn(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


async def waiting(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    await asyncio.sleep(600)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("loop", Loop),
        ("processes", Processes),
        ("3", Processes),
        (3, Processes),
        ("ray", Ray),
        ("ray://head:10001", Ray),
        ("ray:10.0.0.1:6379", Ray),
    ],
)
def test_an_executor_is_called_by_its_name(named: str | int, kind: type) -> None:
    assert type(executor(named)) is kind


@pytest.mark.parametrize("named", ["", "threads", 0, -1, "2.5", "rays", "ray:", "99999", True])
def test_another_name_is_refused(named: str | int) -> None:
    with pytest.raises(SettingsError, match=r"parallel: found .*; expected where work is done\. Give loop, processes"):
        executor(named)


async def test_no_more_are_started_than_asked_for(processes: Processes) -> None:
    assert len({*await asyncio.gather(*(processes.do(pid, n) for n in range(20)))}) == 2


async def test_what_the_work_prints_is_no_answer(processes: Processes) -> None:
    assert await processes.do(printing, "hello") == "hello"
    assert await processes.do(printing, "again") == "again"


async def test_work_that_does_not_let_go_is_ended_with_its_worker(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "GRACE_SECONDS", 0.2)
    doing = asyncio.ensure_future(processes.do(stubborn, str(tmp_path)))
    await until(lambda: [*tmp_path.iterdir()])
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    (worker,) = tmp_path.iterdir()
    assert not is_running(int(worker.name))
    assert await processes.do(pid, 1) != int(worker.name)


MINE = """
import asyncio
from seedbed.parallel import executor

class Mine: ...

executor("2").packed(Mine(), "metrics")
"""


class OutOfTouch:
    """A worker whose answers do not come back, though it may be at its work."""

    is_ended = False

    def start(self, job: bytes) -> Future[bytes]:
        told: Future[bytes] = Future()
        told.set_exception(worker_pool.WorkerLost("no way there"))
        return told

    def cancel(self, job: Future[bytes]) -> None: ...

    def end(self) -> None:
        self.is_ended = True


async def test_a_worker_that_we_lost_touch_with_is_ended_before_others_do_its_work() -> None:
    worker = OutOfTouch()

    class OneWorker(worker_pool.WorkerPool):
        async def ready(self) -> int:
            return 1

        def start_worker(self) -> worker_pool.Worker:
            return worker

    with pytest.raises(worker_pool.WorkerLost):
        await OneWorker().do(pid, None)
    assert worker.is_ended


def test_what_stands_in_the_script_itself_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", MINE], capture_output=True, text=True)
    assert "metrics: found a value that cannot be sent to another process" in done.stderr
    assert "Mine is in the script itself" in done.stderr
    assert "Define it at the top of a module" in done.stderr


STARTER = """
import asyncio, sys
from test_worker_pool_of_processes import waiting
from seedbed.parallel.processes import Processes

asyncio.run(Processes(1).do(waiting, sys.argv[1]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
async def test_workers_end_with_the_one_who_started_them(tmp_path: Path, how: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], env=environment, stderr=subprocess.DEVNULL
    ) as starter:
        await until(lambda: [*tmp_path.iterdir()])
        starter.send_signal(how)
    (worker,) = tmp_path.iterdir()
    await until(lambda: not is_running(int(worker.name)))
