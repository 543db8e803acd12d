"""Workspaces compare on tasks that candidates have not seen, and say before what it will take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from loop_samples import ORACLE, agent, count, numbers

from seedbed.errors import DatasetError, NotFound, SettingsError
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.evolution.optimizers.best_of import BestOf
from seedbed.evolution.plan import NO_TASKS, SearchOptions
from seedbed.experiments.evidence_sources import live, past_runs
from seedbed.experiments.options import Comparing
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.workspace import Workspace

WRONG, HALF, RIGHT = agent("x"), agent(".*[02468]"), agent(".*")
BUDGET = {"error_budget": {"rate": 0.2, "control": "e-lond"}}


@pytest.fixture
def space() -> Workspace:
    settings: Any = {"by": "ada", "models": {"oracle": ORACLE}, "channels": {"production": BUDGET}}
    return Workspace(Settings(**settings), MemoryStore())


async def test_tasks_that_a_candidate_was_evolved_on_are_refused_before_anything_runs(space: Workspace) -> None:
    seen, metric = numbers(9), ExactMatch()
    found = await space.evolve(
        WRONG, seen, metric=metric, optimizer=BestOf([RIGHT]), options=SearchOptions(confirm=NO_TASKS)
    )
    assert found.best == RIGHT.digest
    runs = count(space.store, "start")
    with pytest.raises(DatasetError, match="9 of 9 that the candidate was evolved on"):
        await space.compare(WRONG, found.best, on=seen, metric=metric)
    with pytest.raises(DatasetError, match="9 of 9 that the candidate was evolved on"):
        await space.compare(WRONG, [HALF, found.best], on=seen, metric=metric)
    assert count(space.store, "start") == runs
    verdict = await space.compare(WRONG, found.best, on=numbers(20, first=50), metric=metric)
    assert verdict.finding == "superior"


async def test_several_candidates_are_ranked_against_one_baseline(space: Workspace) -> None:
    same = agent("y")
    verdict = await space.compare(WRONG, [same, HALF, RIGHT], on=numbers(40), metric=ExactMatch())
    ranking = verdict.ranking
    assert ranking
    assert verdict.candidate == RIGHT.digest
    ranked = [(place.verdict.candidate, place.better) for place in ranking.candidates]
    assert ranked == [(RIGHT.digest, True), (HALF.digest, True), (same.digest, False)]
    assert {place.verdict.control for place in ranking.candidates} == {WRONG.digest}


def test_an_outlook_spends_nothing(space: Workspace) -> None:
    planned = space.experiments.forecast(
        WRONG, RIGHT, on=numbers(20), metric=ExactMatch(), options=Comparing(alpha=0.1)
    )
    assert planned.alpha == 0.1
    assert [count(space.store, kind) for kind in ("start", "cell", "comparison", "reservation", "verdict")] == [0] * 5


async def test_the_error_rate_for_a_channel_is_never_chosen_beside_its_budget(space: Workspace) -> None:
    given: Any = {"on": numbers(20), "metric": ExactMatch()}
    with pytest.raises(SettingsError, match=r"alpha: found 0\.1; expected none"):
        await space.compare(WRONG, RIGHT, options=Comparing(channel="production", alpha=0.1), **given)
    with pytest.raises(SettingsError, match=r"alpha: found 0\.1; expected none"):
        space.experiments.forecast(WRONG, RIGHT, options=Comparing(channel="production", alpha=0.1), **given)
    assert count(space.store, "start") == count(space.store, "reservation") == 0
    level = space.experiments.next_level("production")
    assert (await space.compare(WRONG, RIGHT, options=Comparing(channel="production"), **given)).alpha == level


async def test_past_runs_are_bounded_by_when_they_ended(space: Workspace) -> None:
    for number in range(6):
        await space.run(WRONG, n=number)
    last = datetime.now(UTC)
    for number in range(6, 9):
        await space.run(WRONG, n=number)
    known = numbers(9)
    for source, tasks in (
        (past_runs(until=last, mode="fork:1", expected=known), 6),
        (past_runs(since=last, mode="fork:1", expected=known), 3),
    ):
        verdict = await space.compare(WRONG, RIGHT, on=source)
        assert verdict.at_most == tasks
    with pytest.raises(DatasetError, match="runs: found none; expected at least one"):
        await space.compare(WRONG, RIGHT, on=past_runs(until=datetime(2026, 1, 1, tzinfo=UTC), expected=known))


@pytest.mark.parametrize("channels", [("nowhere",), ("production", "nowhere")])
async def test_live_traffic_of_a_channel_that_does_not_exist_is_refused(
    channels: tuple[str, ...], space: Workspace
) -> None:
    with pytest.raises(NotFound, match=r'no channel named "nowhere"; expected one of: production'):
        await space.compare(WRONG, RIGHT, on=live(*channels), metric="rating")


@pytest.mark.parametrize(
    "wrong",
    [
        {"options": Comparing(replicates=2)},
        {"options": Comparing(effect=0.1)},
        {"options": Comparing(rule="exact")},
        {"max_cost_usd": 1.0},
        {"parallel": 2},
    ],
    ids=str,
)
async def test_options_that_live_traffic_has_no_use_for_are_refused(wrong: dict[str, Any], space: Workspace) -> None:
    with pytest.raises(SettingsError, match="live traffic"):
        await space.compare(WRONG, RIGHT, on=live("production"), **wrong)


async def test_the_options_of_a_search_hold_unless_an_argument_says_otherwise(space: Workspace) -> None:
    options = SearchOptions(optimizer=BestOf([RIGHT]), budget="20 runs", confirm=NO_TASKS)
    found = await space.evolve(WRONG, numbers(9), options=options)
    assert (found.best, found.budget.body()["runs"]) == (RIGHT.digest, 20)
    found = await space.evolve(WRONG, numbers(9), options=options, budget="30 runs")
    assert found.budget.body()["runs"] == 30
