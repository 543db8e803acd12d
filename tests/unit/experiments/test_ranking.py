from __future__ import annotations

import pytest
from loop_samples import agent, bench, count, numbers

from seedbed.errors import SeedbedError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import compare
from seedbed.storage.memory import MemoryStore

BASE = agent("[0-4]|1.")
GOOD, BEST, SAME, BAD = agent("[0-9]|[1-3]."), agent(".*"), agent("[0-4]|1.|99"), agent("x")


async def test_the_best_comes_first_and_only_those_that_are_better_are_called_so() -> None:
    store = MemoryStore()
    verdict = await compare(BASE, [SAME, BEST, BAD, GOOD], numbers(60), ExactMatch(), bench(store))
    ranking = verdict.ranking
    assert ranking
    assert verdict.candidate == BEST.digest
    assert ranking.control == "holm"
    assert [place.verdict.candidate for place in ranking.candidates[:2]] == [BEST.digest, GOOD.digest]
    assert [place.better for place in ranking.candidates] == [True, True, False, False]
    assert all(place.verdict.alpha == 0.05 / 4 for place in ranking.candidates)
    assert all(place.adjusted <= 0.05 for place in ranking.candidates if place.better)


async def test_the_baseline_is_paid_once() -> None:
    store = MemoryStore()
    await compare(BASE, [SAME, BAD], numbers(20), ExactMatch(), bench(store))
    assert count(store, "run") <= 3 * 20


async def test_more_than_ten_share_a_rate_of_false_ones_among_those_called_better() -> None:
    others = [agent(f"[0-4]|1.|{90 + n}") for n in range(10)]
    ranking = (await compare(BASE, [*others, BEST], numbers(60), ExactMatch(), bench(MemoryStore()))).ranking
    assert ranking
    assert ranking.control == "e-bh"
    assert [place.verdict.candidate for place in ranking.candidates if place.better] == [BEST.digest]
    assert {place.verdict.rule for place in ranking.candidates} == {"betting"}


async def test_none_or_one_twice_is_refused() -> None:
    for candidates in ([BEST, BEST], []):
        with pytest.raises(SeedbedError, match="expected at least one, each once"):
            await compare(BASE, candidates, numbers(10), ExactMatch(), bench(MemoryStore()))
