"""The arms of a comparison, run and read back unit by unit."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from loop_samples import agent, bench, numbers

from seedbed.evaluation.failed_runs import FailedRuns
from seedbed.evaluation.metrics.metric import ExactMatch
from seedbed.experiments.arms import is_unpaid, recorded_arms, run_arms
from seedbed.experiments.experiment import Design, Experiment
from seedbed.experiments.sequential_test import SequentialTest
from seedbed.spending.ledger import Ledger
from seedbed.storage.memory import MemoryStore

OLD, NEW = agent("x"), agent(".*")


async def test_what_was_run_is_read_back_as_it_was_and_what_was_not_names_no_playbook() -> None:
    store, tasks = MemoryStore(), numbers(4)
    context = bench(store)
    models = {"control": context.identity(OLD), "candidate": context.identity(NEW)}
    plan = Experiment.plan(OLD.digest, NEW.digest, tasks, ExactMatch(), models=models, design=Design())
    items = SequentialTest(plan, tasks, "exact_match").items()
    arms = [(playbook, units[:2]) for playbook, units in zip((OLD, NEW), items, strict=True)]
    async with (
        context.present(),
        aclosing(run_arms(arms, ExactMatch(), context, FailedRuns(store, plan.digest))) as run,
    ):
        ran = [cells async for cells in run]
    first, second, third = recorded_arms(store, plan, items, [0, 1, 2])
    for cells, again in zip(ran, (first, second), strict=True):
        assert [[(cell.key, cell.value) for cell in arm] for arm in cells] == [
            [(cell.key, cell.value) for cell in arm] for arm in again
        ]
    assert [cell.playbook for arm in third for cell in arm] == ["", ""]
    assert [[cell.value for cell in arm] for arm in first] == [[0.0], [1.0]]


def test_a_score_that_is_missing_is_unpaid_only_if_a_limited_ledger_has_refused() -> None:
    context = replace(bench(MemoryStore()), ledger=Ledger(1.0))
    absent = recorded_arms(
        context.store,
        plan := Experiment.plan(
            OLD.digest,
            NEW.digest,
            tasks := numbers(1),
            ExactMatch(),
            models={"control": {}, "candidate": {}},
            design=Design(),
        ),
        SequentialTest(plan, tasks, "exact_match").items(),
        [0],
    )
    assert not is_unpaid(absent[0], context)
    context.ledger.refuse()
    assert is_unpaid(absent[0], context)
