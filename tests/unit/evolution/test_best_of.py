from __future__ import annotations

from loop_samples import agent

from seedbed.evaluation.evaluate import Cell
from seedbed.evolution.best_of import BestOf

CELL = Cell(key="k", playbook="b2:0", task="t", replicate=0, metric="m", value=1.0)


async def test_every_candidate_is_offered_once_and_in_order() -> None:
    candidates = [agent(known) for known in "abc"]
    search = BestOf(candidates)
    assert list(await search.ask()) == candidates
    assert list(await search.ask()) == []


async def test_the_same_candidate_twice_is_one() -> None:
    search = BestOf([agent("a"), agent("b"), agent("a", meta={"note": "the same content"})])
    assert list(await search.ask()) == [agent("a"), agent("b")]


async def test_candidates_may_come_from_a_generator() -> None:
    assert list(await BestOf(agent(known) for known in "ab").ask()) == [agent("a"), agent("b")]


async def test_it_learns_nothing_and_so_offers_nothing_more() -> None:
    search = BestOf([agent("a")])
    await search.ask()
    await search.tell([CELL])
    assert list(await search.ask()) == []


async def test_nothing_to_try_is_nothing_offered() -> None:
    assert list(await BestOf([]).ask()) == []
