"""The contract of an optimizer. To test yours, inherit OptimizerContract and add one fixture:

class TestMyOptimizer(OptimizerContract):
    @pytest.fixture
    def make(self): return lambda inputs: MyOptimizer()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest

from seedbed.errors import RunError, SeedbedError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.evaluators import FunctionEvaluator, Measure
from seedbed.evolution.evolve import evolve
from seedbed.evolution.optimizers.registry import SearchInputs
from seedbed.evolution.plan import Plan
from seedbed.evolution.protocols import Offer, Optimizer, Search
from seedbed.evolution.searches import Evolution
from seedbed.playbooks.genes import genes
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.stats.arrays import Direction
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, Query, canonical

Make = Callable[[SearchInputs], Optimizer]

START = Playbook.from_document(
    {
        "roles": {
            "writer": {"model": "fast", "system": "Be kind. Answer the question. Never guess. Say it in one line."},
            "critic": {"model": "fast", "system": "Do not touch this."},
        },
        "steps": [
            {"name": "answer", "role": "writer", "prompt": "Here it is: {question}"},
            {"name": "check", "role": "critic", "sees": ["answer"]},
        ],
        "parameters": {
            "bold": {"value": 0.2, "low": 0.0, "high": 1.0},
            "rounds": {"value": 2, "low": 1, "high": 9, "whole": True},
            "tone": {"value": "plain", "options": ["plain", "warm", "dry"]},
            "confirm_below": {"value": 0.6, "low": 0.0, "high": 1.0},
        },
        "rules": {"never": ["send_money"], "confirm": ["delete_message"]},
        "locked": ["roles.critic.system"],
    }
)
BANK = ("Think step by step.", "Be brief.", "Answer the question. Name your source.")
READ = Dataset(tuple(Task(f"r{n}", {"question": f"Read {n}?"}, f"{n}") for n in range(8)))
DECIDING = Dataset(tuple(Task(f"s{n}", {"question": f"Decide {n}?"}, f"{n}") for n in range(12)))


class World:
    """Scores playbooks by their genes, always the same, and records its `calls`. It dies after `dies_after` of them.

    The instructions of BANK, bold numbers and a warm tone are good; long texts are not. A third of the tasks are
    impossible. If it `fails`, one in `share` calls does.
    """

    def __init__(self, *, fails: bool = False, share: int = 5, dies_after: int | None = None) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self._fails, self._share, self._dies_after = fails, share, dies_after

    def __call__(self, playbook: Playbook, task: Task, replicate: int) -> float:
        self.calls.append((playbook.digest, task.id, replicate))
        if self._dies_after is not None and len(self.calls) > self._dies_after:
            raise asyncio.CancelledError  # as if the process had ended, which must not count as a failed run
        luck = blake2b(f"{playbook.digest}/{task.id}".encode(), digest_size=2).digest()
        if self._fails and luck[1] % self._share == 0:
            raise RunError("it broke down")
        values = genes(playbook)
        text = values["roles.writer.system"].value
        worth = 0.2 + 0.2 * sum(each in text for each in BANK) - len(text) / 2_000
        worth += 0.3 * float(values["parameters.bold"].value) + 0.1 * (values["parameters.tone"].value == "warm")
        return 0.0 if int(task.id[1:]) % 3 == 0 else float(luck[0] / 256 < worth)


class Watched:
    """Wraps an optimizer and collects what is wrong with its offers."""

    def __init__(self, inner: Optimizer) -> None:
        self.inner, self.offered, self.wrong = inner, 0, list[str]()

    @property
    def identity(self) -> Json:
        return self.inner.identity

    def begin(self, search: Search) -> None:
        self._pool = search.pool
        self.inner.begin(search)

    async def ask(self) -> Sequence[Offer]:
        offers = await self.inner.ask()
        self.offered += len(offers)
        digests = [offer.playbook.digest for offer in offers]
        for offer, named in zip(offers, digests, strict=True):
            tried = named in self._pool and self._pool.counts()[self._pool.place(named)].any()
            if offer.tasks is None and (tried or digests.count(named) > 1):
                self.wrong.append(f"{offer.how}: offered twice")
            if not {*(offer.tasks or ())} <= {*self._pool.select, *self._pool.reflect}:
                self.wrong.append(f"{offer.how}: on tasks that are not there")
            if not offer.how.strip():
                self.wrong.append("offered without saying how it was made")
        return offers

    async def tell(self, cells: Sequence[Cell]) -> None:
        await self.inner.tell(cells)


class OptimizerContract:
    """The promises of an optimizer, each tested by small searches."""

    runs = 150
    """The budget of a search."""

    async def search(
        self,
        make: Make,
        world: World,
        store: Any = None,
        *,
        start: Playbook = START,
        better: Direction = "higher",
        **more: Any,
    ) -> Evolution:
        inputs = SearchInputs(start, instructions=BANK, gene="roles.writer.system", tasks=READ.tasks)
        store = MemoryStore() if store is None else store
        plan = Plan(
            start=start, optimizer=make(inputs), select=DECIDING, reflect=READ, budget=Budget(runs=self.runs), seed=7
        )
        evaluator = FunctionEvaluator(world, store, "ann", [Measure(better=better)])
        return await evolve(replace(plan, **more), evaluator, Library(store, "ann"), because="contract")

    def test_its_identity_is_json_and_the_same_for_the_same_settings(self, make: Make) -> None:
        inputs = SearchInputs(START, instructions=BANK, gene="roles.writer.system", tasks=READ.tasks)
        assert canonical(make(inputs).identity) == canonical(make(inputs).identity)
        assert make(inputs).identity["optimizer"]

    async def test_it_offers_something_and_never_more_is_launched_than_the_budget_has(self, make: Make) -> None:
        world = World()
        evolution = await self.search(make, world)
        assert len(evolution.pool) > 1
        assert len(world.calls) == evolution.spent["runs"] <= self.runs
        assert len({*world.calls}) == len(world.calls)

    @pytest.mark.parametrize("runs", [1, 5, 13, 40])
    async def test_a_small_budget_ends_it_and_nothing_else(self, make: Make, runs: int) -> None:
        world = World()
        evolution = await self.search(make, world, budget=Budget(runs=runs))
        assert len(world.calls) == evolution.spent["runs"] <= runs

    async def test_what_it_offers_is_new_unless_it_names_tasks_which_are_there(self, make: Make) -> None:
        watched: list[Watched] = []

        def made(inputs: SearchInputs) -> Optimizer:
            watched.append(Watched(make(inputs)))
            return watched[-1]

        await self.search(made, World())
        assert watched[0].offered
        assert not watched[0].wrong

    async def test_the_same_seed_makes_the_same_search(self, make: Make) -> None:
        one, other = [await self.search(make, World()) for _ in range(2)]
        assert outcome_of(one) == outcome_of(other)

    async def test_after_a_search_it_is_what_it_was_and_can_begin_another(self, make: Make) -> None:
        optimizers: list[Optimizer] = []

        def same(inputs: SearchInputs) -> Optimizer:
            optimizers.append(optimizers[0] if optimizers else make(inputs))
            return optimizers[-1]

        one = await self.search(same, World())
        identity = canonical(optimizers[0].identity)
        other = await self.search(same, World())
        assert outcome_of(one) == outcome_of(other)
        assert one.search == other.search
        assert canonical(optimizers[0].identity) == identity

    async def test_where_lower_is_better_it_searches_downwards(self, make: Make) -> None:
        evolution = await self.search(make, World(), better="lower")
        best = evolution.pool.place(evolution.best)
        assert len(evolution.pool) > 1
        assert np.nanmean(evolution.pool.row(best)) >= np.nanmean(evolution.pool.row(0))
        assert (evolution.pool.table()[~np.isnan(evolution.pool.table())] <= 0).all()

    async def test_where_every_run_fails_for_one_reason_the_search_says_it(self, make: Make) -> None:
        with pytest.raises(SeedbedError, match="it broke down"):
            await self.search(make, World(fails=True, share=1), budget=Budget(runs=60))

    async def test_without_tasks_to_read_it_searches_all_the_same_or_says_so(self, make: Make) -> None:
        world = World()
        try:
            evolution = await self.search(make, world, reflect=Dataset(()))
        except SeedbedError:
            return
        assert len(world.calls) == evolution.spent["runs"] <= self.runs

    async def test_the_result_is_no_worse_than_the_start_where_it_was_tried(self, make: Make) -> None:
        evolution = await self.search(make, World())
        best = evolution.pool.place(evolution.best)
        assert evolution.pool.standing(best).mean >= evolution.pool.standing(0).mean

    async def test_children_have_parents_that_are_known_and_keep_what_is_locked_and_the_rules(self, make: Make) -> None:
        evolution = await self.search(make, World())
        known = {each.digest for each in evolution.pool.playbooks}
        for place, playbook in enumerate(evolution.pool.playbooks):
            assert {*evolution.pool.parents[place]} <= known
            assert playbook.rules == START.rules
            assert playbook.locked == START.locked
            assert playbook.roles["critic"] == START.roles["critic"]
            assert Playbook.from_document(playbook.document()) == playbook

    @pytest.mark.parametrize("calls", [1, 20, 61, 97])
    async def test_a_search_that_was_interrupted_goes_on_as_if_nothing_had_happened(
        self, make: Make, calls: int
    ) -> None:
        whole = await self.search(make, World())
        store, before = MemoryStore(), World(dies_after=calls)
        if calls < whole.spent["runs"]:
            with pytest.raises(asyncio.CancelledError):
                await self.search(make, before, store)
        again = await self.search(make, World(), store)
        assert outcome_of(again) == outcome_of(whole)

    async def test_runs_that_fail_do_not_stop_it(self, make: Make) -> None:
        store = MemoryStore()
        evolution = await self.search(make, World(fails=True), store)
        assert len(evolution.pool) > 1
        assert any(store.facts(Query(kind="lapse")))
        assert outcome_of(await self.search(make, World(fails=True), store)) == outcome_of(evolution)

    async def test_where_nothing_may_change_it_says_so_or_has_nothing_to_offer(self, make: Make) -> None:
        locked = Playbook.from_document({**START.document(), "locked": ["roles", "steps", "demos", "parameters"]})
        try:
            evolution = await self.search(make, World(), start=locked)
        except SeedbedError:
            return
        assert evolution.best == locked.digest
        assert len(evolution.pool) == 1


def outcome_of(evolution: Evolution) -> tuple[Any, ...]:
    """What two equal searches have in common."""
    pool = evolution.pool
    steps = [(step.offered, step.runs, step.best) for step in evolution.steps]
    tables = [pool.table(reflect=reflect).round(9).tolist() for reflect in (False, True)]
    playbooks = [each.digest for each in pool.playbooks]
    return evolution.best, playbooks, pool.parents, repr(tables), steps, evolution.spent["runs"]
