"""Evaluations by a judge: here or in other processes, its judgements are paid once and from the same money."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import seedbed
from model_server import Answer, ModelServer, echo, serving
from seedbed import Dataset, ExactMatch, Playbook, Task, Workspace
from seedbed.errors import SettingsError
from seedbed.evaluation.judges.rubrics import Rubric
from seedbed.evaluation.metrics.weighted import Weighted
from seedbed.runs.worker_presence import is_alive
from seedbed.settings import Settings
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, now

ECHO = Playbook.from_document({"roles": {"speaker": {"model": "m", "system": "Repeat.", "max_tokens": 4}}})
HELPFUL = {"judge": "rubric", "model": "j", "rubric": "Does it help?", "max_tokens": 4}


def numbers(size: int) -> Dataset:
    return Dataset(tuple(Task(f"t{n}", {"question": f"say {n}"}, f"say {n}") for n in range(size)))


def script(request: dict[str, Any]) -> Answer:
    """Two words of the speaker and one of the judge, at a dollar each."""
    return Answer("4") if request["model"] == "j" else echo(request)


def card(server: ModelServer, model: str) -> dict[str, Any]:
    return {"use": "openai", "args": {"model": model, "base_url": server.url}, "usd_per_million": [0, 1_000_000]}


@contextmanager
def opened(folder: Path, server: ModelServer) -> Iterator[Workspace]:
    models = {"m": card(server, "m"), "j": card(server, "j")}
    store = f"sqlite:///{folder / 'seedbed.db'}"
    space = seedbed.open(Settings(store=store, by="ada", models=models, metrics={"helpful": HELPFUL}))
    try:
        yield space
    finally:
        space.close()


@pytest.fixture(params=["loop", "2"])
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def paid(space: Workspace) -> float:
    return sum(fact.body["cost_usd"] for fact in space.store.facts(Query(kind="turn")))


def asked(server: ModelServer) -> Counter[str]:
    return Counter(request["messages"][-1]["content"] for request in server.requests)


async def test_a_judge_scores_the_same_wherever_it_sits_and_is_asked_once(where: str, tmp_path: Path) -> None:
    with serving(script=script) as server, opened(tmp_path, server) as space:
        helpful = space.scorecards.metric("helpful")
        result = await space.evaluate(ECHO, numbers(20), metric=[ExactMatch(), helpful], parallel=where)
        assert {name: result.of(name).interval.mean for name in result.metrics} == {"exact_match": 1.0, "helpful": 0.75}
        assert set(asked(server).values()) == {1}
        assert len(server.requests) == 40
        assert result.cost_usd == result.worth_usd == paid(space) == 60.0
        again = await space.evaluate(ECHO, numbers(20), metric=[helpful, ExactMatch()], parallel=where)
        assert (again.interval.mean, again.cost_usd, again.worth_usd) == (0.75, 0.0, 60.0)
        assert len(server.requests) == 40


async def test_a_judge_within_a_reward_can_be_sent_too(where: str, tmp_path: Path) -> None:
    with serving(script=script) as server, opened(tmp_path, server) as space:
        reward = Weighted({"exact_match": 1.0, space.scorecards.metric("helpful"): 1.0})
        result = await space.evaluate(ECHO, numbers(6), metric=reward, parallel=where)
        assert result.interval.mean == 1.75


async def test_judging_runs_that_were_paid_before_costs_what_the_judge_costs(where: str, tmp_path: Path) -> None:
    with serving(script=script) as server, opened(tmp_path, server) as space:
        await space.evaluate(ECHO, numbers(10), metric=ExactMatch())
        result = await space.evaluate(ECHO, numbers(10), metric=space.scorecards.metric("helpful"), parallel=where)
        assert (len(result.scored), result.cost_usd, result.worth_usd) == (10, 10.0, 30.0)


async def test_what_judges_cost_is_within_the_money(where: str, tmp_path: Path) -> None:
    limit = 50.0
    with serving(script=script) as server, opened(tmp_path, server) as space:
        helpful = space.scorecards.metric("helpful")
        result = await space.evaluate(ECHO, numbers(40), metric=helpful, max_cost_usd=limit, parallel=where)
        assert result.cost_usd == paid(space) <= limit
        if where == "loop":  # others cut so little money into slices that runs may leave nothing for the judge
            assert 3 * len(result.scored) >= limit - 3 * 8 - 8
        assert len(result.unpaid) == len(result.unscored) > 0
        rest = await space.evaluate(ECHO, numbers(40), metric=helpful, max_cost_usd=1000.0, parallel=where)
        assert len(rest.scored) == 40
        assert result.cost_usd + rest.cost_usd == paid(space) == 120.0
        assert set(asked(server).values()) == {1}


async def test_a_judge_made_by_hand_is_paid_from_the_same_money(tmp_path: Path) -> None:
    with serving(script=script) as server, opened(tmp_path, server) as space:
        runner = space.resources.runner
        judge = Rubric(
            ["Is it short?"], perform=runner.perform, identify=runner.model_identities, model="j", max_tokens=4
        )
        result = await space.evaluate(ECHO, numbers(40), metric=judge, max_cost_usd=50.0)
        assert result.cost_usd == paid(space) <= 50.0
        assert result.unpaid


async def test_a_judge_of_another_workspace_cannot_spend_money_that_is_limited(tmp_path: Path) -> None:
    with serving(script=script) as server, opened(tmp_path, server) as space:
        elsewhere = Workspace(Settings(models={"j": card(server, "other")}, metrics={"kind": HELPFUL}), MemoryStore())
        with pytest.raises(SettingsError, match="a judge of the same workspace"):
            await space.evaluate(ECHO, numbers(2), metric=elsewhere.scorecards.metric("kind"), max_cost_usd=50.0)
        with pytest.raises(SettingsError, match="a judge of the same workspace"):
            await space.evaluate(ECHO, numbers(2), metric=elsewhere.scorecards.metric("kind"), parallel=2)
        assert "other" not in {request["model"] for request in server.requests}


async def test_when_a_worker_is_killed_no_judgement_that_was_paid_is_paid_again(tmp_path: Path) -> None:
    def slow(request: dict[str, Any]) -> Answer:
        return Answer(script(request).text, delay=0.02)

    with serving(script=slow) as server, opened(tmp_path, server) as space:
        doing = asyncio.ensure_future(
            space.evaluate(ECHO, numbers(80), metric=space.scorecards.metric("helpful"), parallel=2)
        )
        async with asyncio.timeout(60):
            while sum(1 for _ in space.store.facts(Query(kind="cell"))) < 20:
                await asyncio.sleep(0.01)
        turns = {fact.body["messages"][-1][1] for fact in space.store.facts(Query(kind="turn"))}
        at_it = {fact.body["worker"] for fact in space.store.facts(Query(kind="start"))}
        living = sorted(int(each.split("/")[1]) for each in at_it if is_alive(each, "", now(), space.store, now()))
        assert not doing.done()
        os.kill(next(pid for pid in living if pid != os.getpid()), signal.SIGKILL)
        result = await doing
        assert len(result.scored) == 80
        assert {asked(server)[prompt] for prompt in turns} == {1}
