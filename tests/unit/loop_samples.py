"""A small world to turn the loop in: tasks with answers, agents that know some of them, and a bench to try them on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from seedbed.evaluation.context import EvaluationContext
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.allocation import Uniform
from seedbed.evolution.evaluators import RunEvaluator
from seedbed.evolution.evolve import evolve
from seedbed.evolution.plan import Plan
from seedbed.evolution.protocols import Optimizer
from seedbed.evolution.searches import Evolution
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof.attempts import AttemptTerms
from seedbed.models.cards import Registry
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.spending.ledger import Ledger
from seedbed.spending.quota import Spending
from seedbed.stage.runner import Runner
from seedbed.stage.stage import Stage
from seedbed.storage.store import Query, Store

ORACLE = {"use": "scripted", "args": {"replies": {".": "hm"}}, "usd_per_million": [0, 1_000_000]}
"""Says one word, whatever it is asked, for a dollar."""

CONFIRMING = Comparing(attempts=AttemptTerms())
"""How a workspace compares with what a channel serves."""

Before = Callable[[Playbook, Task, int], Awaitable[None]]


def numbers(size: int, first: int = 0) -> Dataset:
    """Tasks t0, t1, …: say the number."""
    return Dataset(tuple(Task(f"t{n}", {"n": n}, str(n)) for n in range(first, first + size)))


def agent(known: str, **more: Any) -> Playbook:
    """One that knows the numbers which match `known`."""
    role = {"model": "oracle", "system": known}
    return Playbook.from_document({"program": "loop_samples:answer", "roles": {"agent": role}, **more})


async def answer(task: Mapping[str, Any], stage: Stage) -> str:
    reply = await stage.ask("agent", str(task["n"]))
    known = re.fullmatch(stage.playbook.roles["agent"].system, str(task["n"]))
    return str(task["n"]) if known else reply.text


def bench(
    store: Store,
    before: Before | None = None,
    *,
    at_once: int = 8,
    oracle: Mapping[str, Any] = ORACLE,
    models: Mapping[str, Any] | None = None,
    identity: str = "oracle 1",
) -> EvaluationContext:
    """A bench whose runs are real; `before` is called at the beginning of each."""
    settings = Settings(by="ada", models=dict(models or {"oracle": oracle}))
    runner = Runner(settings, store, Library(store, "ada"), Registry(settings.models), Spending(settings, store))

    async def performed(run: str, playbook: Playbook, task: Task, seed: int, ledger: Ledger) -> Run:
        if before:
            await before(playbook, task, seed)
        return await runner.perform_once(run, playbook, dict(task.inputs), seed, ledger=ledger)

    return EvaluationContext(store, performed, lambda _: {"oracle": identity}, "ada", at_once)


async def searched(
    start: Playbook, tasks: Dataset, optimizer: Optimizer, its_bench: EvaluationContext, **given: Any
) -> Evolution:
    """A search of ada's by exact matches, with every task deciding and every candidate tried on all of them."""
    because = given.pop("because", "a search")
    watch = given.pop("watch", None)
    plan = Plan(start=start, select=tasks, optimizer=optimizer, **{"allocation": Uniform(), **given})
    library = Library(its_bench.store, "ada")
    return await evolve(plan, RunEvaluator(its_bench, [ExactMatch()]), library, because=because, on_event=watch)


def count(store: Store, kind: str) -> int:
    return sum(1 for _ in store.facts(Query(kind=kind)))


async def until_stored(store: Store, kind: str, number: int) -> None:
    """Wait until so many facts of a kind are stored, which takes a thread of the journal its time."""
    for _ in range(5000):
        if count(store, kind) >= number:
            break
        await asyncio.sleep(0.001)
    assert count(store, kind) == number


class Doorkeeper:
    """Holds every run at its beginning until a test lets it go on; tells who waits and how many at most did."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[str, str], asyncio.Future[None]] = {}
        self.most = 0

    async def __call__(self, playbook: Playbook, task: Task, seed: int) -> None:
        name = (playbook.digest, task.id)
        self.waiting[name] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.waiting))
        try:
            await self.waiting[name]
        finally:
            del self.waiting[name]

    async def let_go_on(self, choose: Callable[[list[tuple[str, str]]], tuple[str, str]]) -> None:
        """Let one of those that wait go on, and everything happen that then can."""
        await settle()
        for _ in range(500):  # known cells are looked up in a thread, which takes its own time
            if self.waiting:
                break
            await asyncio.sleep(0.001)
        if self.waiting:
            self.waiting[choose(list(self.waiting))].set_result(None)
        await settle()


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(50):
        await asyncio.sleep(0)
