"""Candidates tried on users, one after the other, until one gets lucky."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from world import NEW, OLD, agent, is_released, serve_old, tasks, world

import seedbed
from seedbed import Workspace
from seedbed.errors import DatasetError, ReleaseRefused
from seedbed.storage.memory import MemoryStore

PILOT = "pilot"


async def piloted(space: Workspace) -> Workspace:
    """Half of the pilot's users get the candidate."""
    await space.release(NEW, to=PILOT, because="try it", share=0.5)
    return space


async def rated(space: Workspace, units: int = 120, start: int = 0, *, metric: str = "rating") -> None:
    """Every user of the canary is content, and nobody else."""
    for number in range(start, start + units):
        choice = await space.channels.choose(PILOT, key=f"user {number}")
        space.feedback(choice, float(choice.arm == "canary"), metric=metric)


def look(space: Workspace, **how: Any) -> Any:
    (seen,) = space.experiments.compare_live(seedbed.live(PILOT), **how)
    return seen.verdict or seen.so_far


@pytest.fixture
async def space() -> AsyncIterator[Workspace]:
    """Production, and a pilot without gates, serve OLD; half of the pilot's users get NEW."""
    settings = world([], [*range(60)]).settings
    free = settings.channels["scratch"].model_copy(update={"require": []})
    channels = {**settings.channels, **dict.fromkeys((PILOT, "a", "b"), free)}
    with closing(Workspace(settings.model_copy(update={"channels": channels}), MemoryStore())) as its:
        await serve_old(its)
        await its.release(OLD, to=PILOT, because="the first one")
        yield await piloted(its)


async def test_a_live_comparison_is_an_attempt_like_any_other(space: Workspace) -> None:
    first = look(space)
    assert (first.mode, first.attempt, first.alpha) == ("confirmatory", 1, 0.05 * 15 / 16)
    await rated(space)
    verdict = look(space)
    assert (verdict.finding, verdict.experiment) == ("superior", first.experiment)
    assert not any(space.experiments.verify().values())
    assert [each.finding for each in space.experiments.attempts("production")] == ["superior"]
    assert await is_released(space, because=verdict)


async def test_rolling_out_again_and_again_gets_stricter_each_time(space: Workspace) -> None:
    levels = []
    for _ in range(3):
        levels.append(look(space).alpha)
        await space.rollback(PILOT, because="no luck")
        await piloted(space)
    assert 0.05 * 15 / 16 == levels[0] > levels[1] > levels[2]
    on_tasks = await space.compare(OLD, NEW, on=tasks(range(30)))
    assert (on_tasks.mode, on_tasks.attempt) == ("confirmatory", 4)


async def test_the_certificate_of_a_live_verdict_lists_all_attempts(space: Workspace) -> None:
    await space.compare(OLD, agent("old", parameters={"x": 1}), on=tasks(range(30)))
    look(space)
    await rated(space)
    verdict = look(space)
    proof = space.experiments.certificate(verdict.experiment)
    assert [(each.number, each.finding) for each in proof.attempts] == [(1, "inconclusive"), (2, "superior")]


async def test_a_metric_chosen_after_the_outcomes_releases_nothing(space: Workspace) -> None:
    await rated(space, metric="thumbs")
    verdict = look(space, metric="thumbs")
    assert (verdict.finding, verdict.mode, verdict.attempt) == ("superior", "exploratory", 0)
    with pytest.raises(ReleaseRefused, match="expected a confirmatory one, registered before its first outcome"):
        await space.release(NEW, to="production", because=verdict)


async def test_a_look_at_a_rate_that_no_gate_accepts_is_no_attempt(space: Workspace) -> None:
    assert (look(space, alpha=0.2).mode, look(space, alpha=0.2).alpha) == ("exploratory", 0.2)
    assert space.experiments.attempts("production") == []


async def test_a_canary_that_was_found_better_before_uses_up_no_attempt(space: Workspace) -> None:
    """Honest work: compared on tasks, released to some users, and watched by what they say."""
    await space.rollback(PILOT, because="compare it first")
    assert (await space.compare(OLD, NEW, on=tasks(range(30)))).finding == "superior"
    await piloted(space)
    assert (look(space).mode, look(space).alpha) == ("exploratory", 0.05)
    assert [each.number for each in space.experiments.attempts("production")] == [1]


async def test_several_channels_are_one_attempt(space: Workspace) -> None:
    names = ("production", "a", "b")
    for name, system in (("a", "One of many words."), ("b", "Something else, said in another way.")):
        await space.release(agent("new", roles={"clerk": {"model": "new", "system": system}}), to=name, because="try")
    one, two = space.experiments.compare_live(seedbed.live(*names))
    assert [(each.so_far.attempt, each.alpha) for each in (one, two) if each.so_far] == [(1, 0.05 * 15 / 32)] * 2
    assert space.experiments.compare_live(seedbed.live(*names)) == [one, two]
    assert len(space.experiments.attempts("production")) == 2


async def test_a_drill_on_chosen_tasks_is_no_outcome_of_users(space: Workspace) -> None:
    """NEW answers these, and OLD none of them."""
    look(space)
    await space.channels.drill(PILOT, tasks(range(35)), range(400), seedbed.ExactMatch())
    verdict = look(space)
    assert (verdict.finding, verdict.live["candidate"]["units"]) == ("inconclusive", 0)
    assert not await is_released(space, because=verdict)
    await rated(space)
    assert look(space).finding == "superior"
    assert not any(space.experiments.verify().values())


async def test_a_drill_opens_no_tasks_that_are_held_out(space: Workspace) -> None:
    space.datasets.add("mail", tasks(range(60)), because="new")
    space.datasets.hold_out("mail", share=0.5)
    with pytest.raises(DatasetError, match="held out in mail"):
        await space.channels.drill(PILOT, space.datasets.get("mail:held-out"), range(9), seedbed.ExactMatch())
