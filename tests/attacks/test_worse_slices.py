"""A gain on the whole that hides a loss on some tag."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_bound_evidence import moved_to, problems
from world import NEW, OLD, is_released, says_yes, serve_old, tasks, world

from seedbed import Dataset, Workspace
from seedbed.errors import ReleaseRefused
from seedbed.experiments.proof.certificate import verify
from seedbed.experiments.slices import SliceProgress
from seedbed.reports.experiment.view import status_line
from seedbed.settings import Settings
from seedbed.stats.sequential.stopping_rule import Answer
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Store

EVERY = [*range(180)]
TAGS = ["arithmetic", "dates", "geometry", "logic", "names", "spelling"]
GATES = ("better", "held_out", "rules_kept", "no_slice_worse")


def tagged(numbers: Collection[int] = EVERY) -> Dataset:
    return Dataset(tuple(replace(task, tags=(TAGS[int(task.id[1:]) % 6],)) for task in tasks(numbers)))


def right(**rates: float) -> list[int]:
    """The tasks that are answered correctly: this share of each tag, by default half."""
    rate = {n: rates.get(TAGS[n % 6], 0.5) for n in EVERY}
    return [n for n in EVERY if (n // 6) * 7 % 10 < 10 * rate[n]]


BETTER = dict.fromkeys(TAGS, 0.9)
HIDDEN = BETTER | {"geometry": 0.1}
LIMIT = 0.0022
"""Dollars for the verdict, and for some of the tasks after it."""


async def space_of(
    new: dict[str, float], store: Store | None = None, require: Any = GATES, *, price: bool = False
) -> Workspace:
    space = world(right(), right(**new), store=store, require=require)
    if price:
        models = {
            name: {**says_yes(numbers), "usd_per_million": [1, 1]}
            for name, numbers in (("old", right()), ("new", right(**new)))
        }
        space = Workspace(
            Settings(by="eve", models=models, channels={"production": {"require": [*require]}}), MemoryStore()
        )
    return await serve_old(space)


async def test_a_candidate_that_is_much_worse_on_one_of_six_tags_is_refused_by_its_name() -> None:
    space = await space_of(HIDDEN)
    verdict = await space.compare(OLD, NEW, on=tagged())
    assert (verdict.finding, verdict.mode) == ("superior", "confirmatory")
    assert verdict.slices
    assert verdict.slices.tags[0].tag == "geometry"
    with pytest.raises(ReleaseRefused, match='no_slice_worse: found worse on 1 of 6 tags: "geometry"') as refused:
        await space.release(NEW, to="production", because=verdict)
    assert [each.path for each in refused.value.refusals] == ["no_slice_worse"]


async def test_one_that_is_better_or_equal_on_all_tags_is_released() -> None:
    space = await space_of(dict.fromkeys(TAGS, 0.9) | {"geometry": 0.5})
    verdict = await space.compare(OLD, NEW, on=tagged())
    assert verdict.slices
    assert not verdict.slices.worse
    assert await is_released(space, because=verdict)


async def test_whoever_watches_sees_how_the_tags_are_decided() -> None:
    space = await space_of(HIDDEN)
    seen: list[Any] = []
    verdict = await space.compare(OLD, NEW, on=tagged(), on_event=seen.append)
    assert verdict.slices
    after = [each for each in seen if isinstance(each, SliceProgress)]
    assert [type(each) is Answer for each in seen[: verdict.tasks]] == [True] * verdict.tasks
    assert len(after) == len(seen) - verdict.tasks > 0
    assert (after[0].tags, after[0].open, after[-1].open, after[-1].tasks) == (6, 6, 0, verdict.slices.tasks)
    assert status_line(after[-1], 180, 0.05).startswith("superior; is it worse on any tag? 0 of 6 open")


async def test_nothing_more_is_run_where_no_channel_asks_for_it_and_the_verdict_is_the_same() -> None:
    verdicts = [await (await space_of(HIDDEN, require=gates)).compare(OLD, NEW, on=tagged()) for gates in (GATES, [])]
    with_tags, plain = verdicts
    assert plain.slices is None
    assert with_tags.slices
    assert with_tags.slices.tasks > plain.tasks
    assert replace(with_tags, evidence=plain.evidence) == plain  # which covers when each run was made


async def test_a_small_budget_does_not_hide_a_tag() -> None:
    """The verdict is paid and the tags are not: nothing passes until they are."""
    space = await space_of(HIDDEN, price=True)
    verdict = await space.compare(OLD, NEW, on=tagged(), max_cost_usd=LIMIT)
    assert verdict.finding == "superior"
    assert verdict.slices
    assert verdict.slices.open
    assert verdict.cost_usd + verdict.slices.cost_usd <= LIMIT
    with pytest.raises(ReleaseRefused, match=r"no_slice_worse: found experiment .* has no results by tag"):
        await space.release(NEW, to="production", because=verdict)
    again = await space.compare(OLD, NEW, on=tagged())
    assert again == verdict
    assert again.slices
    assert not again.slices.open
    assert [each.tag for each in again.slices.worse] == ["geometry"]


async def test_an_edited_score_of_a_tag_is_found(tmp_path: Path) -> None:
    database = tmp_path / "store.db"
    with closing(open_store(f"sqlite:///{database}")) as store:
        verdict = await (await space_of(HIDDEN, store)).compare(OLD, NEW, on=tagged())
        assert verify(store, [verdict.experiment]) == {verdict.experiment: []}
    after = "number > (SELECT number FROM facts WHERE kind = 'verdict')"
    for statement in (
        f"UPDATE facts SET value = 1 WHERE kind = 'cell' AND {after}",
        "UPDATE facts SET body = replace(body, '\"worse\"', '\"not worse\"') WHERE kind = 'slices'",
    ):
        copy = tmp_path / "copy.db"
        shutil.copy(database, copy)
        with closing(sqlite3.connect(copy)) as connection, connection:
            assert connection.execute(statement).rowcount
        with closing(open_store(f"sqlite:///{copy}")) as store:
            problems = verify(store, [verdict.experiment])[verdict.experiment]
        assert [each for each in problems if each.path.startswith("slices")]


async def test_a_past_release_of_a_candidate_that_was_worse_on_a_tag_is_found() -> None:
    space = await space_of(HIDDEN)
    verdict = await space.compare(OLD, NEW, on=tagged())
    await moved_to(space, NEW, verdict.experiment, *GATES)
    assert 'found a candidate that is worse on "geometry"' in problems(space, verdict.experiment)


async def test_nor_is_one_that_was_never_looked_at_by_tag_overlooked() -> None:
    """The gates say that it was: on other terms, or by a channel that does not ask for it."""
    space = await space_of(BETTER)
    verdict = await space.compare(OLD, NEW, on=tagged())
    await moved_to(space, NEW, verdict.experiment, "better", {"no_slice_worse": {"margin": 0.02}})
    assert "no results by tag before it; expected some" in problems(space, verdict.experiment)


async def test_an_honest_release_by_tag_is_verified() -> None:
    space = await space_of(BETTER)
    verdict = await space.compare(OLD, NEW, on=tagged())
    assert await is_released(space, because=verdict)
    assert not any(space.experiments.verify().values())
