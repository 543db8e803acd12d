from __future__ import annotations

from dataclasses import replace

import pytest
from loop_samples import agent, bench, count, numbers

from seedbed.evaluation.datasets.dataset import Task
from seedbed.evaluation.metrics.metric import ExactMatch, Score
from seedbed.experiments.options import Comparing
from seedbed.experiments.proof.certificate import verify
from seedbed.experiments.sentinel import Sentinel, play_sentinel, sentinel
from seedbed.experiments.verdict import Verdict
from seedbed.runs.run import Run
from seedbed.stats.estimates import exact_rate
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query

SOME = agent("[0-4]|1.")


class Lucky(ExactMatch):
    """Right or wrong by the seed of a run, whatever the playbook."""

    @property
    def identity(self) -> dict[str, str]:
        return {"metric": "lucky"}

    async def __call__(self, run: Run, task: Task) -> Score:
        return Score(float(run.seed % 2))


async def test_a_playbook_against_itself_is_run_anew_in_both_arms_and_seldom_beats_itself() -> None:
    store = MemoryStore()
    told: list[Verdict] = []
    result = await play_sentinel(SOME, numbers(12), Lucky(), bench(store), times=20, watch=told.append)
    assert (result.rate.n, len({verdict.experiment for verdict in told})) == (20, 20)
    assert all(verdict.control == verdict.candidate for verdict in told)
    assert sum(verdict.ties for verdict in told) < 0.8 * sum(verdict.tasks for verdict in told)
    assert result.rate.low <= 0.05
    assert not result.alarmed
    assert all(not verify(store, [verdict.experiment])[verdict.experiment] for verdict in told[:3])


async def test_the_next_game_goes_on_where_the_last_one_stopped() -> None:
    store = MemoryStore()
    await play_sentinel(SOME, numbers(5), Lucky(), bench(store))
    runs = count(store, "run")
    assert (await play_sentinel(SOME, numbers(5), Lucky(), bench(store), times=2)).rate.n == 3
    assert count(store, "run") == 3 * runs


@pytest.mark.parametrize(("false", "alarmed"), [(5, False), (40, True)])
def test_the_alarm_is_raised_when_false_winners_are_more_frequent_than_chance_allows(false: int, alarmed: bool) -> None:
    assert Sentinel(0.05, exact_rate(false, 100)).alarmed is alarmed


async def test_invalid_games_and_other_error_rates_are_not_counted() -> None:
    store = MemoryStore()
    await play_sentinel(SOME, numbers(5), Lucky(), bench(store), times=2, options=Comparing(alpha=0.2))
    (fact, _) = store.facts(Query(kind="sentinel"))
    store.append([replace(fact, key="other", body={**fact.body, "finding": "invalid"}, number=0, link="")])
    assert sentinel(store, 0.2).rate.n == 2
    assert sentinel(store, 0.05).rate.n == 0
    assert not sentinel(store, 0.05).alarmed
