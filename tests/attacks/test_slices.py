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
from world import NEW, OLD, is_released, says_yes, serve_old, tasks, world

from seedbed import Dataset, Workspace
from seedbed.errors import ReleaseRefused
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof.certificate import verify
from seedbed.settings import Settings
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, Store

EVERY = [*range(360)]
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


async def space_of(
    new: dict[str, float], store: Store | None = None, require: Any = GATES, *, price: bool = False
) -> Workspace:
    space = world(right(), right(**new), store=store, require=require)
    if price:
        models = {name: {**says_yes(numbers), "usd_per_million": [1, 1]} for name, numbers in (("old", right()), ("new", right(**new)))}
        space = Workspace(Settings(by="eve", models=models, channels={"production": {"require": [*require]}}), MemoryStore())
    return await serve_old(space)


async def test_a_candidate_that_is_much_worse_on_one_of_six_tags_is_refused_by_its_name() -> None:
    space = await space_of(HIDDEN)
    verdict = await space.compare(OLD, NEW, on=tagged())
    assert (verdict.finding, verdict.mode) == ("superior", "confirmatory")
    with pytest.raises(ReleaseRefused, match='no_slice_worse: found worse on 1 of 6 tags: "geometry"') as refused:
        await space.release(NEW, to="production", because=verdict)
    assert [each.path for each in refused.value.refusals] == ["no_slice_worse"]


async def test_one_that_is_better_or_equal_on_all_tags_is_released() -> None:
    space = await space_of(dict.fromkeys(TAGS, 0.9) | {"geometry": 0.5})
    verdict = await space.compare(OLD, NEW, on=tagged())
    assert verdict.slices
    assert not verdict.slices.worse
    assert await is_released(space, because=verdict)


async def test_the_tasks_run_for_the_tags_change_nothing_in_the_verdict() -> None:
    plain = await (await space_of(HIDDEN, require=["better"])).compare(OLD, NEW, on=tagged())
    store = MemoryStore()
    with_tags = await (await space_of(HIDDEN, store)).compare(OLD, NEW, on=tagged())
    assert plain.slices is None
    assert replace(with_tags, evidence=plain.evidence) == plain  # which covers when each run was made
    assert with_tags.slices
    assert with_tags.slices.tasks > plain.tasks
    assert {each.tag: each.finding for each in with_tags.slices.tags}["geometry"] == "worse"
    assert with_tags.slices.tags[0].tag == "geometry"


async def test_nothing_more_is_run_where_no_channel_asks_for_it_or_nothing_can_be_released() -> None:
    for require, options in ((["better"], Comparing()), (GATES, Comparing(exploratory=True))):
        store = MemoryStore()
        verdict = await (await space_of(HIDDEN, store, require)).compare(OLD, NEW, on=tagged(), options=options)
        cells = sum(1 for _ in store.facts(Query(kind="cell", subject=NEW.digest)))
        assert verdict.slices is None
        assert verdict.tasks <= cells < 100


async def test_a_small_budget_does_not_hide_a_tag() -> None:
    """The verdict is paid and the tags are not: nothing passes until they are."""
    whole = await (await space_of(HIDDEN, price=True)).compare(OLD, NEW, on=tagged())
    assert whole.slices
    assert whole.slices.cost_usd > 0
    space = await space_of(HIDDEN, price=True)
    limit = whole.cost_usd + 0.5 * whole.slices.cost_usd
    verdict = await space.compare(OLD, NEW, on=tagged(), max_cost_usd=limit)
    assert replace(verdict, evidence=whole.evidence) == whole
    assert verdict.slices
    assert verdict.slices.open
    assert verdict.slices.cost_usd <= limit - verdict.cost_usd
    with pytest.raises(ReleaseRefused, match="no_slice_worse: found experiment .* has no results by tag"):
        await space.release(NEW, to="production", because=verdict)
    again = await space.compare(OLD, NEW, on=tagged())
    assert again.slices
    assert again.slices.tags == whole.slices.tags
    assert not await is_released(space, because=again)


async def test_an_edited_score_of_a_tag_is_found(tmp_path: Path) -> None:
    database = tmp_path / "store.db"
    with closing(open_store(f"sqlite:///{database}")) as store:
        verdict = await (await space_of(HIDDEN, store)).compare(OLD, NEW, on=tagged())
        assert verify(store, [verdict.experiment]) == {verdict.experiment: []}
    last = "SELECT max(number) FROM facts WHERE kind = 'cell' AND value = 0"
    for statement, path in (
        (f"UPDATE facts SET value = 1, body = replace(body, '0.0', '1.0') WHERE number = ({last})", "slices.evidence"),
        ("UPDATE facts SET body = replace(body, '\"worse\"', '\"not worse\"') WHERE kind = 'slices'", "slices.geometry"),
    ):
        copy = tmp_path / "copy.db"
        shutil.copy(database, copy)
        with closing(sqlite3.connect(copy)) as connection, connection:
            assert connection.execute(statement).rowcount
        with closing(open_store(f"sqlite:///{copy}")) as store:
            assert path in [each.path for each in verify(store, [verdict.experiment])[verdict.experiment]]
