from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from loop_samples import Doorkeeper, agent, bench, numbers

from seedbed.errors import RunError
from seedbed.evaluation.cells import Cell
from seedbed.evaluation.evaluate import evaluate
from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import abort, run_experiment
from seedbed.experiments.experiment import Experiment
from seedbed.experiments.proof.certificate import certificate, verify
from seedbed.playbooks.playbook import Playbook
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import Query, now

OLD, NEW = agent("[0-4]|1."), agent(".*")


async def test_what_failed_before_an_interruption_is_not_tried_again() -> None:
    """Whoever interrupts often enough would else get rid of every failure."""
    store, broken = MemoryStore(), [True]
    left = iter(range(12))

    async def shaky(playbook: Playbook, task: Any, seed: int) -> None:
        if next(left, None) is None:
            raise ZeroDivisionError
        if broken[0] and playbook == NEW:
            raise RunError("the model is away")

    with pytest.raises(ZeroDivisionError):
        await run_experiment(OLD, NEW, numbers(20), ExactMatch(), bench(store, shaky, at_once=2))
    failed = {fact.body["cell"] for fact in store.facts(Query(kind="lapse"))}
    assert len(failed) == 6
    tried: list[str] = []

    async def listen(playbook: Playbook, task: Any, seed: int) -> None:
        tried.append(f"{playbook.digest} {task.id}")

    verdict = await run_experiment(OLD, NEW, numbers(20), ExactMatch(), bench(store, listen))
    assert failed == set(verdict.failed)
    lapsed = {f"{fact.body['playbook']} {fact.body['task']}" for fact in store.facts(Query(kind="lapse"))}
    assert not lapsed & {*tried}
    assert not verify(store, [verdict.experiment])[verdict.experiment]


async def test_a_failure_that_nobody_recorded_is_no_evidence() -> None:
    store = MemoryStore()
    verdict = await run_experiment(OLD, NEW, numbers(20), ExactMatch(), bench(store))
    (fact,) = store.facts(Query(kind="verdict"))
    forged = MemoryStore()
    for content in store.contents():
        forged.put(content.kind, content.body)
    for kind in ("cell", "run", "comparison"):
        forged.append(replace(each, number=0, link="") for each in store.facts(Query(kind=kind)))
    worse = tuple((0.0, after) for _, after in verdict.scores)
    body = replace(verdict, failed=(verdict.experiment,), scores=worse).body()
    forged.append([replace(fact, body=body, number=0, link="")])
    paths = {problem.path for problem in certificate(forged, verdict.experiment).problems}
    assert {"failed", "scores"} <= paths


async def test_a_comparison_that_somebody_stops_spends_nothing_more() -> None:
    store, door = MemoryStore(), Doorkeeper()
    work = asyncio.ensure_future(run_experiment(OLD, NEW, numbers(40), ExactMatch(), bench(store, door, at_once=2)))
    for _ in range(4):
        await door.let_go_on(min)
    (begun,) = store.facts(Query(kind="comparison"))
    stopped = abort(store, begun.key, because="too dear", by="ada", clock=now)
    while not work.done():
        await door.let_go_on(min)
    assert work.result() == stopped
    assert sum(1 for _ in store.facts(Query(kind="run"))) <= 10


async def test_scores_that_were_known_before_are_told() -> None:
    store = MemoryStore()
    fresh = await run_experiment(OLD, NEW, numbers(20), ExactMatch(), bench(store))
    assert certificate(store, fresh.experiment).flags["candidate_scored_after_that"]
    await evaluate(NEW, numbers(20, first=50), ExactMatch(), bench(store))
    known = await run_experiment(OLD, NEW, numbers(20, first=50), ExactMatch(), bench(store))
    assert not certificate(store, known.experiment).flags["candidate_scored_after_that"]


async def test_whoever_performs_a_failed_run_again_all_the_same_does_not_make_it_good() -> None:
    """As other processes do, who do not know of it."""
    store, failed = MemoryStore(), Cell(key="k", playbook="b2:p", task="t", replicate=0, metric="m", value=None)
    store.append(FailedRuns(store, "b2:e").new([failed], now(), "ada"))
    again = FailedRuns(store, "b2:e")[failed.key]
    assert again.value is None
    assert failed.key not in FailedRuns(store, "b2:other")


async def test_an_order_that_was_not_drawn_from_the_seed_is_found() -> None:
    store = MemoryStore()
    verdict = await run_experiment(OLD, NEW, numbers(20), ExactMatch(), bench(store))
    plan = Experiment.from_content(store.get(verdict.experiment))
    picked = replace(plan, order=tuple(sorted(plan.order)))
    store.put("experiment", picked.content())
    (fact,) = store.facts(Query(kind="verdict"))
    body = replace(verdict, experiment=picked.digest).body()
    store.append([replace(fact, key=picked.digest, body=body, number=0, link="")])
    assert "order" in {problem.path for problem in certificate(store, picked.digest).problems}
    assert "order" not in {problem.path for problem in certificate(store, verdict.experiment).problems}
