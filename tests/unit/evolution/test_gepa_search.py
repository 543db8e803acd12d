"""GEPA, by its own package, inside a search of ours."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from driven import Driven, playbook
from test_reflection import editor

from model_server import Answer
from seedbed.errors import BudgetSpent, PlaybookError, SeedbedError, SettingsError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.evaluators import FunctionEvaluator
from seedbed.evolution.evolve import evolve
from seedbed.evolution.learning.lessons import PoorCase
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.optimizers.external.gepa import GEPA
from seedbed.evolution.optimizers.portfolio import Portfolio
from seedbed.evolution.optimizers.registry import SearchInputs
from seedbed.evolution.plan import Plan
from seedbed.evolution.pool import Pool
from seedbed.evolution.protocols import Offer, Performs, Search
from seedbed.evolution.searches import Evolution
from seedbed.playbooks.genes import Gene
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.testing import OptimizerContract
from seedbed.testing.optimizer import BANK, Make

WORDS = ("alpha", "beta", "gamma", "delta")
READ = Dataset(tuple(Task(f"r{n}", {"n": str(n)}, WORDS[n % 4]) for n in range(8)))
DECIDING = Dataset(tuple(Task(f"s{n}", {"n": str(n)}, WORDS[n % 4]) for n in range(12)))


def proposed(
    parent: Playbook, gene: Gene, poor: Sequence[PoorCase], lessons: Sequence[object], chance: np.random.Generator
) -> list[str]:
    """Whatever failed, another sentence will do."""
    return [f"{gene.value} {chance.choice(BANK)}"]


def answering(
    parent: Playbook, gene: Gene, poor: Sequence[PoorCase], lessons: Sequence[object], chance: np.random.Generator
) -> list[str]:
    """The word that a task wanted which failed."""
    return [f"{gene.value} Say {poor[0].task.expected}."] if gene.path == "roles.agent.system" else []


def score(found: Playbook, task: Task, replicate: int) -> float:
    return float(str(task.expected) in found.roles["agent"].system)


class TestContract(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda means: GEPA(propose=proposed)


class TestContractWithMerging(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        return lambda means: GEPA(propose=proposed, merge=True, batch=2)


class TestContractBesideOthers(OptimizerContract):
    @pytest.fixture
    def make(self) -> Make:
        def made(means: SearchInputs) -> Portfolio:
            return Portfolio({"best_of": BestOf(operators=means.operators(), brood=2), "gepa": GEPA(propose=proposed)})

        return made


async def searched(optimizer: Any, runs: int = 300, scoring: Any = score) -> Evolution:
    store = MemoryStore()
    plan = Plan(start=playbook(), select=DECIDING, reflect=READ, optimizer=optimizer, budget=Budget(runs=runs))
    return await evolve(plan, FunctionEvaluator(scoring, store, "ann"), Library(store, "ann"), because="test")


async def test_it_finds_what_failing_tasks_want_and_stops_when_nothing_fails_any_more() -> None:
    found = await searched(GEPA(propose=answering))
    best = found.pool.playbooks[found.pool.place(found.best)]
    assert all(word in best.roles["agent"].system for word in WORDS)
    assert found.ended == "the optimizer had nothing more to offer"


async def test_who_proposes_sees_only_tasks_that_may_be_read_and_that_failed() -> None:
    seen: list[PoorCase] = []

    def watching(parent: Playbook, gene: Gene, poor: Sequence[PoorCase], *more: Any) -> list[str]:
        seen.extend(poor)
        return answering(parent, gene, poor, *more)

    await searched(GEPA(propose=watching))
    assert seen
    assert {each.task.id[0] for each in seen} == {"r"}
    assert {each.score for each in seen} == {0.0}


async def test_each_candidate_names_its_parent_and_what_was_edited() -> None:
    found = await searched(GEPA(propose=answering))
    first = found.pool.playbooks[1]
    assert found.pool.parents[1] == (found.start,)
    assert found.pool.how[1] == "edited roles.agent.system"
    assert first.digest in {parent for each in found.pool.parents[2:] for parent in each}


async def test_a_proposal_that_lost_its_placeholder_is_never_paid_for() -> None:
    def losing(parent: Playbook, gene: Gene, *more: Any) -> list[str]:
        return ["Say something."]

    start = playbook(locked=["roles.agent.system"])
    store = MemoryStore()
    plan = Plan(start=start, select=DECIDING, reflect=READ, optimizer=GEPA(propose=losing), budget=Budget(runs=100))
    found = await evolve(plan, FunctionEvaluator(score, store, "ann"), Library(store, "ann"), because="test")
    assert len(found.pool) == 1


async def test_a_proposer_that_raises_ends_the_search() -> None:
    def broken(*given: Any) -> list[str]:
        raise ValueError("no idea")

    with pytest.raises(ValueError, match="no idea"):
        await searched(GEPA(propose=broken))


async def test_proposals_may_take_their_time() -> None:
    async def later(*given: Any) -> list[str]:
        await asyncio.sleep(0)
        return answering(*given)

    assert (await searched(GEPA(propose=later))).improved


class Models:
    """A search in which a model writes, on one task to read that only the word alpha can do."""

    def __init__(self, perform: Performs) -> None:
        start = playbook(locked=["steps"])
        self.driven = Driven(BestOf(()), start, lambda found, task: float("alpha" in found.roles["agent"].system))
        self.optimizer = GEPA()
        self.optimizer.begin(Search(start, self.driven.search.reflect, self.driven.pool, perform=perform))

    async def step(self) -> Sequence[Offer]:
        offers = await self.optimizer.ask()
        await self.optimizer.tell(self.driven.pay(offers))
        return offers


async def test_a_model_is_shown_what_failed_and_writes_the_texts() -> None:
    with editor(lambda request: Answer("Like this:\n```\nBe brief. Say alpha.\n```")) as (perform, asked):
        models = Models(perform)
        first, second = await models.step(), await models.step()
    assert [offer.playbook for offer in first] == [models.driven.start]
    assert [offer.playbook.roles["agent"].system for offer in second] == ["Be brief. Say alpha."]
    assert "Be brief." in asked[0]
    assert "score 0" in asked[0]


async def test_an_answer_that_was_cut_is_never_paid_for() -> None:
    answers = iter([Answer("```\nBe brief and alpha", finish_reason="length"), Answer("```\nSay alpha.\n```")])
    with editor(lambda request: next(answers)) as (perform, _):
        models = Models(perform)
        offers = [*await models.step(), *await models.step()]
    assert [offer.playbook.roles["agent"].system for offer in offers] == ["Be brief.", "Say alpha."]


async def test_a_model_that_finds_no_money_left_ends_the_search() -> None:
    async def perform(name: str, by: Playbook, inputs: Any) -> Any:
        raise BudgetSpent("nothing left")

    models = Models(perform)
    await models.step()
    with pytest.raises(BudgetSpent):
        await models.step()
    assert list(await models.optimizer.ask()) == []


def threads_during(found: set[threading.Thread]) -> Any:
    """A score that looks which threads of GEPA are new."""
    before = {*threading.enumerate()}

    def scoring(*given: Any) -> float:
        found.update(each for each in {*threading.enumerate()} - before if each.name == "seedbed-gepa")
        return score(*given)

    return scoring


async def test_its_thread_ends_when_it_is_closed() -> None:
    threads: set[threading.Thread] = set()
    optimizer = GEPA(propose=answering)
    await searched(optimizer, 40, threads_during(threads))
    optimizer.close()
    assert_over(threads)


async def test_its_thread_ends_when_nobody_can_ask_any_more() -> None:
    threads: set[threading.Thread] = set()
    await searched(GEPA(propose=answering), 40, threads_during(threads))
    gc.collect()
    assert_over(threads)


async def test_its_thread_ends_when_a_proposal_is_cancelled() -> None:
    threads: set[threading.Thread] = set()
    proposing = asyncio.Event()

    async def forever(*given: Any) -> list[str]:
        proposing.set()
        await asyncio.Event().wait()
        return []

    optimizer = GEPA(propose=forever)
    search = asyncio.create_task(searched(optimizer, 40, threads_during(threads)))
    await proposing.wait()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert_over(threads)
    assert list(await optimizer.ask()) == []


def assert_over(threads: set[threading.Thread]) -> None:
    assert threads
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gepa", None)
    search = Search(playbook(), READ.tasks, Pool([], []))
    with pytest.raises(SettingsError, match=r"Run: pip install 'seedbed\[gepa\]'"):
        GEPA(propose=answering).begin(search)


@pytest.mark.parametrize(
    ("start", "tasks", "told"),
    [
        (playbook(locked=["roles", "steps"]), READ.tasks, "no text that may evolve"),
        (playbook(), (), "no tasks"),
        (playbook(), READ.tasks, "no model to ask"),
    ],
)
def test_what_it_cannot_search_from_is_said_at_once(start: Playbook, tasks: Sequence[Task], told: str) -> None:
    with pytest.raises((PlaybookError, SettingsError), match=told) as caught:
        GEPA().begin(Search(start, tasks, Pool([], [])))
    assert isinstance(caught.value, SeedbedError)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="batch"):
        GEPA(batch=0)
