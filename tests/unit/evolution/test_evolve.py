from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from loop_samples import ORACLE, Doorkeeper, agent, bench, count, numbers

from seedbed.errors import BudgetSpent, PlaybookError, QuotaSpent
from seedbed.evaluation.dataset import Dataset, Task
from seedbed.evaluation.evaluate import Cell
from seedbed.evaluation.metrics import ExactMatch
from seedbed.evolution.best_of import BestOf
from seedbed.evolution.evolve import Evolution, Optimizer, evolve
from seedbed.evolution.variation import reworded
from seedbed.experiments.held_out import evolved_on
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

TEN = numbers(10)
START = agent("[0-2]")
WORDS = ["[0-1]", "[0-6]", "[0-4]"]
CANDIDATES = list(reworded(START, "roles.agent.system", WORDS))


async def evolved(store: MemoryStore, optimizer: Optimizer | None = None, **given: Any) -> Evolution:
    about: dict[str, Any] = {"because": "try other words", **given}
    its_bench = about.pop("bench", None) or bench(store)
    search = optimizer or BestOf(CANDIDATES)
    return await evolve(START, TEN, ExactMatch(), search, its_bench, Library(store, "ada"), **about)


# What is kept


async def test_the_best_on_the_tasks_is_the_result_and_all_scores_are_told() -> None:
    found = await evolved(MemoryStore())
    assert found.best == CANDIDATES[1].digest
    assert found.start.interval.mean == 0.3
    assert [(card.playbook, card.interval.mean) for card in found.tried] == [
        (candidate.digest, mean) for candidate, mean in zip(CANDIDATES, (0.2, 0.7, 0.5), strict=True)
    ]


async def test_every_candidate_is_kept_as_a_child_of_the_start_good_or_not() -> None:
    store = MemoryStore()
    await evolved(store)
    library = Library(store, "eve")
    children = library.children(START.digest)
    assert [entry.digest for entry in children] == [candidate.digest for candidate in CANDIDATES]
    assert {(entry.how, entry.because, entry.by) for entry in children} == {("evolved", "try other words", "ada")}
    assert [library.get(entry.digest) for entry in children] == CANDIDATES
    assert library.entry(START.digest).parents == ()


async def test_what_a_search_found_is_a_fact() -> None:
    store = MemoryStore()
    found = await evolved(store)
    (fact,) = store.facts(Query(kind="evolution"))
    assert (fact.subject, fact.by, fact.value) == (found.best, "ada", 0.7)
    assert fact.body["start"] == START.digest
    assert fact.body["tried"] == {card.playbook: card.interval.mean for card in found.tried}
    assert Dataset.from_content(store.get(fact.body["dataset"])) == TEN


async def test_a_search_again_pays_nothing_and_finds_the_same() -> None:
    store = MemoryStore()
    first = await evolved(store)
    again = await evolved(store)
    assert again.best == first.best
    assert count(store, "run") == 40
    assert count(store, "evolution") == 1


# Which is best


async def test_a_tie_goes_to_the_start() -> None:
    equal = agent("[3-5]")
    assert (await evolved(MemoryStore(), BestOf([equal]))).best == START.digest


async def test_among_equal_candidates_the_first_wins() -> None:
    found = await evolved(MemoryStore(), BestOf([agent("[0-4]"), agent("[5-9]")]))
    assert found.best == agent("[0-4]").digest


async def test_if_all_are_worse_the_start_is_the_result() -> None:
    assert (await evolved(MemoryStore(), BestOf([agent("x"), agent("0")]))).best == START.digest


async def test_nothing_offered_leaves_the_start() -> None:
    found = await evolved(MemoryStore(), BestOf([]))
    assert (found.best, found.tried) == (START.digest, ())


async def test_the_start_offered_again_is_no_child_of_itself() -> None:
    store = MemoryStore()
    found = await evolved(store, BestOf([START]))
    assert found.best == START.digest
    assert Library(store, "ada").children(START.digest) == []
    assert count(store, "run") == 10


async def test_nobody_wins_by_failing_at_the_tasks_that_are_hard() -> None:
    """One answer, and that right, is a mean of 1: but of ten tasks it did one."""
    fragile = Playbook.from_document(
        {"program": "loop_samples:answer", "roles": {"agent": {"model": "patchy", "system": ".*"}}}
    )
    store = MemoryStore()
    found = await evolved(store, BestOf([fragile]), bench=two_models(store))
    (card,) = found.tried
    assert (card.interval.mean, len(card.scored)) == (1.0, 1)
    assert found.best == START.digest


async def test_if_nothing_can_be_scored_the_start_is_the_result() -> None:
    store = MemoryStore()
    silent = {"use": "scripted", "args": {"replies": []}}
    found = await evolved(store, bench=bench(store, oracle=silent))
    assert found.best == START.digest
    assert all(not card.scored for card in (found.start, *found.tried))


def two_models(store: MemoryStore) -> Any:
    patchy = {"use": "scripted", "args": {"replies": {"^0$": "hm"}}}
    return bench(store, models={"oracle": ORACLE, "patchy": patchy})


# The optimizer


class Climber:
    """Knows one number more each time, for as long as that is better."""

    def __init__(self) -> None:
        self.known = 2
        self.heard: list[list[float | None]] = []

    async def ask(self) -> Sequence[Playbook]:
        self.known += 1
        stuck = len(self.heard) > 1 and sum(map(bool, self.heard[-1])) <= sum(map(bool, self.heard[-2]))
        return [] if stuck else [agent(f"[0-{min(self.known, 6)}]")]

    async def tell(self, cells: Sequence[Cell]) -> None:
        self.heard.append([cell.value for cell in cells])


async def test_an_optimizer_is_asked_until_it_has_no_more_and_told_the_cells_of_each() -> None:
    climber = Climber()
    found = await evolved(MemoryStore(), climber)
    assert found.best == agent("[0-6]").digest
    assert [sum(map(bool, heard)) for heard in climber.heard] == [4, 5, 6, 7, 7]
    assert [list(heard) for heard in climber.heard] == [[cell.value for cell in card.cells] for card in found.tried]


async def test_the_watcher_is_told_every_cell_with_its_playbook() -> None:
    told: list[tuple[str, str]] = []
    await evolved(MemoryStore(), watch=lambda playbook, cell: told.append((playbook.digest, cell.task)))
    assert told == [(each.digest, task.id) for each in (START, *CANDIDATES) for task in TEN]


def test_no_variant_of_a_locked_gene_can_be_offered() -> None:
    locked = agent("[0-2]", locked=["roles.agent.system"])
    with pytest.raises(PlaybookError):
        BestOf(reworded(locked, "roles.agent.system", WORDS))


# Which tasks were seen


async def test_whatever_was_tried_was_chosen_on_those_tasks_and_nothing_else_was() -> None:
    store = MemoryStore()
    library = Library(store, "ada")
    bystander = library.keep(agent("z"), because="never tried")
    await evolved(store)
    for candidate in CANDIDATES:
        assert evolved_on(store, candidate.digest) == {TEN.digest}
    assert evolved_on(store, START.digest) == set()
    assert evolved_on(store, bystander) == set()


async def test_a_start_that_won_was_chosen_on_those_tasks_too() -> None:
    store = MemoryStore()
    await evolved(store, BestOf([agent("x")]))
    assert evolved_on(store, START.digest) == {TEN.digest}


async def test_every_dataset_a_playbook_was_tried_on_counts() -> None:
    store = MemoryStore()
    await evolved(store)
    others = numbers(10, first=10)
    await evolve(
        START, others, ExactMatch(), BestOf(CANDIDATES), bench(store), Library(store, "ada"), because="other tasks"
    )
    assert evolved_on(store, CANDIDATES[0].digest) == {TEN.digest, others.digest}


# Interrupted


async def test_an_interrupted_search_keeps_what_it_paid_and_what_it_looked_at_and_goes_on() -> None:
    store = MemoryStore()
    door = Doorkeeper()
    work = asyncio.ensure_future(evolved(store, bench=bench(store, door)))
    for _ in range(23):
        await door.let_go_on(min)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert count(store, "cell") == 23
    assert count(store, "evolution") == 0
    seen = [evolved_on(store, candidate.digest) for candidate in CANDIDATES]
    assert seen == [{TEN.digest}, {TEN.digest}, set()]
    assert store.get(TEN.digest) == TEN.content()
    assert (await evolved(store)).best == CANDIDATES[1].digest
    assert count(store, "run") == 40


async def test_a_spent_budget_ends_a_search_and_what_was_paid_stays() -> None:
    store = MemoryStore()
    left = iter(range(15))

    async def pay(playbook: Playbook, task: Task, seed: int) -> None:
        if next(left, None) is None:
            raise QuotaSpent("no more than 15 runs")

    with pytest.raises(BudgetSpent):
        await evolved(store, bench=bench(store, pay))
    assert count(store, "cell") == 15
