from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from loop_samples import ORACLE, Doorkeeper, agent, bench, count, numbers, searched, until_stored
from search_samples import planned, right, tasks

from seedbed.errors import BudgetSpent, DatasetError, PlaybookError, QuotaSpent, RunError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evolution.evaluators import FunctionEvaluator
from seedbed.evolution.evolve import SearchProgress, evolve
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.protocols import Offer, Optimizer, Search
from seedbed.evolution.searches import Evolution
from seedbed.evolution.variation.operators import reword
from seedbed.experiments.proof.held_out import evolved_on
from seedbed.playbooks.library import Library
from seedbed.playbooks.playbook import Playbook
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json, Query
from seedbed.testing.optimizer import outcome_of

TEN = numbers(10)
START = agent("[0-2]")
WORDS = ["[0-1]", "[0-6]", "[0-4]"]
CANDIDATES = list(reword(START, "roles.agent.system", WORDS))


async def evolved(store: MemoryStore, optimizer: Optimizer | None = None, **given: Any) -> Evolution:
    its_bench = given.pop("bench", None) or bench(store)
    about = {"because": "try other words", **given}
    return await searched(START, TEN, optimizer or BestOf(CANDIDATES), its_bench, **about)


def scores(found: Evolution) -> dict[str, float]:
    """The plain mean of each playbook over its tasks."""
    return {each.digest: found.pool.row(place).mean() for place, each in enumerate(found.pool.playbooks)}


# What is kept


async def test_the_best_on_the_tasks_is_the_result_and_all_scores_are_told() -> None:
    found = await evolved(MemoryStore())
    assert found.best == CANDIDATES[1].digest
    means = zip((START, *CANDIDATES), (0.3, 0.2, 0.7, 0.5), strict=True)
    assert scores(found) == pytest.approx({each.digest: mean for each, mean in means})
    assert (found.ended, found.spent["runs"]) == ("the optimizer had nothing more to offer", 40)


async def test_every_candidate_is_kept_as_a_child_of_what_it_grew_from_good_or_not() -> None:
    store = MemoryStore()
    await evolved(store)
    library = Library(store, "eve")
    children = library.children(START.digest)
    assert [entry.digest for entry in children] == [candidate.digest for candidate in CANDIDATES]
    assert {(entry.how, entry.because, entry.by) for entry in children} == {
        ("listed candidate", "try other words", "ada")
    }
    assert [library.get(entry.digest) for entry in children] == CANDIDATES
    assert library.entry(START.digest).parents == ()


async def test_what_a_search_found_is_a_fact_and_so_are_its_plan_and_its_steps() -> None:
    store = MemoryStore()
    found = await evolved(store)
    (fact,) = store.facts(Query(kind="evolution"))
    assert (fact.key, fact.subject, fact.by) == (found.search, found.best, "ada")
    assert fact.value == pytest.approx(found.pool.standing(2).mean)
    assert (fact.body["start"], fact.body["tried"], fact.body["runs"]) == (START.digest, 3, 40)
    assert Dataset.from_content(store.get(fact.body["dataset"])) == TEN
    assert store.get(found.search)["optimizer"]["optimizer"] == "best_of"
    (step,) = store.facts(Query(kind="step", subject=found.search))
    assert step.body["offered"] == [candidate.digest for candidate in CANDIDATES]


async def test_a_search_again_pays_nothing_and_finds_the_same() -> None:
    store = MemoryStore()
    first = await evolved(store)
    again = await evolved(store)
    assert (again.best, again.search, again.spent["runs"]) == (first.best, first.search, 40)
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
    assert (found.best, len(found.pool)) == (START.digest, 1)


async def test_the_start_offered_again_is_no_child_of_itself() -> None:
    store = MemoryStore()
    found = await evolved(store, BestOf([START]))
    assert found.best == START.digest
    assert Library(store, "ada").children(START.digest) == []
    assert len(found.pool) == 1


async def test_nobody_wins_by_failing_at_the_tasks_that_are_hard() -> None:
    """One answer, and that right, is a mean of 1: but of ten tasks it did one."""
    fragile = Playbook.from_document(
        {"program": "loop_samples:answer", "roles": {"agent": {"model": "patchy", "system": ".*"}}}
    )
    store = MemoryStore()
    found = await evolved(store, BestOf([fragile]), bench=two_models(store))
    assert scores(found)[fragile.digest] == pytest.approx(0.1)
    assert found.best == START.digest


async def test_if_nothing_can_be_scored_the_reason_is_told() -> None:
    store = MemoryStore()
    silent = {"use": "scripted", "args": {"replies": []}}
    with pytest.raises(RunError, match=r"^the script is over"):
        await evolved(store, bench=bench(store, oracle=silent))
    assert "evolution" not in store.kinds()


def two_models(store: MemoryStore) -> Any:
    patchy = {"use": "scripted", "args": {"replies": {"^0$": "hm"}}}
    return bench(store, models={"oracle": ORACLE, "patchy": patchy})


# The optimizer


class Climber:
    """Knows one number more each time, for as long as that is better."""

    def __init__(self) -> None:
        self.identity: Json = {"optimizer": "climber"}
        self.known = 2
        self.heard: list[list[float | None]] = []

    def begin(self, search: Search) -> None:
        self.start = search.start

    async def ask(self) -> Sequence[Offer]:
        self.known += 1
        stuck = len(self.heard) > 1 and sum(map(bool, self.heard[-1])) <= sum(map(bool, self.heard[-2]))
        return [] if stuck else [Offer(agent(f"[0-{min(self.known, 6)}]"), (self.start.digest,))]

    async def tell(self, cells: Sequence[Cell]) -> None:
        self.heard.append([cell.value for cell in cells if cell.playbook != self.start.digest])


async def test_an_optimizer_is_asked_until_it_has_no_more_and_told_the_cells_of_each() -> None:
    climber = Climber()
    found = await evolved(MemoryStore(), climber)
    assert found.best == agent("[0-6]").digest
    assert [sum(map(bool, heard)) for heard in climber.heard] == [4, 5, 6, 7, 0]  # the last one is known already
    assert [step.runs for step in found.steps] == [20, 10, 10, 10, 0]


async def test_the_watcher_is_told_of_every_round_and_step() -> None:
    told: list[tuple[int, int, int]] = []

    def watch(now: SearchProgress) -> None:
        told.append((now.account.runs, len(now.steps), now.cells))

    await evolved(MemoryStore(), watch=watch)
    assert told == [(40, 0, 40), (40, 1, 0)]


async def test_it_ends_when_steps_bring_nothing_better_or_when_it_is_good_enough() -> None:
    found = await evolved(MemoryStore(), Climber(), patience=1)
    assert found.ended == "1 steps brought nothing better"
    found = await evolved(MemoryStore(), Climber(), enough=0.45)
    assert (found.ended, found.best) == ("0.45 was enough", agent("[0-4]").digest)


# The budget


async def test_no_run_is_launched_that_the_budget_has_no_room_for() -> None:
    store = MemoryStore()
    found = await evolved(store, Climber(), budget=Budget(runs=33))
    assert (found.ended, found.spent["runs"], count(store, "run")) == ("the budget was spent", 33, 33)
    assert found.best == agent("[0-4]").digest  # what was tried on three tasks is no rival


async def test_runs_that_confirm_are_kept_from_the_beginning() -> None:
    store = MemoryStore()
    found = await evolved(store, Climber(), budget=Budget(runs=60), confirm=numbers(10, first=20))
    assert found.spent["runs"] <= 60
    assert found.confirmed is not None
    assert found.confirmed.tasks == 10
    with pytest.raises(BudgetSpent, match="expected more than the 30 runs that confirm"):
        await evolved(MemoryStore(), Climber(), budget=Budget(runs=30), confirm=numbers(10, first=20))


async def test_what_is_confirmed_is_the_gain_on_tasks_that_nothing_was_chosen_by() -> None:
    found = await evolved(MemoryStore(), confirm=numbers(10, first=20))
    confirmed = found.confirmed
    assert confirmed is not None
    assert (confirmed.gain.mean, confirmed.best_of_n) == (0.0, confirmed.best)  # none of them knows 20
    assert found.optimism > 0


async def test_cells_known_before_the_search_are_free() -> None:
    store = MemoryStore()
    await evolved(store, BestOf(CANDIDATES[:2]))
    found = await evolved(store)
    assert (found.spent["runs"], count(store, "run")) == (10, 40)


def test_no_variant_of_a_locked_gene_can_be_offered() -> None:
    locked = agent("[0-2]", locked=["roles.agent.system"])
    with pytest.raises(PlaybookError):
        BestOf(reword(locked, "roles.agent.system", WORDS))


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
    await searched(START, others, BestOf(CANDIDATES), bench(store))
    assert evolved_on(store, CANDIDATES[0].digest) == {TEN.digest, others.digest}


# Interrupted


async def test_an_interrupted_search_keeps_what_it_paid_and_what_it_looked_at_and_goes_on() -> None:
    store = MemoryStore()
    door = Doorkeeper()
    work = asyncio.ensure_future(evolved(store, bench=bench(store, door)))
    for _ in range(23):
        await door.let_go_on(min)
    await until_stored(store, "cell", 23)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert count(store, "cell") == 23
    assert count(store, "evolution") == 0
    seen = [evolved_on(store, candidate.digest) for candidate in CANDIDATES]
    assert seen == [{TEN.digest}] * 3
    assert store.get(TEN.digest) == TEN.content()
    assert (await evolved(store)).best == CANDIDATES[1].digest
    assert count(store, "run") == 40


async def test_a_spent_quota_interrupts_a_search_and_what_was_paid_stays() -> None:
    store = MemoryStore()
    left = iter(range(15))

    async def pay(playbook: Playbook, task: Task, seed: int) -> None:
        if next(left, None) is None:
            raise QuotaSpent("no more than 15 runs")

    with pytest.raises(QuotaSpent):
        await evolved(store, bench=bench(store, pay))
    assert count(store, "cell") == 15
    assert count(store, "evolution") == 0
    assert (await evolved(store)).spent["runs"] == 40
    assert count(store, "run") == 40


async def test_a_search_with_a_limit_of_time_is_the_same_when_it_is_done_again() -> None:
    """Its steps had their time; else it would be over before it began."""
    store, at = MemoryStore(), [datetime(2026, 1, 1, tzinfo=UTC)]

    def clock() -> datetime:
        at[0] += timedelta(seconds=1)
        return at[0]

    async def found() -> Evolution:
        arena = FunctionEvaluator(right, store, "ann", clock=clock)
        plan = planned(budget=Budget(seconds=100), confirm=tasks(1, "c"))
        return await evolve(plan, arena, Library(store, "ann"), because="x")

    first = await found()
    assert (first.ended, len(first.steps) > 3) == ("the budget was spent", True)
    assert first.confirmed is not None  # by one task, of which no interval can be told, and that is recorded, too
    again = await found()
    assert outcome_of(again) == outcome_of(first)
    assert again.ended == first.ended
    assert count(store, "evolution") == 1


async def test_when_the_money_does_not_last_to_the_end_what_was_found_is_told_all_the_same() -> None:
    """Answers to what confirms are so much dearer that there is not enough for them."""
    store = MemoryStore()
    dear = " ".join(["dear"] * 60)
    oracle = {"use": "scripted", "args": {"replies": {"^..$": dear, ".": "hm"}}, "usd_per_million": [0, 1_000_000]}
    given = {"confirm": numbers(10, first=20), "budget": Budget(usd=200.0), "bench": bench(store, oracle=oracle)}
    found = await evolved(store, **given)
    assert (found.best, found.confirmed) == (CANDIDATES[1].digest, None)
    assert count(store, "evolution") == 1
    assert sum(fact.body["cost_usd"] for fact in store.facts(Query(kind="turn"))) <= 200.0


async def test_tasks_without_any_expected_answer_are_refused_before_anything_is_paid() -> None:
    store = MemoryStore()
    nameless = Dataset(tuple(Task(f"t{n}", {"n": n}) for n in range(10)))
    with pytest.raises(DatasetError, match="10 tasks without `expected`"):
        await searched(START, nameless, BestOf(CANDIDATES), bench(store))
    assert store.kinds() == {}
