"""Tasks that come to a channel as if people asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import seedbed
from seedbed import Dataset, ExactMatch, Playbook, Task, Workspace
from seedbed.errors import PlaybookError
from seedbed.release.monitor.drill import Drill, drill
from seedbed.runs.run import Run
from seedbed.settings import Settings
from seedbed.storage.store import Query

TASKS = Dataset(tuple(Task(f"t{n}", {"text": f"message {n}"}, "yes") for n in range(3)))


def sorter(words: str) -> Playbook:
    return Playbook.from_document(
        {
            "roles": {"sorter": {"model": "scripted", "system": words}},
            "steps": [{"name": "label", "role": "sorter", "prompt": "{text}"}],
        }
    )


GOOD, POOR = sorter("Say yes."), sorter("Say no.")


@pytest.fixture
async def space() -> Workspace:
    replies = {"message 2": "yes", ".": "no"}
    models = {"scripted": {"use": "scripted", "args": {"replies": replies}}}
    space = seedbed.open(Settings(store="memory:", by="ada", models=models, channels={"live": {"require": []}}))
    await space.release(GOOD, to="live", because="first")
    await space.release(POOR, to="live", because="try it", share=0.5)
    return space


async def drilled(space: Workspace, units: range, tasks: Dataset = TASKS) -> tuple[Drill, list[int]]:
    through: list[int] = []

    async def serve(key: str, inputs: Mapping[str, Any]) -> Run:
        return await space.run("live", key=key, **inputs)

    return await drill(tasks, units, ExactMatch(), serve, space.feedback, through.append), through


async def test_each_unit_meets_what_its_key_does_and_is_rated(space: Workspace) -> None:
    told, through = await drilled(space, range(1, 61))
    assert sum(told.met.values()) == 60
    assert told.met.keys() == {GOOD.digest, POOR.digest}
    assert sum(told.good.values()) == 20  # every third task is answered well
    assert through == list(range(1, 61))
    exposures = {fact.key: fact.body["unit"] for fact in space.store.facts(Query(kind="exposure"))}
    assert sorted(exposures.values()) == sorted(f"unit {n}" for n in range(1, 61))
    ratings = {exposures[fact.subject]: fact.value for fact in space.store.facts(Query(kind="feedback", tag="rating"))}
    assert {unit for unit, value in ratings.items() if value == 1} == {f"unit {n}" for n in range(2, 61, 3)}


async def test_the_same_units_meet_the_same_again(space: Workspace) -> None:
    first, _ = await drilled(space, range(1, 21))
    again, _ = await drilled(space, range(1, 21))
    assert again.met == first.met


async def test_a_run_that_fails_is_counted_and_the_others_go_on(space: Workspace) -> None:
    space.settings.models["scripted"].args["replies"] = {"message 0|message 1": "yes"}  # nothing for the third
    told, through = await drilled(space, range(3, 9))
    assert (told.failed, sum(told.met.values()), len(through)) == (2, 4, 6)


async def test_tasks_that_do_not_fit_the_playbook_are_no_failures_of_it(space: Workspace) -> None:
    with pytest.raises(PlaybookError, match="text"):
        await drilled(space, range(1, 3), Dataset((Task("t", {"words": "hi"}, "yes"),)))
