"""NSGA-II on playbooks whose scores are known functions of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from front_samples import Named, opened, point, score, turned, values
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.errors import PlaybookError, SettingsError
from seedbed.evolution.optimizers.nsga2 import NSGA2, objectives, rank_points
from seedbed.evolution.protocols import Offer
from seedbed.playbooks.playbook import Playbook
from seedbed.stats.pareto import ranks

METRICS = [Named("quality"), Named("cost", "lower")]
START = point(0.9, 0.9, 0.9)


def scores(playbook: Playbook, task: str) -> Mapping[str, float | None]:
    """Quality is dear, and every number but the first is a waste."""
    first, *rest = values(playbook)
    waste = sum(rest)
    return {"quality": np.sqrt(first) - waste, "cost": first + waste}


def truths(playbooks: Any) -> Any:
    return np.array([[*scores(each, "t").values()] for each in playbooks])


async def test_the_population_comes_to_the_front_and_spreads_along_it() -> None:
    search, optimizer = opened(START, METRICS), NSGA2(size=20)
    await turned(optimizer, search, scores, 25)
    firsts = sorted(values(search.pool.playbooks[place])[0] for place in optimizer.population)
    waste = [sum(values(search.pool.playbooks[place])[1:]) for place in optimizer.population]
    assert np.mean(waste) < 0.05
    assert firsts[0] < 0.1
    assert firsts[-1] > 0.8
    assert np.diff(firsts).max() < 0.3


class Remembers(NSGA2):
    """Says after each generation who survived."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.survived: list[list[int]] = []

    async def tell(self, cells: Any) -> None:
        await super().tell(cells)
        self.survived.append(list(self.population))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 9_999), st.integers(4, 9))
async def test_the_best_of_each_metric_is_never_lost(seed: int, size: int) -> None:
    """Scores by chance, so that no child resembles its parents and every generation may lose something."""
    rng = np.random.default_rng(seed)
    search, optimizer = opened(START, METRICS, seed=seed), Remembers(size=size)

    def rolled(playbook: Playbook, task: str) -> Mapping[str, float | None]:
        return {"quality": float(rng.integers(9)), "cost": float(rng.integers(9))}

    offered = await turned(optimizer, search, rolled, 6)
    before: list[int] = []
    everybody: set[int] = set()
    for offers, population in zip(offered, optimizer.survived, strict=True):
        together = [*before, *(search.pool.place(offer.playbook.digest) for offer in offers)]
        everybody |= set(together)
        assert len(set(population)) == min(size, len(together))
        kept = objectives(search.pool, population)
        assert kept.max(axis=0).tolist() == objectives(search.pool, sorted(everybody)).max(axis=0).tolist()
        # Of parents and children no front loses anybody while a worse one keeps somebody.
        fronts = dict(zip(together, ranks(objectives(search.pool, together), ["higher"] * 2).tolist(), strict=True))
        worst = max(fronts[place] for place in population)
        assert all(fronts[place] >= worst for place in together if place not in population)
        before = population


async def test_no_playbook_is_offered_twice_and_each_names_its_parents() -> None:
    search = opened(START, METRICS)
    offered = await turned(NSGA2(size=8), search, scores, 6)
    digests = [offer.playbook.digest for offers in offered for offer in offers]
    assert len(digests) == len(set(digests))
    assert offered[0][0] == Offer(START, how="the start")
    for before, offers in enumerate(offered[1:], start=1):
        known = {offer.playbook.digest for earlier in offered[:before] for offer in earlier}
        assert all(set(offer.parents) <= known and len(offer.parents) == 2 for offer in offers)


async def test_the_same_seed_makes_the_same_search() -> None:
    one, same, other = [await turned(NSGA2(size=6), opened(START, METRICS, seed=seed), scores, 5) for seed in (1, 1, 2)]
    assert one == same
    assert one != other


async def test_begun_again_it_knows_nothing_of_the_search_before() -> None:
    optimizer = NSGA2(size=6)
    first = await turned(optimizer, opened(START, METRICS), scores, 4)
    assert await turned(optimizer, opened(START, METRICS), scores, 4) == first


async def test_what_was_never_paid_for_takes_no_place() -> None:
    """The budget ran out after two of the first generation: there is room, but nothing is known of the others."""
    search, optimizer = opened(START, METRICS), NSGA2(size=6)
    optimizer.begin(search)
    offers = list(await optimizer.ask())
    for offer in offers:
        search.pool.add(offer)
    await optimizer.tell(score(search, offers[:2], scores))
    assert optimizer.population == [0, 1]


async def test_one_that_always_fails_is_as_bad_as_the_worst_and_not_as_cheap_as_nothing() -> None:
    search, optimizer = opened(point(0.5), METRICS), NSGA2(size=4)

    def fragile(playbook: Playbook, task: str) -> Mapping[str, float | None]:
        works = playbook == search.start
        return {"quality": 0.5, "cost": 7.0} if works else {"quality": None, "cost": None}

    (offers,) = await turned(optimizer, search, fragile, 1)
    points = objectives(search.pool, range(len(offers)))
    assert points[1:, 1].tolist() == [-7.0] * (len(offers) - 1)
    assert (ranks(points, ["higher", "higher"]) == 0).tolist() == [True] + [False] * (len(offers) - 1)


async def test_it_ends_when_there_is_nothing_new() -> None:
    tiny = Playbook.from_document({"parameters": {"n": {"value": 1, "low": 1, "high": 3, "whole": True}}})
    search = opened(tiny, METRICS)
    offered = await turned(
        NSGA2(size=4), search, lambda playbook, task: {"quality": float(playbook.parameter("n")), "cost": 1.0}, 50
    )
    assert len(offered) < 50
    assert {playbook.parameter("n") for playbook in search.pool.playbooks} == {1, 2, 3}


def test_a_tournament_is_decided_by_front_and_then_by_room() -> None:
    order = rank_points(np.array([[0.0, 4.0], [1.0, 3.5], [1.1, 3.4], [4.0, 0.0], [0.5, 0.5]]))
    assert order[0] == order[3] > order[2] > order[1] > order[4]


def test_a_population_too_small_for_its_extremes_is_refused() -> None:
    with pytest.raises(SettingsError, match="size: found 3; expected at least 4"):
        NSGA2(size=3)


def test_a_start_of_which_nothing_may_evolve_is_refused() -> None:
    with pytest.raises(PlaybookError, match="no gene that may be varied"):
        NSGA2().begin(opened(point(0.5, locked=["parameters.*"]), METRICS))


def test_other_settings_are_another_search() -> None:
    assert NSGA2().identity != NSGA2(size=9).identity
    assert NSGA2().identity["optimizer"] == "nsga2"
