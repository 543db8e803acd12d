"""Scores of seedbed's own metrics are computed again from the recorded outputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_samples import agent, bench, numbers

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evaluation.metrics.weighted import Weighted
from seedbed.experiments.proof.scores import check_scores
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json

SOME, EXACT = agent("[0-4]|1."), ExactMatch().identity


async def scored(store: MemoryStore) -> list[Cell]:
    return list((await evaluate(SOME, numbers(12), [ExactMatch()], bench(store))).cells)


async def test_scores_that_follow_are_found_right() -> None:
    store = MemoryStore()
    assert check_scores(store, EXACT, numbers(12), await scored(store)) == []


async def test_a_score_that_does_not_follow_is_named() -> None:
    store = MemoryStore()
    first, *others = await scored(store)
    cells = [replace(first, value=1 - (first.value or 0)), *others]
    [problem] = check_scores(store, EXACT, numbers(12), cells) or []
    assert (problem.path, problem.expected) == (f"cell {first.key}", f"{first.value}, by its run")


async def test_a_part_of_a_sum_that_does_not_follow_is_named() -> None:
    reward, store = Weighted({"exact_match": 0.5, "finished": 0.5}), MemoryStore()
    first, *others = (await evaluate(SOME, numbers(12), [reward], bench(store))).cells
    assert check_scores(store, reward.identity, numbers(12), [first, *others]) == []
    [problem] = check_scores(store, reward.identity, numbers(12), [replace(first, value=0.25), *others]) or []
    assert problem.expected == f"{first.value}, by its run"


async def test_a_run_that_is_gone_is_named() -> None:
    cells = await scored(MemoryStore())
    assert len(check_scores(MemoryStore(), EXACT, numbers(12), cells) or ()) == len(cells)


@pytest.mark.parametrize(
    "identity", [{"judge": "b2:1"}, {"metric": "my own", "source": "b2:2"}, {"metric": "regex", "version": 1}]
)
async def test_what_cannot_be_computed_again_is_not(identity: Json) -> None:
    store = MemoryStore()
    assert check_scores(store, identity, numbers(12), await scored(store)) is None
