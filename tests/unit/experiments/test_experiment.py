from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loop_samples import agent, bench, numbers

from seedbed.errors import NotFound, SeedbedError
from seedbed.evaluation.datasets.dataset import Dataset, Task
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.compare import run_experiment
from seedbed.experiments.experiment import Design, Experiment
from seedbed.experiments.verdict import Verdict, verdicts
from seedbed.stats.sequential.exact import ExactMcNemar
from seedbed.storage import open_store
from seedbed.storage.memory import MemoryStore
from seedbed.storage.store import short

TASKS = numbers(30)


def planned(**given: Any) -> Experiment:
    about = {"control": "b2:a", "candidate": "b2:b", "tasks": TASKS, "metric": ExactMatch(), "models": {"fast": "1"}}
    about |= {name: given.pop(name) for name in about if name in given}
    return Experiment.plan(**about, design=Design(**given))


# Experiments


def test_the_order_of_the_tasks_is_drawn_once_from_the_seed() -> None:
    order = planned().order
    assert sorted(order) == sorted(task.id for task in TASKS)
    assert order != tuple(task.id for task in TASKS)
    assert planned().order == order
    assert planned(seed=1).order != order


def test_an_experiment_is_named_by_all_that_was_fixed() -> None:
    registered = planned()
    assert planned().digest == registered.digest
    others = [
        planned(control="b2:c"),
        planned(candidate="b2:c"),
        planned(tasks=numbers(31)),
        planned(metric=Strict()),
        planned(alpha=0.01),
        planned(seed=1),
        planned(models={"fast": "2"}),
        replace(registered, failure_counts_as=1.0),
    ]
    assert len({registered.digest, *(other.digest for other in others)}) == 1 + len(others)


class Strict(ExactMatch):
    @property
    def identity(self) -> dict[str, Any]:
        return {"metric": "strict", "version": 1}


def test_a_changed_answer_is_another_dataset_and_so_another_experiment() -> None:
    changed = Dataset((*TASKS.tasks[:-1], Task("t29", {"n": 29}, "thirty")))
    assert planned(tasks=changed).digest != planned().digest


def test_what_is_registered_is_plain_json_and_starts_the_rule_it_names() -> None:
    experiment = planned(alpha=0.01)
    content = json.loads(json.dumps(experiment.content()))
    assert content["order"] == list(experiment.order)
    settings = {"alpha": 0.01, "at_most": 30, "spend": "power 1.5", "effect": None, "beta": 0.1}
    assert content["rule"] == {"rule": "exact mcnemar", **settings}
    assert experiment.start().state() == {**content["rule"], "outcomes": ""}


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, -0.1, math.nan])
def test_an_error_rate_that_promises_nothing_is_refused(alpha: float) -> None:
    with pytest.raises(SeedbedError, match=r"above 0 and below 0\.5"):
        planned(alpha=alpha)


# Verdicts


@pytest.mark.parametrize("url", ["memory:", "sqlite:///seedbed.db", "files:store"])
async def test_a_verdict_is_recalled_as_it_was_given(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(url)
    verdict = await run_experiment(agent("[0-4]"), agent(".*"), TASKS, ExactMatch(), bench(store))
    assert Verdict.recall(store, verdict.experiment) == verdict
    assert Experiment.from_content(store.get(verdict.experiment)).control == verdict.control
    store.close()


def test_an_experiment_without_a_verdict_says_so() -> None:
    with pytest.raises(NotFound, match=r"has no verdict in this store\. Run the comparison first"):
        Verdict.recall(MemoryStore(), planned().digest)


async def test_verdicts_about_a_candidate_come_oldest_first_and_others_not_at_all() -> None:
    store = MemoryStore()
    good, poor = agent(".*"), agent("[0-4]")
    for tasks in (TASKS, numbers(12), numbers(20, first=40)):
        await run_experiment(poor, good, tasks, ExactMatch(), bench(store))
    await run_experiment(good, poor, TASKS, ExactMatch(), bench(store))
    assert [verdict.at_most for verdict in verdicts(store, good.digest)] == [30, 12, 20]
    assert verdicts(store, "b2:unknown") == []


@pytest.mark.parametrize(("known", "finding"), [(".*", "superior"), ("x", "inferior"), ("[0-5]|1.", "inconclusive")])
async def test_the_finding_can_be_recomputed_from_the_outcomes(known: str, finding: str) -> None:
    store = MemoryStore()
    verdict = await run_experiment(agent("[0-4]|1."), agent(known), TASKS, ExactMatch(), bench(store))
    registered = store.get(verdict.experiment)["rule"]
    answer = ExactMcNemar.from_state({**registered, "outcomes": verdict.outcomes}).answer
    assert verdict.finding == finding == answer.verdict
    assert (answer.n, answer.wins, answer.ties, answer.losses, answer.p) == (
        verdict.tasks,
        verdict.wins,
        verdict.ties,
        verdict.losses,
        verdict.p,
    )


async def test_a_verdict_reads_as_a_sentence_with_every_figure() -> None:
    verdict = await run_experiment(agent("[0-4]|1."), agent(".*"), TASKS, ExactMatch(), bench(MemoryStore()))
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low < verdict.difference < verdict.high
    assert str(verdict) == (
        f"superior: {verdict.control_mean:.3f} → 1.000 "
        f"({verdict.difference:+.3f}, 95% {verdict.low:+.3f} to {verdict.high:+.3f}, "
        f"at least {verdict.at_least:+.3f} better) "
        f"after {verdict.tasks} of 30 tasks, W {verdict.wins} T {verdict.ties} L 0, "
        f"experiment {short(verdict.experiment)}"
    )


@pytest.mark.parametrize(("size", "least"), [(1, -1.0), (30, 0.0)])
async def test_differences_without_any_spread_have_an_interval_all_the_same(size: int, least: float) -> None:
    verdict = await run_experiment(agent("x"), agent(".*"), numbers(size), ExactMatch(), bench(MemoryStore()))
    assert (verdict.difference, verdict.high) == (1.0, 1.0)
    assert verdict.low is not None
    assert least <= verdict.low < 0.6
