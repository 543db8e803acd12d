"""A surrogate in a search: what it skips, what that saves, and that it says how often it was wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from search_samples import LENGTH, SCORE, luck, tasks

from seedbed.errors import SettingsError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.surrogate import LEAST
from seedbed.evolution.allocation import Allocation, Halving, Pooling, Uniform
from seedbed.evolution.evaluators import FunctionEvaluator, Measure
from seedbed.evolution.evolve import evolve
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import Plan
from seedbed.evolution.protocols import Offer, Search
from seedbed.evolution.searches import Evolution, find_search, recall_search
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.search.report import to_html, to_markdown
from seedbed.reports.search.view import SearchView
from seedbed.spending.budget import Budget
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, Query, Store

HARM = "Guess quickly without checking."
ALLOCATIONS: list[Allocation] = [Halving(), Uniform(), Pooling()]


def book(number: int, warmth: float, more: str = "") -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"agent": {"model": "any", "system": f"Be number {number}. {more}"}},
            "parameters": {"warmth": {"value": warmth, "low": 0, "high": 1}},
        }
    )


START = book(0, 0.5)
MANY = [
    book(number, round(luck("warm", number), 3), HARM if luck("harm", number) < 0.7 else "") for number in range(1, 121)
]
"""Most of them are harmed; of the others the warmest are best."""
FEW = MANY[:72]
"""As many as some are skipped of."""

Scoring = Callable[[Playbook, Task, int], float | Awaitable[float]]


def told_by_genes(each: Playbook, task: Task, replicate: int) -> float:
    skill = 0.3 + 0.5 * each.parameter("warmth") - 0.4 * (HARM in each.roles["agent"].system)
    return float(luck(each.digest, task.id) < skill + 0.3 * (luck(task.id) - 0.5))


class Batches:
    """Offers playbooks a few at a time."""

    def __init__(self, playbooks: Sequence[Playbook], size: int = 12) -> None:
        self._playbooks, self._size = playbooks, size

    @property
    def identity(self) -> Json:
        return {"optimizer": "batches", "size": self._size}

    def begin(self, search: Search) -> None:
        self._left = list(self._playbooks)

    async def ask(self) -> Sequence[Offer]:
        now, self._left = self._left[: self._size], self._left[self._size :]
        return [Offer(each, (START.digest,)) for each in now]

    async def tell(self, cells: Sequence[Cell]) -> None:
        return None


async def searched(
    scoring: Scoring = told_by_genes, into: Store | None = None, metrics: Sequence[Measure] = (SCORE,), **given: Any
) -> Evolution:
    store = into or MemoryStore()
    about = {"optimizer": Batches(MANY), "surrogate": True, "seed": 1, **given}
    plan = Plan(start=START, select=tasks(40, "s"), **about)
    return await evolve(plan, FunctionEvaluator(scoring, store, "ada", metrics), Library(store, "ada"), because="try")


def skipped(found: Evolution) -> Any:
    told = SearchView(found, {"surrogate": True}).skipped
    assert told
    return told


# What it saves


@pytest.mark.parametrize("allocation", ALLOCATIONS, ids=lambda each: each.identity["allocation"])
async def test_the_hopeless_cost_nothing_and_the_winner_is_the_same(allocation: Allocation) -> None:
    plain = await searched(surrogate=False, allocation=allocation)
    found = await searched(allocation=allocation)
    assert found.best == plain.best != START.digest
    assert found.spent["runs"] < 0.6 * plain.spent["runs"]
    assert SearchView(plain).skipped is None
    hopeless = {skip.subject for skip in found.skips}
    assert len(hopeless) > len(MANY) / 2
    audited = {skip.subject for skip in found.skips if skip.body["audited"]}
    for place, each in enumerate(found.pool.playbooks):
        tried = found.pool.standing(place).tasks
        assert tried == (40 if each.digest in audited else 0 if each.digest in hopeless else tried)
        assert each.digest in hopeless or tried > 0
    assert skipped(found).wrong.n == len(audited) > 0


async def test_what_is_offered_all_at_once_is_raced_a_few_at_a_time() -> None:
    found = await searched(optimizer=BestOf(MANY))
    assert len(found.steps) == 1
    assert skipped(found).candidates > len(MANY) / 2


async def test_nothing_is_skipped_before_enough_is_known() -> None:
    found = await searched(optimizer=Batches(MANY[: LEAST - 2], 3))
    assert found.skips == ()
    assert skipped(found).sentence.startswith("No candidate seemed hopeless")


async def test_where_it_foretells_no_better_than_the_mean_nothing_is_skipped() -> None:
    found = await searched(lambda each, task, replicate: float(luck(task.id) < 0.5), optimizer=Batches(MANY[:48]))
    assert found.skips == ()
    assert found.pool.standings()[2].min() > 0


async def test_where_lower_is_better_those_that_seem_to_score_high_are_skipped() -> None:
    lower = Measure(better="lower")
    plain, found = [
        await searched(lambda *of: 1 - told_by_genes(*of), metrics=[lower], surrogate=each, allocation=Halving())
        for each in (False, True)
    ]
    assert found.best == plain.best != START.digest
    assert found.spent["runs"] < 0.6 * plain.spent["runs"]


async def test_a_search_that_finds_nothing_but_hopeless_ones_ends_with_its_budget() -> None:
    class Endless(Batches):
        """After those that something can be learned from, cold and harmed ones for ever."""

        async def ask(self) -> Sequence[Offer]:
            if offers := await super().ask():
                return offers
            self._made = getattr(self, "_made", 1000) + 1
            assert self._made < 2000, "does not end"
            return [Offer(book(self._made, 0.01, HARM))]

    found = await searched(optimizer=Endless(MANY[:48]), budget=Budget(runs=900), allocation=Halving())
    assert found.ended == "the budget was spent"
    told = skipped(found)
    assert told.wrong.n == len({skip.subject for skip in found.skips if skip.body["audited"]}) > 2


async def test_with_several_metrics_it_refuses() -> None:
    with pytest.raises(SettingsError, match="surrogate: found 2 metrics; expected one"):
        await searched(metrics=[SCORE, LENGTH])


# When it is wrong


async def test_if_the_surrogate_is_wrong_the_audit_says_so() -> None:
    """After all that it could learn from, the same harm does good, by chance."""

    def turned(each: Playbook, task: Task, replicate: int) -> float:
        number = int(each.roles["agent"].system.split()[2].rstrip("."))
        if number <= 1000:
            return told_by_genes(each, task, replicate)
        return float(luck(each.digest, task.id) < 0.95)

    later = [book(1000 + number, 0.2, HARM) for number in range(1, 61)]
    found = await searched(turned, optimizer=Batches([*MANY[:48], *later]))
    told = skipped(found)
    assert told.wrong.low > 0
    assert told.wrong.mean > 0
    assert f"skipping was wrong in {told.wrong.mean:.0%} [" in told.sentence
    assert int(found.pool.playbooks[found.pool.place(found.best)].roles["agent"].system.split()[2].rstrip(".")) > 1000


# Told, and told again


async def test_a_report_tells_what_was_skipped_and_how_often_that_was_wrong() -> None:
    store = MemoryStore()
    found = await searched(into=store, optimizer=Batches(FEW), budget=Budget(runs=2000))
    told = skipped(found)
    for report in (to_markdown(SearchView(found)), to_html(SearchView(found))):
        assert "What was skipped" in report
        assert f"{told.candidates:,} of them were skipped" in report
        assert "skipping was wrong in 0% [0%, " in report.replace("\\", "")
    again = recall_search(store, find_search(store, found.search))
    assert [skip.key for skip in again.skips] == [skip.key for skip in found.skips]
    assert SearchView(again).skipped == told
    assert "What was skipped" not in to_markdown(
        SearchView(await searched(surrogate=False, optimizer=Batches(MANY[:12])))
    )


async def test_a_skip_is_a_fact_of_its_search() -> None:
    store = MemoryStore()
    found = await searched(into=store, optimizer=Batches(FEW))
    await searched(into=store, optimizer=Batches(FEW), seed=2)
    own = [fact for fact in store.facts(Query(kind="skip")) if fact.body["search"] == found.search]
    assert [fact.key for fact in own] == [skip.key for skip in found.skips]
    assert len(own) < len(list(store.facts(Query(kind="skip"))))


@pytest.mark.parametrize("allocation", ALLOCATIONS, ids=lambda each: each.identity["allocation"])
async def test_interrupted_anywhere_it_goes_on_to_skip_the_same(tmp_path: Path, allocation: Allocation) -> None:
    class Killed(BaseException):
        pass

    def plan() -> dict[str, Any]:
        return {"optimizer": Batches(FEW), "allocation": allocation, "budget": Budget(runs=1400)}

    whole = await searched(**plan())
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        lives, left = 1, 150

        async def until_killed(each: Playbook, task: Task, replicate: int) -> float:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return told_by_genes(each, task, replicate)

        while True:
            try:
                found = await searched(until_killed, store, **plan())
                break
            except Killed:
                lives, left = lives + 1, 150
        assert len(list(store.facts(Query(kind="skip")))) == len(found.skips)
    assert lives > 3
    assert [skip.key for skip in found.skips] == [skip.key for skip in whole.skips] != []
    assert (found.best, found.spent["runs"], found.search) == (whole.best, whole.spent["runs"], whole.search)
    assert found.pool.table().tobytes() == whole.pool.table().tobytes()
