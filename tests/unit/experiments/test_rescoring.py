"""Scores of seedbed's own metrics are computed again from the recorded outputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_samples import agent, bench, numbers

from seedbed.evaluation.cells import Cell
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evaluation.metrics.registry import by_name
from seedbed.experiments.proof.rescoring import built_in, rescore
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Json

SOME = agent("[0-4]|1.")


async def scored(store: MemoryStore) -> list[Cell]:
    card = await evaluate(SOME, numbers(12), [ExactMatch()], bench(store))
    return list(card.cells)


async def test_scores_that_follow_are_found_right_even_within_a_loop() -> None:
    store = MemoryStore()
    assert rescore(store, ExactMatch(), numbers(12), await scored(store)) == []


async def test_a_score_that_does_not_follow_is_named() -> None:
    store = MemoryStore()
    first, *others = await scored(store)
    [problem] = rescore(store, ExactMatch(), numbers(12), [replace(first, value=1 - (first.value or 0)), *others])
    assert problem.path == f"cell {first.key}"
    assert problem.expected.endswith("by the recorded output")


async def test_a_run_that_is_gone_is_named() -> None:
    cells = await scored(MemoryStore())
    assert len(rescore(MemoryStore(), ExactMatch(), numbers(12), cells)) == len(cells)


@pytest.mark.parametrize("name", ["exact_match", {"numeric": {"tolerance": 0.5}}, "contains"])
def test_a_built_in_metric_is_found_by_its_identity(name: str | Json) -> None:
    metric = by_name(name)
    assert built_in(metric.identity) == metric


@pytest.mark.parametrize(
    "identity",
    [
        {"judge": "b2:1"},
        {"metric": "my own", "source": "b2:2"},
        {"metric": "exact_match", "version": 99},
        {"metric": "numeric", "version": 1, "options": {"no": 1}},
    ],
)
def test_what_is_not_built_in_is_not_called(identity: Json) -> None:
    assert built_in(identity) is None
