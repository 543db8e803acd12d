"""Searches of the past are told as they were, from facts alone."""

from __future__ import annotations

import pytest
from search_samples import START, OtherModels, playbook, right, searched, tasks

from seedbed.errors import NotFound
from seedbed.evaluation.datasets.dataset import Task
from seedbed.evolution.allocation import Uniform
from seedbed.evolution.evaluators import FunctionEvaluator
from seedbed.evolution.evolve import SearchProgress
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS, SearchOptions
from seedbed.evolution.searches import find_search, list_searches, recall_search
from seedbed.playbooks.playbook import Playbook
from seedbed.reports.numbers import number
from seedbed.reports.search.view import SearchView
from seedbed.spending.budget import Budget
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, short

SET = [playbook("Sort the mail. twice"), playbook("Sort the mail. twice briefly")]


class Interrupted(Exception):
    pass


def after(steps: int) -> object:
    def watch(told: SearchProgress) -> None:
        if len(told.steps) == steps:
            raise Interrupted

    return watch


async def test_a_search_is_told_again_as_it_was() -> None:
    store = MemoryStore()
    found = await searched(store, several=True)
    (only,) = list_searches(store)
    again = recall_search(store, only, {"length": "lower"})
    same = ("search", "start", "best", "budget", "spent", "ended", "optimism", "confirmed")
    assert [getattr(again, name) for name in same] == [getattr(found, name) for name in same]
    one, other = SearchView(found), SearchView(again)
    assert (one.sentence, one.changes(), one.front) == (other.sentence, other.changes(), other.front)
    assert one.diversity == other.diversity
    assert [(step.offered, step.runs, step.best, step.score) for step in again.steps] == [
        (step.offered, step.runs, step.best, step.score) for step in found.steps
    ]
    for mine, theirs in zip(one.candidates(), other.candidates(), strict=True):
        assert (mine.playbook, mine.how, mine.parents) == (theirs.playbook, theirs.how, theirs.parents)
        assert {name: (number(s.mean), s.n) for name, s in mine.scores.items()} == {
            name: (number(s.mean), s.n) for name, s in theirs.scores.items()
        }


async def test_the_newest_search_comes_first() -> None:
    store = MemoryStore()
    first = await searched(store, optimizer=BestOf(SET), seed=1)
    second = await searched(store, optimizer=BestOf(SET), seed=2)
    assert [each.search for each in list_searches(store)] == [second.search, first.search]


async def test_a_search_that_was_interrupted_is_told_as_far_as_it_came() -> None:
    store = MemoryStore()
    with pytest.raises(Interrupted):
        await searched(store, watch=after(2))
    (only,) = list_searches(store)
    assert (only.ended, only.end, only.confirmed, len(only.steps)) == ("", None, None, 2)
    found = recall_search(store, only)
    assert found.spent["runs"] == sum(step.runs for step in found.steps) > 0
    summary = SearchView(found)
    assert found.unconfirmed == "The search has not ended."
    assert ("ended", "not yet", "why the search came to an end") in summary.figures


async def test_scores_that_came_later_change_nothing() -> None:
    store = MemoryStore()
    found = await searched(store, confirm=NO_TASKS, budget=Budget(runs=400))
    rows = found.pool.standings()[2]
    half = next(place for place, count in enumerate(rows) if 0 < count < 40)
    once_more = BestOf([found.pool.playbooks[half]])
    await searched(store, confirm=NO_TASKS, optimizer=once_more, allocation=Uniform())
    again = recall_search(store, find_search(store, found.search))
    assert again.pool.standing(half) == found.pool.standing(half)


@pytest.mark.parametrize("arena", [FunctionEvaluator, OtherModels])
async def test_scores_by_another_metric_are_not_mixed_in(arena: type[FunctionEvaluator]) -> None:
    store = MemoryStore()
    await searched(store, several=True, optimizer=BestOf(SET), arena=arena)
    found = await searched(store, optimizer=BestOf(SET), arena=arena)
    again = recall_search(store, find_search(store, found.search))
    assert again.pool.metrics == ["score"]
    assert [again.pool.standing(place) for place in range(3)] == [found.pool.standing(place) for place in range(3)]


async def test_runs_that_failed_count_as_they_did() -> None:
    def crashes(each: Playbook, task: Task, replicate: int) -> float:
        if each.digest == SET[0].digest and int(task.id[1:]) % 2:
            raise ValueError("boom")
        return right(each, task, replicate)

    store = MemoryStore()
    found = await searched(store, optimizer=BestOf(SET), scoring=crashes)
    again = recall_search(store, find_search(store, found.search))
    assert again.pool.standing(1) == found.pool.standing(1)
    assert sum(1 for _ in store.facts(Query(kind="lapse"))) > 0


async def test_a_search_is_found_by_how_its_name_begins() -> None:
    store = MemoryStore()
    found = await searched(store, optimizer=BestOf(SET))
    assert find_search(store, short(found.search)).search == found.search
    assert find_search(store, found.search).search == found.search
    with pytest.raises(NotFound, match=r"is no search of this store; `seedbed search list` shows them"):
        find_search(store, "ffff")
    await searched(store, optimizer=BestOf(SET), confirm=tasks(5, "c"))
    with pytest.raises(NotFound, match="begins several searches"):
        find_search(store, "")


async def test_before_its_first_step_a_search_has_nothing_but_its_start() -> None:
    store = MemoryStore()
    with pytest.raises(Interrupted):
        await searched(store, watch=after(0))
    (only,) = list_searches(store)
    assert (only.best, only.score, only.spent["runs"]) == (START.digest, None, 0)
    assert not recall_search(store, only).improved


async def test_a_search_has_the_options_to_resume_it_with_unless_a_program_has_them() -> None:
    store, options = MemoryStore(), SearchOptions(playbook="a.yaml", dataset="b.jsonl", seed=3)
    by_name = await searched(store, optimizer=BestOf(SET), options=options.to_json())
    in_python = await searched(store, optimizer=BestOf(SET), seed=2)
    assert find_search(store, by_name.search).options == options
    with pytest.raises(NotFound, match=r"was started from Python\. Start it there again"):
        _ = find_search(store, in_python.search).options
