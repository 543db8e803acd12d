"""The canary beside its control, by what came of those who met them."""

from __future__ import annotations

import random

import pytest
from loop_samples import agent

from seedbed.errors import NotFound
from seedbed.playbooks.library import Library
from seedbed.release import channels
from seedbed.release.assignment import choose, feedback
from seedbed.release.live import live
from seedbed.release.readers import Reader
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Fact, Query, now

OLD, NEW = (agent(name).digest for name in "ab")


@pytest.fixture
async def library() -> Library:
    library = Library(MemoryStore(), "ada")
    for name in "ab":
        library.keep(agent(name), because="written")
    await channels.release(library, "live", OLD, [], verdict=None, because="first")
    await channels.release(library, "live", NEW, [], verdict=None, because="try it", share=0.5)
    return library


async def serve(library: Library, units: int, good: dict[str, float], answers: dict[str, float], seed: int = 1) -> None:
    """So many users come; each may say how it was, the more likely well, the better what they met."""
    reader, chance = Reader(library, "live"), random.Random(seed)
    for number in range(units):
        choice = await choose(reader, f"user {seed}/{number}")
        if chance.random() < answers[choice.arm]:
            feedback(library, choice.exposure, float(chance.random() < good[choice.arm]))


ALL = {"canary": 1.0, "control": 1.0}


async def test_a_better_canary_is_found_superior_and_a_worse_one_inferior(library: Library) -> None:
    await serve(library, 400, {"canary": 0.9, "control": 0.5}, ALL)
    found = live(library.store, "live")
    assert (found.finding, found.because) == ("superior", "")
    assert (found.control.playbook, found.canary.playbook) == (OLD, NEW)
    assert found.control.units + found.canary.units == 400
    assert found.difference is not None
    assert found.low < 0.4 < found.high
    assert found.low < found.difference < found.high
    assert found.p is not None
    assert found.p <= 0.05
    channels.rollback(library, "live", because="try the other")
    await channels.release(library, "live", NEW, [], verdict=None, because="again", share=0.5)
    assert live(library.store, "live").pairs == 0  # what was known of an earlier rollout does not count
    await serve(library, 400, {"canary": 0.5, "control": 0.9}, ALL, seed=2)
    assert live(library.store, "live").finding == "inferior"


async def test_equal_ones_are_rarely_told_apart() -> None:
    wrong = 0
    for seed in range(20):
        library = Library(MemoryStore(), "ada")
        for name in "ab":
            library.keep(agent(name), because="written")
        await channels.release(library, "live", OLD, [], verdict=None, because="first")
        await channels.release(library, "live", NEW, [], verdict=None, because="try it", share=0.5)
        await serve(library, 120, {"canary": 0.7, "control": 0.7}, ALL, seed=seed)
        wrong += live(library.store, "live").finding != "inconclusive"
    assert wrong <= 3  # each is wrong with a chance of at most 0.05 either way


async def test_only_the_first_outcome_of_a_units_first_exposure_counts(library: Library) -> None:
    reader = Reader(library, "live")
    first = await choose(reader, "anna")
    again = await choose(reader, "anna")
    feedback(library, again.exposure, 0.0)
    feedback(library, first.exposure, 0.25)
    feedback(library, first.exposure, 1.0)
    feedback(library, first.exposure, 0.5, metric="other")
    found = live(library.store, "live")
    side = found.canary if first.arm == "canary" else found.control
    assert (side.units, side.known, side.mean) == (1, 1, 0.25)
    other = live(library.store, "live", metric="other")
    assert 0.5 in (other.canary.mean, other.control.mean)


async def test_units_that_go_missing_from_one_arm_make_it_invalid(library: Library) -> None:
    await serve(library, 60, {"canary": 0.9, "control": 0.5}, ALL)
    body = next(library.store.facts(Query(kind="exposure"))).body
    lost = [
        Fact(
            kind="exposure",
            key=f"x{n}",
            subject="channels/live",
            at=now(),
            by="ada",
            body={**body, "unit": f"x{n}", "arm": "control"},
        )
        for n in range(300)
    ]
    library.store.append(lost)
    found = live(library.store, "live")
    assert found.finding == "invalid"
    assert "units sent to the control" in found.because


async def test_an_arm_whose_people_answer_less_often_makes_it_invalid(library: Library) -> None:
    await serve(library, 900, {"canary": 0.9, "control": 0.5}, {"canary": 0.9, "control": 0.3})
    found = live(library.store, "live")
    assert found.finding == "invalid"
    assert "outcomes known of the control" in found.because


async def test_without_a_canary_there_is_nothing_to_compare(library: Library) -> None:
    channels.rollback(library, "live", because="enough")
    with pytest.raises(NotFound, match='no canary on channel "live"'):
        live(library.store, "live")
