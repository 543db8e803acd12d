from __future__ import annotations

import pytest
from loop_samples import agent, bench, count, numbers

from seedbed.errors import SeedbedError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.candidates import compare_many
from seedbed.storage.memory import MemoryStore

BASE = agent("[0-4]|1.")
GOOD, BEST, SAME, BAD = agent("[0-9]|[1-3]."), agent(".*"), agent("[0-4]|1.|99"), agent("x")


async def test_the_best_comes_first_and_only_those_that_are_better_are_called_so() -> None:
    store = MemoryStore()
    ranking = await compare_many(BASE, [SAME, BEST, BAD, GOOD], numbers(60), ExactMatch(), bench(store))
    assert ranking.control == "holm"
    assert [place.verdict.candidate for place in ranking.places[:2]] == [BEST.digest, GOOD.digest]
    assert [place.better for place in ranking.places] == [True, True, False, False]
    assert all(place.verdict.alpha == 0.05 / 4 for place in ranking.places)
    assert all(place.adjusted <= 0.05 for place in ranking.places if place.better)


async def test_the_baseline_is_paid_once() -> None:
    store = MemoryStore()
    await compare_many(BASE, [SAME, BAD], numbers(20), ExactMatch(), bench(store))
    assert count(store, "run") <= 3 * 20


async def test_more_than_ten_share_a_rate_of_false_ones_among_those_called_better() -> None:
    others = [agent(f"[0-4]|1.|{90 + n}") for n in range(10)]
    ranking = await compare_many(BASE, [*others, BEST], numbers(60), ExactMatch(), bench(MemoryStore()))
    assert ranking.control == "e-bh"
    assert [place.verdict.candidate for place in ranking.places if place.better] == [BEST.digest]
    assert {place.verdict.rule for place in ranking.places} == {"betting"}


async def test_one_alone_or_one_twice_is_refused() -> None:
    for candidates in ([BEST], [BEST, BEST], []):
        with pytest.raises(SeedbedError, match="expected at least two, each once"):
            await compare_many(BASE, candidates, numbers(10), ExactMatch(), bench(MemoryStore()))
